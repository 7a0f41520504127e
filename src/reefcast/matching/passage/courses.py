"""What a routing has said of publications beforehand, as the kernels of this folder read it.

A *course* is what becomes of all publications that come by one link with one header, besides their
deliveries: copies that go out whatever they match, and copies to the neighbours where the rows lead
that they match, or to some that the routing *chooses* for these. Headers are known by their bytes.
All that is kept here holds until it is forgotten; who asks the routing knows when
(`routing.plain`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from reefcast.matching.chains import MIX
from reefcast.matching.index import BYTES_HEAD
from reefcast.matching.machine import Array
from reefcast.matching.passage.frames import MOST_HEADER_BYTES
from reefcast.matching.passage.kernels import ODD_COURSE
from reefcast.matching.passage.layout import (
    A_HEADER,
    A_TO,
    A_WORDS,
    C_COUNT,
    C_MASK,
    C_ONWARD,
    C_ROWS,
    C_TABLE,
    C_WORDS,
    CHOSEN,
    FOLLOWED,
    HOPS_HEADERS,
    S_COUNT,
    S_HASH,
    S_HOPS,
    S_USES,
    S_WORDS,
)
from reefcast.matching.passage.leads import Leads

MOST_HEADERS = 1024
"""That are known besides those of nothing but a hop count."""
MOST_CHOICES = 4096
"""The most choices of one course."""
FIRST_CHOICES = 16
Copy = tuple[str, bytes]
"""A neighbour, and the header of its copy."""
_WORD = (1 << 64) - 1


class Directions(NamedTuple):
    """A course in words: `always`: copies whatever matches; `onward`: the header of copies to where
    rows lead; `rows`: what these mean (`layout.FOLLOWED`, ...); `table`: of BOUND."""

    onward: bytes
    always: Sequence[Copy] = ()
    rows: int = FOLLOWED
    table: int = 0


class Choice:
    """A choice for the next hops `hops`, and its memory."""

    def __init__(self, hops: Sequence[str], words: Array) -> None:
        self.hops = hops
        self.words = words

    @property
    def uses(self) -> int:
        """How often it was made."""
        return int(self.words[S_USES])


class Course:
    """One course in the memory that kernels read, with its choices."""

    def __init__(self, words: Array) -> None:
        self.words = words
        self.choices: list[Choice] = []
        if words[C_ROWS] == CHOSEN:
            self._set_table(FIRST_CHOICES)

    def _set_table(self, room: int) -> None:
        self._table = np.zeros(room, np.int64)
        self.words[C_TABLE], self.words[C_MASK] = self._table.ctypes.data, room - 1
        for choice in self.choices:
            self._enter(choice)

    def _enter(self, choice: Choice) -> None:
        mask = len(self._table) - 1
        slot = int(choice.words[S_HASH]) & mask
        while self._table[slot]:
            slot = (slot + 1) & mask
        self._table[slot] = choice.words.ctypes.data

    def add(self, choice: Choice) -> None:
        self.choices.append(choice)
        if 2 * len(self.choices) > len(self._table):
            self._set_table(2 * len(self._table))
        else:
            self._enter(choice)


class Courses:
    """The courses of publications whose rows lead by `leads`, by link and by the number of the
    header. `chooses`: whether there are some with choices."""

    def __init__(self, leads: Leads) -> None:
        self.leads = leads
        self.chooses = False
        self._tables: dict[str, Array] = {}
        self._courses: dict[tuple[str, int], Course] = {}
        self._headers: dict[bytes, bytes] = {}
        self._held: list[int] = []

    def table(self, link: str, *, is_client: bool) -> int:
        """Return the address of the courses of what comes by this link; that of a client has one
        header."""
        table = self._tables.get(link)
        if table is None:
            room = 1 if is_client else HOPS_HEADERS + MOST_HEADERS
            table = self._tables[link] = np.zeros(room, np.int64)
        return int(table.ctypes.data)

    def forget(self) -> None:
        """Forget all courses."""
        if self._tables:
            self._tables.clear()
            self._courses.clear()
            self._headers.clear()
            for to in self._held:
                self.leads.drop(to)
            self._held.clear()
            self.chooses = False

    def enter(self, link: str, number: int, directions: Directions | None) -> None:
        """Enter a course; None for publications that Python decides about."""
        if directions is None or not self._fit(directions.always, directions.onward):
            self._tables[link][number] = ODD_COURSE
            return
        words = np.zeros(C_WORDS + A_WORDS * len(directions.always), np.int64)
        words[C_ROWS], words[C_TABLE] = directions.rows, directions.table
        words[C_ONWARD] = self._header(directions.onward)
        words[C_COUNT] = len(directions.always)
        words[C_WORDS:] = self._copies(directions.always)
        self._courses[link, number] = Course(words)
        self.chooses |= directions.rows == CHOSEN
        self._tables[link][number] = words.ctypes.data

    def choose(
        self, link: str, number: int, hops: Sequence[int], copies: Sequence[Copy] | None
    ) -> None:
        """Enter what the routing chose among these next hops; None if Python decides."""
        course = self._courses[link, number]
        if copies is not None and not self._fit(copies):
            copies = None
        told = [] if copies is None else self._copies(copies)
        words = np.zeros(S_WORDS + len(hops) + len(told), np.int64)
        words[S_HASH] = hash_of_hops(hops)
        words[S_HOPS] = len(hops)
        words[S_COUNT] = -1 if copies is None else len(copies)
        words[S_WORDS:] = [*hops, *told]
        self._held += [self.leads.hold(self.leads.destinations[to].name) for to in hops]
        names = [self.leads.destinations[to].name for to in hops]
        course.add(Choice(names, words))

    def is_full(self, link: str, number: int) -> bool:
        """Return whether a course has as many choices as it may."""
        return len(self._courses[link, number].choices) >= MOST_CHOICES

    def choices(self) -> Iterator[tuple[str, Choice]]:
        """Yield each choice, with the link by which the publications came."""
        for (link, _), course in self._courses.items():
            for choice in course.choices:
                yield link, choice

    def _fit(self, copies: Sequence[Copy], *headers: bytes) -> bool:
        heads = [*headers, *(head for _, head in copies)]
        return all(len(head) <= MOST_HEADER_BYTES for head in heads)

    def _copies(self, copies: Sequence[Copy]) -> list[int]:
        words = [0] * (A_WORDS * len(copies))
        for i, (name, head) in enumerate(copies):
            to = self.leads.hold(name)
            self._held.append(to)
            words[A_WORDS * i + A_TO] = to
            words[A_WORDS * i + A_HEADER] = self._header(head)
        return words

    def _header(self, head: bytes) -> int:
        """Return the address of a header behind its size; equal headers share one."""
        kept = self._headers.setdefault(head, bytes([len(head)]) + head)
        return id(kept) + BYTES_HEAD


def hash_of_hops(hops: Sequence[int]) -> int:
    """Return the hash of destinations, whatever their order, as `deliveries.judge_found` does."""
    hashed = 0
    for to in hops:
        mixed = (to + 1) * MIX & _WORD
        hashed = (hashed + (mixed ^ mixed >> 32)) & _WORD
    return hashed - (1 << 64) if hashed >> 63 else hashed

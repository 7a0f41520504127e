"""The destinations of the rows of an index, as the kernels of this folder read them.

A *destination* is a client of this broker or a neighbour, under a number that it keeps as long as a
row leads there, or a course holds it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from reefcast.matching.machine import Array
from reefcast.matching.passage.layout import (
    CLIENT,
    D_CLOSED,
    D_KIND,
    D_MOST,
    D_WORDS,
    L_NUMBER,
    L_TO,
    L_WORDS,
    NEIGHBOUR,
)
from reefcast.model.publication import INT64_MAX

FIRST_ROOM = 64


class Destination(NamedTuple):
    """A destination. `name`: that of the client or the neighbour."""

    name: str
    is_client: bool


class Words:
    """Items of `width` words each, all 0 at first; `address`: where they are now."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._put(np.zeros(FIRST_ROOM * width, np.int64))

    def _put(self, words: Array) -> None:
        self._words = words
        self.values = words.data  # a word through numpy takes three times as long
        self.room = len(words) // self._width
        self.address = int(words.ctypes.data)

    def make_room(self, item: int) -> None:
        """Make room for an item of this number."""
        while item >= self.room:
            self._put(np.concatenate((self._words, np.zeros_like(self._words))))


class Leads:
    """The destination of each row, by its handle in the index, and the subscription's number there.
    `destinations`: by number; `closed`: those that get nothing from compiled calls for the time
    being."""

    def __init__(self) -> None:
        self.rows = Words(L_WORDS)
        self.words = Words(D_WORDS)
        self.destinations: list[Destination] = []
        self.closed: set[int] = set()
        self._numbers: dict[Destination, int] = {}
        self._rows_of: list[int] = []
        self._free: list[int] = []

    def number_of(self, name: str) -> int:
        """Return the number of the destination that this neighbour is, or -1."""
        return self._numbers.get(Destination(name, False), -1)

    def add(self, handle: int, name: str, number: int, *, is_client: bool) -> None:
        to = self._enter(Destination(name, is_client))
        self._rows_of[to] += 1
        self.rows.make_room(handle)
        at = L_WORDS * handle
        self.rows.values[at + L_TO] = to
        self.rows.values[at + L_NUMBER] = number if number <= INT64_MAX else 0

    def _enter(self, destination: Destination) -> int:
        to = self._numbers.get(destination)
        if to is not None:
            return to
        if self._free:
            to = self._free.pop()
        else:
            to = len(self.destinations)
            self.destinations.append(destination)
            self._rows_of.append(0)
            self.words.make_room(to)
        self.destinations[to] = destination
        self._numbers[destination] = to
        self.words.values[D_WORDS * to + D_KIND] = CLIENT if destination.is_client else NEIGHBOUR
        self.words.values[D_WORDS * to + D_MOST] = INT64_MAX
        return to

    def hold(self, name: str) -> int:
        """Return the number of this neighbour's destination; it stays at least until `drop` was
        called as often as `hold`."""
        to = self._enter(Destination(name, False))
        self._rows_of[to] += 1
        return to

    def drop(self, to: int) -> None:
        """Drop a destination that was held."""
        self._rows_of[to] -= 1
        if not self._rows_of[to]:
            del self._numbers[self.destinations[to]]
            self._free.append(to)

    def limit(self, name: str, most: int) -> None:
        """Let compiled calls send another copy to this neighbour only while at most `most` have
        gone there in the same call."""
        to = self.number_of(name)
        if to >= 0:
            self.words.values[D_WORDS * to + D_MOST] = most

    def hops_of(self, handles: Iterable[int]) -> list[int]:
        """Return the numbers of the neighbours where these rows lead, by name."""
        leads = {self.rows.values[L_WORDS * handle + L_TO] for handle in handles}
        hops = [to for to in leads if not self.destinations[to].is_client]
        return sorted(hops, key=lambda to: self.destinations[to].name)

    def remove(self, handle: int) -> None:
        """Remove a row."""
        self.drop(self.rows.values[L_WORDS * handle + L_TO])

    def close(self, to: int) -> None:
        """Close a destination: publications for it are not plain."""
        self.closed.add(to)
        self.words.values[D_WORDS * to + D_CLOSED] = 1

    def open_all(self) -> None:
        """Open all destinations, to look at them again."""
        for to in self.closed:
            self.words.values[D_WORDS * to + D_CLOSED] = 0
        self.closed.clear()

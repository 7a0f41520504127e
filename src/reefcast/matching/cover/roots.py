"""The roots, kept up to date under add and remove without scanning; for the definition see
`cover.Roots`.

Each filter that is no root has a *witness*: one of those that dominate it. The witnesses form a
forest. So when a filter is removed, only its children in that forest need a new witness, and those
that nothing else dominates are the new roots. The deepest of a filter's dominators becomes its
witness (the deepest of some hundreds, if there are many), or all filters below a root would be its
children.

Filters that never match take no part in this: everything else dominates them. The first of them is
a root only where there is nothing else."""

from __future__ import annotations

import sys
from array import array
from collections.abc import Hashable
from typing import Generic, TypeVar

import numpy as np

from reefcast.errors import LocalError
from reefcast.matching.cover.index import Entries, form_of
from reefcast.matching.cover.interface import RootChange
from reefcast.matching.cover.layout import COVERED, COVERING, EQUAL
from reefcast.matching.cover.search import UNDECIDED
from reefcast.matching.cover.table import ALL
from reefcast.model.filters import Filter

K = TypeVar("K", bound=Hashable)

ENOUGH = 256
"""How many dominators a witness is chosen from."""


class Forest:
    """Trees of numbers, as linked lists of children; -1 is none."""

    def __init__(self) -> None:
        self._parent, self._child = array("i"), array("i")
        self._next, self._previous = array("i"), array("i")

    def memory_bytes(self) -> int:
        return sum(map(sys.getsizeof, (self._parent, self._child, self._next, self._previous)))

    def make_room(self, number: int) -> None:
        for links in (self._parent, self._child, self._next, self._previous):
            if number >= len(links):
                links.extend([-1] * (number + 1 - len(links)))

    def attach(self, number: int, parent: int) -> None:
        """Attach `number`, which must have no parent, to `parent`."""
        first = self._child[parent]
        self._parent[number], self._next[number] = parent, first
        if first >= 0:
            self._previous[first] = number
        self._child[parent] = number

    def detach(self, number: int) -> None:
        """Detach a number from its parent, if it has one."""
        parent, before, after = self._parent[number], self._previous[number], self._next[number]
        if before >= 0:
            self._next[before] = after
        elif parent >= 0:
            self._child[parent] = after
        if after >= 0:
            self._previous[after] = before
        self._parent[number] = self._next[number] = self._previous[number] = -1

    def top(self, number: int) -> int:
        """Return the root of the number's tree."""
        while (parent := self._parent[number]) >= 0:
            number = parent
        return number

    def has_children(self, number: int) -> bool:
        return self._child[number] >= 0

    def children(self, number: int) -> list[int]:
        found, child = [], self._child[number]
        while child >= 0:
            found.append(child)
            child = self._next[child]
        return found

    def detach_children(self, number: int) -> list[int]:
        children = self.children(number)
        for child in children:
            self.detach(child)
        return children


def _is_plain(filter: Filter) -> bool:
    """Return whether the filter is one conjunction without patterns. Covering is transitive for
    such filters: one that covers such a filter covers all that the filter covers."""
    conjunctions = filter.conjunctions
    return len(conjunctions) == 1 and not any(
        constraint.patterns for constraint in conjunctions[0].constraints.values()
    )


class CompiledRoots(Generic[K]):
    """See `cover.Roots`; `cover.scan.ScanRoots` is the twin that defines what is right.

    Filters with the same normal form are one entry, as old as its eldest key. `_roots` holds the
    numbers of the entries that are roots; entries that can match are marked."""

    def __init__(self) -> None:
        self._entries = Entries()
        self._numbers: dict[K, int] = {}
        self._of_form: dict[bytes | str, int] = {}
        self._eldest: dict[int, K] = {}  # by entry
        self._younger: dict[int, dict[K, int]] = {}  # by entry: its other keys, and their ages
        self._forest = Forest()
        self._ages = np.zeros(64, np.int64)
        self._depths = np.zeros(64, np.int64)
        self._roots: dict[int, None] = {}
        self._never: dict[int, None] = {}  # entries that never match, by age
        self._odd: set[int] = set()  # entries that are not plain
        self._last_age = 0
        self._touched: dict[int, tuple[int, K] | None] = {}  # root key and age before a change

    def __len__(self) -> int:
        return len(self._numbers)

    def __contains__(self, key: object) -> bool:
        return key in self._numbers

    def keys(self) -> list[K]:
        return [self._eldest[n] for n in sorted(self._roots, key=self._ages.__getitem__)]

    def is_root(self, key: K) -> bool:
        number = self._numbers.get(key)
        return number is not None and number in self._roots and self._eldest[number] == key

    def has_below(self, key: K) -> bool:
        number = self._numbers[key]
        return self._eldest[number] == key and (
            number in self._younger or self._forest.has_children(number)
        )

    def below(self, key: K) -> list[K]:
        number = self._numbers[key]
        if self._eldest[number] != key:
            return []
        children = [self._eldest[child] for child in self._forest.children(number)]
        return [*self._younger.get(number, ()), *children]

    def root_of(self, key: K) -> K:
        number = self._numbers[key]
        if number in self._never:
            return key
        return self._eldest[self._forest.top(number)]

    def memory_bytes(self) -> int:
        """Return the bytes of the index, without the filters, their texts and the keys
        themselves."""
        tables = (self._numbers, self._of_form, self._eldest, self._younger, self._roots, self._odd)
        own = sum(map(sys.getsizeof, (*tables, *self._younger.values())))
        own += self._ages.nbytes + self._depths.nbytes
        return own + self._entries.memory_bytes() + self._forest.memory_bytes()

    # --- changes ---------------------------------------------------------------------------------

    def add(self, key: K, filter: Filter) -> RootChange[K]:
        if key in self._numbers:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        self._last_age += 1
        number = self._of_form.get(form_of(filter))
        if number is not None:
            self._younger.setdefault(number, {})[key] = self._last_age
            self._numbers[key] = number
            return RootChange([], [])
        number = self._entries.add(filter)
        self._of_form[form_of(filter)] = self._numbers[key] = number
        self._eldest[number] = key
        self._make_room(number)
        self._ages[number] = self._last_age
        if not _is_plain(filter):
            self._odd.add(number)
        if filter.conjunctions:
            self._place(number, filter)
        else:
            self._never[number] = None
        return self._change()

    def remove(self, key: K) -> RootChange[K]:
        number = self._numbers.pop(key, None)
        if number is None:
            raise LocalError(f"key {key!r} is not in the index")
        younger = self._younger.get(number)
        if self._eldest[number] == key:
            self._touch(number)
            if younger is None:
                self._drop(number)
            else:
                self._eldest[number] = heir = next(iter(younger))
                self._grow_younger(number, younger.pop(heir))
        elif younger is not None:
            del younger[key]
        if younger is not None and not younger:
            del self._younger[number]
        return self._change()

    def _drop(self, number: int) -> None:
        filter = self._filter(number)
        del self._eldest[number], self._of_form[form_of(filter)]
        self._never.pop(number, None)
        self._roots.pop(number, None)
        orphans = self._forest.detach_children(number)
        self._forest.detach(number)
        self._entries.remove(number)
        self._odd.discard(number)
        self._settle(orphans)

    def _grow_younger(self, number: int, after: int) -> None:
        """Handle an entry that has lost its eldest key: equal entries that it was older than may
        now dominate it."""
        before = self._ages[number]
        self._ages[number] = after
        if number in self._never:
            self._never = dict.fromkeys(sorted(self._never, key=self._ages.__getitem__))
            return
        ages = self._ages[self._entries.find(self._filter(number), EQUAL)]
        if not ((before < ages) & (ages < after)).any():
            return
        if number in self._roots:
            self._leave(number)
        self._forest.detach(number)
        self._settle([number, *self._forest.detach_children(number)])

    def _change(self) -> RootChange[K]:
        """Return how the touched entries changed."""
        self._choose_never()
        entered: list[tuple[int, K]] = []
        left: list[tuple[int, K]] = []
        for number, before in self._touched.items():
            after = self._root(number)
            if before != after:
                left += [before] if before is not None else []
                entered += [after] if after is not None else []
        self._touched.clear()
        return RootChange(
            [key for _, key in sorted(entered, key=_age)],
            [key for _, key in sorted(left, key=_age)],
        )

    # --- entries ---------------------------------------------------------------------------------

    def _filter(self, number: int) -> Filter:
        filter = self._entries.filters[number]
        assert filter is not None, "an entry lives as long as it has keys"
        return filter

    def _root(self, number: int) -> tuple[int, K] | None:
        """Return age and key, if the entry is a root."""
        if number not in self._roots:
            return None
        return int(self._ages[number]), self._eldest[number]

    def _make_room(self, number: int) -> None:
        self._forest.make_room(number)
        if number >= len(self._ages):
            room = np.zeros(number + 1, np.int64)
            self._ages = np.concatenate([self._ages, room])
            self._depths = np.concatenate([self._depths, room])

    def _touch(self, number: int) -> None:
        if number not in self._touched:
            self._touched[number] = self._root(number)

    def _become_root(self, number: int) -> None:
        self._touch(number)
        self._roots[number] = None
        self._depths[number] = 0
        if number not in self._never:
            self._entries.mark(number, True)

    def _leave(self, number: int) -> None:
        self._touch(number)
        del self._roots[number]
        if number not in self._never:
            self._entries.mark(number, False)

    def _choose_never(self) -> None:
        """Make the first filter that never matches a root if there are no other filters."""
        if not self._never:
            return
        roots = self._roots.keys() & self._never.keys()
        alone = len(self._never) == len(self._eldest)
        first = next(iter(self._never)) if alone else -1
        for number in roots - {first}:
            self._leave(number)
        if first >= 0 and first not in roots:
            self._become_root(first)

    # --- domination ------------------------------------------------------------------------------

    def _place(self, number: int, filter: Filter) -> None:
        """Place a new entry: find whether it is a root, and which roots it dominates."""
        witness = self._witness(number, filter)
        self._put(number, witness)
        if witness >= 0 and witness not in self._odd:
            return  # which dominates whatever the new one dominates
        below = self._entries.find(filter, COVERED, marked=True).tolist()
        # Nothing dominates a new root, so whatever it covers does not cover it.
        if witness >= 0 and len(below) > 0:
            equal = {*self._entries.find(filter, COVERING).tolist()}
            below = [root for root in below if root not in equal]
        for root in below:
            if root != number:
                self._leave(root)
                self._put(root, number)

    def _put(self, number: int, witness: int) -> None:
        """Make an entry a root, or put it below its witness; never below itself: where covering is
        not transitive, the witness may be there already."""
        odd = number in self._odd or witness in self._odd
        if witness < 0 or (odd and self._forest.top(witness) == number):
            self._become_root(number)
        else:
            self._forest.attach(number, witness)
            self._depths[number] = self._depths[witness] + 1

    def _witness(self, number: int, filter: Filter, enough: int = ENOUGH) -> int:
        """Return the deepest of its dominators, or -1."""
        found = self._entries.find(filter, COVERING, enough=enough)
        others = found[found != number]
        younger = self._ages[others] > self._ages[number]
        if younger.any():
            below = self._entries.find(filter, COVERED)
            others = others[~(younger & np.isin(others, below))]
        if len(others):
            return int(others[self._depths[others].argmax()])
        return -1 if len(found) < enough else self._witness(number, filter, ALL)

    def _settle(self, orphans: list[int]) -> None:
        """Find witnesses for entries that have lost theirs, or may no longer be roots."""
        single = [n for n in orphans if len(self._filter(n).conjunctions) == 1]
        witnesses = np.array(single, np.int64)
        self._entries.table.dominators(witnesses, self._ages, self._depths, ENOUGH)
        known = dict(zip(single, witnesses.tolist(), strict=True))
        for number in orphans:
            witness = known.get(number, UNDECIDED)
            if witness == UNDECIDED:
                witness = self._witness(number, self._filter(number))
            self._put(number, witness)


def _age(eldest: tuple[int, Hashable]) -> int:
    return eldest[0]

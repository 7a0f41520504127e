"""The filters of several conjunctions in a covering index: which conjunctions they have, and how
exact the boxes are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reefcast.matching.machine import Array


class Owners:
    """Tables by number; a filter has the number of its first conjunction, and its own if it has one
    only: such a filter is not entered here.

    `of`: the filter of each conjunction. `exact`: whether the box of a conjunction is exact, for
    those entered. `sizes`: how many conjunctions each filter has."""

    def __init__(self) -> None:
        self.of = np.zeros(0, np.int32)
        self.exact = np.zeros(0, bool)
        self.sizes = np.zeros(0, np.int32)

    def make_room(self, numbers: int) -> None:
        """Make room for this many numbers."""
        known = len(self.of)
        if numbers > known:
            new = np.arange(known, max(64, 2 * numbers), dtype=np.int32)
            self.of = np.concatenate([self.of, new])
            self.exact = np.concatenate([self.exact, np.zeros(len(new), bool)])
            self.sizes = np.concatenate([self.sizes, np.ones(len(new), np.int32)])

    def add(self, conjunctions: Sequence[int], exact: Sequence[bool]) -> None:
        self.of[conjunctions] = conjunctions[0]
        self.exact[conjunctions] = exact
        self.sizes[conjunctions[0]] = len(conjunctions)

    def remove(self, conjunctions: Sequence[int]) -> None:
        self.of[conjunctions] = conjunctions
        self.exact[conjunctions] = False
        self.sizes[conjunctions[0]] = 1

    def memory_bytes(self) -> int:
        return self.of.nbytes + self.exact.nbytes + self.sizes.nbytes

    def with_all(self, conjunctions: Array) -> Array:
        """Return which filters have all their conjunctions marked in `conjunctions`."""
        owners = self.of[np.flatnonzero(conjunctions)]
        counts = np.bincount(owners, minlength=len(conjunctions))
        whole: Array = (counts > 0) & (counts == self.sizes[: len(counts)])
        return whole

    def with_one(self, conjunctions: Array, filters: int) -> Array:
        """Return whether some of these conjunctions is of each of this many filters."""
        there = np.zeros(filters, bool)
        there[self.of[conjunctions]] = True
        return there

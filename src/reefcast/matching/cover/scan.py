"""The slow, obvious twins of the covering indexes: they ask `model.covering` about each filter."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from reefcast.matching.cover.interface import RootChange
from reefcast.matching.scan import Stored
from reefcast.model.covering import covers, equals, intersects
from reefcast.model.filters import Filter

K = TypeVar("K", bound=Hashable)


class ScanCoverIndex(Stored[K]):
    """See `cover.CoverIndex`."""

    def covering(self, filter: Filter) -> list[K]:
        return [key for key, stored in self.filters.items() if covers(stored, filter)]

    def covered(self, filter: Filter) -> list[K]:
        return [key for key, stored in self.filters.items() if covers(filter, stored)]

    def intersecting(self, filter: Filter) -> list[K]:
        return [key for key, stored in self.filters.items() if intersects(stored, filter)]

    def equal(self, filter: Filter) -> list[K]:
        return [key for key, stored in self.filters.items() if equals(stored, filter)]

    def memory_bytes(self) -> int:
        return 0


class ScanRoots(Generic[K]):
    """See `cover.Roots`."""

    def __init__(self) -> None:
        self._stored = Stored[K]()

    def add(self, key: K, filter: Filter) -> RootChange[K]:
        before = self.keys()
        self._stored.add(key, filter)
        return self._change(before)

    def remove(self, key: K) -> RootChange[K]:
        before = self.keys()
        self._stored.remove(key)
        return self._change(before)

    def _change(self, before: list[K]) -> RootChange[K]:
        after = self.keys()
        return RootChange(
            entered=[key for key in after if key not in before],
            left=[key for key in before if key not in after],
        )

    def __len__(self) -> int:
        return len(self._stored)

    def __contains__(self, key: object) -> bool:
        return key in self._stored

    def keys(self) -> list[K]:
        return [key for key in self._stored.filters if not self._dominators(key)]

    def _dominators(self, key: K) -> list[K]:
        """Return the dominators of a key, by age."""
        filter, ages = (
            self._stored.filters[key],
            {other: age for age, other in enumerate(self._stored.filters)},
        )
        return [
            other
            for other, above in self._stored.filters.items()
            if other != key
            and covers(above, filter)
            and (not covers(filter, above) or ages[other] < ages[key])
        ]

    def has_below(self, key: K) -> bool:
        return bool(self.below(key))

    def below(self, key: K) -> list[K]:
        return [other for other in self._stored.filters if key in self._dominators(other)]

    def root_of(self, key: K) -> K:
        if not self._stored.filters[key].conjunctions:
            return key
        while above := self._dominators(key):
            key = above[0]
        return key

    def is_root(self, key: K) -> bool:
        return key in self.keys()

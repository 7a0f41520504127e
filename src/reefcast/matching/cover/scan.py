"""The slow, obvious twins of the covering indexes: ask `model.covering` about each filter."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

from reefcast.errors import LocalError
from reefcast.matching.cover.interface import RootChange
from reefcast.model.covering import covers, equals, intersects
from reefcast.model.filters import Filter

K = TypeVar("K", bound=Hashable)


class ScanCoverIndex(Generic[K]):
    """See `cover.CoverIndex`. `filters` are those stored, by key, as they were added."""

    def __init__(self) -> None:
        self.filters: dict[K, Filter] = {}

    def add(self, key: K, filter: Filter) -> None:
        if key in self.filters:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        self.filters[key] = filter

    def remove(self, key: K) -> None:
        if key not in self.filters:
            raise LocalError(f"key {key!r} is not in the index")
        del self.filters[key]

    def __len__(self) -> int:
        return len(self.filters)

    def __contains__(self, key: object) -> bool:
        return key in self.filters

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
        self._filters: dict[K, Filter] = {}

    def add(self, key: K, filter: Filter) -> RootChange[K]:
        if key in self._filters:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        before = self.keys()
        self._filters[key] = filter
        return self._change(before)

    def remove(self, key: K) -> RootChange[K]:
        if key not in self._filters:
            raise LocalError(f"key {key!r} is not in the index")
        before = self.keys()
        del self._filters[key]
        return self._change(before)

    def _change(self, before: list[K]) -> RootChange[K]:
        after = self.keys()
        return RootChange(
            entered=[key for key in after if key not in before],
            left=[key for key in before if key not in after],
        )

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def keys(self) -> list[K]:
        stored = list(self._filters.items())
        return [
            key
            for age, (key, filter) in enumerate(stored)
            if not any(
                covers(other, filter) and (not covers(filter, other) or rank < age)
                for rank, (_, other) in enumerate(stored)
                if rank != age
            )
        ]

    def is_root(self, key: K) -> bool:
        return key in self.keys()

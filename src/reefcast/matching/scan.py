"""The slow, obvious twin of every index: it tries each filter in turn."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, Generic, TypeVar

from reefcast.errors import LocalError
from reefcast.matching.interface import Matches
from reefcast.model.filters import Filter
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication

K = TypeVar("K", bound=Hashable)


class Stored(Generic[K]):
    """Filters by key, in the order of their addition: the base of every twin of an index."""

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


class ScanIndex(Stored[K]):
    """See `interface.MatchIndex`."""

    def match(self, publication: Publication) -> list[K]:
        return [key for key, filter in self.filters.items() if filter.matches(publication)]

    def match_many(self, publications: Sequence[Publication]) -> list[list[K]]:
        return [self.match(publication) for publication in publications]

    def match_batch(self, columns: Any) -> Matches:
        import numpy as np

        from reefcast.matching.columns import columns_of, row_of

        given = columns_of(columns)
        events = range(given.events) if given.event_of_row is None else given.event_of_row.tolist()
        found: list[dict[K, None]] = [{} for _ in range(given.events)]
        for row, event in enumerate(events):
            attributes = row_of(given, row)
            for key, filter in self.filters.items():
                if filter.holds(attributes):
                    found[event][key] = None
        keys = [key for each in found for key in each]
        names: list[Any] = list(self.filters)
        whole = all(type(key) is int and INT64_MIN <= key <= INT64_MAX for key in names)
        array = np.empty(len(keys), np.int64 if whole else object)
        array[:] = keys
        return Matches(np.cumsum([0, *map(len, found)]), array)

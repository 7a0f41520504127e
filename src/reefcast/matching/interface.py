"""What every matching index offers; `scan.ScanIndex` is the slow, obvious twin of all others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Protocol, TypeVar

from reefcast.model.filters import Filter
from reefcast.model.publication import Publication

K = TypeVar("K", bound=Hashable)


class MatchIndex(Protocol[K]):
    """A multiset of filters under keys of the caller's choice.

    Keys are hashable and unique: adding a key that is there raises `LocalError`, so does removing
    one that is not. The order of the keys found is the order in which they were added.
    """

    def add(self, key: K, filter: Filter) -> None: ...

    def remove(self, key: K) -> None: ...

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def match(self, publication: Publication) -> list[K]:
        """The keys of the filters that hold for `publication`."""
        ...

    def match_many(self, publications: Sequence[Publication]) -> list[list[K]]:
        """`match` of each, in one call of the compiled kernel: a live broker's bursts."""
        ...

"""The interface of every matching index; `scan.ScanIndex` is the slow, obvious twin of all
others."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from reefcast.model.filters import Filter
from reefcast.model.publication import Publication

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

K = TypeVar("K", bound=Hashable)


class Matches(NamedTuple):
    """The matches of a batch of events, as sparse rows: the keys of event i are
    `keys[offsets[i]:offsets[i + 1]]`.

    `offsets` int64, one more than there are events; `keys` int64 if all keys that the index
    ever had are ints (of 64 bits), else objects.
    """

    offsets: npt.NDArray[np.int64]
    keys: npt.NDArray[Any]


class EventIndex(Protocol[K]):
    """A multiset of filters under keys of the caller's choice, matched against publications.

    Keys are hashable and unique: adding a key that exists raises `LocalError`, and so does removing
    one that does not. The order of the keys found depends only on the sequence of additions and
    removals."""

    def add(self, key: K, filter: Filter) -> None: ...

    def remove(self, key: K) -> None: ...

    def __len__(self) -> int: ...

    def __contains__(self, key: object) -> bool: ...

    def match(self, publication: Publication) -> list[K]:
        """Return the keys of the filters that hold for `publication`."""
        ...

    def match_many(self, publications: Sequence[Publication]) -> list[list[K]]:
        """Match each publication, all in one call of the compiled kernel, for the bursts of a live
        broker."""
        ...


class MatchIndex(EventIndex[K], Protocol[K]):
    """An `EventIndex` that also matches columns."""

    def match_batch(self, columns: Any) -> Matches:
        """Match the events that are the rows of `columns`: a mapping from names to arrays (numpy,
        Arrow, pandas, lists), an Arrow table or record batch, a data frame. See
        `columns.columns_of`."""
        ...

"""One matching for the whole simulated network.

In a simulation all brokers live in one process, and a publication meets much the same filters at
every hop. So each publication is matched once against all different filters of the network, and
what a broker's index has to answer is which of its own rows these filters stand for: the same
result as an index of its own, without doing the same work at each hop.

The answer to a publication is kept until a filter comes or `REMEMBERED` other publications were
asked about. The twin is `matching.scan.ScanIndex`; the order of the keys found is that in which
their filters came into the network, not that in which they were added here: routers look at rows
as a set.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

from reefcast.errors import LocalError
from reefcast.matching import new_index
from reefcast.matching.interface import MatchIndex
from reefcast.model.filters import Filter
from reefcast.model.publication import Publication

K = TypeVar("K", bound=Hashable)
REMEMBERED = 20_000


class SharedMatching:
    """The different filters of a network, numbered below `size`, and how many rows use each."""

    def __init__(self) -> None:
        self.size = 0
        self._index: MatchIndex[int] = new_index()
        self._numbers: dict[Filter, int] = {}
        self._users: dict[int, int] = {}
        self._free: list[int] = []
        self._young: dict[int, tuple[Publication, list[int]]] = {}
        self._old: dict[int, tuple[Publication, list[int]]] = {}

    def new_index(self) -> SharedIndex[K]:
        """An index for one broker."""
        return SharedIndex(self)

    def use(self, filter: Filter) -> int:
        """One more row has this filter; returns the filter's number."""
        number = self._numbers.get(filter)
        if number is None:
            number = self._free.pop() if self._free else self.size
            self.size = max(self.size, number + 1)
            self._numbers[filter] = number
            self._users[number] = 0
            self._index.add(number, filter)
            self._young, self._old = {}, {}
        self._users[number] += 1
        return number

    def release(self, filter: Filter) -> None:
        """One row less has it."""
        number = self._numbers[filter]
        self._users[number] -= 1
        if not self._users[number]:
            self._index.remove(number)
            del self._numbers[filter], self._users[number]
            self._free.append(number)

    def match(self, publication: Publication) -> list[int]:
        """Numbers of the filters that hold; perhaps of some that nobody has any more."""
        key = id(publication)  # of an object that the entry keeps alive
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key) or (publication, self._index.match(publication))
            if len(self._young) >= REMEMBERED:
                self._old, self._young = self._young, {}
            self._young[key] = found
        return found[1]


class SharedIndex(Generic[K]):
    """See the module's docstring and `matching.interface.MatchIndex`."""

    def __init__(self, shared: SharedMatching) -> None:
        self._shared = shared
        self._keys: list[tuple[K, ...]] = []  # by the filter's number
        self._filters: dict[K, tuple[int, Filter]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, key: object) -> bool:
        return key in self._filters

    def add(self, key: K, filter: Filter) -> None:
        if key in self._filters:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        number = self._shared.use(filter)
        self._filters[key] = (number, filter)
        self._grow()
        self._keys[number] = (*self._keys[number], key)

    def remove(self, key: K) -> None:
        if key not in self._filters:
            raise LocalError(f"key {key!r} is not in the index")
        number, filter = self._filters.pop(key)
        self._keys[number] = tuple(other for other in self._keys[number] if other != key)
        self._shared.release(filter)

    def _grow(self) -> None:
        self._keys += [()] * (self._shared.size - len(self._keys))

    def match(self, publication: Publication) -> list[K]:
        self._grow()
        keys = self._keys
        return [key for number in self._shared.match(publication) for key in keys[number]]

    def match_many(self, publications: Sequence[Publication]) -> list[list[K]]:
        return [self.match(publication) for publication in publications]

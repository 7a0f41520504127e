"""The advertisements of one client, and whether a publication lies within them.

A few filters are evaluated in turn. More are put into an index when the first publication comes:
100 filters take 50 to 120 us in turn and 1.3 us in the index, which takes some 20 KB and, for 100
filters, half a millisecond to build."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from reefcast.errors import FilterSyntaxError
from reefcast.matching import new_index
from reefcast.model.filters import TRUE, Filter
from reefcast.model.grants import both
from reefcast.model.publication import Publication

if TYPE_CHECKING:
    from reefcast.matching.index import CompiledIndex

FEW = 4


class AnyOf:
    """Matches what any of these filters matches; the first question puts them into the index."""

    def __init__(self, filters: dict[int, Filter]) -> None:
        self._filters = filters
        self._index: CompiledIndex[Any] | None = None

    def matches(self, publication: Publication) -> bool:
        return bool(self.index.match(publication))

    @property
    def index(self) -> CompiledIndex[Any]:
        """The index, built when it is first needed."""
        if self._index is None:
            self._index = new_index()
            for number, filter in self._filters.items():
                self._index.add(number, filter)
        return self._index

    def came(self, number: int, filter: Filter) -> None:
        if self._index is not None:
            self._index.add(number, filter)

    def went(self, number: int) -> None:
        if self._index is not None:
            self._index.remove(number)


class Advertised:
    """The filters of advertisements, by the client's number of each. `asked`: a publication lies
    within the advertisements if one of these matches it."""

    def __init__(self) -> None:
        self._filters: dict[int, Filter] = {}
        self._any_of: AnyOf | None = None
        self._everything = 0  # how many of them are TRUE
        self._grant: Filter | None = None
        self._granted: tuple[dict[int, Filter], AnyOf] | None = None
        self.asked: Sequence[Filter | AnyOf] = ()

    def __contains__(self, number: object) -> bool:
        return number in self._filters

    def __iter__(self) -> Iterator[Filter]:
        """Iterate in the order of arrival."""
        return iter(self._filters.values())

    def add(self, number: int, filter: Filter) -> None:
        self._filters[number] = filter
        self._everything += filter == TRUE
        if self._any_of is not None:
            self._any_of.came(number, filter)
        if self._granted is not None and self._grant is not None:
            granted = within(self._grant, filter)
            if granted is not None:
                self._granted[0][number] = granted
                self._granted[1].came(number, granted)
        self._choose()

    def remove(self, number: int) -> None:
        self._everything -= self._filters.pop(number) == TRUE
        if self._any_of is not None:
            self._any_of.went(number)
        if self._granted is not None and self._granted[0].pop(number, None) is not None:
            self._granted[1].went(number)
        self._choose()

    def _choose(self) -> None:
        if len(self._filters) <= FEW:
            self._any_of = None
            self.asked = tuple(self._filters.values())
        else:
            self.asked = (self._all_in_one(),)

    def _all_in_one(self) -> AnyOf:
        if self._any_of is None:
            self._any_of = AnyOf(self._filters)
        return self._any_of

    def grant(self, filter: Filter | None) -> None:
        """Let compiled calls know what the client may publish at all; None: everything."""
        self._grant, self._granted = filter, None

    def index(self) -> CompiledIndex[Any] | None:
        """Return an index of all advertisements, however few, as far as the client may publish
        what they say, for compiled calls; None if they match everything. What it does not match
        may lie within them all the same."""
        if self._grant is None or self._grant == TRUE:
            return None if self._everything else self._all_in_one().index
        if self._granted is None:
            found = {number: within(self._grant, each) for number, each in self._filters.items()}
            granted = {number: each for number, each in found.items() if each is not None}
            self._granted = granted, AnyOf(granted)
        return self._granted[1].index


def within(grant: Filter, advertised: Filter) -> Filter | None:
    """Return what of an advertisement a client may publish; None if that makes no filter."""
    try:
        return both(grant, advertised)
    except FilterSyntaxError:
        return None

"""The attributes that filters name, with the kind and the range of each: what advertisements say of
the events that publishers send."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from reefcast.model.constraint import Constraint, exclusive, intersect, is_empty
from reefcast.model.filters import TOPIC, Filter
from reefcast.model.normal import Conjunction
from reefcast.model.publication import Value
from reefcast.model.values import Kind

MOST_MEMBERS = 20
"""The most values that a range lists one by one."""
MOST_CHARS = 100
"""Characters of a text in a range."""


class AttributeRange(NamedTuple):
    """`filters`: how many say so; `low`, `high`: bounds that all of them have, None for none;
    `members`: the only values, None if they are not few."""

    name: str
    kind: Kind
    filters: int
    low: Value | None
    high: Value | None
    members: tuple[Value, ...] | None

    def to_plain(self) -> list[Any]:
        """Return what goes over the wire."""
        return [self.name, int(self.kind), self.filters, self.low, self.high, self.members]

    @classmethod
    def of_plain(cls, value: object) -> AttributeRange:
        """Return what came over the wire. Raises `ValueError`."""
        try:
            found = msgspec.convert(value, cls, strict=False)
        except msgspec.ValidationError as error:
            raise ValueError(f"{value!r} is no range of an attribute: {error}") from error
        return found


class AttributeRanges:
    """Gathers the attributes that filters name, each with each kind, as far as what they match can
    match `asked`, too: of anything else nothing is told. The topic is not among them."""

    def __init__(self, asked: Filter) -> None:
        self._asked = asked
        self._found: dict[tuple[str, Kind], tuple[int, Constraint]] = {}

    def add(self, filter: Filter) -> None:
        """Add what a filter names."""
        here: dict[tuple[str, Kind], list[Constraint]] = {}
        for name, constraint in _within(filter, self._asked):
            if constraint.kind is not None and name != TOPIC:
                here.setdefault((name, constraint.kind), []).append(constraint)
        for key, constraints in here.items():
            count, before = self._found.get(key, (0, None))
            known = constraints if before is None else [before, *constraints]
            self._found[key] = count + 1, _hull(known)

    def found(self) -> list[AttributeRange]:
        """Return the attributes, those that most filters name first."""
        ranges = (
            AttributeRange(name, kind, count, _short(c.low), _short(c.high), _few(c.members))
            for (name, kind), (count, c) in self._found.items()
        )
        return sorted(ranges, key=lambda each: (-each.filters, each.name, each.kind))


def _within(filter: Filter, asked: Filter) -> Iterator[tuple[str, Constraint]]:
    for one in filter.conjunctions:
        for other in asked.conjunctions:
            if _meet(one, other):
                for name, constraint in one.constraints.items():
                    wanted = other.constraints.get(name)
                    yield name, constraint if wanted is None else intersect(constraint, wanted)


def _meet(a: Conjunction, b: Conjunction) -> bool:
    return not any(
        exclusive(constraint, b.constraints[name])
        or is_empty(intersect(constraint, b.constraints[name]))
        for name, constraint in a.constraints.items()
        if name in b.constraints
    )


def _hull(constraints: Sequence[Constraint]) -> Constraint:
    """Return bounds of all of these, which have one kind; values, as long as all have few."""
    members: set[Any] | None = set()
    lows: list[Any] = []
    highs: list[Any] = []
    for each in constraints:
        values = each.members
        members = None if members is None or values is None else members | set(values)
        lows.append(min(values) if values and each.low is None else each.low)
        highs.append(max(values) if values and each.high is None else each.high)
    few = members is not None and len(members) <= MOST_MEMBERS
    return Constraint(
        kind=constraints[0].kind,
        low=None if None in lows else min(lows),
        high=None if None in highs else max(highs),
        members=tuple(sorted(members or ())) if few else None,
    )


def _short(value: Value | None) -> Value | None:
    return None if isinstance(value, str) and len(value) > MOST_CHARS else value


def _few(members: tuple[Value, ...] | None) -> tuple[Value, ...] | None:
    return None if members is None or any(_short(each) is None for each in members) else members

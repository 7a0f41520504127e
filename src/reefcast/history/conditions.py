"""SQL conditions on the columns of indexed attributes, for the part of a filter that they can
express.

A condition holds for every row whose publication the filter wants, and perhaps for others: the
compiled index decides. See `schema` for what a column holds: numbers come before texts there, texts
before blobs, and NaN, above all numbers, is the empty text.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from reefcast.history.rows import column_value
from reefcast.history.schema import column
from reefcast.model.constraint import Constraint, satisfies
from reefcast.model.filters import TOPIC, Conjunction, Filter
from reefcast.model.values import Kind

MOST_MEMBERS = 500
"""Members of a set in a comparison; larger sets are left to the compiled index."""
MOST_POINTS = 32
"""Values of one attribute that are looked up one by one."""


class Condition(NamedTuple):
    """A condition: `text` with a `?` for each of `parameters`."""

    text: str
    parameters: tuple[Any, ...]


class Indexed(NamedTuple):
    """What a conjunction requires of an indexed attribute. `points`: the values of its column, if
    they are few."""

    number: int
    condition: Condition
    points: tuple[Any, ...] | None


Demands = list[Indexed]
"""What a conjunction requires of the indexed attributes; each is necessary."""


def demands(filter: Filter, attributes: Sequence[str]) -> list[Demands]:
    """Return what each conjunction requires of the indexed attributes; `attributes`: these, by
    number."""
    numbers = {name: number for number, name in enumerate(attributes)}
    return [_demands_of(conjunction, numbers) for conjunction in filter.conjunctions]


def _demands_of(conjunction: Conjunction, numbers: Mapping[str, int]) -> Demands:
    return [
        Indexed(numbers[name], condition, _points(constraint))
        for name, constraint in conjunction.constraints.items()
        if name in numbers
        and (condition := _condition(column(numbers[name]), constraint)) is not None
    ]


def _points(constraint: Constraint) -> tuple[Any, ...] | None:
    if constraint.missing:
        return (None,)
    if constraint.members is None or len(constraint.members) > MOST_POINTS:
        return None
    return tuple(dict.fromkeys(map(column_value, constraint.members)))


def _condition(name: str, constraint: Constraint) -> Condition | None:
    if constraint.missing:
        return Condition(f"{name} IS NULL", ())
    if constraint.kind is None:
        return Condition(f"{name} IS NOT NULL", ())
    if constraint.members is not None:
        return _among(name, constraint.members)
    return _between(name, constraint)


def _among(name: str, members: Sequence[Any]) -> Condition | None:
    if len(members) > MOST_MEMBERS:
        return None
    marks = ", ".join("?" * len(members))
    return Condition(f"{name} IN ({marks})", tuple(map(column_value, members)))


def _between(name: str, c: Constraint) -> Condition:
    """Return the condition of an interval; without bounds, those of the kind: -inf and NaN, or the
    empty text and what follows texts."""
    least: Any = -math.inf if c.kind is Kind.NUMBER else ""
    low = least if c.low is None else c.low
    lower = f"{name} >{'' if c.low_open else '='} ?"
    if c.high is not None:
        return Condition(f"{lower} AND {name} <{'' if c.high_open else '='} ?", (low, c.high))
    if c.kind is Kind.NUMBER:
        return Condition(f"{lower} AND {name} <= ''", (low,))
    return Condition(f"{lower} AND {name} < x''", (low,))


def both(conditions: Sequence[Condition], word: str = "AND") -> Condition:
    """Combine conditions with AND, or with another `word` ("OR")."""
    text = f" {word} ".join(f"({each.text})" for each in conditions)
    return Condition(text, tuple(value for each in conditions for value in each.parameters))


def is_whole(filter: Filter, topic: str) -> bool:
    """Return whether the filter holds for every event on this topic."""
    return any(
        not conjunction.residuals
        and all(
            name == TOPIC and satisfies(constraint, topic)
            for name, constraint in conjunction.constraints.items()
        )
        for conjunction in filter.conjunctions
    )


def may_hold(filter: Filter, topic: str) -> bool:
    """Return whether the filter can hold for an event because of this topic. If not, what it wants
    of the topic's rows is among those of another topic, too."""
    return any(
        TOPIC not in conjunction.constraints or satisfies(conjunction.constraints[TOPIC], topic)
        for conjunction in filter.conjunctions
    )

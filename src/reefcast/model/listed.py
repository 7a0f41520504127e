"""Lists of canonical values of one kind, in order, no value twice: the members and the excluded
values of constraints. They may be long, so they are compared by their order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, cast

from reefcast.model.publication import Value
from reefcast.model.values import is_nan

SHORT = 8
"""How many values are looked through one by one."""
SPARSE = 16
"""In a list that is this many times as long, values are looked for one by one."""


def between(
    values: Sequence[Value],
    low: Value | None,
    low_open: bool,
    high: Value | None,
    high_open: bool,
) -> Sequence[Value]:
    """Return those of the values that lie between the ends of an interval (None: it has no such
    end), in logarithmic time."""
    if not values or low is high is None:
        return values
    ordered = cast(Sequence[Any], values)
    before_nan = len(values) - is_nan(values[-1])  # NaN is above all numbers, and the last
    first, end = 0, len(values)
    if low is not None:
        first = (bisect_right if low_open else bisect_left)(ordered, low, 0, before_nan)
    if high is not None:
        end = (bisect_left if high_open else bisect_right)(ordered, high, 0, before_nan)
    return values if end - first == len(values) else values[first:end]


def in_both(a: Sequence[Value], b: Sequence[Value]) -> int:
    """Return how many canonical values are in both of two lists, each of which is in order and has
    no value twice."""
    few, many = (a, b) if len(a) <= len(b) else (b, a)
    if len(many) <= SHORT:
        return len([value for value in few if value in many])
    if len(few) * SPARSE > len(many):
        return len(frozenset(few).intersection(many))
    return sum(is_listed(value, many) for value in few)


def is_listed(value: Value, values: Sequence[Value]) -> bool:
    nan_is_last = is_nan(values[-1])
    if is_nan(value):
        return nan_is_last
    end = len(values) - nan_is_last
    place = bisect_left(cast(Sequence[Any], values), value, 0, end)
    return place < end and values[place] == value

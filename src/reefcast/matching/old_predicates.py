"""Constraints as the kernels read them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from reefcast.matching.kernels import FALSE, MISSING, NUMBER, STRING, TRUE
from reefcast.matching.strings import Strings
from reefcast.model.constraint import Constraint, Kind
from reefcast.model.publication import Value

Pair = tuple[float, int]
"""A value with its rest; see `kernels`."""

MAX_REST = 1 << 40
"""Above the rest of every int64; bounds beyond int64 are cut to it, for only floats are there."""

LOWEST: Pair = (-math.inf, -MAX_REST)
HIGHEST: Pair = (math.inf, MAX_REST)

_THERE = 1 << FALSE | 1 << TRUE | 1 << NUMBER | 1 << STRING


@dataclass(frozen=True, slots=True)
class Predicate:
    """One `kernels.PREDICATE`. `exact`: the kernels decide it alone, Python need not look."""

    kinds: int
    low: Pair = LOWEST
    high: Pair = HIGHEST
    members: tuple[Pair, ...] = ()
    negated: bool = False
    from_text: int = -1
    to_text: int = -1
    exact: bool = True


def number_pair(number: int | float) -> Pair:
    """The number as a pair whose lexicographic order is the order of numbers, NaN at the end."""
    if isinstance(number, float):
        return (math.inf, 2) if math.isnan(number) else (number, 0)
    try:
        nearest = float(number)
    except OverflowError:  # between the largest float and infinity
        return (math.inf, -2) if number > 0 else (-math.inf, 2)
    rest = 2 * (number - int(nearest))
    return nearest, max(-MAX_REST, min(MAX_REST, rest))


def predicate_of(constraint: Constraint, strings: Strings) -> Predicate:
    if constraint.missing:
        return Predicate(1 << MISSING)
    if constraint.kind is None:
        return Predicate(_THERE)
    if constraint.kind is Kind.BOOLEAN:
        return _of_booleans(constraint)
    if constraint.kind is Kind.STRING:
        return _of_strings(constraint, strings)
    return _of_numbers(constraint)


def _of_booleans(constraint: Constraint) -> Predicate:
    members = (False, True) if constraint.members is None else constraint.members
    return Predicate(
        sum(1 << (TRUE if m else FALSE) for m in members if m not in constraint.excluded)
    )


def _of_strings(constraint: Constraint, strings: Strings) -> Predicate:
    def pairs(values: Sequence[Value]) -> tuple[Pair, ...]:
        return tuple(sorted((float(strings.code(str(value))), 0) for value in values))

    if constraint.members is not None:
        return _of_members(1 << STRING, pairs(constraint.members))
    return Predicate(
        1 << STRING,
        low=(-math.inf, 1 if constraint.low_open else 0),
        high=(math.inf, -1 if constraint.high_open else 0),
        members=pairs(constraint.excluded),
        negated=True,
        from_text=_code(constraint.low, strings),
        to_text=_code(constraint.high, strings),
        exact=not constraint.patterns,
    )


def _code(bound: Value | None, strings: Strings) -> int:
    return -1 if bound is None else strings.code(str(bound))


def _of_numbers(constraint: Constraint) -> Predicate:
    if constraint.members is not None:
        return _of_members(1 << NUMBER, _sorted_numbers(constraint.members))
    low, high = LOWEST, HIGHEST
    if constraint.low is not None:
        value, rest = _number(constraint.low)
        low = (value, rest + 1 if constraint.low_open else rest)
    if constraint.high is not None:
        value, rest = _number(constraint.high)
        high = (value, rest - 1 if constraint.high_open else rest)
    return Predicate(1 << NUMBER, low, high, _sorted_numbers(constraint.excluded), negated=True)


def _of_members(kinds: int, members: tuple[Pair, ...]) -> Predicate:
    if not members:
        return Predicate(0)
    return Predicate(kinds, members[0], members[-1], members if len(members) > 1 else ())


def _sorted_numbers(values: Sequence[Value]) -> tuple[Pair, ...]:
    return tuple(sorted(_number(value) for value in values))


def _number(value: Value) -> Pair:
    assert not isinstance(value, str), "a constraint of kind NUMBER holds numbers only"
    return number_pair(value)

"""A constraint: the condition of one conjunction of a filter's normal form on one attribute.

A constraint is either `IS NULL` (`missing=True`, everything else at its default) or the demand that
the attribute is there *and* its value lies in a set, given by the fields below; all of them must
hold. Kinds never mix: a number compared with a string is UNKNOWN, which satisfies nothing.

- `kind`: NUMBER, STRING or BOOLEAN; None means any kind (plain `IS NOT NULL`), and then the other
  fields are at their defaults.
- `low`, `high`: bounds of an interval, None for no bound; `low_open`, `high_open` say whether the
  bound itself is outside. Without `high` the interval holds +inf and NaN (NaN equals itself and
  exceeds every number). Booleans have no interval, only members. No bound is NaN.
- `members`: the value must be one of these (`=`, `IN`); sorted, without equals; None for no such
  demand. Where there are members, the interval, `excluded` and `patterns` have been applied to them
  already and are at their defaults. Empty members (`EMPTY`): nothing satisfies the constraint.
- `excluded`: values cut out (`<>`, `NOT IN`); sorted, strictly inside the interval, none is NaN.
- `patterns`: demands on strings that no interval can say (LIKE, NOT LIKE, topic MATCHES); sorted.
  What a positive pattern's matches start with is in the interval too.

The functions here take and return constraints in this form, which is canonical for intervals and
sets: over a dense order two of them hold for the same values only if they are equal. A filter's `a
> 5 AND a < 7` is not empty without 6, and neither is `a > 5 AND a < 6` for an int."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from reefcast.model import patterns as wildcards
from reefcast.model.listed import SHORT, between, in_both, is_listed
from reefcast.model.publication import Value
from reefcast.model.values import NAN, Kind, canonical, compare, is_nan, kind_of, less, sort_key

__all__ = [
    "EMPTY",
    "MISSING",
    "PRESENT",
    "Constraint",
    "Kind",
    "Pattern",
    "among",
    "compared",
    "constraint_covers",
    "exclusive",
    "intersect",
    "intervals_in_one",
    "is_empty",
    "matching",
    "satisfies",
    "unite",
]


class Pattern(msgspec.Struct, frozen=True, order=True, array_like=True):
    """One pattern that a string must (or, negated, must not) match.

    `operator` is "LIKE" or "MATCHES" (MQTT wildcards); `escape` is LIKE's escape character or "".
    """

    operator: str
    text: str
    escape: str = ""
    negated: bool = False

    def holds(self, value: str) -> bool:
        if self.operator == "LIKE":
            return wildcards.is_like(value, self.text, self.escape) is not self.negated
        return wildcards.is_topic_match(value, self.text) is not self.negated

    def opposite(self) -> Pattern:
        return replace(self, negated=not self.negated)


class Constraint(msgspec.Struct, frozen=True, array_like=True):
    """See the module's docstring for the fields and how they go together.

    Indexes read constraints packed as lists of the fields, in this order.
    """

    missing: bool = False
    kind: Kind | None = None
    low: Value | None = None
    low_open: bool = False
    high: Value | None = None
    high_open: bool = False
    members: tuple[Value, ...] | None = None
    excluded: tuple[Value, ...] = ()
    patterns: tuple[Pattern, ...] = ()


EMPTY = Constraint(members=())
MISSING = Constraint(missing=True)
PRESENT = Constraint()
_ENDS = (-math.inf, math.inf)
_LEAST: dict[Kind, Value] = {Kind.NUMBER: -math.inf, Kind.STRING: ""}


# --- the constraints of single predicates --------------------------------------------------------


def compared(operator: str, value: Value) -> Constraint:
    """Return the constraint `attribute operator value`; the operator is one of = <> < <= > >=."""
    kind, value = kind_of(value), canonical(value)
    if kind is Kind.BOOLEAN:
        return _boolean(operator, bool(value))
    if operator == "=":
        return Constraint(kind=kind, members=(value,))
    if operator == "<>":
        return _normal(Constraint(kind=kind, excluded=(value,)))
    if is_nan(value):
        return _compared_with_nan(operator)
    if operator in ("<", "<="):
        c = Constraint(kind=kind, high=value, high_open=operator == "<")
    else:
        c = Constraint(kind=kind, low=value, low_open=operator == ">")
    return _normal(c) if kind is Kind.STRING or value in _ENDS else c


def _boolean(operator: str, value: bool) -> Constraint:
    chosen = {
        "=": (value,),
        "<>": (not value,),
        "<": (False,) if value else (),
        "<=": (False, True) if value else (False,),
        ">": () if value else (True,),
        ">=": (True,) if value else (False, True),
    }[operator]
    return Constraint(kind=Kind.BOOLEAN, members=chosen) if chosen else EMPTY


def _compared_with_nan(operator: str) -> Constraint:
    """Return the constraint of a comparison with NaN, which exceeds every number."""
    return {
        "<": Constraint(kind=Kind.NUMBER, high=math.inf),
        "<=": Constraint(kind=Kind.NUMBER),
        ">": EMPTY,
        ">=": Constraint(kind=Kind.NUMBER, members=(NAN,)),
    }[operator]


def among(values: Iterable[Value], negated: bool = False) -> Constraint:
    """Return the constraint `attribute [NOT] IN (values)`; at least one value, all of one kind."""
    listed = _sorted(values)
    kind = kind_of(listed[0])
    if not negated:
        return Constraint(kind=kind, members=listed)
    if kind is Kind.BOOLEAN:
        others = tuple(value for value in (False, True) if value not in listed)
        return Constraint(kind=kind, members=others) if others else EMPTY
    return _normal(Constraint(kind=kind, excluded=listed))


def matching(pattern: Pattern) -> Constraint:
    """Return the constraint `attribute [NOT] LIKE text` or `[NOT] MATCHES text`."""
    if pattern.operator == "LIKE":
        prefix, rest = wildcards.like_prefix(pattern.text, pattern.escape)
    else:
        prefix, rest = wildcards.topic_prefix(pattern.text)
    if not rest:
        return compared("<>" if pattern.negated else "=", prefix)
    if pattern.negated:
        return EMPTY if (prefix, rest) == ("", "%") else _string(patterns=(pattern,))
    # Strings that start with 'ab' are those from 'ab' up to 'ac', by code point.
    return _string(
        low=prefix or None,
        high=wildcards.next_prefix(prefix),
        high_open=wildcards.next_prefix(prefix) is not None,
        patterns=() if rest == "%" else (pattern,),
    )


def _string(**fields: Any) -> Constraint:
    return Constraint(kind=Kind.STRING, **fields)


# --- the algebra ---------------------------------------------------------------------------------


def satisfies(constraint: Constraint, value: Value | None) -> bool:
    """Return whether an attribute with this value (None: missing) satisfies the constraint."""
    if value is None or constraint.missing:
        return constraint.missing and value is None
    if constraint.kind is None:
        return constraint.members is None
    return kind_of(value) is constraint.kind and _contains(constraint, value)


def _contains(constraint: Constraint, value: Value) -> bool:
    """Return what `satisfies` does, for a value of the constraint's kind."""
    value = canonical(value)
    if constraint.members is not None:
        return value in constraint.members
    return (
        _above_low(constraint, value)
        and _below_high(constraint, value)
        and value not in constraint.excluded
        and all(pattern.holds(str(value)) for pattern in constraint.patterns)
    )


def _contains_all(constraint: Constraint, values: Sequence[Value]) -> bool:
    """Return whether canonical values of the constraint's kind, in order, all satisfy it."""
    if constraint.members is not None:
        return in_both(values, constraint.members) == len(values)
    return (
        len(
            between(
                values, constraint.low, constraint.low_open, constraint.high, constraint.high_open
            )
        )
        == len(values)
        and not (constraint.excluded and in_both(values, constraint.excluded))
        and all(pattern.holds(str(v)) for pattern in constraint.patterns for v in values)
    )


def _contains_any(constraint: Constraint, values: Sequence[Value]) -> bool:
    """Return whether one of these canonical values of the constraint's kind, in order, satisfies
    it."""
    members, excluded = constraint.members, constraint.excluded
    if len(values) == 1 and len(members or excluded) <= SHORT:  # the usual case, made fast
        return _contains(constraint, values[0])
    if members is not None:
        return in_both(values, members) > 0
    values = between(
        values, constraint.low, constraint.low_open, constraint.high, constraint.high_open
    )
    if constraint.patterns:
        tested = constraint.patterns
        return any(
            value not in excluded and all(pattern.holds(str(value)) for pattern in tested)
            for value in values
        )
    if not excluded or not values or len(values) > len(excluded):
        return bool(values)
    if not all(is_listed(each, excluded) for each in (values[0], values[-1])):
        return True
    return len(values) > in_both(values, excluded)


def _above_low(constraint: Constraint, value: Value) -> bool:
    low = constraint.low
    if low is None or is_nan(value):
        return True
    return less(low, value) or (low == value and not constraint.low_open)


def _below_high(constraint: Constraint, value: Value) -> bool:
    high = constraint.high
    if high is None:
        return True
    return less(value, high) or (high == value and not constraint.high_open)


def is_empty(constraint: Constraint) -> bool:
    """Return whether nothing satisfies the constraint; exact but for patterns, where False says
    only that no contradiction was found."""
    return constraint.members == ()


def intersect(a: Constraint, b: Constraint) -> Constraint:
    """Return the constraint that holds where both do; `EMPTY` (see `is_empty`) where they exclude
    each other."""
    if a.missing or b.missing:
        return MISSING if a.missing and b.missing else EMPTY
    if a.kind is None or b.kind is None:
        return _intersect_any_kind(a, b)
    if a.kind is not b.kind:
        return EMPTY
    if a.members is not None:
        return _filtered(a, b)
    if b.members is not None:
        return _filtered(b, a)
    return _normal(_overlap(a, b))


def exclusive(a: Constraint, b: Constraint) -> bool:
    """Return whether `intersect` would be empty, without computing it where that is not needed."""
    if a.missing or b.missing:
        return not (a.missing and b.missing)
    if a.kind is None or b.kind is None:
        return is_empty(a) or is_empty(b)
    if a.kind is not b.kind:
        return True
    if a.members is not None:
        return not _contains_any(b, a.members)
    if b.members is not None:
        return not _contains_any(a, b.members)
    if a.patterns or b.patterns:
        return is_empty(intersect(a, b))
    if a.excluded or b.excluded:
        return _only_excluded(a, b)
    return _ends_before(a, b) or _ends_before(b, a)


def _only_excluded(a: Constraint, b: Constraint) -> bool:
    """Return whether the overlap of two intervals is no more than points that they exclude."""
    points = _few_points(_between(a, b))
    return points is not None and not any(_contains(a, p) and _contains(b, p) for p in points)


def _ends_before(a: Constraint, b: Constraint) -> bool:
    """Return whether the interval `a` ends before `b` starts."""
    if a.high is None or b.low is None:
        return False
    if a.high == b.low:
        return a.high_open or b.low_open
    return less(a.high, b.low)


def _intersect_any_kind(a: Constraint, b: Constraint) -> Constraint:
    """Intersect two constraints, one of which is `PRESENT` or `EMPTY`."""
    if is_empty(a) or is_empty(b):
        return EMPTY
    return b if a.kind is None else a


def _filtered(members: Constraint, other: Constraint) -> Constraint:
    values = members.members or ()
    if other.members is not None:
        common = frozenset(other.members)
        kept = tuple(each for each in values if each in common)
    else:
        excluded = frozenset(other.excluded)  # both may be long
        rest = replace(other, excluded=())
        kept = tuple(each for each in values if each not in excluded)
        if rest != Constraint(kind=other.kind):
            kept = tuple(each for each in kept if _contains(rest, each))
    return Constraint(kind=members.kind, members=kept) if kept else EMPTY


def intervals_in_one(constraints: Sequence[Constraint]) -> list[Constraint]:
    """Return fewer constraints that hold together where these do: the intervals of one kind in one,
    and the others as they are. For a long list of `a <> 1 AND a <> 2 ...`, which one by one would
    take quadratic time."""
    kinds: dict[Kind, list[Constraint]] = {}
    others = []
    for each in constraints:
        if each.missing or each.kind is None or each.members is not None:
            others.append(each)
        else:
            kinds.setdefault(each.kind, []).append(each)
    return [*others, *(_normal(_overlap(*found)) for found in kinds.values())]


def _overlap(*intervals: Constraint) -> Constraint:
    """Return the overlap of intervals of one kind, not canonical yet."""
    return replace(
        _between(*intervals),
        excluded=_sorted(value for each in intervals for value in each.excluded),
        patterns=tuple(sorted({pattern for each in intervals for pattern in each.patterns})),
    )


def _between(*intervals: Constraint) -> Constraint:
    """Return the overlap of intervals of one kind by their ends alone."""
    lowest = highest = intervals[0]
    for each in intervals[1:]:
        lowest = each if _low_within(lowest, each) else lowest
        highest = each if _high_within(highest, each) else highest
    return Constraint(
        kind=lowest.kind,
        low=lowest.low,
        low_open=lowest.low_open,
        high=highest.high,
        high_open=highest.high_open,
    )


def _low_within(outer: Constraint, inner: Constraint) -> bool:
    """Return whether `inner` starts where `outer` does, or above."""
    if outer.low is None or inner.low is None:
        return outer.low is None
    if outer.low == inner.low:
        return inner.low_open or not outer.low_open
    return less(outer.low, inner.low)


def _high_within(outer: Constraint, inner: Constraint) -> bool:
    """Return whether `inner` ends where `outer` does, or below."""
    if outer.high is None or inner.high is None:
        return outer.high is None
    if outer.high == inner.high:
        return inner.high_open or not outer.high_open
    return less(inner.high, outer.high)


def constraint_covers(a: Constraint, b: Constraint) -> bool:
    """Return whether every value that satisfies `b` satisfies `a`: exact for intervals and sets
    over a dense order, sound (never wrongly true) with patterns."""
    if is_empty(b):
        return True
    if a.missing or b.missing:
        return a.missing and b.missing
    if a.kind is None:
        return not is_empty(a)
    if a.kind is not b.kind:
        return False
    if b.members is not None:
        return _contains_all(a, b.members)
    return (
        a.members is None
        and _low_within(a, b)
        and _high_within(a, b)
        and not _contains_any(b, a.excluded)
        and all(_implied(pattern, b) for pattern in a.patterns)
    )


def _implied(pattern: Pattern, by: Constraint) -> bool:
    if pattern in by.patterns:
        return True
    if pattern.negated:
        return is_empty(intersect(matching(pattern.opposite()), by))
    return pattern.operator == "MATCHES" and any(
        each.operator == "MATCHES"
        and not each.negated
        and wildcards.topic_pattern_covers(pattern.text, each.text)
        for each in by.patterns
    )


def _covered_by(pattern: Pattern, c: Constraint) -> bool:
    return constraint_covers(matching(pattern), c)


def unite(constraints: Iterable[Constraint]) -> Constraint:
    """Return the OR of constraints that list their members, all of one kind, at least one."""
    members = _sorted(value for each in constraints for value in each.members or ())
    return among(members)


# --- the canonical form --------------------------------------------------------------------------


def _sorted(values: Iterable[Value]) -> tuple[Value, ...]:
    """Return values of one kind in order, each once."""
    return tuple(sorted(dict.fromkeys(map(canonical, values)), key=sort_key))


def _normal(c: Constraint) -> Constraint:
    """Normalise an interval of numbers or strings whose bounds are not NaN."""
    c = _trim_bounds(_exclude(c))
    if any(each.negated and _covered_by(each.opposite(), c) for each in c.patterns):
        return EMPTY
    points = _few_points(c)
    if points is None:
        return c
    kept = tuple(point for point in points if _contains(c, point))
    return Constraint(kind=c.kind, members=kept) if kept else EMPTY


def _exclude(c: Constraint) -> Constraint:
    """Leave only excluded values strictly inside: an excluded end opens the interval."""
    if not c.excluded:
        return c
    if c.kind is Kind.NUMBER and c.high is None and is_nan(c.excluded[-1]):
        c = replace(c, high=math.inf)
    inside = tuple(
        value
        for value in c.excluded
        if value not in (c.low, c.high) and _above_low(c, value) and _below_high(c, value)
    )
    return replace(
        c,
        low_open=c.low_open or c.low in c.excluded,
        high_open=c.high_open or c.high in c.excluded,
        excluded=inside,
    )


def _trim_bounds(c: Constraint) -> Constraint:
    """Remove a bound below which there is nothing; open the interval where its lowest value is
    excluded."""
    assert c.kind is not None
    least = _LEAST[c.kind]
    if c.low is None and least in c.excluded:
        rest = tuple(value for value in c.excluded if value != least)
        return replace(c, low=least, low_open=True, excluded=rest)
    if c.low == least and not c.low_open:
        return replace(c, low=None)
    return c


def _few_points(c: Constraint) -> tuple[Value, ...] | None:
    """Return the values that an interval of one or two points, or none, can hold; None for longer
    ones."""
    assert c.kind is not None
    if c.high is None:
        return (math.inf, NAN) if c.low == math.inf else None
    low = _LEAST[c.kind] if c.low is None else c.low
    order = compare(low, c.high)
    if order is None or order < 0:
        return None
    return (c.high,) if order == 0 else ()

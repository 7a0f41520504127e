"""Regions: sets of events, as far as an expression of the filter language can say them.

A region is an upper bound: `bound` is TRUE for every event of the region, and if the region is
*exact*, for no other. Regions are united and intersected, never negated; that keeps upper bounds,
and it keeps three-valued logic out: an event for which the bound is UNKNOWN is outside."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from reefcast.model.expression import (
    And,
    Attribute,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Or,
    children,
)

LARGEST = 100
"""The size of a bound, at most; a broker reads such a filter within its `filter_steps`."""
VALUES, CHARACTERS = 8, 80
"""How many values of an IN, and characters of a pattern, add 1 to a size."""


class Region(NamedTuple):
    """`size`: how much work the bound is; a comparison is 1."""

    bound: Expression
    exact: bool = True
    size: int = 1

    def roughly(self) -> Region:
        """Return the region as one that is not exact."""
        return self._replace(exact=False)


ALWAYS = Region(Literal(True), size=0)
NEVER = Region(Literal(False), size=0)
UNKNOWN = ALWAYS.roughly()
"""The region of which nothing is known: any event may be in it."""


def predicate(expression: Expression) -> Region:
    """Return the exact region of one predicate."""
    return Region(expression, size=_size(expression))


def _size(expression: Expression) -> int:
    match expression:
        case And(terms) | Or(terms):
            return sum(map(_size, terms))
        case In(_, values):
            return 1 + len(values) // VALUES
        case Like(_, pattern):
            return 2 + len(pattern) // CHARACTERS
        case _:
            return 1


def union(*regions: Region) -> Region:
    """Return the region of the events that are in one of these."""
    exact = all(region.exact for region in regions)
    bounds = _joined(_terms(Or, regions))
    if Literal(True) in bounds:
        return ALWAYS._replace(exact=exact or ALWAYS in regions)
    kept = [bound for bound in bounds if bound != Literal(False)]
    size = _size_of(kept, regions)
    if size > LARGEST:
        return UNKNOWN
    if not kept:
        return NEVER
    return Region(kept[0] if len(kept) == 1 else Or(tuple(kept)), exact, size)


def intersection(*regions: Region) -> Region:
    """Return the region of the events that are in all of these."""
    exact = all(region.exact for region in regions)
    bounds = _terms(And, regions)
    if Literal(False) in bounds:
        return NEVER
    kept = _without_implied([bound for bound in bounds if bound != Literal(True)])
    size = _size_of(kept, regions)
    while size > LARGEST:
        size -= _size(kept.pop())
        exact = False
    if not kept:
        return ALWAYS._replace(exact=exact)
    return Region(kept[0] if len(kept) == 1 else And(tuple(kept)), exact, size)


def _terms(kind: type[And] | type[Or], regions: Iterable[Region]) -> list[Expression]:
    """Return the bounds, those that are of the kind taken apart, and predicates once each."""
    found: dict[object, Expression] = {}
    for region in regions:
        bound = region.bound
        terms = bound.terms if isinstance(bound, And | Or) and type(bound) is kind else (bound,)
        for term in terms:  # hashing a compound one would take too long
            found.setdefault(id(term) if isinstance(term, And | Or) else term, term)
    return list(found.values())


def _size_of(bounds: list[Expression], regions: Iterable[Region]) -> int:
    """Return the size of all bounds, which were made of the regions, or a little more."""
    most = sum(region.size for region in regions)
    return most if most <= LARGEST else sum(map(_size, bounds))


def _joined(bounds: list[Expression]) -> list[Expression]:
    """Make one IN of all that demand one of some values of the same attribute and kind."""
    values: dict[tuple[str, type], dict[Literal, None]] = {}
    kept: list[Expression] = []
    for bound in bounds:
        match bound:
            case Comparison("=", Attribute(name), Literal(value) as literal):
                values.setdefault((name, type(value)), {})[literal] = None
            case In(Attribute(name), listed, False):
                values.setdefault((name, type(listed[0].value)), {}).update(dict.fromkeys(listed))
            case _:
                kept.append(bound)
    return kept + [among(name, literals) for (name, _), literals in values.items()]


def among(name: str, literals: Iterable[Literal]) -> Expression:
    """Return the predicate that an attribute has one of these values, which are of one kind."""
    listed = tuple(literals)
    if len(listed) == 1:
        return Comparison("=", Attribute(name), listed[0])
    return In(Attribute(name), listed)


def _without_implied(bounds: list[Expression]) -> list[Expression]:
    """Leave out `x IS NOT NULL` where another term demands a value of x."""
    guards = [each for each in bounds if isinstance(each, IsNull) and each.negated]
    if not guards:
        return bounds
    others = [each for each in bounds if each not in guards]
    demanded = frozenset().union(*map(_demanded, others))
    return [each for each in guards if not _demanded(each) <= demanded] + others


def _demanded(bound: Expression) -> frozenset[str]:
    """Return the attributes that an event has for which the bound is TRUE."""
    match bound:
        case IsNull(Attribute(name), True):
            return frozenset({name})
        case Comparison() | In() | Like():
            return frozenset(each.name for each in children(bound) if isinstance(each, Attribute))
        case And(terms):
            return frozenset().union(*map(_demanded, terms))
        case Or(terms):
            first, *others = map(_demanded, terms)
            return first.intersection(*others)
        case _:
            return frozenset()

"""From an expression of CESQL to a filter, so that the indexes of brokers serve it.

A filter can say much of CESQL exactly: comparisons of strings, LIKE, IN, EXISTS, and what AND, OR,
XOR and NOT make of them. Of the rest it can say a necessary condition, at least that an attribute
is there. So a translation is a filter that holds for every event that passes the expression, and
the word whether it holds for no other. If it is not exact, the expression is evaluated for the
events that pass the filter.

What makes the difference: CESQL casts (`x = 5` holds for the string '005'), an error ends an
evaluation (`a = 1 OR b = 2` is an error where `a` is missing, whatever `b` is), and AND and OR
associate from left to right. The regions below follow this exactly: see `conditions.Regions`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

from reefcast.cesql import conditions
from reefcast.cesql.conditions import FAILS, Regions
from reefcast.cesql.evaluation import REQUIRED
from reefcast.cesql.expression import Expression, parse
from reefcast.cesql.functions import STANDARD
from reefcast.cesql.nodes import (
    Attribute,
    Call,
    Comparison,
    Exists,
    In,
    Like,
    Logic,
    Node,
    Not,
    children,
    walk,
)
from reefcast.cesql.regions import ALWAYS, LARGEST, UNKNOWN, Region, intersection, union
from reefcast.cesql.values import Type, Value, cast, type_of
from reefcast.errors import FilterSyntaxError
from reefcast.model.filters import TRUE, Filter, filter_of


class Translation(NamedTuple):
    """`filter` holds for every event that passes `expression` (see `Expression.matches`), and if it
    is `exact`, for no other. An event's attributes are the same on both sides."""

    expression: Expression
    filter: Filter
    exact: bool

    @property
    def residual(self) -> Expression | None:
        """The expression, if events that pass the filter must be judged by it, too; else None."""
        return None if self.exact else self.expression


def translate(expression: Expression | str) -> Translation:
    """Return the filter of an expression, or of its text. Raises `CesqlError` if the text cannot be
    parsed.

    Functions that are not built in may return anything, so the filter holds whatever they are. A
    filter cannot say which of several topics an expression means by `topic`, so it says nothing of
    this attribute."""
    if isinstance(expression, str):
        expression = parse(expression)
    region = regions_of(expression.root).true
    try:
        return Translation(expression, filter_of(region.bound), region.exact)
    except FilterSyntaxError:  # too long or too deep for a filter
        return Translation(expression, TRUE, False)


def regions_of(node: Node) -> Regions:
    """Return where a node, cast to Boolean, is true, false and without error."""
    if _is_constant(node):
        return _constant(conditions.outcome(node))
    match node:
        case Attribute(name):
            return conditions.is_true(name)
        case Exists(name):
            return conditions.exists(name)
        case Not(operand):
            return regions_of(operand).negated()
        case Logic():
            return _logic(node)
        case Comparison():
            return _comparison(node)
        case Like(operand, pattern, negated):
            return _negated_if(negated, _like(_uncast(operand, str), pattern, node))
        case In(operand, elements, negated):
            return _negated_if(negated, _in(operand, elements, node))
        case _:
            return _demanding(node)


def _negated_if(negated: bool, regions: Regions) -> Regions:
    return regions.negated() if negated else regions


def _is_constant(node: Node) -> bool:
    """Return whether a node has the same value for all events."""
    return not any(map(_may_vary, walk(node)))


def _may_vary(node: Node) -> bool:
    match node:
        case Attribute():
            return True
        case Exists(name):
            return name not in REQUIRED
        case Call(function, arguments):
            return STANDARD.find(function, len(arguments)) is None
        case _:
            return False


def _constant(value: Value | None) -> Regions:
    truth = None if value is None else cast(value, bool)
    return FAILS if truth is None else conditions.always(truth is True)


def _demanding(node: Node) -> Regions:
    """Return the regions of a node of which only this is known: the attributes that are evaluated
    in any case must be there."""
    region = intersection(*map(conditions.present, sorted(_demanded(node)))).roughly()
    return Regions(region, region, region)


def _demanded(node: Node) -> frozenset[str]:
    match node:
        case Attribute(name):
            return frozenset({name})
        case Logic(first, _):
            return _demanded(first)
        case In(operand, elements):
            return _demanded(operand) | _demanded(elements[0])
        case _:
            return frozenset().union(*map(_demanded, children(node)))


# --- AND, OR and XOR -----------------------------------------------------------------------------


def _logic(node: Logic) -> Regions:
    regions = regions_of(node.first)
    for operator, steps in groupby(node.steps, key=lambda step: step.operator):
        regions = _COMBINED[operator]([regions, *(regions_of(step.operand) for step in steps)])
    return regions


def _all(operands: Sequence[Regions]) -> Regions:
    """Combine operands by AND. It is false where one is false and those before it are true, or
    also just without error: where one of those is false, so is the whole."""
    false = union(*_reached(operands))
    if false == UNKNOWN:  # too large to say; this is smaller
        false = union(*(each.false.roughly() for each in operands))
    sound = union(false, intersection(*(each.sound for each in operands)))
    return Regions(intersection(*(each.true for each in operands)), false, sound)


def _reached(operands: Sequence[Regions]) -> Iterator[Region]:
    """Yield where each operand is evaluated and false; at last `UNKNOWN` if this becomes too
    large."""
    before, size = ALWAYS, 0
    for each in operands:
        region = intersection(before, each.false)
        yield region
        size += region.size
        if size > LARGEST:
            yield UNKNOWN
            return
        certain = each.true if each.true.exact and not each.sound.exact else each.sound
        before = intersection(before, certain)


def _any(operands: Sequence[Regions]) -> Regions:
    """Combine operands by OR: NOT of the AND of their opposites, evaluated in the same order."""
    return _all([each.negated() for each in operands]).negated()


def _odd(operands: Sequence[Regions]) -> Regions:
    """Combine operands by XOR. Each doubles what is to be said; beyond a few, only where there is
    no error is said."""
    one = operands[0]
    for other in operands[1:]:
        sound = intersection(one.sound, other.sound)
        unlike = union(intersection(one.true, other.false), intersection(one.false, other.true))
        alike = union(intersection(one.true, other.true), intersection(one.false, other.false))
        if UNKNOWN in (unlike, alike):
            whole = intersection(*(each.sound for each in operands)).roughly()
            return Regions(whole, whole, whole)
        one = Regions(unlike, alike, sound)
    return one


_COMBINED: dict[str, Callable[[Sequence[Regions]], Regions]] = {
    "AND": _all,
    "OR": _any,
    "XOR": _odd,
}


# --- comparisons, LIKE and IN --------------------------------------------------------------------

_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_CASTS: dict[str, Type] = {"INT": int, "BOOL": bool, "STRING": str}


def _uncast(node: Node, target: Type) -> Node:
    """Return the argument of an explicit cast to the type that the operator casts to anyway."""
    match node:
        case Call(function, (argument,)) if _CASTS.get(function) is target:
            return argument
        case _:
            return node


def _comparison(node: Comparison) -> Regions:
    if node.operator in _FLIPPED:
        return _ordered(node)
    return _negated_if(node.operator == "!=", _equal(node))


def _ordered(node: Comparison) -> Regions:
    left, right, operator = _uncast(node.left, int), _uncast(node.right, int), node.operator
    if _is_constant(left):
        left, right, operator = right, left, _FLIPPED[operator]
    if not isinstance(left, Attribute) or not _is_constant(right):
        return _demanding(node)
    value = conditions.outcome(right)
    number = None if value is None else cast(value, int)
    return FAILS if number is None else conditions.is_ordered(left.name, operator, int(number))


def _equal(node: Comparison) -> Regions:
    """Return the regions of `left = right`, whose left operand is cast to the type of the right
    one."""
    left, right = node.left, node.right
    if _is_constant(right):
        value = conditions.outcome(right)
        return FAILS if value is None else _equal_to(_uncast(left, type_of(value)), value, node)
    if _is_constant(left):
        value = conditions.outcome(left)
        if value is None:
            return FAILS
        if isinstance(right, Attribute):
            return conditions.is_among(right.name, (value,))
        match right:
            case Call(function, (Attribute(name),)) if function in _CASTS:
                fitting = cast(value, _CASTS[function])
                return FAILS if fitting is None else _equal_to(Attribute(name), fitting, node)
    return _demanding(node)


def _equal_to(left: Node, value: Value, node: Comparison) -> Regions:
    match left, value:
        case Attribute(name), bool():
            return _negated_if(not value, conditions.is_true(name))
        case Attribute(name), int():
            return conditions.is_integer(name, value)
        case Attribute(name), str():
            return conditions.is_text(name, value)
        case _:
            return _demanding(node)


def _like(operand: Node, pattern: str, node: Node) -> Regions:
    if isinstance(operand, Attribute):
        return conditions.is_like(operand.name, pattern)
    return _demanding(node)


def _in(operand: Node, elements: Sequence[Node], node: Node) -> Regions:
    if not isinstance(operand, Attribute) or not all(map(_is_constant, elements)):
        return _demanding(node)
    values = [conditions.outcome(element) for element in elements]
    known = [value for value in values if value is not None]
    if len(known) < len(values):
        return _demanding(node)
    return conditions.is_among(operand.name, known)

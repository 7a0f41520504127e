"""Expressions of the filter language: the nodes, their meaning, and their text.

`evaluate` is the meaning: three-valued, with None for both NULL and UNKNOWN. It is the slow,
obvious twin of normal forms and indexes. Nothing in it raises: unlike kinds, division by zero and
int64 overflow give UNKNOWN.

Two literals are equal only if their types are too: `x + 1` and `x + 1.0` overflow differently.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from reefcast.model.patterns import is_like, is_topic_match
from reefcast.model.publication import INT64_MAX, INT64_MIN, Value
from reefcast.model.values import Kind, compare, is_nan, kind_of


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    value: Value

    def _identity(self) -> tuple[type, Value]:
        return (type(self.value), "NaN" if is_nan(self.value) else self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Literal) and self._identity() == other._identity()

    def __hash__(self) -> int:
        return hash(self._identity())


@dataclass(frozen=True, slots=True)
class Attribute:
    name: str


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """`operator` is one of + - * /."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Minus:
    operand: Expression


@dataclass(frozen=True, slots=True)
class Comparison:
    """`operator` is one of = <> < <= > >=."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class In:
    """`values` are of one kind, at least one."""

    operand: Expression
    values: tuple[Literal, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like:
    """`escape` is one character, or "" for none."""

    operand: Expression
    pattern: str
    escape: str = ""
    negated: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    operand: Expression
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Matches:
    """`operand MATCHES pattern`, with the wildcards of MQTT."""

    operand: Expression
    pattern: str


@dataclass(frozen=True, slots=True)
class And:
    """Two terms at least."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Two terms at least."""

    terms: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Not:
    operand: Expression


Expression = (
    Literal
    | Attribute
    | Arithmetic
    | Minus
    | Comparison
    | In
    | Like
    | IsNull
    | Matches
    | And
    | Or
    | Not
)
Attributes = Mapping[str, Value]
Result = Value | None


# --- meaning -------------------------------------------------------------------------------------


def evaluate(expression: Expression, attributes: Attributes) -> Result:
    """Return the value of `expression` for one publication; None is NULL and UNKNOWN."""
    return _MEANING[type(expression)](expression, attributes)


def truth(value: Result) -> bool | None:
    """Return the value as a condition: a value that is not boolean is UNKNOWN."""
    return value if isinstance(value, bool) else None


def _literal(e: Literal, attributes: Attributes) -> Result:
    return e.value


def _attribute(e: Attribute, attributes: Attributes) -> Result:
    return attributes.get(e.name)


def _arithmetic(e: Arithmetic, attributes: Attributes) -> Result:
    left, right = _number(e.left, attributes), _number(e.right, attributes)
    if left is None or right is None:
        return None
    if e.operator == "/":
        return None if right == 0 else float(left) / float(right)
    return _within_int64(_ARITHMETIC[e.operator](left, right))


def _minus(e: Minus, attributes: Attributes) -> Result:
    value = _number(e.operand, attributes)
    return None if value is None else _within_int64(-value)


def _number(e: Expression, attributes: Attributes) -> int | float | None:
    value = evaluate(e, attributes)
    return value if isinstance(value, int | float) and kind_of(value) is Kind.NUMBER else None


def _within_int64(number: int | float) -> int | float | None:
    if isinstance(number, int) and not INT64_MIN <= number <= INT64_MAX:
        return None
    return number


def _comparison(e: Comparison, attributes: Attributes) -> Result:
    left, right = evaluate(e.left, attributes), evaluate(e.right, attributes)
    if left is None or right is None:
        return None
    order = compare(left, right)
    return None if order is None else COMPARISONS[e.operator](order, 0)


def _in(e: In, attributes: Attributes) -> Result:
    value = evaluate(e.operand, attributes)
    if value is None or kind_of(value) is not kind_of(e.values[0].value):
        return None
    return any(compare(value, each.value) == 0 for each in e.values) is not e.negated


def _like(e: Like, attributes: Attributes) -> Result:
    value = evaluate(e.operand, attributes)
    return is_like(value, e.pattern, e.escape) is not e.negated if isinstance(value, str) else None


def _matches(e: Matches, attributes: Attributes) -> Result:
    value = evaluate(e.operand, attributes)
    return is_topic_match(value, e.pattern) if isinstance(value, str) else None


def _is_null(e: IsNull, attributes: Attributes) -> Result:
    return (evaluate(e.operand, attributes) is None) is not e.negated


def _and(e: And, attributes: Attributes) -> Result:
    result: Result = True
    for term in e.terms:
        value = truth(evaluate(term, attributes))
        if value is False:
            return False  # whatever the others say; none of them can fail
        if value is None:
            result = None
    return result


def _or(e: Or, attributes: Attributes) -> Result:
    result: Result = False
    for term in e.terms:
        value = truth(evaluate(term, attributes))
        if value is True:
            return True
        if value is None:
            result = None
    return result


def _not(e: Not, attributes: Attributes) -> Result:
    value = truth(evaluate(e.operand, attributes))
    return None if value is None else not value


COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: dict[str, Callable[[Any, Any], int | float]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
}
_MEANING: dict[type, Callable[[Any, Attributes], Result]] = {
    Literal: _literal,
    Attribute: _attribute,
    Arithmetic: _arithmetic,
    Minus: _minus,
    Comparison: _comparison,
    In: _in,
    Like: _like,
    IsNull: _is_null,
    Matches: _matches,
    And: _and,
    Or: _or,
    Not: _not,
}


# --- attributes ----------------------------------------------------------------------------------


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Literal() | Attribute():
            return ()
        case Arithmetic() | Comparison():
            return (expression.left, expression.right)
        case And() | Or():
            return expression.terms
        case _:
            return (expression.operand,)


def levels_of(expression: Expression) -> int:
    """Return how many nodes there are on the longest path into the expression."""
    return 1 + max(map(levels_of, children(expression)), default=0)


def attributes_of(expression: Expression) -> frozenset[str]:
    """Return the names of the attributes that the expression mentions."""
    names, left = set(), [expression]
    while left:
        each = left.pop()
        left += children(each)
        if isinstance(each, Attribute):
            names.add(each.name)
    return frozenset(names)


# --- text ----------------------------------------------------------------------------------------


def to_sql(expression: Expression) -> str:
    """Return a text that `language.parse` reads back, and Spark SQL too (but for MATCHES)."""
    match expression:
        case And(terms):
            return " AND ".join(_operand(term, And, Or) for term in terms)
        case Or(terms):
            return " OR ".join(_operand(term, And, Or) for term in terms)
        case Not(operand):
            return f"NOT {_operand(operand, *_COMPOUND)}"
        case Comparison(sign, left, right):
            return f"{_operand(left, *_CONDITIONS)} {sign} {_operand(right, *_CONDITIONS)}"
        case Arithmetic(sign, left, right):
            return f"{_operand(left, *_COMPOUND)} {sign} {_operand(right, *_COMPOUND)}"
        case Minus(operand):
            return f"-{_operand(operand, Literal, *_COMPOUND)}"
        case Literal(value):
            return literal_to_sql(value)
        case Attribute(name):
            return name_to_sql(name)
        case _:
            return f"{_operand(expression.operand, *_CONDITIONS)} {_predicate(expression)}"


_CONDITIONS = (And, Or, Not, Comparison, In, Like, IsNull, Matches)
_COMPOUND = (*_CONDITIONS, Arithmetic, Minus)


def _operand(expression: Expression, *wrapped: type) -> str:
    text = to_sql(expression)
    return f"({text})" if isinstance(expression, wrapped) else text


def _predicate(expression: In | Like | IsNull | Matches) -> str:
    match expression:
        case In(_, values, negated):
            listed = ", ".join(literal_to_sql(each.value) for each in values)
            return f"{'NOT ' if negated else ''}IN ({listed})"
        case Like(_, pattern, escape, negated):
            tail = f" ESCAPE {literal_to_sql(escape)}" if escape else ""
            return f"{'NOT ' if negated else ''}LIKE {literal_to_sql(pattern)}{tail}"
        case IsNull(_, negated):
            return "IS NOT NULL" if negated else "IS NULL"
        case Matches(_, pattern):
            return f"MATCHES {literal_to_sql(pattern)}"


def literal_to_sql(value: Value) -> str:
    """Return a value as a constant of SQL; floats have an exponent, because Spark reads 0.1 as a
    decimal."""
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if not math.isfinite(value):
        return _not_finite_to_sql(value)
    text = repr(value)
    return text if "e" in text else f"{text}e0"


def _not_finite_to_sql(value: float) -> str:
    """Return arithmetic for NaN and infinities, for which there is no literal."""
    if is_nan(value):
        return "(1e308 * 10 - 1e308 * 10)"
    return "(1e308 * 10)" if value > 0 else "(-1e308 * 10)"


def name_to_sql(name: str) -> str:
    """Return an attribute's name in double quotes, always: no list of Spark's reserved words would
    stay complete."""
    return '"' + name.replace('"', '""') + '"'

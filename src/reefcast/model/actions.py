"""The actions of the grammar in `filter.lark`: they build the nodes of the expression, and check
what the grammar cannot say.

That is: the kinds as far as they can be seen (`price LIKE 'a%'` is for evaluation to judge,
`5 LIKE 'a%'` is an error here), the range of literals, the places of wildcards, and the depth of
nesting. They run while the parser reduces, so there is never a parse tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from reefcast.model.expression import (
    And,
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Matches,
    Minus,
    Not,
    Or,
)
from reefcast.model.parameters import AmongGiven, Parameter, fault_of
from reefcast.model.patterns import check_topic_pattern, like_parts
from reefcast.model.publication import INT64_MAX
from reefcast.model.values import Kind

if TYPE_CHECKING:
    from lark import Token

MAX_DEPTH = 100
"""Levels of nesting in an expression, and of parentheses; what walks over it recursively must not
exhaust the stack."""


class Fault(Exception):
    """A fault that only the actions can see, at an offset of the text."""

    def __init__(self, position: int, message: str, expected: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.position = position
        self.message = message
        self.expected = expected


class Part(NamedTuple):
    """An expression being built. `kind` None: only evaluation will know. `levels` of nesting,
    `groups` of parentheses around each other inside, `position` of its first character."""

    expression: Expression
    kind: Kind | None
    position: int
    levels: int = 1
    groups: int = 0


_WHAT = {Kind.NUMBER: "a number", Kind.STRING: "a string", Kind.BOOLEAN: "a condition"}


def _demand(part: Part, kind: Kind, where: str) -> None:
    if part.kind is not None and part.kind is not kind:
        message = f"{where} takes {_WHAT[kind]}, but this is {_WHAT[part.kind]}"
        raise Fault(part.position, message, (_WHAT[kind],))


def _node(expression: Expression, kind: Kind, position: int, *parts: Part) -> Part:
    levels = 1 + max(part.levels for part in parts)
    groups = max(part.groups for part in parts)
    return Part(expression, kind, position, _bounded(levels, position), groups)


def _bounded(depth: int, position: int) -> int:
    if depth > MAX_DEPTH:
        raise Fault(position, f"nested too deeply: a filter has at most {MAX_DEPTH} levels")
    return depth


def _filter(part: Part) -> Expression:
    _demand(part, Kind.BOOLEAN, "a filter")
    return part.expression


def _or(*parts: Part) -> Part:
    for part in parts:
        _demand(part, Kind.BOOLEAN, "OR")
    terms = tuple(part.expression for part in parts)
    return _node(Or(terms), Kind.BOOLEAN, parts[0].position, *parts)


def _and(*parts: Part) -> Part:
    for part in parts:
        _demand(part, Kind.BOOLEAN, "AND")
    terms = tuple(part.expression for part in parts)
    return _node(And(terms), Kind.BOOLEAN, parts[0].position, *parts)


def _not(sign: Token, part: Part) -> Part:
    _demand(part, Kind.BOOLEAN, "NOT")
    return _node(Not(part.expression), Kind.BOOLEAN, _at(sign), part)


def _comparison(left: Part, sign: Token, right: Part) -> Part:
    if left.kind is not None:
        _demand(right, left.kind, f"{sign} after {_WHAT[left.kind]}")
    compared = Comparison(str(sign), left.expression, right.expression)
    return _node(compared, Kind.BOOLEAN, left.position, left, right)


def _between(part: Part, negation: Token | None, low: Part, high: Part) -> Part:
    kind = part.kind if part.kind is not None else low.kind
    for bound in (low, high):
        if kind is not None:
            _demand(bound, kind, "BETWEEN")
    operand = part.expression
    inside = And(
        (Comparison(">=", operand, low.expression), Comparison("<=", operand, high.expression))
    )
    expression = inside if negation is None else Not(inside)
    # BETWEEN stands for three levels: NOT, AND and the comparisons
    inner = _node(expression, Kind.BOOLEAN, part.position, part, low, high)
    return inner._replace(levels=_bounded(inner.levels + 2, part.position))


def _in(part: Part, negation: Token | None, *listed: Part) -> Part:
    kind = next((value.kind for value in listed if value.kind is not None), None)
    if kind is not None:
        for value in listed:
            _demand(value, kind, f"an IN list that starts with {_WHAT[kind]}")
        _demand(part, kind, f"IN with a list of which each is {_WHAT[kind]}")
    values = tuple(value.expression for value in listed if isinstance(value.expression, Literal))
    expression: Expression = In(part.expression, values, negation is not None)
    if len(values) < len(listed):
        given = (value.expression for value in listed)
        some = tuple(each for each in given if isinstance(each, Literal | Parameter))
        # It is no part of expressions that are evaluated: `substituted` puts an `In` in its place.
        expression = cast(Expression, AmongGiven(part.expression, some, negation is not None))
    return _node(expression, Kind.BOOLEAN, part.position, part)


def _like(part: Part, negation: Token | None, text: Token, escape: Token | None) -> Part:
    _demand(part, Kind.STRING, "LIKE")
    pattern = _unquoted(text)
    character = "" if escape is None else _unquoted(escape)
    if escape is not None and len(character) != 1:
        raise Fault(_at(escape), "ESCAPE takes one character", ("a string of one character",))
    try:
        like_parts(pattern, character)
    except ValueError as error:
        raise Fault(_at(text), f"the pattern cannot be read: {error}") from error
    expression = Like(part.expression, pattern, character, negation is not None)
    return _node(expression, Kind.BOOLEAN, part.position, part)


def _matches(part: Part, negation: Token | None, text: Token) -> Part:
    _demand(part, Kind.STRING, "MATCHES")
    pattern = _unquoted(text)
    try:
        check_topic_pattern(pattern)
    except ValueError as error:
        raise Fault(_at(text), str(error)) from error
    expression: Expression = Matches(part.expression, pattern)
    node = _node(expression, Kind.BOOLEAN, part.position, part)
    return node if negation is None else _node(Not(expression), Kind.BOOLEAN, part.position, node)


def _is_null(part: Part, negation: Token | None) -> Part:
    expression = IsNull(part.expression, negation is not None)
    return _node(expression, Kind.BOOLEAN, part.position, part)


def _arithmetic(left: Part, sign: Token, right: Part) -> Part:
    for part in (left, right):
        _demand(part, Kind.NUMBER, str(sign))
    expression = Arithmetic(str(sign), left.expression, right.expression)
    return _node(expression, Kind.NUMBER, left.position, left, right)


def _minus(sign: Token, part: Part) -> Part:
    _demand(part, Kind.NUMBER, "-")
    return _node(Minus(part.expression), Kind.NUMBER, _at(sign), part)


def _signed(sign: Token, digits: Token) -> Part:
    factor = -1 if sign.type == "MINUS" else 1
    if digits.type == "FLOAT":
        return Part(Literal(factor * _finite(digits)), Kind.NUMBER, _at(sign))
    largest = INT64_MAX if factor > 0 else INT64_MAX + 1
    return Part(Literal(factor * _int64(digits, largest)), Kind.NUMBER, _at(sign))


def _group(parenthesis: Token, part: Part) -> Part:
    position = _at(parenthesis)
    return part._replace(position=position, groups=_bounded(part.groups + 1, position))


def _integer(digits: Token) -> Part:
    return Part(Literal(_int64(digits, INT64_MAX)), Kind.NUMBER, _at(digits))


def _int64(digits: Token, largest: int) -> int:
    # comparing the lengths first keeps Python from refusing, or toiling over, 60 000 digits
    number = int(digits) if len(digits.lstrip("0")) <= len(str(largest)) else largest + 1
    if number > largest:
        message = "this integer does not fit into 64 bits; write it with a fraction for a float"
        raise Fault(_at(digits), message, ("an integer of 64 bits",))
    return number


def _float(digits: Token) -> Part:
    return Part(Literal(_finite(digits)), Kind.NUMBER, _at(digits))


def _finite(digits: Token) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise Fault(_at(digits), "this number is too large for a float", ("a finite number",))
    return number


def _string(text: Token) -> Part:
    return Part(Literal(_unquoted(text)), Kind.STRING, _at(text))


def _boolean(word: Token) -> Part:
    return Part(Literal(word.type == "TRUE"), Kind.BOOLEAN, _at(word))


def _attribute(token: Token) -> Part:
    name = _unquoted(token) if token.type == "QUOTED_NAME" else str(token)
    if not name:
        raise Fault(_at(token), "an attribute's name must not be empty", ("an attribute",))
    return Part(Attribute(name), None, _at(token))


def _parameter(token: Token) -> Part:
    name = str(token)[2:-1]
    if fault := fault_of(name):
        raise Fault(_at(token), fault)
    return Part(Parameter(name), None, _at(token))


def _unquoted(token: Token) -> str:
    """Return a text without the quotes around it; doubled quotes inside become one."""
    quote = token[0]
    return token[1:-1].replace(quote * 2, quote)


def _at(token: Token) -> int:
    return token.start_pos or 0


ACTIONS: dict[str, Callable[..., Any]] = {
    "filter": _filter,
    "or": _or,
    "and": _and,
    "not": _not,
    "comparison": _comparison,
    "between": _between,
    "in": _in,
    "like": _like,
    "matches": _matches,
    "is_null": _is_null,
    "addition": _arithmetic,
    "multiplication": _arithmetic,
    "minus": _minus,
    "signed": _signed,
    "group": _group,
    "integer": _integer,
    "float": _float,
    "string": _string,
    "boolean": _boolean,
    "attribute": _attribute,
    "parameter": _parameter,
}


def transformer() -> object:
    """Return the transformer for lark: an object with a method for each rule, which gets the
    children."""
    from lark import Transformer, v_args

    methods = {rule: staticmethod(action) for rule, action in ACTIONS.items()}
    return v_args(inline=True)(type("Actions", (Transformer,), methods))()

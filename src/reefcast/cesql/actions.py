"""The actions of the grammar in `cesql.lark`: they build the nodes, and check what the grammar
cannot say: the range of integers, the names, and the depth of nesting.

They run while the parser reduces, so there is never a parse tree."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from reefcast.cesql.nodes import (
    Arithmetic,
    Attribute,
    Call,
    Comparison,
    Exists,
    In,
    Like,
    Literal,
    Logic,
    Minus,
    Node,
    Not,
    Step,
)
from reefcast.cesql.values import is_integer, like_pattern
from reefcast.model.actions import Fault

if TYPE_CHECKING:
    from lark import Token

MAX_DEPTH = 100
"""Levels of nesting in an expression, and of parentheses; what walks over it recursively must not
exhaust the stack."""
_FUNCTION = re.compile(r"[A-Za-z][A-Za-z_]*")


class Part(NamedTuple):
    """A node being built, with the `levels` of nodes and the `groups` of parentheses in it."""

    node: Node
    levels: int = 1
    groups: int = 0


def _made(node: Node, *parts: Part) -> Part:
    levels = 1 + max((part.levels for part in parts), default=0)
    return Part(node, _bounded(levels, node), max((part.groups for part in parts), default=0))


def _bounded(depth: int, node: Node) -> int:
    if depth > MAX_DEPTH:
        message = f"nested too deeply: an expression has at most {MAX_DEPTH} levels"
        raise Fault(node.position, message)
    return depth


def _start(part: Part) -> Node:
    return part.node


def _chain(make: type[Logic] | type[Arithmetic]) -> Callable[..., Part]:
    def chain(first: Part, *others: Any) -> Part:
        steps = tuple(
            Step(str(sign).upper(), part.node, position=_at(sign))
            for sign, part in zip(others[::2], others[1::2], strict=True)
        )
        node = make(first.node, steps, position=first.node.position)
        return _made(node, first, *others[1::2])

    return chain


def _comparison(left: Part, sign: Token, right: Part) -> Part:
    operator = "!=" if sign == "<>" else str(sign)
    return _made(Comparison(operator, left.node, right.node, position=_at(sign)), left, right)


def _in(part: Part, negation: Token | None, *listed: Part) -> Part:
    elements = tuple(each.node for each in listed)
    node = In(part.node, elements, negation is not None, position=part.node.position)
    return _made(node, part, *listed)


def _like(part: Part, negation: Token | None, text: Token) -> Part:
    pattern = like_pattern(_unquoted(text))
    return _made(Like(part.node, pattern, negation is not None, position=part.node.position), part)


def _not(sign: Token, part: Part) -> Part:
    return _made(Not(part.node, position=_at(sign)), part)


def _minus(sign: Token, part: Part) -> Part:
    return _made(Minus(part.node, position=_at(sign)), part)


def _exists(name: Token) -> Part:
    return _made(Exists(_name(name), position=_at(name)))


def _call(name: Token, *arguments: Part | None) -> Part:
    if not _FUNCTION.fullmatch(name):
        raise Fault(_at(name), f"{name} is no name of a function: it has letters, and _ among them")
    parts = [each for each in arguments if each is not None]
    node = Call(name.upper(), tuple(each.node for each in parts), position=_at(name))
    return _made(node, *parts)


def _group(parenthesis: Token, part: Part) -> Part:
    return part._replace(groups=_bounded(part.groups + 1, part.node))


def _signed(sign: Token, digits: Token) -> Part:
    if _at(digits) == _at(sign) + 1:
        return Part(Literal(_integer_of(f"{sign}{digits}", sign), position=_at(sign)))
    if sign.type == "PLUS":
        raise Fault(_at(sign), "a + in front of a number belongs to it: write it without a space")
    return _minus(sign, _integer(digits))


def _integer(digits: Token) -> Part:
    return Part(Literal(_integer_of(digits, digits), position=_at(digits)))


def _integer_of(text: str, token: Token) -> int:
    # Python refuses, or toils over, thousands of digits
    number = int(text) if len(text.lstrip("+-0")) <= 10 else 1 << 32
    if not is_integer(number):
        raise Fault(_at(token), "this integer does not fit into 32 bits with a sign")
    return number


def _string(text: Token) -> Part:
    return Part(Literal(_unquoted(text), position=_at(text)))


def _boolean(word: Token) -> Part:
    return Part(Literal(word.type == "TRUE", position=_at(word)))


def _attribute(name: Token) -> Part:
    return Part(Attribute(_name(name), position=_at(name)))


def _name(token: Token) -> str:
    if "_" in token:
        raise Fault(
            _at(token),
            f"{token} is no name of an attribute: CloudEvents has small letters and digits only",
        )
    return str(token)


def _unquoted(token: Token) -> str:
    """Return a text without the quotes around it. A backslash in front of such a quote makes it
    one of the text; any other stands for itself."""
    quote = token[0]
    return token[1:-1].replace(f"\\{quote}", quote)


def _at(token: Token) -> int:
    return token.start_pos or 0


ACTIONS: dict[str, Callable[..., Any]] = {
    "start": _start,
    "logic": _chain(Logic),
    "comparison": _comparison,
    "sum": _chain(Arithmetic),
    "product": _chain(Arithmetic),
    "in": _in,
    "like": _like,
    "not": _not,
    "minus": _minus,
    "exists": _exists,
    "call": _call,
    "group": _group,
    "signed": _signed,
    "integer": _integer,
    "string": _string,
    "boolean": _boolean,
    "attribute": _attribute,
}


def transformer() -> object:
    """Return the transformer for lark: an object with a method for each rule, which gets the
    children."""
    from lark import Transformer, v_args

    methods = {rule: staticmethod(action) for rule, action in ACTIONS.items()}
    return v_args(inline=True)(type("Actions", (Transformer,), methods))()

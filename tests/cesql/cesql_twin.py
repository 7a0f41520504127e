"""A slow, obvious evaluator of CESQL: the first problem is an exception, and each operator is
written as its section of the standard says. It shares nothing with the product's but the nodes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from math import trunc
from typing import Any

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
)


class Stop(Exception):
    """The first problem. `value`: what the function at fault returns all the same."""

    def __init__(self, kind: str, value: object = None) -> None:
        super().__init__(kind)
        self.kind = kind
        self.value = value


def result(node: Node, attributes: Mapping[str, Any]) -> tuple[object, str | None]:
    """Return the value and the kind of the error, or None."""
    try:
        return value_of(node, attributes), None
    except Stop as stop:
        whole = isinstance(node, Call) and _fails_itself(node, attributes)
        value = stop.value if whole and stop.value is not None else zero_of(node)
        return value, stop.kind


def _fails_itself(node: Call, attributes: Mapping[str, Any]) -> bool:
    """Return whether the arguments are evaluated without a problem."""
    try:
        for argument in node.arguments:
            value_of(argument, attributes)
    except Stop:
        return False
    return (node.function, len(node.arguments)) in FUNCTIONS


def zero_of(node: Node) -> object:
    """Return the zero value of a node's type; of a type that is not known: false."""
    if isinstance(node, Minus | Arithmetic):
        return 0
    if isinstance(node, Call) and (node.function, len(node.arguments)) in FUNCTIONS:
        return {str: "", int: 0, bool: False}[FUNCTIONS[node.function, len(node.arguments)][1]]
    return False


def string(value: object) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def integer(value: object) -> int:
    if isinstance(value, str):
        digits = value[1:] if value[:1] in ("+", "-") else value
        if not digits or any(each not in "0123456789" for each in digits):
            raise Stop("cast")
        value = int(digits) * (-1 if value[0] == "-" else 1)
        if not -(2**31) <= value < 2**31:
            raise Stop("cast")
    return int(value)  # type: ignore[call-overload]  # an int or a bool


def boolean(value: object) -> bool:
    if isinstance(value, str):
        if value.lower() not in ("true", "false"):
            raise Stop("cast")
        return value.lower() == "true"
    return bool(value)


CASTS: dict[type, Callable[[Any], Any]] = {
    str: string,
    int: integer,
    bool: boolean,
    object: lambda value: value,
}


def within(number: int) -> int:
    if not -(2**31) <= number < 2**31:
        raise Stop("math")
    return number


def liked(text: str, pattern: str) -> bool:
    """Return whether a text is like a pattern, in which two backslashes are one."""
    if not pattern:
        return not text
    if pattern[0] == "\\":
        return text[:1] == pattern[1] and liked(text[1:], pattern[2:])
    if pattern[0] == "%":
        return liked(text, pattern[1:]) or (text != "" and liked(text[1:], pattern))
    return text != "" and pattern[0] in ("_", text[0]) and liked(text[1:], pattern[1:])


def substring(text: str, position: int, length: int) -> str:
    if length < 0 or (position and abs(position) > len(text)):
        raise Stop("functionEvaluation", "")
    if position == 0:
        return ""
    characters = dict(enumerate(text, start=1 if position > 0 else -len(text)))
    chosen = (characters.get(at, "") for at in range(position, position + min(length, 99)))
    return "".join(
        chosen if position > 0 else [c for c, at in zip(chosen, range(position, 0), strict=False)]
    )


def part(text: str, count: int, *, left: bool) -> str:
    if count < 0:
        raise Stop("functionEvaluation", text)
    kept = [c for at, c in enumerate(text) if (at if left else len(text) - 1 - at) < count]
    return "".join(kept)


def absolute(number: int) -> int:
    if number == -(2**31):
        raise Stop("math", 2**31 - 1)
    return abs(number)


def castable(value: object, target: type) -> bool:
    try:
        CASTS[target](value)
    except Stop:
        return False
    return True


FUNCTIONS: dict[tuple[str, int], tuple[tuple[type, ...], type, Callable[..., Any]]] = {
    ("LENGTH", 1): ((str,), int, len),
    ("INT", 1): ((int,), int, int),
    ("BOOL", 1): ((bool,), bool, bool),
    ("STRING", 1): ((str,), str, str),
    ("IS_INT", 1): ((object,), bool, lambda value: castable(value, int)),
    ("IS_BOOL", 1): ((object,), bool, lambda value: castable(value, bool)),
    ("ABS", 1): ((int,), int, absolute),
    ("LOWER", 1): ((str,), str, str.lower),
    ("LEFT", 2): ((str, int), str, lambda text, count: part(text, count, left=True)),
    ("RIGHT", 2): ((str, int), str, lambda text, count: part(text, count, left=False)),
    ("SUBSTRING", 3): ((str, int, int), str, substring),
    ("CONCAT", 2): ((str, str), str, lambda a, b: a + b),
}


def value_of(node: Node, attributes: Mapping[str, Any]) -> Any:
    match node:
        case Literal(value):
            return value
        case Attribute(name):
            if name not in attributes:
                raise Stop("missingAttribute")
            return attributes[name]
        case Exists(name):
            return name in attributes or name in ("id", "source", "type", "specversion")
        case Call(name, arguments):
            values = [value_of(each, attributes) for each in _known(node).arguments]
            types, _, body = FUNCTIONS[name, len(arguments)]
            return body(*[CASTS[t](v) for v, t in zip(values, types, strict=True)])
        case _:
            return operated(node, lambda each: value_of(each, attributes))


def _known(node: Call) -> Call:
    if (node.function, len(node.arguments)) not in FUNCTIONS:
        raise Stop("missingFunction")
    return node


def operated(node: Node, of: Callable[[Node], Any]) -> Any:
    match node:
        case Not(operand):
            return not boolean(of(operand))
        case Minus(operand):
            return within(-integer(of(operand)))
        case Logic(_, steps) | Arithmetic(_, steps) if len(steps) > 1:
            return of(_grouped(node))
        case Logic(first, (step,)):
            left = boolean(of(first))
            if (step.operator, left) in (("AND", False), ("OR", True)):
                return left
            right = boolean(of(step.operand))
            return left != right if step.operator == "XOR" else right
        case Arithmetic(first, (step,)):
            left, right = of(first), of(step.operand)
            return computed(step.operator, integer(left), integer(right))
        case Comparison(operator, first, second):
            return compared(operator, of(first), of(second))
        case Like(operand, pattern, negated):
            return liked(string(of(operand)), pattern) != negated
        case In(operand, elements, negated):
            value = of(operand)
            return any(CASTS[type(value)](of(e)) == value for e in elements) != negated


def _grouped(node: Logic | Arithmetic) -> Node:
    """Return a chain of operators as one of two operands each, from left to right."""
    grouped = node.first
    for step in node.steps:
        grouped = type(node)(grouped, (step,))
    return grouped


def computed(operator: str, left: int, right: int) -> int:
    if operator in "/%" and right == 0:
        raise Stop("math")
    match operator:
        case "+":
            return within(left + right)
        case "-":
            return within(left - right)
        case "*":
            return within(left * right)
        case "/":
            return within(trunc(Fraction(left, right)))
        case _:
            return within(left - right * trunc(Fraction(left, right)))


def compared(operator: str, left: Any, right: Any) -> bool:
    if operator in ("=", "!="):
        return (CASTS[type(right)](left) == right) == (operator == "=")
    left, right = integer(left), integer(right)
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[
        operator
    ]

"""The evaluation of CESQL (CESQL 1.0, sections 3.2 to 3.7): the slow, obvious meaning of an
expression.

An evaluation has a value and problems. The standard knows two modes (section 4.1). In *fail-fast*
mode, the one for filters, evaluation ends at the first problem: each operator and function around
it returns the zero value of its type. In *complete* mode the others go on with the value that comes
with the problem, such as 0 for a failed cast to Integer; only what has a missing attribute for an
operand returns its zero value, as section 3.2 demands. Either way AND and OR do not evaluate what
cannot matter, and IN ends at the first element that is equal.

Functions here return None for "no value": a missing attribute, or a problem in fail-fast mode."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from reefcast.cesql.functions import Function, FunctionError, Functions
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
from reefcast.cesql.values import (
    NAMES,
    ZERO,
    Type,
    Value,
    attribute_value,
    cast,
    is_integer,
    matches,
    type_of,
)
from reefcast.words import counted

REQUIRED = frozenset({"id", "source", "specversion", "type"})
"""The attributes that every CloudEvent has: EXISTS is true of them (section 3.4.4)."""
_SHOWN = 60
"""Characters of a value that a message shows."""


class Problem(NamedTuple):
    """An error of an evaluation, not yet told to anybody."""

    kind: str
    message: str
    position: int


class Run:
    """One evaluation: `attributes` by name, the functions that may be called, the problems so
    far."""

    __slots__ = ("attributes", "complete", "functions", "problems")

    def __init__(
        self, attributes: Mapping[str, object], functions: Functions, complete: bool
    ) -> None:
        self.attributes = attributes
        self.functions = functions
        self.complete = complete
        self.problems: list[Problem] = []

    def add(self, kind: str, message: str, position: int) -> None:
        self.problems.append(Problem(kind, message, position))

    def ended(self) -> bool:
        """Return whether nothing more is evaluated."""
        return bool(self.problems) and not self.complete


def evaluate(node: Node, run: Run) -> Value | None:
    """Return the value of a node; None for a missing attribute. Problems are added to the run."""
    return _MEANING[type(node)](node, run)


def _operand(node: Node, target: Type, run: Run) -> Value | None:
    """Return the value of an operand, cast to the type that its operator takes; or None."""
    value = evaluate(node, run)
    if value is None or run.ended():
        return None
    return _cast(value, target, node.position, run)


def _cast(value: Value, target: Type, position: int, run: Run) -> Value | None:
    made = cast(value, target)
    if made is not None:
        return made
    run.add("cast", f"{_shown(value)} is no {NAMES[target]}; {_EXPECTED[target]}", position)
    return ZERO[target] if run.complete else None


_EXPECTED = {
    int: "'5' or '-5' would be, within 32 bits; IS_INT tells beforehand",
    bool: "'true' and 'false' are; IS_BOOL tells beforehand",
}


def _shown(value: Value) -> str:
    text = repr(value) if isinstance(value, str) else str(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


# --- attributes and literals ---------------------------------------------------------------------


def _literal(e: Literal, run: Run) -> Value:
    return e.value


def _attribute(e: Attribute, run: Run) -> Value | None:
    given = run.attributes.get(e.name) if _may_be(e.name) else None
    if given is None:
        run.add("missingAttribute", _missing(e.name), e.position)
        return None
    value = attribute_value(given)
    if value is None:
        run.add(
            "generic",
            f"the attribute {e.name} has a value of type {type(given).__name__}, which no "
            "attribute of a CloudEvent has: pass str, int, bool, bytes, or a datetime with a time "
            "zone",
            e.position,
        )
        return "" if run.complete else None
    return value


def _may_be(name: str) -> bool:
    """Return whether an attribute of a CloudEvent may have this name, which has letters and
    digits."""
    return name == name.lower()


def _missing(name: str) -> str:
    if not _may_be(name):
        return (
            f"the event has no attribute {name}: names of attributes have small letters and "
            f"digits only; write {name.lower()}"
        )
    return f"the event has no attribute {name}; guard it: EXISTS {name} AND ..."


def _exists(e: Exists, run: Run) -> bool:
    if e.name in REQUIRED:
        return True
    return _may_be(e.name) and run.attributes.get(e.name) is not None


# --- operators -----------------------------------------------------------------------------------


def _not(e: Not, run: Run) -> bool:
    value = _operand(e.operand, bool, run)
    return False if value is None else not value


def _minus(e: Minus, run: Run) -> int:
    value = _operand(e.operand, int, run)
    return 0 if value is None else _within_32_bits(-value, e.position, run)  # type: ignore[operator]  # it is an int


def _logic(e: Logic, run: Run) -> bool:
    value = _operand(e.first, bool, run)
    for step in e.steps:
        if run.ended():
            return False
        if value is not None and value is _DECIDED.get(step.operator):
            continue
        right = _operand(step.operand, bool, run)
        if value is None or right is None:
            value = False  # the zero value of the operator with the missing attribute
        elif step.operator == "XOR":
            value = value is not right
        else:
            value = right  # AND after true, OR after false
    return bool(value) and not run.ended()


_DECIDED = {"AND": False, "OR": True}
"""The left operand that makes the right one needless."""


def _arithmetic(e: Arithmetic, run: Run) -> int:
    value = evaluate(e.first, run)
    position = e.first.position
    for step in e.steps:
        left, right = _two(value, step.operand, position, run)
        if run.ended():
            return 0
        value = 0 if left is None or right is None else _computed(left, step, right, run)
        position = step.position
        if run.ended():
            return 0
    return int(value or 0)


def _two(
    left: Value | None, operand: Node, position: int, run: Run
) -> tuple[int | None, int | None]:
    """Return two operands as Integers, the left one having been evaluated; both are evaluated
    before one is cast."""
    if run.ended():
        return None, None
    right = evaluate(operand, run)
    if left is None or right is None or run.ended():
        return None, None
    first = _cast(left, int, position, run)
    second = None if first is None else _cast(right, int, operand.position, run)
    return (None, None) if first is None or second is None else (int(first), int(second))


def _computed(left: int, step: Step, right: int, run: Run) -> int:
    match step.operator:
        case "+":
            result = left + right
        case "-":
            result = left - right
        case "*":
            result = left * right
        case _ if right == 0:
            run.add("math", f"{left} {step.operator} 0: nothing is divided by 0", step.position)
            return 0
        case _:
            quotient = abs(left) // abs(right) * (1 if (left < 0) is (right < 0) else -1)
            result = quotient if step.operator == "/" else left - quotient * right
    return _within_32_bits(result, step.position, run)


def _within_32_bits(number: int, position: int, run: Run) -> int:
    if is_integer(number):
        return number
    run.add("math", f"the result {number} does not fit into 32 bits with a sign", position)
    return 0


def _comparison(e: Comparison, run: Run) -> bool:
    left: Value | None = evaluate(e.left, run)
    if e.operator not in ("=", "!="):
        one, other = _two(left, e.right, e.left.position, run)
        return False if one is None or other is None else _COMPARISONS[e.operator](one, other)
    right = None if run.ended() else evaluate(e.right, run)
    if left is None or right is None or run.ended():
        return False
    # The right operand says which of three operators it is (section 3.7).
    left = _cast(left, type_of(right), e.left.position, run)
    return False if left is None else _COMPARISONS[e.operator](left, right)


_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


def _like(e: Like, run: Run) -> bool:
    value = _operand(e.operand, str, run)
    return False if value is None else matches(str(value), e.pattern) is not e.negated


def _in(e: In, run: Run) -> bool:
    value = _operand(e.operand, object, run)
    target = object if value is None else type_of(value)
    failed = value is None
    for element in e.elements:
        if run.ended():
            return False
        other = _operand(element, target, run)
        if other is None:
            failed = True
        elif other == value and not failed:
            return not e.negated
    return False if failed else e.negated


def _call(e: Call, run: Run) -> Value:
    function = run.functions.find(e.function, len(e.arguments))
    if function is None:
        run.add("missingFunction", _unknown(e, run.functions), e.position)
        return False
    arguments = _arguments(e, function.types(len(e.arguments)), run)
    return ZERO[function.returns] if arguments is None else _called(e, function, arguments, run)


def _arguments(e: Call, types: tuple[Type, ...], run: Run) -> list[Value] | None:
    """Return the arguments, cast after all of them have been evaluated; None if there is no value
    for one."""
    values: list[Value | None] = []
    for argument in e.arguments:
        values.append(evaluate(argument, run))
        if run.ended():
            return None
    arguments: list[Value] = []
    for argument, value, target in zip(e.arguments, values, types, strict=True):
        made = None if value is None else _cast(value, target, argument.position, run)
        if run.ended():
            return None
        if made is not None:
            arguments.append(made)
    return arguments if len(arguments) == len(values) else None


def _called(e: Call, function: Function, arguments: list[Value], run: Run) -> Value:
    try:
        return function.call(arguments)
    except FunctionError as error:
        run.add(error.kind, f"{e.function}: {error}", e.position)
        given = error.value
        if given is None or type_of(given) is not function.returns:
            return ZERO[function.returns]
        return given


def _unknown(e: Call, functions: Functions) -> str:
    known = functions.named(e.function)
    count = len(e.arguments)
    if known:
        given = counted(count, "argument")
        return f"{e.function} is called with {given}; there is {' and '.join(known)}"
    return f"there is no function {e.function}; pass it as one of `functions`, or use another"


_MEANING: dict[type, Callable[[Any, Run], Value | None]] = {
    Literal: _literal,
    Attribute: _attribute,
    Exists: _exists,
    Not: _not,
    Minus: _minus,
    Logic: _logic,
    Arithmetic: _arithmetic,
    Comparison: _comparison,
    Like: _like,
    In: _in,
    Call: _call,
}

"""The nodes of a CESQL expression (CESQL 1.0, section 2).

Operators of one level that follow each other are one node with several operands, evaluated from
left to right: `a AND b OR c` is ((a AND b) OR c). So a long expression is not a deep one.
`position` is that of the first character in the text, or of the operator if there is one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from reefcast.cesql.values import Value


@dataclass(frozen=True, slots=True, kw_only=True)
class _Placed:
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Literal(_Placed):
    value: Value


@dataclass(frozen=True, slots=True)
class Attribute(_Placed):
    name: str


@dataclass(frozen=True, slots=True)
class Exists(_Placed):
    name: str


@dataclass(frozen=True, slots=True)
class Not(_Placed):
    operand: Node


@dataclass(frozen=True, slots=True)
class Minus(_Placed):
    operand: Node


@dataclass(frozen=True, slots=True)
class Step:
    """One more operand of a chain: `operator` in front of `operand`."""

    operator: str
    operand: Node
    position: int = field(default=0, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Logic(_Placed):
    """`first` and then steps with AND, OR and XOR, one at least."""

    first: Node
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Arithmetic(_Placed):
    """`first` and then steps with + and -, or with * / and %, one at least."""

    first: Node
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Comparison(_Placed):
    """`operator` is one of = != < <= > >=; <> is written as !=."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class Like(_Placed):
    """`pattern` as `values.like_pattern` returns it."""

    operand: Node
    pattern: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class In(_Placed):
    """`operand IN (elements)`, one element at least."""

    operand: Node
    elements: tuple[Node, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Call(_Placed):
    """`function` in capitals."""

    function: str
    arguments: tuple[Node, ...]


Node = (
    Literal | Attribute | Exists | Not | Minus | Logic | Arithmetic | Comparison | Like | In | Call
)


def children(node: Node) -> tuple[Node, ...]:
    """Return the operands of a node, from left to right."""
    match node:
        case Literal() | Attribute() | Exists():
            return ()
        case Logic(first, steps) | Arithmetic(first, steps):
            return (first, *(step.operand for step in steps))
        case Comparison(_, left, right):
            return (left, right)
        case In(operand, elements):
            return (operand, *elements)
        case Call(_, arguments):
            return arguments
        case Not(operand) | Minus(operand) | Like(operand):
            return (operand,)


def walk(node: Node) -> Iterator[Node]:
    """Yield a node and all below it, those further left first."""
    left = [node]
    while left:
        each = left.pop()
        yield each
        left += reversed(children(each))

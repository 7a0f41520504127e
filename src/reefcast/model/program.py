"""Programs: residual conditions as instructions for a small stack machine.

An index runs them (`matching.programs`) for conditions that no constraint expresses. A program
computes what `expression.evaluate` does, with NULL and UNKNOWN as one value; it holds if the value
left on the stack is TRUE. It is packed as a list of

- how many values are on the stack at once, at most;
- how many words the machine needs for it (`WORDS` for each instruction);
- the instructions, each its number and its operand in turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reefcast.model.constraint import (
    PRESENT,
    Constraint,
    Kind,
    Pattern,
    among,
    compared,
    intersect,
    is_empty,
    matching,
)
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

(
    PUSH_VALUE,  # the event's value of the attribute that the operand names
    PUSH_CONSTANT,  # the operand
    TEST,  # whether an attribute satisfies a constraint; operand: both
    WITHIN,  # the same of the value on top; operand: the constraint
    ADD,
    SUBTRACT,
    MULTIPLY,
    DIVIDE,
    NEGATE,  # the number on top
    COMPARE,  # the two values on top; operand: orders that are TRUE (LESS, EQUAL, GREATER)
    IS_NULL,
    NOT,
    AND,
    OR,
    SKIP_FALSE,  # goes on at the word of the operand if the value on top is FALSE
    SKIP_TRUE,
) = range(16)

LESS, EQUAL, GREATER = 1, 2, 4

VALUE_WORDS = 8
WORDS = {PUSH_CONSTANT: 1 + VALUE_WORDS, TEST: 3, WITHIN: 3}
"""Words of an instruction; 1 for all others."""

Program = tuple[int, int, list[Any]]

_ORDERS = {
    "<": LESS,
    "=": EQUAL,
    ">": GREATER,
    "<=": LESS | EQUAL,
    ">=": GREATER | EQUAL,
    "<>": LESS | GREATER,
}
_FLIPPED = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_ARITHMETIC = {"+": ADD, "-": SUBTRACT, "*": MULTIPLY, "/": DIVIDE}


def program_of(conditions: Sequence[Expression]) -> Program | None:
    """Return the program that holds if all the conditions do; None for no condition."""
    if not conditions:
        return None
    writer = _Writer()
    writer.all_of(conditions)
    return writer.deepest, writer.words, writer.code


# --- what a condition demands of single attributes -----------------------------------------------

_NUMBER = Constraint(kind=Kind.NUMBER)


def follows_from(conditions: Sequence[Expression]) -> dict[str, Constraint]:
    """Return what follows for single attributes if the conditions are TRUE: those that are compared
    are there, and those that are calculated with are numbers. So events without them need not be
    looked at."""
    found: dict[str, Constraint] = {}
    for condition in conditions:
        for name, constraint in _follows(condition):
            if constraint is _NUMBER or name not in found:
                found[name] = constraint
    return found


def demanded(
    constraints: Mapping[str, Constraint], follows: Mapping[str, Constraint]
) -> dict[str, Constraint]:
    """Return the constraints, together with what follows from conditions."""
    found = {**follows, **constraints}
    for name in follows.keys() & constraints.keys():
        both = intersect(constraints[name], follows[name])
        if not is_empty(both):  # else the condition is never TRUE
            found[name] = both
    return dict(sorted(found.items()))


def _follows(condition: Expression) -> list[tuple[str, Constraint]]:
    sides: tuple[Expression, ...]
    match condition:
        case And(terms):
            return [each for term in terms for each in _follows(term)]
        case Comparison(_, left, right):
            sides = (left, right)
        case In() | Like() | Matches():
            sides = (condition.operand,)
        case _:
            return []
    calculated = any(isinstance(side, Arithmetic | Minus) for side in sides)
    of_names = _NUMBER if calculated else PRESENT
    found = [(side.name, of_names) for side in sides if isinstance(side, Attribute)]
    sums = (side for side in sides if isinstance(side, Arithmetic | Minus))
    return found + [(name, _NUMBER) for each in sums for name in _numbers(each)]


def _numbers(calculated: Expression) -> frozenset[str]:
    """Return the attributes without which the result is missing."""
    match calculated:
        case Attribute(name):
            return frozenset((name,))
        case Arithmetic(_, left, right):
            return _numbers(left) | _numbers(right)
        case Minus(operand):
            return _numbers(operand)
        case _:
            return frozenset()


# --- writing -------------------------------------------------------------------------------------


class _Writer:
    """Writes instructions; `depth` is the number of values on the stack after the last one."""

    def __init__(self) -> None:
        self.code: list[Any] = []
        self.words = 0
        self.depth = 0
        self.deepest = 0

    def _write(self, number: int, operand: Any = None, pushed: int = 0) -> None:
        self.code += (number, operand)
        self.words += WORDS.get(number, 1)
        self.depth += pushed
        self.deepest = max(self.deepest, self.depth)

    def all_of(self, conditions: Sequence[Expression]) -> None:
        self._chain(conditions, AND, SKIP_FALSE)

    def _chain(self, terms: Sequence[Expression], joint: int, skip: int) -> None:
        """Skip what follows a term that decides, unless that is a single test; the skips learn
        where to when it is known."""
        self.value(terms[0])
        skips = []
        for term in terms[1:]:
            start = len(self.code)
            self._write(skip)
            self.value(term)
            if len(self.code) == start + 4 and self.code[start + 2] == TEST:
                del self.code[start : start + 2]
                self.words -= 1
            else:
                skips.append(start + 1)
            self._write(joint, pushed=-1)
        for place in skips:
            self.code[place] = self.words

    def value(self, expression: Expression) -> None:
        """Leave the value of the expression on the stack."""
        match expression:
            case Attribute(name):
                self._write(PUSH_VALUE, name, 1)
            case Literal(value):
                self._write(PUSH_CONSTANT, value, 1)
            case Arithmetic(sign, left, right):
                self.value(left)
                self.value(right)
                self._write(_ARITHMETIC[sign], pushed=-1)
            case Minus(operand):
                self.value(operand)
                self._write(NEGATE)
            case Comparison():
                self._comparison(expression)
            case And(terms):
                self.all_of(terms)
            case Or(terms):
                self._chain(terms, OR, SKIP_TRUE)
            case Not(operand):
                self.value(operand)
                self._write(NOT)
            case IsNull(operand, negated):
                self.value(operand)
                self._write(IS_NULL)
                self._negate(negated)
            case In(operand, values, negated):
                self._within(operand, among(value.value for value in values))
                self._negate(negated)
            case Like(operand, text, escape, negated):
                self._within(operand, matching(Pattern("LIKE", text, escape)))
                self._negate(negated)
            case Matches(operand, text):
                self._within(operand, matching(Pattern("MATCHES", text)))

    def _negate(self, negated: bool) -> None:
        if negated:
            self._write(NOT)

    def _comparison(self, comparison: Comparison) -> None:
        sign, left, right = comparison.operator, comparison.left, comparison.right
        if isinstance(left, Literal):
            sign, left, right = _FLIPPED[sign], right, left
        if isinstance(left, Attribute) and isinstance(right, Literal):
            constraint = compared(sign, right.value)
            if constraint.kind is not None:  # an empty one does not say what it would compare
                self._within(left, constraint)
                return
        self.value(left)
        self.value(right)
        self._write(COMPARE, _ORDERS[sign], -1)

    def _within(self, operand: Expression, constraint: Constraint) -> None:
        """Compare a value with a constraint; the result for a value of another kind is UNKNOWN."""
        if isinstance(operand, Attribute):
            self._write(TEST, (operand.name, constraint), 1)
        else:
            self.value(operand)
            self._write(WITHIN, constraint)

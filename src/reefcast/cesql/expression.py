"""Expressions of CESQL as programs use them: parsed once, evaluated for many events."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from reefcast.cesql import evaluation
from reefcast.cesql.evaluation import Problem, Run
from reefcast.cesql.functions import STANDARD, Function, Functions
from reefcast.cesql.nodes import Node
from reefcast.cesql.reading import error_at, read
from reefcast.cesql.values import Value, cast
from reefcast.errors import CesqlError

LATEST = 1 << 10
"""How many expressions are kept parsed: the latest that were asked for."""
LONG = 1 << 10
"""Characters of an expression that is not kept."""

Attributes = Mapping[str, object]


class Expression:
    """A parsed expression of CESQL 1.0; get it from `parse`. Two with the same text are equal."""

    __slots__ = ("root", "text")

    def __init__(self, text: str, root: Node) -> None:
        self.text = text
        self.root = root

    def evaluate(
        self, attributes: Attributes, functions: Iterable[Function] | Functions = ()
    ) -> tuple[Value, CesqlError | None]:
        """Return the value for an event with these attributes, and the error that ended the
        evaluation, or None.

        This is the fail-fast mode of the standard (section 4.1). A value that is None is a missing
        attribute. With an error the value is what the operator or function at fault returns if it
        is the whole expression (`LEFT('abc', -1)` is 'abc'), else the zero value of the
        expression's type. Raises `LocalError` if two functions cannot be told apart."""
        value, problems = self._run(attributes, functions, complete=False)
        return value, self._error(problems[0]) if problems else None

    def evaluate_completely(
        self, attributes: Attributes, functions: Iterable[Function] | Functions = ()
    ) -> tuple[Value, tuple[CesqlError, ...]]:
        """Return the value and all errors, as the standard's complete evaluation mode does: what is
        around an error goes on with the value that came with it."""
        value, problems = self._run(attributes, functions, complete=True)
        return value, tuple(map(self._error, problems))

    def matches(
        self, attributes: Attributes, functions: Iterable[Function] | Functions = ()
    ) -> bool:
        """Return whether an event passes the expression as a filter: it evaluates without an error
        to true, or to what is true when it is cast to Boolean (CloudEvents Subscriptions API,
        section 3.2.4.1.2)."""
        value, problems = self._run(attributes, functions, complete=False)
        return not problems and cast(value, bool) is True

    def _run(
        self, attributes: Attributes, functions: Iterable[Function] | Functions, *, complete: bool
    ) -> tuple[Value, list[Problem]]:
        run = Run(attributes, _prepared(functions), complete)
        value = evaluation.evaluate(self.root, run)
        return False if value is None else value, run.problems

    def _error(self, problem: Problem) -> CesqlError:
        return error_at(self.text, problem.position, problem.kind, problem.message)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Expression) and self.text == other.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return f"Expression({self.text!r})"


def _prepared(functions: Iterable[Function] | Functions) -> Functions:
    if functions == ():
        return STANDARD
    return functions if isinstance(functions, Functions) else Functions(functions)


def parse(text: str) -> Expression:
    """Return the expression of CESQL 1.0 that `text` says. Raises `CesqlError`, with kind parse and
    the place, also for a text that is too long or nested too deeply."""
    return _latest(text) if len(text) <= LONG else Expression(text, read(text))


@lru_cache(maxsize=LATEST)
def _latest(text: str) -> Expression:
    return Expression(text, read(text))


def evaluate(
    text: str, attributes: Attributes, functions: Iterable[Function] | Functions = ()
) -> tuple[Value, CesqlError | None]:
    """Return the value of an expression for an event with these attributes, and the error, or None:
    `Expression.evaluate`. A text that cannot be parsed has the value False, and an error with kind
    parse."""
    try:
        expression = parse(text)
    except CesqlError as error:
        return False, error
    return expression.evaluate(attributes, functions)

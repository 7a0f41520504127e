"""Residual conditions of a batch, decided column by column.

The kernel leaves pairs of a row and a filter open where only the filter's residuals are left to
decide. Filters share a few of them (`dep_delay > arr_delay + 10`), so each is evaluated once, for
all rows for which some filter asks: numbers in numpy, where that is exact, the rest row by row by
`expression.evaluate`, which is the twin.

Exact: integers stay int64, and a bound on their size, taken from the values that there are, says
whether a result may leave int64, or a comparison with a float may need more than its 53 bits. Then
numpy does not do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from reefcast.matching.columns import Columns, row_of
from reefcast.matching.machine import Array
from reefcast.model.expression import (
    Arithmetic,
    Attribute,
    Comparison,
    Expression,
    Literal,
    Minus,
    evaluate,
)
from reefcast.model.filters import Filter
from reefcast.model.publication import INT64_MAX

EXACT_IN_FLOAT = 2**53
FEWEST_ROWS = 8
"""For fewer, Python is quicker."""


class _Numbers(NamedTuple):
    """int64 or float64 `values`, of which those `known` count. `bound`: no integer is larger, minus
    its sign; None for floats."""

    values: Array
    known: Array
    bound: int | None


class _InexactError(Exception):
    """Numpy does not do."""


def decide(
    found: Array, offsets: Array, columns: Columns, filters: Mapping[int, Filter]
) -> tuple[Array, Array]:
    """Handles and offsets of what holds. `found`: as the kernel wrote it, -1 - handle for what is
    open, which may stand there again, open or not, if the filter has several conjunctions;
    `filters`: by handle."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    holds = found >= 0
    opened = np.flatnonzero(~holds)
    handles = np.where(holds, found, -1 - found)
    batch = _Batch(columns)
    for asked, places in _grouped(handles[opened], filters):
        holds[opened[places]] = batch.truths(asked, rows[opened[places]])
    several = [handle for handle in set(handles[opened].tolist()) if _is_several(filters[handle])]
    if several:
        holds &= ~_repeated(rows, handles, holds & np.isin(handles, several))
    counts = np.bincount(rows[holds], minlength=len(offsets) - 1)
    return handles[holds], np.concatenate(([0], np.cumsum(counts)))


def _is_several(filter: Filter) -> bool:
    return len(filter.conjunctions) > 1


def _grouped(
    handles: Array, filters: Mapping[int, Filter]
) -> list[tuple[tuple[Expression, ...], Array]]:
    """The conditions that are asked for, each list of them once, and for which of the handles."""
    distinct, inverse = np.unique(handles, return_inverse=True)
    numbers: dict[int, int] = {}
    asked: list[tuple[Expression, ...]] = []
    number_of = np.empty(len(distinct), np.int64)
    for i, handle in enumerate(distinct.tolist()):
        filter = filters[handle]
        several = _is_several(filter)
        conditions = (filter.expression,) if several else filter.conjunctions[0].residuals
        number = numbers.setdefault(id(filter if several else conditions), len(asked))
        if number == len(asked):
            asked.append(conditions)
        number_of[i] = number
    number_of_place = number_of[inverse]
    order = np.argsort(number_of_place, kind="stable")
    ends = np.cumsum(np.bincount(number_of_place, minlength=len(asked)))
    return list(zip(asked, np.split(order, ends[:-1]), strict=True))


def _repeated(rows: Array, handles: Array, among: Array) -> Array:
    """Of the places `among`, which say again what an earlier one says."""
    places = np.flatnonzero(among)
    pairs = rows[places] * (int(handles.max()) + 1) + handles[places]
    again = np.zeros(len(rows), bool)
    again[places] = True
    again[places[np.unique(pairs, return_index=True)[1]]] = False
    return again


class _Batch:
    """The columns of a batch, as numbers once they are asked for."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._numbers: dict[str, _Numbers] = {}

    def truths(self, conditions: Sequence[Expression], rows: Array) -> Array:
        """Whether all of them are TRUE for each of the rows."""
        if len(rows) < FEWEST_ROWS:
            return self._row_by_row(conditions, rows)
        truths = np.ones(len(rows), bool)
        for condition in conditions:
            try:
                truths &= self._truths(condition, rows)
            except _InexactError:
                return self._row_by_row(conditions, rows)
        return truths

    def _row_by_row(self, conditions: Sequence[Expression], rows: Array) -> Array:
        events = (row_of(self._columns, row) for row in rows.tolist())
        return np.array(
            [all(evaluate(each, event) is True for each in conditions) for event in events], bool
        )

    def _truths(self, condition: Expression, rows: Array) -> Array:
        if not isinstance(condition, Comparison):
            raise _InexactError
        left, right = self._value(condition.left, rows), self._value(condition.right, rows)
        if (left.bound is None) is not (right.bound is None):
            left, right = _as_floats(left), _as_floats(right)
        return left.known & right.known & _compared(condition.operator, left.values, right.values)

    def _value(self, expression: Expression, rows: Array) -> _Numbers:
        match expression:
            case Attribute(name):
                values, known, bound = self._column(name)
                return _Numbers(values[rows], known[rows], bound)
            case Literal(value) if type(value) in (int, float):
                return _literal(value, len(rows))
            case Minus(operand):
                values, known, bound = self._value(operand, rows)
                return _Numbers(-values, known, bound)
            case Arithmetic(sign, left, right):
                return _calculated(sign, self._value(left, rows), self._value(right, rows))
            case _:
                raise _InexactError

    def _column(self, name: str) -> _Numbers:
        if name not in self._numbers:
            self._numbers[name] = self._read(name)
        return self._numbers[name]

    def _read(self, name: str) -> _Numbers:
        """Only of numbers: others would have to be compared among each other."""
        if name not in self._columns.names:
            raise _InexactError
        column = self._columns.keep[self._columns.names.index(name)]
        known = np.ones(len(column), bool)
        if not isinstance(column, np.ndarray):
            known = column.is_valid().to_numpy(zero_copy_only=False)
            column = column.fill_null(0).to_numpy(zero_copy_only=False) if known.any() else known
        if column.dtype not in (np.dtype(np.int64), np.dtype(float)):
            raise _InexactError
        return _Numbers(column, known, _bound(column))


def _bound(values: Array) -> int | None:
    if values.dtype != np.int64:
        return None
    return max(abs(int(values.max())), abs(int(values.min()))) if len(values) else 0


def _literal(value: Any, count: int) -> _Numbers:
    kind: Any = np.int64 if isinstance(value, int) else float
    bound = abs(value) if isinstance(value, int) else None
    return _Numbers(np.full(count, value, kind), np.ones(count, bool), bound)


def _as_floats(numbers: _Numbers) -> _Numbers:
    if numbers.bound is None:
        return numbers
    if numbers.bound > EXACT_IN_FLOAT:
        raise _InexactError
    return _Numbers(numbers.values.astype(float), numbers.known, None)


_SIGNS: dict[str, Callable[[Any, Any], Any]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
}


def _calculated(sign: str, left: _Numbers, right: _Numbers) -> _Numbers:
    """As `expression.evaluate` does, and IEEE 754."""
    known = left.known & right.known
    with np.errstate(all="ignore"):
        if sign == "/":
            divisor = right.values.astype(float)
            return _Numbers(left.values.astype(float) / divisor, known & (divisor != 0), None)
        if left.bound is None or right.bound is None:
            values = _SIGNS[sign](left.values.astype(float), right.values.astype(float))
            return _Numbers(values, known, None)
    bound = left.bound * right.bound if sign == "*" else left.bound + right.bound
    if bound > INT64_MAX:
        raise _InexactError
    return _Numbers(_SIGNS[sign](left.values, right.values), known, bound)


def _compared(sign: str, left: Array, right: Array) -> Array:
    """NaN equals itself and exceeds all numbers."""
    equal, less, more = left == right, left < right, left > right
    if left.dtype == float:
        no_left, no_right = np.isnan(left), np.isnan(right)
        equal |= no_left & no_right
        less |= no_right & ~no_left
        more |= no_left & ~no_right
    return {
        "=": equal,
        "<>": less | more,
        "<": less,
        "<=": less | equal,
        ">": more,
        ">=": more | equal,
    }[sign]

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
from functools import lru_cache
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
    attributes_of,
    evaluate,
)
from reefcast.model.filters import Filter, has_residuals
from reefcast.model.publication import INT64_MAX

EXACT_IN_FLOAT = 2**53
FEWEST_ROWS = 8
"""For fewer, Python is quicker."""


class _Numbers(NamedTuple):
    """int64 or float64 `values`, of which those `known` count. `bound`: no integer is larger, its
    sign left aside; None for floats."""

    values: Array
    known: Array
    bound: int | None


class _InexactError(Exception):
    """Numpy does not do."""


class Open(NamedTuple):
    """What is left to decide about a filter: whether all `conditions` are TRUE. With `several`
    conjunctions the kernel may find the filter again, open or not."""

    conditions: tuple[Expression, ...]
    several: bool


def open_of(filter: Filter) -> Open | None:
    """None if the kernel decides alone; for equal conditions the same object, as a rule."""
    if not has_residuals(filter):
        return None
    several = len(filter.conjunctions) > 1
    return _kept((filter.expression,) if several else filter.conjunctions[0].residuals, several)


@lru_cache(maxsize=1 << 16)
def _kept(conditions: tuple[Expression, ...], several: bool) -> Open:
    return Open(conditions, several)


def decide(
    found: Array, offsets: Array, columns: Columns, left_open: Mapping[int, Open]
) -> tuple[Array, Array]:
    """Handles and offsets of what holds. `found`: as the kernel wrote it, -1 - handle for what is
    open; `left_open`: by handle."""
    rows = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    holds = found >= 0
    opened = np.flatnonzero(~holds)
    handles = np.where(holds, found, -1 - found)
    distinct, inverse = np.unique(handles[opened], return_inverse=True)
    asked = [left_open[handle] for handle in distinct.tolist()]
    batch = _Batch(columns)
    for each, places in _grouped(asked, inverse):
        holds[opened[places]] = batch.truths(each.conditions, rows[opened[places]])
    several = [handle for handle, each in zip(distinct, asked, strict=True) if each.several]
    if several:
        holds &= ~_repeated(rows, handles, holds & np.isin(handles, several))
    counts = np.bincount(rows[holds], minlength=len(offsets) - 1)
    return handles[holds], np.concatenate(([0], np.cumsum(counts)))


def _grouped(asked: Sequence[Open], inverse: Array) -> list[tuple[Open, Array]]:
    """Each condition once, with its places; `inverse`: which of `asked`, by place."""
    numbers: dict[int, int] = {}
    number_of = np.array([numbers.setdefault(id(each), len(numbers)) for each in asked], np.int64)
    each_once = {id(each): each for each in asked}
    number_of_place = number_of[inverse]
    order = np.argsort(number_of_place, kind="stable")
    ends = np.cumsum(np.bincount(number_of_place, minlength=len(numbers)))
    parts = np.split(order, ends[:-1])
    return list(zip((each_once[identity] for identity in numbers), parts, strict=True))


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
        columns = self._only(conditions)
        events = (row_of(columns, row) for row in rows.tolist())
        return np.array(
            [all(evaluate(each, event) is True for each in conditions) for event in events], bool
        )

    def _only(self, conditions: Sequence[Expression]) -> Columns:
        """The columns that they look at."""
        wanted = frozenset().union(*map(attributes_of, conditions))
        pairs = zip(self._columns.names, self._columns.keep, strict=True)
        kept = [(name, column) for name, column in pairs if name in wanted]
        return self._columns._replace(
            names=[name for name, _ in kept], keep=[column for _, column in kept]
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
                if bound is not None and bound > INT64_MAX:
                    raise _InexactError
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
            return _unknown(self._columns.rows)
        column = self._columns.keep[self._columns.names.index(name)]
        known = np.ones(len(column), bool)
        if not isinstance(column, np.ndarray):
            known = column.is_valid().to_numpy(zero_copy_only=False)
            if not known.any():
                return _unknown(len(column))
            if str(column.type) not in ("int64", "double"):
                raise _InexactError
            column = column.fill_null(0).to_numpy(zero_copy_only=False)
        if column.dtype == bool:
            raise _InexactError
        return _Numbers(column, known, _bound(column))


def _unknown(count: int) -> _Numbers:
    return _Numbers(np.zeros(count, np.int64), np.zeros(count, bool), 0)


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
    answer: Array = {
        "=": equal,
        "<>": less | more,
        "<": less,
        "<=": less | equal,
        ">": more,
        ">=": more | equal,
    }[sign]
    return answer

"""The baseline: all bounds in columns of numpy, compared with the query's, one column at a time.

What an engineer with an afternoon would write, and do well: the columns are tried in turn, and only
on the rows that the earlier ones left. It takes closed intervals and symbols only, and no changes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from reefcast.model.filters import Filter

Array = npt.NDArray[Any]


class Columns:
    """`lows` and `highs`, by attribute: a bound for each filter; an attribute that a filter does
    not constrain lies between the infinities. A symbol is a number, its own bound twice."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._codes: dict[str, float] = {}
        rows = [self._bounds(filter) for filter in filters]
        self._names = sorted({name for row in rows for name in row})
        endless = (-np.inf, np.inf)
        self._lows = [np.array([r.get(name, endless)[0] for r in rows]) for name in self._names]
        self._highs = [np.array([r.get(name, endless)[1] for r in rows]) for name in self._names]
        # The most selective first: a column of symbols, then the one with the narrowest intervals.
        widths = [float(np.mean(h - low)) for low, h in zip(self._lows, self._highs, strict=True)]
        self._order = np.argsort(widths).tolist()

    def memory_bytes(self) -> int:
        return sum(column.nbytes for column in (*self._lows, *self._highs))

    def _bounds(self, filter: Filter) -> dict[str, tuple[float, float]]:
        (conjunction,) = filter.conjunctions
        bounds = {}
        for name, c in conjunction.constraints.items():
            if c.members is not None:
                code = self._codes.setdefault(str(c.members[0]), float(len(self._codes)))
                bounds[name] = (code, code)
            else:
                bounds[name] = (float(c.low or 0.0), float(c.high or 0.0))
        return bounds

    def ask(self, question: str, filter: Filter) -> list[int]:
        """Return the numbers of the filters that answer one of the four questions of
        `CoverIndex`."""
        bounds = self._bounds(filter)
        rows: Array | None = None
        for k in self._order:
            low, high = bounds.get(self._names[k], (-np.inf, np.inf))
            lows, highs = self._lows[k], self._highs[k]
            if rows is not None:
                lows, highs = lows[rows], highs[rows]
            kept = np.flatnonzero(_holds(question, lows, highs, low, high))
            rows = kept if rows is None else rows[kept]
            if not len(rows):
                break
        found: list[int] = [] if rows is None else rows.tolist()
        return found


def _holds(question: str, lows: Array, highs: Array, low: float, high: float) -> Any:
    if question == "covering":
        return (lows <= low) & (highs >= high)
    if question == "covered":
        return (lows >= low) & (highs <= high)
    if question == "equal":
        return (lows == low) & (highs == high)
    return (lows <= high) & (highs >= low)

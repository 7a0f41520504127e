"""Filters as columns: what the baselines are built from, and what filters are made from.

A table is a list of rows, each a conjunction. For a number a row has a closed interval, for a
string the strings it may be; both may be wanting. Events are columns too. A million filters would
take minutes to parse and gigabytes to keep, so they are made row by row, without the parser.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from reefcast.model.constraint import Constraint, Kind
from reefcast.model.expression import literal_to_sql
from reefcast.model.filters import Conjunction, Filter, pack
from reefcast.model.publication import Publication

if TYPE_CHECKING:
    import pyarrow as pa

Array = npt.NDArray[Any]
BATCH = 256
"""Events of one batch."""


class RowFilter(Filter):
    """A filter of a table's row: normal form and text, but no expression, for indexes need none."""

    __slots__ = ()

    def __init__(self, text: str, constraints: Mapping[str, Constraint]) -> None:
        self.text = text
        self._conjunctions = (Conjunction(constraints),)
        self._packed = pack(self.conjunctions)


@dataclass(frozen=True)
class Table:
    """`low`, `high`: float64 (rows,) for each numeric attribute, both infinite where a row says
    nothing. `members`: int32 (rows, most strings of a row) for each string attribute, distinct
    codes ascending and -1 behind them; only -1 where a row says nothing. A code is a place in the
    attribute's `vocabulary`, which ascends. `integers`: numeric attributes whose values are int64.
    """

    low: Mapping[str, Array]
    high: Mapping[str, Array]
    members: Mapping[str, Array]
    vocabulary: Mapping[str, list[str]]
    integers: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(next(iter({**self.low, **self.members}.values())))

    @cached_property
    def attributes(self) -> tuple[str, ...]:
        """The names of all attributes that some row may constrain."""
        return (*self.low, *self.members)

    def filters(self, start: int, stop: int) -> Iterator[Filter]:
        """Yield the filters of the rows from `start` up to `stop`, as a parser would have made
        them."""
        rows: list[dict[str, Constraint]] = [{} for _ in range(start, stop)]
        for name in sorted(self.attributes):
            column = self._intervals if name in self.low else self._sets
            for row, constraint in zip(rows, column(name, start, stop), strict=True):
                if constraint is not None:
                    row[name] = constraint
        return (RowFilter(f"row {start + i}", row) for i, row in enumerate(rows))

    def _intervals(self, name: str, start: int, stop: int) -> Iterator[Constraint | None]:
        number = int if name in self.integers else float
        pairs = zip(
            self.low[name][start:stop].tolist(), self.high[name][start:stop].tolist(), strict=True
        )
        for low, high in pairs:
            if low == high:
                yield Constraint(kind=Kind.NUMBER, members=(number(low),))
            elif low == -np.inf and high == np.inf:
                yield None
            else:
                yield Constraint(
                    kind=Kind.NUMBER,
                    low=None if low == -np.inf else number(low),
                    high=None if high == np.inf else number(high),
                )

    def _sets(self, name: str, start: int, stop: int) -> Iterator[Constraint | None]:
        words = self.vocabulary[name]
        for codes in self.members[name][start:stop].tolist():
            members = tuple(words[code] for code in codes if code >= 0)
            yield Constraint(kind=Kind.STRING, members=members) if members else None

    def text(self, row: int) -> str:
        """Return the row in the filter language."""
        (filter,) = self.filters(row, row + 1)
        constraints = filter.conjunctions[0].constraints
        return " AND ".join(_terms(constraints)) or "TRUE"


def _terms(constraints: Mapping[str, Constraint]) -> Iterator[str]:
    for name, c in constraints.items():
        if c.members is not None:
            yield f"{name} IN ({', '.join(map(literal_to_sql, c.members))})"
        if c.low is not None:
            yield f"{name} >= {literal_to_sql(c.low)}"
        if c.high is not None:
            yield f"{name} <= {literal_to_sql(c.high)}"


@dataclass(frozen=True)
class Events:
    """`columns`: float64, int64 or, for strings, lists of str, all of one length. Every event has
    every attribute."""

    columns: Mapping[str, Array | list[str]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    @cached_property
    def publications(self) -> list[Publication]:
        """The events decoded, as a broker has them."""
        columns: list[Any] = [
            column if isinstance(column, list) else column.tolist()
            for column in self.columns.values()
        ]
        return [
            Publication("bench", seq, 0, dict(zip(self.columns, values, strict=True)))
            for seq, values in enumerate(zip(*columns, strict=True), 1)
        ]

    @cached_property
    def batches(self) -> list[dict[str, Array | pa.Array]]:
        """The events `BATCH` at a time, as columns: numpy arrays, and Arrow arrays of strings."""
        import pyarrow as pa

        return [
            {
                name: pa.array(column[start : start + BATCH])
                if isinstance(column, list)
                else column[start : start + BATCH]
                for name, column in self.columns.items()
            }
            for start in range(0, len(self), BATCH)
        ]


def matches(table: Table, events: Events) -> Array:
    """Return bool (events, rows), by comparing all with all; for calibration, on small tables."""
    held = np.ones((len(events), len(table)), bool)
    for name in table.low:
        values = np.asarray(events.columns[name], np.float64)[:, None]
        held &= (table.low[name] <= values) & (values <= table.high[name])
    for name, members in table.members.items():
        code_of = {word: code for code, word in enumerate(table.vocabulary[name])}
        codes = np.array([code_of.get(str(word), -2) for word in events.columns[name]])
        takes = np.tile(members[:, 0] < 0, (len(events), 1))
        for each in members.T:
            takes |= each == codes[:, None]
        held &= takes
    return held

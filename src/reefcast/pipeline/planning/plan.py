"""The result of every plan: a table, and figures to compare it with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

Row = Mapping[str, Any]


class Plan(NamedTuple):
    """`rows`: the plan, each with the columns of `schema` (Spark's DDL); `figures`: what it comes
    to, and others to compare it with, by their names in words."""

    schema: str
    rows: Sequence[Row]
    figures: Mapping[str, float]

    @property
    def columns(self) -> list[str]:
        return [column.split()[0] for column in self.schema.split(", ")]


def write_table(plan: Plan, file: Path) -> None:
    """Write the rows as one Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    types = {"STRING": pa.string(), "BIGINT": pa.int64(), "DOUBLE": pa.float64()}
    types |= {"BOOLEAN": pa.bool_()}
    named = (column.split() for column in plan.schema.split(", "))
    schema = pa.schema([(name, types[type]) for name, type in named])
    pq.write_table(pa.Table.from_pylist([dict(row) for row in plan.rows], schema), file)

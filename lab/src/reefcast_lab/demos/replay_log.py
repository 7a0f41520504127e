"""What client programs write down, as Parquet, one file each: the ground on which the check stands.

publications: publisher, seq, event, published_us. deliveries: subscription, publisher, seq,
received_us; one row for each event and subscription. Times are microseconds UTC.
"""

from __future__ import annotations

from pathlib import Path

PUBLICATIONS = {
    "publisher": "string",
    "seq": "int64",
    "event": "int64",
    "published_us": "int64",
}
DELIVERIES = {
    "subscription": "int64",
    "publisher": "string",
    "seq": "int64",
    "received_us": "int64",
}


class Log:
    """Rows in columns; `columns` are PUBLICATIONS or DELIVERIES."""

    def __init__(self, columns: dict[str, str]) -> None:
        self._types = columns
        self._columns: list[list[object]] = [[] for _ in columns]

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, *values: object) -> None:
        """Add one row: the values of the columns in their order."""
        for column, value in zip(self._columns, values, strict=True):
            column.append(value)

    def write(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = pa.schema([(name, getattr(pa, kind)()) for name, kind in self._types.items()])
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(self._columns, schema=schema), path)


_SQL_TYPES = {"int64": "BIGINT", "string": "STRING"}


def sql_columns(columns: dict[str, str]) -> str:
    """Return the columns as Spark reads them, in its SQL."""
    return ", ".join(f"{name} {_SQL_TYPES[kind]}" for name, kind in columns.items())

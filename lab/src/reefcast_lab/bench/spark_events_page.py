"""The figures of docs/reference/spark-connector.md: rows through the connector, beside Parquet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reefcast_lab.bench.page_tables import markdown, short
from reefcast_lab.bench.spark_events import EventsTiming

FIGURES = "figures of the connector"
_TITLES = (
    *("way", "rows", "MB", "s", "s of CPU", "rows/s", "rows/s of CPU", "CPU to that of Parquet"),
    *("rows/s of a task's CPU", "Python's share"),
)


def figures(rows: Sequence[EventsTiming]) -> str:
    """Return a table with a line for each row."""
    return markdown(_TITLES, list(_lines(rows)))


def _lines(rows: Sequence[EventsTiming]) -> Iterator[Sequence[str]]:
    for row in rows:
        share = "" if row.python is None else f"{row.python:.0%}"
        figures = (
            *(row.bytes / 1e6, row.seconds, row.cpu_s, row.per_s, row.per_cpu_s),
            *(row.ratio, row.per_task_cpu_s),
        )
        yield (row.way, f"{row.rows:,}", *map(short, figures), share)

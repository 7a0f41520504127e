"""The figures of docs/reference/spark-connector.md: bytes that are sent, by how one asks."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast_lab.bench.page_tables import markdown, short
from reefcast_lab.bench.spark_bytes import SparkBytes

FIGURES = "bytes of the connector"
_TITLES = ("asked for", "rows", "bytes from the network", "share")


def figures(rows: Sequence[SparkBytes]) -> str:
    """Return a table with a line for each way of asking."""
    return markdown(
        _TITLES,
        [(row.asked, f"{row.rows:,}", f"{row.wire_bytes:,}", short(row.share)) for row in rows],
    )

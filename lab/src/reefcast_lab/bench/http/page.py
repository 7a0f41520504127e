"""The table of docs/explanation/performance.md: what HTTP clients cost a broker."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast_lab.bench.http.measure import HttpFigures
from reefcast_lab.bench.page_tables import markdown, short

FIGURES = "http figures"
_COLUMNS = {
    "batch": "events/request",
    "fanout": "fan-out",
    "cpu_us_per_event": "µs/event (CPU)",
    "events_per_s": "events/s",
    "ratio": "ratio",
}


def figures(rows: Sequence[HttpFigures]) -> str:
    """Return the table."""
    lines = [
        [row.load, row.server, *(short(getattr(row, name)) for name in _COLUMNS)] for row in rows
    ]
    return markdown(["load", "server", *_COLUMNS.values()], lines, "ll" + "r" * len(_COLUMNS))

"""The tables of docs/explanation/performance.md: confirmed delivery by each broker."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast_lab.bench.delivery.measure import Delivery
from reefcast_lab.bench.page_tables import markdown, short

FIGURES = "delivery figures"
_LOAD = {
    "what": "what",
    "broker": "broker",
    "publishers": "publishers",
    "window": "window",
    "sessions": "sessions",
}
_MEASURED = {
    "confirmed_per_s": "confirmed/s",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "delivered_per_s": "delivered/s",
    "broker_cpu_us": "µs (CPU)",
}
_IDLE = {"memory_mb": "MB", "more_mb": "of these for the sessions"}
"""Columns, with their titles in the tables."""


def figures(rows: Sequence[Delivery]) -> str:
    """Return a table of what brokers confirm and deliver, and one of the memory of idle
    sessions."""
    active = [row for row in rows if row.memory_mb is None]
    idle = [row for row in rows if row.memory_mb is not None]
    tables = [
        markdown(
            [*_LOAD.values(), *_MEASURED.values()],
            ([*_load(row), *_cells(row, _MEASURED)] for row in active),
            "ll" + "r" * (len(_LOAD) + len(_MEASURED) - 2),
        )
    ]
    if idle:
        titles = ["broker", "idle sessions", *_IDLE.values()]
        lines = ([row.broker, f"{row.sessions:,}", *_cells(row, _IDLE)] for row in idle)
        tables.append(markdown(titles, lines))
    return "\n".join(tables)


def _load(row: Delivery) -> list[str]:
    """Return the cells that say what was done; a drain has no publishers."""
    counts = (row.publishers, row.window, row.sessions)
    return [row.what, row.broker, *(f"{count:,}" if count else "" for count in counts)]


def _cells(row: Delivery, columns: dict[str, str]) -> list[str]:
    return [short(getattr(row, name)) for name in columns]

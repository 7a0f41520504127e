"""The tables of docs/explanation/performance.md: what MQTT clients cost each broker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields

from reefcast_lab.bench.mqtt.measure import MqttFigures
from reefcast_lab.bench.mqtt.points import Point
from reefcast_lab.bench.page_tables import markdown, short

FIGURES = "mqtt figures"
_LOADED = {
    "cpu_us_per_publication": "µs/publication (CPU)",
    "cpu_us_per_delivery": "µs/delivery (CPU)",
    "publications_per_s": "publications/s",
    "ratio": "ratio",
}
_IDLE = {
    "bytes_per_connection": "bytes/connection",
    "idle_cpu_ms_per_s": "ms/s (CPU)",
    "ratio": "ratio",
}
"""Columns, with their titles in the tables."""


def figures(rows: Sequence[MqttFigures]) -> str:
    """Return a table of publications, and one of idle connections."""
    idle = [row for row in rows if row.idle]
    loaded = [row for row in rows if not row.idle]
    tables = ((loaded, _LOADED), (idle, _IDLE))
    return "\n".join(_table(some, columns) for some, columns in tables if some)


def _table(rows: Sequence[MqttFigures], columns: dict[str, str]) -> str:
    lines = [
        [str(_point(row)), row.broker, *(short(getattr(row, name)) for name in columns)]
        for row in rows
    ]
    return markdown(["load", "broker", *columns.values()], lines, "ll" + "r" * len(columns))


def _point(row: MqttFigures) -> Point:
    return Point(**{field.name: getattr(row, field.name) for field in fields(Point)})

"""The tables that `reefcast-lab bench` prints: rows of measurements, titles for their fields."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, TypeVar

import click

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

_R = TypeVar("_R", bound="DataclassInstance")

CLIENT = {
    "what": "what",
    "way": "                             way",  # as wide as the longest of them
    "events": "events",
    "cpu_us_per_event": "us/event (CPU)",
    "per_s": "events/s",
    "ratio": "ratio",
}
DELIVERY = {
    "what": "what   ",  # as wide as the longest of them
    "broker": "           broker",
    "publishers": "publishers",
    "window": "window",
    "sessions": "sessions",
    "confirmed_per_s": "confirmed/s",
    "p50_us": "     p50 us",
    "p99_us": "     p99 us",
    "delivered_per_s": "delivered/s",
    "broker_cpu_us": "us (CPU)",
    "memory_mb": "memory MB",
    "more_mb": "for them MB",
}
HISTORY = {
    "what": "what",
    "engine": "          engine",  # as wide as the longest of their names
    "messages": "messages",
    "per_s": "per s",
    "cpu_per_s": "per s of CPU",
    "p50_ms": "p50 ms",
    "p99_ms": "p99 ms",
    "cpu_ms": "ms (CPU)",
    "ratio": "ratio",
}
HTTP = {
    "load": "                  load",  # as wide as the longest of them
    "server": "  server",
    "publishers": "publishers",
    "batch": "events/request",
    "fanout": "fan-out",
    "cpu_us_per_event": "us/event (CPU)",
    "cpu_spread": "spread",
    "events_per_s": "events/s",
    "missing": "missing",
    "ratio": "ratio",
}
LIVE = {
    "broker": "broker",
    "fanout": "fan-out",
    "payload_bytes": "payload bytes",
    "attributes": "attributes",
    "others": "others",
    "selectivity": "selectivity",
    "brokers": "brokers",
    "way": "way   ",  # as wide as the longest of them
    "cpu_us_per_publication": "us/publication (CPU)",
    "cpu_us_per_delivery": "us/delivery (CPU)",
    "cpu_spread": "spread",
    "busy": "busy",
    "missing": "missing",
    "publications_per_s": "publications/s",
    "deliveries_per_s": "deliveries/s",
    "delay_p50_us": "p50 us",
    "delay_p99_us": "p99 us",
    "ratio": "ratio",
}
MQTT = {
    "broker": "broker",
    "publishers": "publishers",
    "fanout": "fan-out",
    "qos": "QoS",
    "others": "others",
    "content": "content",
    "idle": "idle",
    "cpu_us_per_publication": "us/publication (CPU)",
    "cpu_us_per_delivery": "us/delivery (CPU)",
    "cpu_spread": "spread",
    "publications_per_s": "publications/s",
    "deliveries_per_s": "deliveries/s",
    "missing": "missing",
    "bytes_per_connection": "bytes/connection",
    "idle_cpu_ms_per_s": "idle ms/s (CPU)",
    "ratio": "ratio",
}
GOSSIP = {
    "what": "what",
    "nodes": "nodes",
    "topics": "topics",
    "memberships": "memberships",
    "rounds": "rounds",
    "cpu_s": "s (CPU)",
    "twin_cpu_s": "arrays s (CPU)",
    "ratio": "ratio",
    "unique": "unique share",
    "peak_bytes": "peak bytes",
}
MESH = {
    "what": "what",
    "n": "n",
    "cpu_us": "us (CPU)",
    "twin": "plain twin",
    "twin_cpu_us": "us (CPU)",
    "ratio": "ratio",
    "paper_us": "paper us",
    "aim_us": "aim us",
}
SPARK = {
    "engine": "engine",
    "n": "subscriptions",
    "events": "events",
    "pairs": "pairs",
    "seconds": "s",
    "cpu_s": "s (CPU)",
    "ratio": "ratio",
    "cpu_ratio": "ratio (CPU)",
    "events_per_cpu_s": "events/s of CPU",
}
SPARK_BYTES = {
    "asked": f"{'asked':>51}",  # as wide as the longest of them
    "events": "events",
    "rows": "rows",
    "wire_bytes": "bytes",
    "share": "share",
}
SPARK_EVENTS = {
    "way": "way",
    "rows": "rows",
    "bytes": "bytes",
    "seconds": "s",
    "cpu_s": "s (CPU)",
    "per_s": "rows/s",
    "per_cpu_s": "rows/s of CPU",
    "ratio": "CPU to Parquet's",
    "per_task_cpu_s": "rows/s of a task's CPU",
    "python": "Python's share",
}
START = {
    "bare_cpu_s": "bare s (CPU)",
    "listens_cpu_s": "listens s (CPU)",
    "delivers_cpu_s": "delivers s (CPU)",
    "idle_mb": "idle MB",
    "subscriptions": "subscriptions",
    "subscribe_cpu_us": "us to subscribe (CPU)",
    "unsubscribe_cpu_us": "us to unsubscribe (CPU)",
    "subscriptions_mb": "MB for them",
    "connections": "connections",
    "connect_cpu_us": "us to connect (CPU)",
    "connections_mb": "MB for them",
    "idle_cpu_ms_per_s": "ms/s while idle (CPU)",
}
STATISTICS = {
    "engine": "engine",
    "pairs": "pairs",
    "rows": "rows",
    "cpu_us_per_row": "us/row (CPU)",
    "us_per_row": "us/row (wall)",
    "longest_cpu_us": "max us/batch",
    "bytes_per_row": "bytes/row",
    "ratio": "ratio",
}
KEEPING = {
    "store": "store",
    "work": "work",
    "group": "group",
    "events": "events",
    "events_per_s": "events/s (wall)",
    "cpu_us_per_event": "us/event (CPU)",
    "syncs_per_s": "bare syncs/s",
    "disk_mb": "MB on disk",
}
COVER = {
    "workload": "workload",
    "n": "filters",
    "engine": "engine",
    "query": "query",
    "calls": "calls",
    "us_per_event": "us/query",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "max_cpu_us": "max us (CPU)",
    "matches_per_event": "keys",
    "in_aim": "in aim",
    "ratio": "ratio",
    "memory_bytes_per_filter": "bytes/filter",
}
GRAPHS = {
    "workload": "workload",
    "n": "filters",
    "graph": "graph",
    "index": "index",
    "add_cpu_us": "add us (CPU)",
    "add_p50_us": "add p50 us",
    "add_comparisons": "compared",
    "remove_cpu_us": "remove us (CPU)",
    "remove_p50_us": "remove p50 us",
    "remove_comparisons": "compared",
    "covering_degree": "new roots",
    "edges": "edges",
}
MATCH = {
    "workload": "workload",
    "selectivity": "selectivity",
    "n": "filters",
    "engine": "engine",
    "mode": "mode",
    "us_per_event": "us/event",
    "p50_us": "p50 us",
    "p99_us": "p99 us",
    "rounds": "rounds",
    "matches_per_event": "keys",
    "ns_per_match": "ns/key",
    "ratio": "ratio",
    "memory_bytes_per_filter": "bytes/filter",
    "add_us": "add us",
    "remove_us": "remove us",
    "floor_us": "floor us",
    "call_share": "call share",
}
CLIFFS = {
    "workload": "case",
    "n": "filters",
    "us_per_event": "us/event",
    "ns_per_filter": "ns/filter",
    "matches_per_event": "keys",
    "ns_per_match": "ns/key",
    "scan_ns_per_filter": "scan ns/filter",
    "ratio": "ratio",
    "memory_bytes_per_filter": "bytes/filter",
    "parse_us": "parse us",
    "add_p50_us": "add p50",
    "add_max_us": "max us",
}
WORST = {
    "workload": "workload",
    "n": "filters",
    "matches_per_event": "keys",
    "match_p50_us": "match p50",
    "match_p99_us": "p99",
    "match_max_us": "max us",
    "busy_match_max_us": "while adding",
    "add_p50_us": "add p50",
    "add_p99_us": "p99",
    "add_max_us": "max us",
    "remove_p50_us": "remove p50",
    "remove_p99_us": "p99",
    "remove_max_us": "max us",
    "memory_bytes_per_filter": "bytes/filter",
}


def printed(rows: Iterable[_R], columns: dict[str, str], as_json: bool) -> list[_R]:
    """Print rows as they come, or all at the end as JSON; return them."""
    from reefcast_lab.bench.page_tables import short

    def line(cells: Iterable[str]) -> str:
        widths = [max(9, len(title)) for title in columns.values()]
        widths[0] = 17
        return " ".join(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))

    every: list[_R] = []
    for row in rows:
        if not (every or as_json):
            click.echo(line(columns.values()))
        every.append(row)
        if not as_json:
            cells = [getattr(row, name) for name in columns]
            click.echo(line(cell if isinstance(cell, str) else short(cell) for cell in cells))
    if as_json:
        click.echo(json.dumps([asdict(row) for row in every]))
    return every

"""Sums over what Spark has aggregated: a row for each link and kind of message, or each counter.

So many rows fit into the driver wherever the figures of every link do, and adding them up there
takes less time than planning another job."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from reefcast.traces.vocabulary import FOUND_OVERLOADED

Row = dict[str, Any]


def link_load(counts: Sequence[Row], links: Sequence[Sequence[str]]) -> list[Row]:
    """Return a, b, publications, control, size_bytes for each of `links` and each that carried
    anything, in the order of their ends: both directions of a link together, a < b. `counts`: the
    rows of `trace_metrics.message_counts`."""
    figures = ("publications", "control", "size_bytes")
    loads = {tuple(sorted(ends)): dict.fromkeys(figures, 0) for ends in links}
    for row in counts:
        ends = tuple(sorted((row["broker"], row["link"])))
        load = loads.setdefault(ends, dict.fromkeys(figures, 0))
        load["publications" if row["message"] == "publish" else "control"] += row["count"]
        load["size_bytes"] += row["size_bytes"]
    return [{"a": a, "b": b, **loads[a, b]} for a, b in sorted(loads)]


def messages_by_type(counts: Sequence[Row]) -> list[Row]:
    """Return message, count, size_bytes; the most frequent first."""
    sums: dict[str, Row] = {}
    for row in counts:
        name = row["message"]
        found = sums.setdefault(name, {"message": name, "count": 0, "size_bytes": 0})
        found["count"] += row["count"]
        found["size_bytes"] += row["size_bytes"]
    return sorted(sums.values(), key=lambda row: (-row["count"], row["message"]))


def sent_by_broker(counts: Sequence[Row]) -> list[Row]:
    """Return broker, sent: publications to other brokers."""
    sent: Counter[str] = Counter()
    for row in counts:
        if row["message"] == "publish":
            sent[row["broker"]] += row["count"]
    return [{"broker": broker, "sent": count} for broker, count in sent.items()]


def counters(last: Sequence[Row]) -> list[Row]:
    """Return counter, count, summed over brokers. `last`: the rows of
    `trace_metrics.last_counts`."""
    sums: Counter[str] = Counter()
    for row in last:
        if row["link"] is None:
            sums[row["counter"]] += row["count"]
    return [{"counter": name, "count": sums[name]} for name in sorted(sums)]


def overloaded(last: Sequence[Row]) -> list[Row]:
    """Return broker, link, count: decisions that met the link overloaded."""
    found = [
        {name: row[name] for name in ("broker", "link", "count")}
        for row in last
        if row["counter"] == FOUND_OVERLOADED
    ]
    return sorted(found, key=lambda row: (row["broker"], row["link"] or ""))

"""The state of a live broker in a few figures: what `/metrics` says, for people, and its links."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from reefcast.server.metrics import definitions as of
from reefcast.server.metrics.collecting import own_version
from reefcast.server.metrics.definitions import COUNTED, DROPPED, MOST_LINKS, Metric
from reefcast.server.metrics.observed import Figure, ObservedBroker, not_ready
from reefcast.server.status import memory_bytes
from reefcast.timing import now_us

FROM_SUMS: dict[Metric, str] = {
    of.SUBSCRIPTIONS: "subscriptions",
    of.ADVERTISEMENTS: "advertisements",
    of.QUEUED: "queued",
    of.QUEUED_MOST: "queued_most",
    of.SLOW: "slow",
    of.DURABLE: "durable_sessions",
    of.CONSUMERS: "consumers",
    of.BACKLOG: "backlog",
    of.BACKLOG_MOST: "backlog_most",
    of.BACKLOG_AGE: "oldest_age_s",
    of.HANDED_OUT: "unacknowledged",
    of.DEAD: "dead_letters",
    of.BLOCKED: "blocked",
}
"""The sums over all clients and durable sessions that a summary has, and their names there."""
LOST = tuple(name for name, (metric, _) in COUNTED.items() if metric is DROPPED)
"""Counters of publications that somebody wanted and does not get."""
COUNTS = ("published", "forwarded", "delivered", "unwanted", "duplicate", "refused", "failures")


def summary_of(broker: ObservedBroker, sums: Iterable[Figure]) -> dict[str, Any]:
    """Return the summary of a broker. `sums`: those over its clients and sessions
    (`metrics.summing`)."""
    host, core = broker.host, broker.host.core
    now = asyncio.get_running_loop().time()
    told = core.status(now, (), 0)
    counters = Counter(told["counters"]) + host.journal.counters
    came, _ = core.links.passed()
    links, others = _links(broker, told)
    away = [figure.value for figure in sums if figure[:2] == (of.CLIENTS, ("away",))]
    return {
        "broker": broker.name,
        "network": host.me.network,
        "session": host.me.session,
        "routing": told["routing"],
        "version": own_version(),
        "uptime_s": round(broker.uptime_s),
        "time_us": now_us(),
        "not_ready": not_ready(broker),
        "stopping": broker.stopping,
        "region": told["region"],
        "cluster": told["cluster"],
        "memory_mb": round(memory_bytes() / 1e6),
        "clients": len(broker.clients.sessions),
        "away": away[0] if away else 0,
        **_sums(sums),
        "counts": {
            **{name: counters[name] for name in COUNTS},
            "received": sum(came.values()),
            "lost": sum(counters[name] for name in LOST),
        },
        "lost": {name: counters[name] for name in LOST if counters[name]},
        "tables": told["tables"],
        "congested": host.congestion.announced,
        "disk_fails": host.keeper is not None and getattr(host.keeper, "is_failing", False),
        "keeps": host.keeper is not None,
        "samples": host.samples is not None,
        "tau": told["tau"],
        "links": links,
        "other_links": others,
    }


def _sums(sums: Iterable[Figure]) -> dict[str, Any]:
    return {FROM_SUMS[figure.metric]: figure.value for figure in sums if figure.metric in FROM_SUMS}


def _links(broker: ObservedBroker, told: dict[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """Return the links, those that are not up first, and how many more there are."""
    lst, owed = told["lst"], told["owed"]
    states = sorted(broker.link_states(), key=lambda each: (each["state"] == "up", each["link"]))
    found = []
    for state in states[:MOST_LINKS]:
        name = str(state["link"])
        row, waits = lst.get(name, {}), owed.get(name, {})
        found.append(
            {
                "link": name,
                "state": state["state"],
                "reconnects": state["reconnects"],
                "kind": row.get("kind", ""),
                "queue_len": row.get("queue_len", 0),
                "load": round(row.get("load", 0.0), 2),
                "overloaded": row.get("overloaded", False),
                "found_overloaded": row.get("found_overloaded", 0),
                "in_per_s": row.get("in_per_s", 0),
                "out_per_s": row.get("out_per_s", 0),
                "away_s": waits.get("away_s"),
                "waiting": max(waits.get("waiting", 0), waits.get("held", 0)),
                "in_custody": waits.get("in_custody", 0),
            }
        )
    return found, max(0, len(states) - MOST_LINKS)

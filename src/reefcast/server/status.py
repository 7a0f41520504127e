"""What a live broker tells an operator, as plain data."""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING, Any

from reefcast.model import wire

if TYPE_CHECKING:
    from reefcast.server.broker_link import BrokerLink
    from reefcast.server.node import Node


MOST_ROWS = 1000
LONGEST_FILTER = 1000
"""Characters. With the 20 000 advertisements of a busy region the answer would come near to the
largest frame that there is, and the broker would do nothing else while it is made."""


def status_of(node: Node) -> dict[str, object]:
    """The core's status, with the live state of links and clients.

    Of a table that is told row by row (`clt`, `tid`) it has the first `MOST_ROWS` rows, filters cut
    at `LONGEST_FILTER` characters; `left_out` says of such tables that have more rows how many
    more. `tables` has the whole number.
    """
    from importlib.metadata import version  # slow to load, and not needed to start

    node.core.links.pass_time(node.loop.time())
    place = node.scot.places[node.name] if node.scot else None
    return {
        **_cut(node.core.status()),
        "region": place and place.region,
        "cluster": place and place.cluster,
        "tau": node.network.overload.tau,
        "counters": dict(node.core.counters + node.counters),
        "network": node.network.network.name,
        "session": node.session,
        "version": version("reefcast"),
        "wire_version": wire.VERSION,
        "python": sys.version.split()[0],
        "pid": os.getpid(),
        "uptime_s": round(node.loop.time() - node.started_at_s, 3),
        "memory_mb": round(memory_bytes() / 1e6, 1),
        "stopping": node.stopping,
        "congested": node.congestion.announced,
        "congested_links": sorted(node.congestion.targets),
        "links": [_link(node, link) for link in node.links.values()],
        "clients": [session.status() for session in node.clients.sessions.values()],
    }


def _cut(status: dict[str, Any]) -> dict[str, Any]:
    tables = {name: rows for name, rows in status.items() if isinstance(rows, list)}
    left_out = {
        name: len(rows) - MOST_ROWS for name, rows in tables.items() if len(rows) > MOST_ROWS
    }
    shown = {name: [_cut_row(row) for row in rows[:MOST_ROWS]] for name, rows in tables.items()}
    return {**status, **shown, "left_out": left_out}


def _cut_row(row: dict[str, Any]) -> dict[str, Any]:
    text = row["filter"]
    return row if len(text) <= LONGEST_FILTER else {**row, "filter": text[:LONGEST_FILTER] + "..."}


def _link(node: Node, link: BrokerLink) -> dict[str, object]:
    """`kind`: "a_link", "i_link", or "" where the overlay is no SCOT; `cluster`: that it leads to;
    `found_overloaded`: how often a decision met it so."""
    links, places = node.core.links, node.scot.places if node.scot else {}
    cluster = places[link.name].cluster if places else None
    inside = bool(places) and cluster == places[node.name].cluster
    return {
        **link.status(),
        **links.rates(link.name)._asdict(),
        "kind": "" if cluster is None else "a_link" if inside else "i_link",
        "cluster": cluster,
        "found_overloaded": links.lst.found_overloaded[link.name],
    }


def memory_bytes() -> int:
    """The largest resident size so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

"""What a live broker tells an operator, as plain data."""

from __future__ import annotations

import os
import resource
import sys
from typing import TYPE_CHECKING

from reefcast.model import wire

if TYPE_CHECKING:
    from reefcast.server.node import Node


def status_of(node: Node) -> dict[str, object]:
    """The core's status, with the live state of links and clients."""
    from importlib.metadata import version  # slow to load, and not needed to start

    node.core.links.pass_time(node.loop.time())
    return {
        **node.core.status(),
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
        "links": [
            link.status() | node.core.links.rates(link.name)._asdict()
            for link in node.links.values()
        ],
        "clients": [session.status() for session in node.clients.sessions.values()],
    }


def memory_bytes() -> int:
    """The largest resident size so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

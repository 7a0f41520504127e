"""The status of a live broker's parts for operators, as plain data."""

from __future__ import annotations

import os
import resource
import sys
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from reefcast.model import wire
from reefcast.model.wire import StatusRequest
from reefcast.routing.tables import MOST_ROWS, Cell
from reefcast.server.client_session import ClientSession
from reefcast.server.host import Host
from reefcast.timing import MACHINE
from reefcast.tls.credentials import Own

MOST_CLIENTS = 200
"""Clients in one status: an operator's program pages through the others (`looks.pages`)."""
LONGEST_CELL = 1000
"""Characters of a filter in a cell. With the 20 000 advertisements of a busy region, the answer
would otherwise be almost as large as the largest frame, and the broker would do nothing else
meanwhile."""


def host_status(host: Host, request: StatusRequest, now: float) -> dict[str, Any]:
    """Return the core's status, with at most `MOST_ROWS` rows of a table and cells of at most
    `LONGEST_CELL` characters, and the status of the parts around it."""
    most = MOST_ROWS if request.rows is None else min(request.rows, MOST_ROWS)
    status = host.core.status(now, request.tables, most, request.skip)
    for table in status["rows"].values():
        table["rows"] = [[cut(cell) for cell in row] for row in table["rows"]]
    return {
        **status,
        "counters": dict(Counter(status["counters"]) + host.journal.counters),
        "network": host.me.network,
        "session": host.me.session,
        "congested": host.congestion.announced,
        "congested_links": sorted(host.congestion.targets),
    }


def cut(cell: Cell) -> Cell:
    """Return a cell without what exceeds `LONGEST_CELL` characters."""
    if isinstance(cell, str) and len(cell) > LONGEST_CELL:
        return cell[:LONGEST_CELL] + "..."
    return cell


def clients_status(sessions: Sequence[ClientSession]) -> dict[str, object]:
    """Return the status of at most `MOST_CLIENTS` clients, those that do not keep up or have lost
    something first, and how many are left out."""
    chosen = sessions
    if len(sessions) > MOST_CLIENTS:
        troubled = [each for each in sessions if each.slow_since_s is not None or each.port.dropped]
        troubled.sort(key=lambda each: each.slow_since_s is None)
        known = set(troubled)
        fine = islice((each for each in sessions if each not in known), MOST_CLIENTS)
        chosen = [*troubled, *fine][:MOST_CLIENTS]
    clients = [session.status() for session in chosen]
    return {"clients": clients, "clients_left_out": len(sessions) - len(clients)}


def process_status() -> dict[str, object]:
    from importlib.metadata import version  # slow to load, and not needed to start

    return {
        "version": version("reefcast"),
        "wire_version": wire.OFFER.version,
        "python": sys.version.split()[0],
        "pid": os.getpid(),
        "memory_mb": round(memory_bytes() / 1e6, 1),
    }


def certificate_status(own: Own) -> dict[str, object]:
    """Return when the broker's certificate expires: the time, and how many days that is from
    now."""
    left_s = own.ends_s - MACHINE.get().now_us() / 1e6
    ends = datetime.fromtimestamp(own.ends_s, UTC)
    return {"ends": ends.isoformat(), "days": round(left_s / 86_400, 2)}


def memory_bytes() -> int:
    """Return the largest resident size so far."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024

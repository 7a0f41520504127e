"""Pages of what is long: clients, durable sessions, subscriptions by deliveries, rows of tables.

A page is `{"columns": names, "lines": a list of values each, "total": lines in all}`. Lines are
sorted and cut in slices; only those of the page are described."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from reefcast.errors import LocalError
from reefcast.model.looks import Page
from reefcast.server.client_session import ClientSession
from reefcast.server.looks.slices import in_order, slices
from reefcast.server.metrics.observed import ObservedBroker
from reefcast.server.metrics.summing import SLICE
from reefcast.server.status import cut
from reefcast.sessions.session import Session
from reefcast.sessions.status import status_of

MOST_TEXTS, TEXT_CHARS = 10, 300
"""Filters of a session that a line has, and characters of each."""
Line = Sequence[Any]


async def page_of(broker: ObservedBroker, asked: Page) -> dict[str, Any]:
    """Return a page. Raises `LocalError` for one that there is not."""
    makers: dict[str, Callable[[ObservedBroker, Page], Awaitable[dict[str, Any]]]] = {
        "clients": _clients,
        "sessions": _sessions,
        "subscriptions": _subscriptions,
        "table": _table,
    }
    return await makers[asked.kind](broker, asked)


def _page(columns: Sequence[str], lines: Sequence[Line], total: int) -> dict[str, Any]:
    return {"columns": list(columns), "lines": list(lines), "total": total}


def _key(orders: dict[str, Callable[[Any], Any]], asked: Page, first: str) -> Callable[[Any], Any]:
    """Return by what lines are sorted. Raises `LocalError` for another column."""
    order = asked.order or first
    if order not in orders:
        raise LocalError(
            f"{asked.kind} cannot be sorted by {order!r}; they can by {', '.join(orders)}"
        )
    return orders[order]


# --- clients -------------------------------------------------------------------------------------

CLIENT_ORDERS: dict[str, Callable[[ClientSession], Any]] = {
    "queue_len": lambda each: (each.slow_since_s is not None, each.port.queue_len),
    "client": lambda each: each.name,
    "user": lambda each: each.principal.user,
    "dropped": lambda each: each.port.dropped,
    "queue_bytes": lambda each: each.port.weight,
}
CLIENT_COLUMNS = (
    *("client", "user", "connected", "slow", "queue_len", "queue_limit", "queue_policy"),
    *("queue_bytes", "dropped", "credit", "withheld_for", "throttled"),
)


async def _clients(broker: ObservedBroker, asked: Page) -> dict[str, Any]:
    """Return clients; by the length of their queues, those that do not keep up come first."""
    key = _key(CLIENT_ORDERS, asked, "queue_len")
    found = list(broker.clients.sessions.values())
    if asked.search:
        found = [
            each
            async for some in slices(found)
            for each in some
            if asked.search in each.name or asked.search in each.principal.user
        ]
    chosen = await in_order(found, key, asked.skip, asked.most, descending=asked.descending)
    lines = [[status[name] for name in CLIENT_COLUMNS] for status in (c.status() for c in chosen)]
    return _page(CLIENT_COLUMNS, lines, len(found))


# --- durable sessions ----------------------------------------------------------------------------

SESSION_ORDERS: dict[str, Callable[[Session], Any]] = {
    "events": lambda each: len(each.queue.entries),
    "session": lambda each: each.record.name,
    "owner": lambda each: each.record.owner,
    "bytes": lambda each: each.queue.bytes,
    "consumers": lambda each: len(each.consumers.by_name),
    "dead_letters": lambda each: len(each.queue.dead),
    "dropped": lambda each: each.queue.dropped,
    "waiting": lambda each: len(each.waiting),
}
SESSION_COLUMNS = (
    *("session", "owner", "events", "bytes", "oldest_s", "consumers", "unacknowledged", "slow"),
    *("dead_letters", "waiting", "dropped", "subscriptions"),
)


async def _sessions(broker: ObservedBroker, asked: Page) -> dict[str, Any]:
    key = _key(SESSION_ORDERS, asked, "events")
    home = broker.host.core.delivering.home
    found = [] if home is None else home.each()
    if asked.search:
        found = [
            each
            async for some in slices(found)
            for each in some
            if asked.search in each.record.name or asked.search in each.record.owner
        ]
    chosen = await in_order(found, key, asked.skip, asked.most, descending=asked.descending)
    return _page(SESSION_COLUMNS, [_session_line(each) for each in chosen], len(found))


def _session_line(session: Session) -> Line:
    """Return a line. `slow`: consumers that have as many events as they may without having
    acknowledged one."""
    status = status_of(session)
    texts = [text[:TEXT_CHARS] for text in list(status.subscriptions.values())[:MOST_TEXTS]]
    slow = sum(not each.room for each in session.consumers.by_name.values() if each.out)
    return (
        *(status.name, status.owner, status.events, status.bytes, round(status.oldest_s, 3)),
        *(len(status.consumers), status.out, slow, status.dead_letters, status.waiting),
        *(status.dropped, texts),
    )


# --- subscriptions -------------------------------------------------------------------------------

SUBSCRIPTION_COLUMNS = ("client", "number", "filter", "share")
NO_SAMPLES = (
    "this broker samples no deliveries, for it has no admin listener: give it one (admin in "
    "[[broker]], or [admin] listen)"
)


async def _subscriptions(broker: ObservedBroker, asked: Page) -> dict[str, Any]:
    """Return subscriptions by their share of the deliveries, as far as that is known."""
    samples = broker.host.samples
    if samples is None:
        raise LocalError(NO_SAMPLES)
    shares = samples.top.shares()
    if asked.search:
        shares = [each for each in shares if asked.search in named(broker, each[0][0])]
    lines = []
    for (link, number), share in shares[asked.skip : asked.skip + asked.most]:
        text = filter_of(broker, link, number)
        lines.append((named(broker, link), number, text, round(share, 5)))
    return _page(SUBSCRIPTION_COLUMNS, lines, len(shares))


def named(broker: ObservedBroker, link: str) -> str:
    """Return the name of a client, or of a durable session with its owner."""
    key = broker.host.core.delivering.sessions.get(link)
    return link if key is None else f"session {key[1]} of {key[0] or 'nobody'}"


def filter_of(broker: ObservedBroker, link: str, number: int) -> str:
    """Return the filter of a subscription; "" if it is gone."""
    row = broker.host.core.router.prt.by((link, number), link)
    if row is not None:
        return str(cut(row.filter.text))
    replaced = broker.host.core.router.prt.from_hop(link)[:SLICE]
    return next((str(cut(each.filter.text)) for each in replaced if each.number == number), "")


# --- tables --------------------------------------------------------------------------------------


async def _table(broker: ObservedBroker, asked: Page) -> dict[str, Any]:
    core, now = broker.host.core, asyncio.get_running_loop().time()
    told = core.status(now, (asked.name,), asked.most, asked.skip)
    table = told["rows"].get(asked.name)
    if table is None:
        known = ", ".join(told["tables"]) or "none"
        raise LocalError(f"broker {broker.name} has no table {asked.name!r}; it has {known}")
    lines = [[cut(cell) for cell in row] for row in table["rows"]]
    page = _page(table["columns"], lines, told["tables"][asked.name])
    return {**page, "legend": told["legend"].get(asked.name, "")}

"""Sums over all connections, clients and durable sessions of a broker.

They are the expensive part of a scrape, so two rules keep them cheap however large the broker is:
they are summed up in slices of `SLICE`, between which the broker does other things; and if that
took more than `CHEAP_S` together, the sums are kept for `TIMES` as long as it took. So they take at
most one per cent of the broker's time, however often it is scraped."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from time import monotonic, thread_time
from typing import TypeVar

from reefcast.model.wire import Role
from reefcast.server.client_port import Line
from reefcast.server.connection import Connection
from reefcast.server.metrics import definitions as of
from reefcast.server.metrics.definitions import Metric
from reefcast.server.metrics.observed import Figure, ObservedBroker, figure
from reefcast.sessions.session import Session
from reefcast.timing import MACHINE

SLICE = 500
"""What is looked at without a pause: less than a millisecond's work."""
CHEAP_S, TIMES = 0.005, 100.0
SUMMED = (of.CONSUMERS, of.HANDED_OUT, of.BACKLOG, of.BACKLOG_BYTES, of.DEAD, of.BLOCKED)
"""The figures that are summed up over all durable sessions."""
T = TypeVar("T")


class Sums:
    """The sums of one broker."""

    def __init__(self, broker: ObservedBroker) -> None:
        self._broker = broker
        self._kept: list[Figure] = []
        self._until_s = 0.0
        self._took_s = 0.0

    async def figures(self) -> list[Figure]:
        """Return the sums; see the module's docstring."""
        if monotonic() < self._until_s:
            return self._kept
        self._took_s = 0.0
        found = [*await self._connections(), *await self._clients(), *await self._sessions()]
        if self._took_s > CHEAP_S:
            self._kept, self._until_s = found, monotonic() + TIMES * self._took_s
        return found

    async def _slices(self, many: Sequence[T]) -> AsyncIterator[Sequence[T]]:
        """Yield parts; between them the broker does other things. Time what is done with each."""
        for start in range(0, len(many), SLICE):
            if start:
                await asyncio.sleep(0)
            began_s = thread_time()
            yield many[start : start + SLICE]
            self._took_s += thread_time() - began_s

    async def _connections(self) -> list[Figure]:
        roles: Counter[Role | None] = Counter()
        async for lines in self._slices(list(self._broker.shared.all)):
            roles.update([_role_of(line) for line in lines])
        names = {
            "client": Role.CLIENT,
            "broker": Role.BROKER,
            "soft": Role.SOFT,
            "admin": Role.ADMIN,
        }
        return [
            *(figure(of.CONNECTIONS, roles[role], name) for name, role in names.items()),
            figure(of.CONNECTIONS, roles[None], "greeting"),
        ]

    async def _clients(self) -> list[Figure]:
        away = queued = longest = slow = 0
        sessions = list(self._broker.clients.sessions.values())
        async for some in self._slices(sessions):
            waits = [session.port.queue_len for session in some]
            queued, longest = queued + sum(waits), max(longest, *waits)
            away += [session.port.line for session in some].count(None)
            slow += len(some) - [session.slow_since_s for session in some].count(None)
        return [
            figure(of.CLIENTS, len(sessions) - away, "connected"),
            figure(of.CLIENTS, away, "away"),
            figure(of.QUEUED, queued),
            figure(of.QUEUED_MOST, longest),
            figure(of.SLOW, slow),
            *await self._credit(),
            *await self._registered(),
        ]

    async def _credit(self) -> list[Figure]:
        """Return the figures of credit, also of clients that left a moment ago."""
        credit = congested = throttled = 0
        async for some in self._slices(list(self._broker.host.congestion.accounts.values())):
            credit += sum([account.allowance for account in some if account.allowance > 0])
            congested += sum([bool(account.blockers) for account in some])
            throttled += sum([account.throttled for account in some])
        return [
            figure(of.CREDIT, credit),
            figure(of.WITHHELD, congested, "congestion"),
            figure(of.WITHHELD, throttled, "rate"),
        ]

    async def _registered(self) -> list[Figure]:
        subscribed = registered = held = 0
        async for clients in self._slices(list(self._broker.host.core.clients.values())):
            subscribed += sum([client.subscribed for client in clients])
            registered += sum([client.registered for client in clients])
            held += sum([len(client.held) for client in clients])
        return [
            figure(of.SUBSCRIPTIONS, subscribed),
            figure(of.ADVERTISEMENTS, registered - subscribed),
            figure(of.HELD, held),
        ]

    async def _sessions(self) -> list[Figure]:
        home = self._broker.host.core.delivering.home
        if home is None:
            return []
        sums: Counter[Metric] = Counter()
        longest, oldest_s, sessions = 0, float("inf"), home.each()
        async for some in self._slices(sessions):
            for session in some:
                longest = max(longest, len(session.queue.entries))
                oldest_s = min(oldest_s, _add_up(session, sums))
        now_s = MACHINE.get().now_us() / 1e6
        return [
            figure(of.DURABLE, len(sessions)),
            figure(of.DURABLE_LIMIT, self._broker.network.sessions.max_sessions),
            figure(of.STORED, home.stored_events),
            figure(of.BACKLOG_MOST, longest),
            figure(of.BACKLOG_AGE, max(0.0, now_s - oldest_s) if longest else 0.0),
            *(figure(metric, sums[metric]) for metric in SUMMED),
        ]


def _role_of(line: Line) -> Role | None:
    """Return what is at the other end of a connection, None if it has not been greeted. Other
    protocols than ours are clients'."""
    if not isinstance(line, Connection):
        return Role.CLIENT
    return line.hello.role if line.greeted and line.hello is not None else None


def _add_up(session: Session, sums: Counter[Metric]) -> float:
    """Add the figures of a durable session; return since when its oldest event waits."""
    queue, consumers = session.queue, session.consumers.by_name
    if consumers:
        sums[of.CONSUMERS] += len(consumers)
        sums[of.HANDED_OUT] += sum(len(each.out) for each in consumers.values())
    if queue.entries:
        sums[of.BACKLOG] += len(queue.entries)
        sums[of.BACKLOG_BYTES] += queue.bytes
    sums[of.DEAD] += len(queue.dead)
    sums[of.BLOCKED] += len(session.waiting)
    oldest = queue.oldest
    return float("inf") if oldest is None else oldest.at_s

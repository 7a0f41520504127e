"""Where HTTP clients come in: the listeners of the network file's `[[listener]]`s for HTTP."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, ClassVar

from aiohttp import web

from reefcast.http.origins import Origins
from reefcast.http.problems import refused
from reefcast.http.routes import Table
from reefcast.logs import part
from reefcast.protocol.privacy import is_loopback
from reefcast.server.http.answers import ANSWERS
from reefcast.server.http.asking import problem_answer
from reefcast.server.http.consumers import Consumers
from reefcast.server.http.deliveries import Deliveries, settings_of
from reefcast.server.http.front import HttpFront, HttpListener
from reefcast.server.http.handling import Handler
from reefcast.server.http.serving import Greet, ServingBroker
from reefcast.server.listeners import Listener
from reefcast.server.tls_listener import TlsListener
from reefcast.server.web.http import HttpConnection, PlainHttp
from reefcast.server.web.visits import MOST_BYTES, Visit, Visits

if TYPE_CHECKING:
    from reefcast.network.listeners import ListenerEntry

log = part("connections")
CLOSE_S = 1.0
"""How long requests under way have when the broker ends."""


class ProgramConnection(HttpConnection):
    """A connection of an HTTP client: errors are problem details."""

    __slots__ = ()
    where: ClassVar[str] = "HTTP listener"

    def answer(self, status: int, words: str) -> web.Response:
        kind = "failed" if status >= 500 else "unreadable"
        return problem_answer(refused(status, kind, words), {})


class ProgramListener:
    """The HTTP listener of one `[[listener]]`. `listener`: where it listens."""

    def __init__(
        self,
        node: ServingBroker,
        front: HttpFront,
        consumers: Consumers,
        deliveries: Deliveries,
        entry: ListenerEntry,
    ) -> None:
        host, port = entry.address or ("", 0)
        self._node = node
        self._most = entry.max_connections
        self.visits = Visits(
            entry.max_connections,
            self._note_eviction,
            most_bytes=entry.max_body_bytes + MOST_BYTES,
        )
        handler = Handler(
            *(front, consumers, deliveries, Table(), ANSWERS),
            *(Origins(entry.allow_origins), self.visits),
            most_bytes=entry.max_body_bytes,
            here_only=is_loopback(host) and node.network.security is None,
        )
        self._server = web.Server(handler.handle, handler_cancellation=True)
        tls = node.tls
        if tls is None or not entry.speaks_tls(host, has_tls=True):
            self.listener = Listener(host, port, self.new_visit)
            self.speaks_tls = False
        else:
            self.speaks_tls = True
            self.listener = TlsListener(
                *(host, port, self.new_visit),
                refuse=PlainHttp,
                context=lambda: tls.value.answering,
                failed=node.say_no_tls,
            )

    def new_visit(self) -> asyncio.BaseProtocol:
        """Return the protocol of a new connection."""
        connection = ProgramConnection(self._server, self._node.host.journal, "broker")
        return Visit(self.visits, connection)

    def _note_eviction(self) -> None:
        words = "%d connections to an HTTP listener are the most (max_connections): one is ended"
        floods = self._node.host.journal.floods
        floods.log(log, logging.WARNING, "http_evicted", words, self._most)

    async def close(self) -> None:
        """End all connections; streams have been told why by then."""
        await self._server.shutdown(CLOSE_S)
        self.visits.end_all()


class HttpListeners:
    """All HTTP listeners of one broker, which opens them. `front`, `consumers`: what they have in
    common."""

    def __init__(self, node: ServingBroker, greet: Greet) -> None:
        self.front = HttpFront(node, greet)
        own = [e for e in node.network.listener if e.broker == node.name and e.protocol == "http"]
        self.consumers = Consumers(self.front)
        self._deliveries = Deliveries(self.front, settings_of(own))
        shared = self.front, self.consumers, self._deliveries
        self.listeners = [ProgramListener(node, *shared, entry) for entry in own]
        self.front.listeners += [
            HttpListener(each.listener, each.speaks_tls) for each in self.listeners
        ]
        node.listeners += [each.listener for each in self.listeners]

    def status(self) -> dict[str, object]:
        """Return how many clients there are, and where others may come in."""
        connections = sum(len(each.visits) for each in self.listeners)
        own = {"connections": connections, "webhooks": len(self._deliveries)}
        return {**own, **self.front.status()}

    def tick(self, now: float) -> None:
        """End what takes too long; `now`: seconds of the loop."""
        for each in self.listeners:
            each.visits.tick(now)
        self.front.tick(now)
        self.consumers.tick(now)
        self._deliveries.look()

    async def close(self) -> None:
        """End all connections, and the clients behind them."""
        await asyncio.gather(*(each.close() for each in self.listeners))
        await self._deliveries.close()
        self.consumers.close()
        await self.front.close()

"""One live broker: the core of `routing.broker` with sockets, clocks and queues around it.

How a publication travels: `Connection` cuts what was read into frames and hands all publications
of one read to their end (`ClientSession`, `BrokerLink`); that passes them to the `Driver`, which
asks the core once for all of them and has the effects carried out (`Effector`): deliveries go into
clients' outboxes, the rest on links (`LinkQueue`); the `Flusher` writes each outbox once when the
loop's turn is over. Nothing on this way waits for a timer or for another connection.

The node makes these parts, listens and dials, says who may come in, and ends them in good order.
"""

from __future__ import annotations

import asyncio
import random
import secrets
import time
from collections.abc import Callable
from functools import partial

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.model import wire
from reefcast.model.wire import Codec, Hello, Role, StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.overlay.scot import Scot
from reefcast.overlay.topology import is_tree
from reefcast.routing.broker import Broker
from reefcast.routing.links import LinkQueues
from reefcast.server.broker_link import BrokerLink, link_for
from reefcast.server.clients import Clients
from reefcast.server.connection import TICK_S, Connection, End, Shared
from reefcast.server.credit import CongestionControl
from reefcast.server.dialing import keep_connected
from reefcast.server.driver import Driver
from reefcast.server.host import Host
from reefcast.server.observer import Observer
from reefcast.server.outbox import Flusher
from reefcast.server.outputs import LinkQueue, Outputs
from reefcast.server.status import core_status, link_status, place_status, process_status
from reefcast.server.tracing import Journal, open_trace

SPARE_CONNECTIONS = 256
"""Beyond those of clients: neighbours, observers, and those that have not said hello."""


class Node:
    """The broker `name` of `network`, in the running event loop: `start`, then `stop`."""

    def __init__(self, network: NetworkFile, name: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.network = network
        self.me = Hello(
            wire.VERSION, Role.BROKER, name, network.network.name, session=secrets.token_hex(8)
        )
        self.stopping = False
        self._started_at_s = self.loop.time()
        limits, neighbours = network.limits, network.neighbours(name)
        self.journal = Journal(name, open_trace(network.trace, name))
        self.outputs = Outputs()
        self.congestion = CongestionControl(
            name,
            time.time_ns(),
            self.outputs.grant,
            self.outputs.flood,
            ways=() if is_tree(network.graph()) else neighbours,
        )
        self.outputs.links |= {
            neighbour: LinkQueue(neighbour, limits, self.congestion, self.journal)
            for neighbour in neighbours
        }
        self.scot = network.scot()
        self.core = _core(network, self.scot, self.me, self.outputs)
        self.driver = Driver(self.core, self.outputs, self.congestion, self.journal)
        host = Host(
            self.me,
            limits,
            Codec(self.core.router.messages, self.core.router.header),
            self.driver,
            self.outputs,
            self.congestion,
            self.journal,
        )
        self.clients = Clients(host, network.names)
        self.links = {
            neighbour: BrokerLink(host, queue) for neighbour, queue in self.outputs.links.items()
        }
        self._shared = Shared(Flusher(self.loop), set(), limits.max_clients + SPARE_CONNECTIONS)
        self._server: asyncio.Server | None = None
        self._dials: list[asyncio.Task[None]] = []
        self._tick_timer: asyncio.TimerHandle | None = None

    @property
    def name(self) -> str:
        return self.me.name

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and dial those neighbours that are this broker's to dial.

        Raises `ConfigurationError` if the address cannot be had.
        """
        host, port = self.network.address(self.name)
        try:
            self._server = await self.loop.create_server(
                lambda: Connection(self._shared, self._greet), host, port, backlog=1024
            )
        except OSError as error:
            raise ConfigurationError(
                f"broker {self.name} cannot listen on {host}:{port}: {error.strerror or error}"
            ) from error
        self._tick_timer = self.loop.call_later(TICK_S, self._tick)
        self._dials = [
            self.loop.create_task(
                keep_connected(
                    self.network.address(link.name),
                    partial(self._dialled, link),
                    random.Random(f"{self.me.session}{link.name}"),
                )
            )
            for link in self.links.values()
            if link.dials
        ]

    async def stop(self) -> None:
        """Drain: no new input from clients; what was accepted from them goes out; subscribers get
        what waits for them and GOODBYE, neighbours acknowledge what they were sent; at most
        `drain_s` in all."""
        self.stopping = True
        self._close_doors()
        for session in self.clients.sessions.values():
            session.connection.stop_reading()
        until_s = self.loop.time() + self.network.limits.drain_s
        await self._until(self._served, until_s)
        reason = f"broker {self.name} was told to stop; come back later"
        for session in list(self.clients.sessions.values()):
            session.connection.goodbye(reason, retry=True)
        queues = self.outputs.links.values()
        await self._until(lambda: all(queue.drained for queue in queues), until_s)
        await self._close_connections(reason)

    def _served(self) -> bool:
        """Whether the clients of this broker have nothing more to expect of it."""
        return not self.core.holds_publications and all(
            outbox.empty for outbox in self.outputs.clients.values()
        )

    def _close_doors(self) -> None:
        if self._server is not None:
            self._server.close()
        for dial in self._dials:
            dial.cancel()

    async def _until(self, done: Callable[[], bool], until_s: float) -> None:
        # Only sockets know when they are empty, and they tell nobody: so ask again.
        while not done() and self.loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _close_connections(self, reason: str) -> None:
        connections = list(self._shared.all)
        for connection in connections:
            connection.goodbye(reason, retry=True)
        for connection in connections:
            await connection.closed.wait()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        self.driver.close()
        for link in self.links.values():
            link.close()
        if self.journal.trace is not None:
            self._snapshot()
            await self.journal.trace.finish()

    def _tick(self) -> None:
        now = self.loop.time()
        self._tick_timer = self.loop.call_later(TICK_S, self._tick)
        self.congestion.tick(now)
        self.clients.forget_old(now)
        if self.journal.trace is not None:
            self._snapshot()
            self.journal.trace.flush_if_due(now)

    # --- who comes in -----------------------------------------------------------------------------

    def _greet(self, connection: Connection, hello: Hello) -> End:
        if hello.role is Role.CLIENT:
            return self.clients.arrive(connection, hello)
        if hello.role is Role.OBSERVER:
            connection.say_hello(self.me)
            return Observer(connection, self.status)
        link = link_for(hello, self.me, self.links)
        if link.dials:
            raise ProtocolError(f"broker {self.name} dials {hello.name}, not the other way round")
        connection.say_hello(link.hello())
        link.greeted(connection, hello)
        return link

    def _dialled(self, link: BrokerLink) -> Connection:
        def greet(connection: Connection, hello: Hello) -> End:
            if hello.name != link.name:
                raise ProtocolError(f"broker {self.name} dialled {link.name!r}, not {hello.name!r}")
            link_for(hello, self.me, self.links).greeted(connection, hello)
            return link

        return Connection(self._shared, greet, first=link.hello)

    # --- what can be seen -------------------------------------------------------------------------

    def status(self, request: StatusRequest) -> dict[str, object]:
        """Of the core, with the live state of links and clients; plain data."""
        core, now = self.core, self.loop.time()
        core.links.pass_time(now)
        return {
            **core_status(core, request),
            **place_status(self.scot, self.name),
            **process_status(),
            "tau": self.network.overload.tau,
            "counters": dict(core.counters + self.journal.counters),
            "network": self.me.network,
            "session": self.me.session,
            "uptime_s": round(now - self._started_at_s, 3),
            "stopping": self.stopping,
            "congested": self.congestion.announced,
            "congested_links": sorted(self.congestion.targets),
            "links": [link_status(link, core, self.scot) for link in self.links.values()],
            "clients": [session.status() for session in self.clients.sessions.values()],
        }

    def _snapshot(self) -> None:
        assert self.journal.trace is not None
        queues = {name: queue.window.queue_len for name, queue in self.outputs.links.items()}
        self.journal.trace.snapshot(
            self.core.tables(),
            queues,
            self.core.counters + self.journal.counters,
            self.core.links.lst.found_overloaded,
        )


def _core(network: NetworkFile, scot: Scot | None, me: Hello, queues: LinkQueues) -> Broker:
    return Broker(
        me.name,
        network.network.routing,
        neighbours=network.neighbours(me.name),
        rng=random.Random(me.session),
        queues=queues,
        overload=network.overload_limit(),
        scot=scot.neighbours(me.name) if scot else None,
        options=network.routing_options(),
    )

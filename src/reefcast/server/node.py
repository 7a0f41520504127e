"""One live broker: the core of `routing.broker` with sockets, clocks and queues around it.

How a publication travels: `Connection` cuts what was read into frames and hands all publications
of one read to their end (`ClientSession`, `BrokerLink`); that passes them to `Node.publications`,
which asks the core once for all of them and carries out its effects (`Effector`): deliveries go
into subscribers' outboxes, the rest on links; the `Flusher` writes each outbox once when the loop's
turn is over. Nothing on this way waits for a timer or for another connection.

The core is never entered twice: what an effect causes (a client that must be cut off has left)
becomes an input when the effects at hand are done.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    Discard,
    Effect,
    Input,
    LinkName,
    Publish,
    SetTimer,
    Timer,
)
from reefcast.model.wire import Congestion, FrameKind, Hello, Role
from reefcast.overlay.network_file import NetworkFile
from reefcast.overlay.topology import is_tree
from reefcast.routing.broker import Broker
from reefcast.routing.links import Overload
from reefcast.server.broker_link import BrokerLink, check_neighbour, notice_frame
from reefcast.server.client_session import Clients
from reefcast.server.connection import TICK_S, Connection, End, Shared
from reefcast.server.credit import CongestionControl
from reefcast.server.dialing import keep_connected
from reefcast.server.effects import Effector, fed_links, in_words
from reefcast.server.observer import Observer
from reefcast.server.outbox import Flusher
from reefcast.server.status import status_of
from reefcast.server.tracing import LiveTrace, open_trace

SPARE_CONNECTIONS = 256
"""Beyond those of clients: neighbours, observers, and those that have not said hello."""

log = logging.getLogger(__name__)


class Node:
    """The broker `name` of `network`, in the running event loop: `start`, then `stop`."""

    def __init__(self, network: NetworkFile, name: str) -> None:
        self.loop = asyncio.get_running_loop()
        self.network = network
        self.name = name
        self.session = secrets.token_hex(8)
        self.stopping = False
        self.started_at_s = self.loop.time()
        self.counters: Counter[str] = Counter()
        self._shared = Shared(
            Flusher(self.loop), set(), network.limits.max_clients + SPARE_CONNECTIONS
        )
        self.clients = Clients(self)
        neighbours = network.neighbours(name)
        self.congestion = CongestionControl(
            name,
            time.time_ns(),
            self._grant,
            self._flood,
            ways=() if is_tree(network.graph()) else neighbours,
        )
        self.links = {neighbour: BrokerLink(self, neighbour) for neighbour in neighbours}
        self.scot, overload = network.scot(), network.overload
        self.core = Broker(
            name,
            network.network.routing,
            neighbours=neighbours,
            rng=random.Random(self.session),
            queues=self,
            overload=Overload(overload.tau, overload.window_ms / 1e3),
            scot=self.scot.neighbours(name) if self.scot else None,
        )
        self.trace = self._open_trace()
        self._details = self.trace if self.trace is not None and self.trace.details else None
        self._effector = Effector(
            self.links,
            self.clients.sessions,
            self._set_timer,
            self._note_discard,
            self._effect_failed,
            self._details,
        )
        self._busy = False
        self._later: deque[tuple[Input, LinkName]] = deque()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._server: asyncio.Server | None = None
        self._dials: list[asyncio.Task[None]] = []
        self._tick_timer: asyncio.TimerHandle | None = None

    def _open_trace(self) -> LiveTrace | None:
        trace = self.network.trace
        if trace.level == "off":
            return None
        return open_trace(trace.directory, self.name, trace.level, trace.sample, trace.flush_s)

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
                    lambda link=link: self._dialled(link),  # type: ignore[misc]
                    random.Random(f"{self.session}{link.name}"),
                )
            )
            for link in self.links.values()
            if link.dials
        ]

    def _dialled(self, link: BrokerLink) -> Connection:
        def greet(connection: Connection, hello: Hello) -> End:
            if hello.name != link.name:
                raise ProtocolError(f"broker {self.name} dialled {link.name!r}, not {hello.name!r}")
            check_neighbour(self.name, self.network.network.name, hello, self.links)
            link.greeted(connection, hello)
            return link

        return Connection(self._shared, greet, first=link.hello)

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
        await self._until(lambda: all(link.drained for link in self.links.values()), until_s)
        await self._close_connections(reason)

    def _served(self) -> bool:
        """Whether the clients of this broker have nothing more to expect of it."""
        return not self.core.holds_publications and all(
            session.outbox.empty for session in self.clients.sessions.values()
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
        for timer in (self._tick_timer, *self._timers.values()):
            if timer is not None:
                timer.cancel()
        for link in self.links.values():
            link.close()
        if self.trace is not None:
            self._snapshot()
            await self.trace.finish()

    def _tick(self) -> None:
        now = self.loop.time()
        self._tick_timer = self.loop.call_later(TICK_S, self._tick)
        self.congestion.tick(now)
        self.clients.forget_old(now)
        if self.trace is not None:
            self._snapshot()
            self.trace.flush_if_due(now)

    # --- who is there -----------------------------------------------------------------------------

    def _greet(self, connection: Connection, hello: Hello) -> End:
        if hello.role is Role.CLIENT:
            return self.clients.arrive(connection, hello)
        if hello.role is Role.OBSERVER:
            return Observer(self, connection)
        link = check_neighbour(self.name, self.network.network.name, hello, self.links)
        if link.dials:
            raise ProtocolError(f"broker {self.name} dials {hello.name}, not the other way round")
        connection.say_hello(link.hello())
        link.greeted(connection, hello)
        return link

    # --- the core ---------------------------------------------------------------------------------

    def input(self, item: Input, link: LinkName) -> bool:
        if self._busy:
            self._later.append((item, link))
            return True
        done = self._run(item, link)
        self._run_later()
        return done

    def _run(self, item: Input, link: LinkName) -> bool:
        self._busy = True
        try:
            started_ns = time.perf_counter_ns()
            effects = self.core.handle(item, link, self.loop.time())
            self._note_matched(started_ns)
            return not self._carry_out(effects)
        except ProtocolError as error:
            log.warning("broker %s: %s", self.name, error)
            return False
        except Exception:
            self._failed(item, link)
            return False
        finally:
            self._busy = False

    def _run_later(self) -> None:
        while self._later:
            self._run(*self._later.popleft())

    def publications(self, batch: list[Publish], link: LinkName) -> None:
        failures = self._publications(batch, link)
        self._run_later()
        if failures:
            raise ProtocolError(
                f"the broker failed on {failures} of the publications; its log says how"
            )

    def _publications(self, batch: list[Publish], link: LinkName) -> int:
        """Returns on how many of them the core failed."""
        self._busy = True
        failures = 0
        try:
            try:
                effects = self._route(batch, link)
            except Exception:
                effects, failures = self._one_by_one(batch, link)
            self._carry_out(effects)
            if self.congestion.targets:
                self.congestion.fed(link, fed_links(effects), self.loop.time())
        finally:
            self._busy = False
        return failures

    def _route(self, batch: list[Publish], link: LinkName) -> list[Effect]:
        if self._details is not None and link in self.clients.sessions:
            self._details.published(batch)
        started_ns = time.perf_counter_ns()
        effects = self.core.handle_publications(batch, link, self.loop.time())
        self._note_matched(started_ns)
        return effects

    def _note_matched(self, started_ns: int) -> None:
        if self._details is not None and self.core.last_routed:
            took_ns = time.perf_counter_ns() - started_ns
            self._details.matched(self.core.last_routed, took_ns)

    def _one_by_one(self, batch: list[Publish], link: LinkName) -> tuple[list[Effect], int]:
        """Something in the batch makes the core fail: the rest must not suffer."""
        effects: list[Effect] = []
        failures = 0
        for publish in batch:
            try:
                effects += self.core.handle_publications([publish], link, self.loop.time())
            except Exception:
                failures += 1
                self._failed(publish, link)
        return effects, failures

    def _failed(self, item: Input, link: LinkName) -> None:
        self.counters["failures"] += 1
        log.exception("broker %s failed on input %.500r from %r", self.name, item, link)

    # --- effects ----------------------------------------------------------------------------------

    def _carry_out(self, effects: Sequence[Effect]) -> int:
        """Returns how many of them failed. Of a batch of publications nobody is told: whoever sent
        it did nothing wrong, and a link between brokers must not end for it."""
        failures = self._effector.carry_out(effects)
        if self._details is not None:
            self._details.delivered(effects)
        return failures

    def _effect_failed(self, effect: Effect) -> None:
        self.counters["failures"] += 1
        log.exception("broker %s failed to carry out: %s", self.name, in_words(effect))

    def _set_timer(self, timer: SetTimer) -> None:
        before = self._timers.pop(timer.key, None)
        if before is not None:
            before.cancel()
        self._timers[timer.key] = self.loop.call_at(timer.at_s, self._timer_due, timer.key)

    def _timer_due(self, key: str) -> None:
        del self._timers[key]
        self.input(Timer(key), "")

    def _note_discard(self, discard: Discard) -> None:
        self.discarded(discard, None)

    def discarded(self, discard: Discard, link: LinkName | None) -> None:
        """The core counts its own discards; those with a link are the live broker's."""
        if link is not None:
            self.counters[discard.reason] += 1
        if self.trace is not None:
            self.trace.discarded(discard, link)

    # --- congestion -------------------------------------------------------------------------------

    def _grant(self, client: LinkName, credit: int) -> None:
        session = self.clients.sessions.get(client)
        if session is not None:
            session.outbox.push_urgent(wire.encode(FrameKind.CREDIT, credit))

    def _flood(self, notice: Congestion, from_link: LinkName | None) -> None:
        frame = notice_frame(notice)
        for link in self.links.values():
            if link.name != from_link:
                link.send_notice(frame)

    # --- what can be seen -------------------------------------------------------------------------

    def queue_len(self, link: LinkName) -> int:
        """Publications that wait on `link` (see `routing.router.LinkQueues`)."""
        if link in self.links:
            return self.links[link].window.queue_len
        session = self.clients.sessions.get(link)
        return 0 if session is None else session.outbox.queue_len

    def status(self) -> dict[str, object]:
        return status_of(self)

    def _snapshot(self) -> None:
        assert self.trace is not None
        queues = {name: link.window.queue_len for name, link in self.links.items()}
        self.trace.snapshot(
            self.core.tables(),
            queues,
            self.core.counters + self.counters,
            self.core.links.lst.found_overloaded,
        )

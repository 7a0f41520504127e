"""One live broker: the core of `routing.broker` with sockets, clocks and queues around it.

How a publication travels: `Connection` cuts the bytes of a read into frames, and hands all
publications of the read to their end (`ClientSession`, `BrokerEnd`). The end passes them to the
`Driver`, which asks the core once for all of them, and has the effects carried out (`Effector`):
deliveries go to clients' ports, copies to links (`LinkQueue`). The `Flusher` writes each outbox
once, at the end of the loop's turn. Nothing on this path waits for a timer or for another
connection. Links that the core opens by itself are no different (`SoftLinks`).

`host` makes these parts; the node listens, decides who is admitted, and stops everything in
order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.extras import extra_for
from reefcast.logs import about, part
from reefcast.model import wire
from reefcast.model.messages import Leave, Regrant
from reefcast.model.subjects import Subject
from reefcast.model.versions import Offer
from reefcast.model.wire import Hello, Role, StatusRequest
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.roles import grants_of
from reefcast.network.sections import RoleEntry
from reefcast.protocol.link import LINGER_S
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.admin import AdminEnd
from reefcast.server.admission import Greetings, UserConnections, most_connections
from reefcast.server.broker_link import BrokerLink
from reefcast.server.client_port import Line
from reefcast.server.clients import Clients
from reefcast.server.connection import Connection
from reefcast.server.draining import Draining
from reefcast.server.end import End
from reefcast.server.greeting import Authenticator, Current
from reefcast.server.host import make_host
from reefcast.server.keeper import Keeping
from reefcast.server.listeners import Listener
from reefcast.server.looks.answering import Looks
from reefcast.server.member import authenticator_of, credentials_of, renew
from reefcast.server.metrics.sampling import TICK_S
from reefcast.server.outbox import Flusher
from reefcast.server.overlay_links import OverlayLinks
from reefcast.server.proving import TOKEN
from reefcast.server.rights import Renew
from reefcast.server.shared import Shared
from reefcast.server.soft_links import SoftLinks
from reefcast.server.status import certificate_status, clients_status, host_status, process_status
from reefcast.server.tls_listener import RefusedConnection, TlsListener
from reefcast.server.wishes import Wishes
from reefcast.tls.credentials import BrokerCredentials
from reefcast.tls.wording import in_words

if TYPE_CHECKING:
    from reefcast.server.http.listening import HttpListeners
    from reefcast.server.mqtt.front import MqttFront
    from reefcast.server.web.door import Door

log = part("links")


class Node:
    """The broker `name` of `network`, in the running event loop: call `start`, then `stop`.
    `offer`: its versions and features; `authenticator`: proves who others are, by default as the
    `[security]` or the `[tls]` of the network file says. Without those, everything on loopback is
    granted, and everything anywhere if the network file says `insecure`. `tls`: what it shows and
    trusts, if the network file does not say that. `readable`, `keeper`: see `make_host`.

    `listeners`: where the broker listens; `start` opens those that are there by then. A listener
    for clients of another protocol gives each connection a `Line` that calls `clients.admit`, and
    has a `ClientPort` of its own. `shared`: what all connections have in common. `door`: its HTTP
    listener, `mqtt`, `http`: its clients of these protocols, if the network file gives it such.
    `before_leaving`: called while the broker stops, when its clients have what was for them and are
    still connected.
    `network`: what it does now. `wishes`: what operators ask of it."""

    kind: ClassVar[str] = "broker"

    def __init__(
        self,
        network: NetworkFile,
        name: str,
        offer: Offer = wire.OFFER,
        authenticator: Authenticator | None = None,
        *,
        tls: BrokerCredentials | None = None,
        readable: bool = False,
        keeper: Keeping | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self.network = network
        self.name = name
        self.host = make_host(network, name, offer, readable=readable, keeper=keeper)
        self.looks = Looks(self)
        self.clients = Clients(self.host, network.is_node, own_ids=network.has_users)
        self.broker_names = set(network.names)
        self.stopping = False
        self._told: tuple[str, ...] | None = None
        self._started_at_s = self.loop.time()
        self.former_traces: list[asyncio.Task[None]] = []
        limits = network.limits
        self.of_users = UserConnections(limits.max_user_connections)
        self.tls = tls or credentials_of(network, name)
        self._current = Current(
            authenticator or authenticator_of(network, name, self.host.journal, self.tls)
        )
        self.shared = Shared(
            Flusher(self.loop),
            set(),
            most_connections(limits),
            self.host.journal.floods,
            offer,
            self._current,
            self.broker_names,
            self.host.audit,
            self.tls,
            Greetings(limits.max_greetings),
        )
        self.overlay_links = OverlayLinks(self.host, network, self.shared)
        self.soft_links = SoftLinks(self.host, network, self.shared, self.overlay_links)
        self.host.driver.open_links_with(self.soft_links)
        host, port = network.address(name)
        self.listeners = [self._listener(host, port)]
        self.mqtt = self._mqtt_front()
        self.http = self._http_listeners()
        self.door = self._admin_door()
        self.draining = Draining(self.host, self.clients, self.overlay_links.elsewhere)
        self.wishes = Wishes(self.host.driver.wish, name, self.draining)
        self.before_leaving: list[Callable[[], Awaitable[None]]] = []
        self._tick_timer: asyncio.TimerHandle | None = None

    def _listener(self, host: str, port: int) -> Listener:
        def make() -> Connection:
            return Connection(self.shared, self._greet)

        tls = self.tls
        if tls is None:
            return Listener(host, port, make)
        reason = (
            f"broker {self.name} speaks TLS: connect to reefcast+tls://{host}:{port}, with the "
            "authority of its network"
        )
        return TlsListener(
            host,
            port,
            make,
            refuse=lambda: RefusedConnection(self.shared, reason),
            context=lambda: tls.value.answering,
            failed=self.say_no_tls,
        )

    def _admin_door(self) -> Door | None:
        address = self.network.admin_address(self.name)
        if address is None:
            return None
        with extra_for("an admin listener"):
            from reefcast.server.web.broker_door import broker_door  # loads aiohttp
        return broker_door(self, *address)

    def _mqtt_front(self) -> MqttFront | None:
        if not self._listens_for("mqtt"):
            return None
        from reefcast.server.mqtt.listening import front_of  # most brokers need none

        return front_of(self)

    def _http_listeners(self) -> HttpListeners | None:
        if not self._listens_for("http"):
            return None
        with extra_for("an HTTP listener"):
            from reefcast.server.http.listening import HttpListeners  # loads aiohttp
        return HttpListeners(self, self._greet)

    def _listens_for(self, protocol: str) -> bool:
        own = [each for each in self.network.listener if each.broker == self.name]
        return any(each.protocol == protocol for each in own)

    def say_no_tls(self, other: str, error: BaseException) -> None:
        words = "no TLS with %s: %s"
        reason = in_words(error, other)
        fields = {"connection": other, "reason": reason}
        shown = part("connections")
        self.shared.floods.log(shown, logging.INFO, "no_tls", words, other, reason, about=fields)

    @property
    def authenticator(self) -> Authenticator:
        return self._current.now

    @property
    def links(self) -> dict[str, BrokerLink]:
        return self.overlay_links.links

    # --- life -------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Listen, and dial the neighbours that this broker is to dial.

        Raises `ConfigurationError` if it cannot listen on an address."""
        try:
            for listener in self.listeners:
                await listener.open(f"broker {self.name}")
            if self.door is not None:
                await self.door.open()
        except ConfigurationError:
            for listener in self.listeners:
                listener.close()
            raise
        self._tick_timer = self.loop.call_later(TICK_S, self._tick)
        self.overlay_links.dial()

    async def stop(self) -> None:
        """Drain, then stop. Take no new input from clients, and send what was accepted from them.
        Neighbours hold back what is for this broker; what they sent before is passed on.
        Subscribers get what waits for them and CLOSE. Neighbours get what waits for them, and
        acknowledge it, over a new connection if one breaks meanwhile. This takes at most `drain_s`;
        then connections have `LINGER_S` to close. What nobody took is counted and logged."""
        self.stopping = True
        self.draining.close()
        self._refuse()
        if self.mqtt is not None:
            self.mqtt.wills.publish_all()
        until_s = self.loop.time() + self.network.limits.drain_s
        await self._until(lambda: self._has_left() and self._served(), until_s)
        for leave in self.before_leaving:
            await leave()
        self._keep_statistics()
        reason = self._stop_reason
        self.clients.end_all(reason)
        # What a soft link cannot deliver in half of the time goes over the other links.
        await self._until(lambda: self.soft_links.drained, (self.loop.time() + until_s) / 2)
        self.soft_links.leave(reason)
        await self._until(self._handed_over, until_s)
        self._say_what_is_lost()
        await self._close_connections(reason)

    @property
    def _stop_reason(self) -> str:
        return f"broker {self.name} was told to stop; come back later"

    def _has_left(self) -> bool:
        """Return whether the near neighbours have sent everything; forget those that are no longer
        near."""
        near = self.overlay_links.near()
        if near != self._told:
            self._told = near
            self.host.driver.handle(Leave(near), "")
        return self.host.core.neighbours.left

    def _keep_statistics(self) -> None:
        """Keep the statistics of clients' deliveries beyond the end of the broker: their
        connections end next, which must not look as if they wanted nothing more."""
        if self.host.statistics is not None:
            self.host.statistics.close()

    def _served(self) -> bool:
        """Return whether this broker owes its clients nothing more."""
        return not self.host.core.holds_publications and all(
            port.empty for port in self.host.outputs.clients.values()
        )

    def _handed_over(self) -> bool:
        """Return whether the near neighbours have everything that is for them: what was sent to
        them, what waited until they had relearned, and the wills of who was connected until now."""
        core, near = self.host.core, self.overlay_links.near()
        holds = core.holds_publications or core.neighbours.holds_for(near)
        return not holds and self.overlay_links.drained()

    def _say_what_is_lost(self) -> None:
        """Log what this broker has taken over and nobody else has."""
        count = len(list(self.host.core.waiting(self.overlay_links.unacknowledged())))
        if count:
            self.host.journal.counters["link_lost"] += count
            words = "broker %s stops with %d publications that nobody took"
            log.warning(words, self.name, count, extra=about(broker=self.name, count=count))

    def _refuse(self) -> None:
        """Refuse everybody but neighbours whose connection broke a moment ago."""
        for listener in self.listeners[1:]:
            listener.close()
        self.clients.refuse(self._stop_reason)
        self.overlay_links.refuse()
        self.soft_links.refuse()

    async def _until(self, done: Callable[[], bool], until_s: float) -> None:
        # Only sockets know when they are empty, and they tell nobody: so ask again.
        while not done() and self.loop.time() < until_s:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    async def _close_connections(self, reason: str) -> None:
        self.listeners[0].close()
        self.overlay_links.hang_up()
        # In the same order whenever the same is done: simulated runs repeat themselves.
        connections = sorted(self.shared.all, key=_where)
        for connection in connections:
            connection.close(reason, retry=True)
        # Native connections end by themselves; lines of other protocols may not.
        gone_s = self.loop.time() + LINGER_S
        await self._until(lambda: all(each.closed.is_set() for each in connections), gone_s)
        for connection in connections:
            if not connection.closed.is_set():
                connection.transport.abort()
            await connection.closed.wait()
        if self._tick_timer is not None:
            self._tick_timer.cancel()
        for each in (self.door, self.http):
            if each is not None:
                await each.close()
        self.host.driver.close()
        self.shared.authenticator.close()
        self.host.audit.close()
        if self.host.keeper is not None:
            await self.host.keeper.close()
        self.host.journal.floods.sum_up()
        self._keep_statistics()
        self.overlay_links.close()
        self._snapshot()
        await asyncio.gather(*self.former_traces)
        if self.host.journal.trace is not None:
            await self.host.journal.trace.finish()
        if self.host.requests is not None:
            await self.host.requests.finish()

    def reload(self, *, again: bool = True) -> tuple[bool, str]:
        """Read certificates and keys again; see `member.renew`."""
        if self.tls is None:
            return False, ""
        return renew(self.tls, self.name, self.kind, again=again)

    def _tick(self) -> None:
        now = self.loop.time()
        self._tick_timer = self.loop.call_later(TICK_S, self._tick)
        if self.host.samples is not None:
            self.host.samples.tick()
        for each in (self.door, self.mqtt, self.http):
            if each is not None:
                each.tick(now)
        self.host.watching.tick(now)
        self.host.congestion.tick(now)
        self.clients.forget_old(now)
        self.of_users.forget_old()
        self.host.journal.floods.tick(now)
        self.host.audit.tick(now)
        self.look_at_users()
        if self.host.statistics is not None:
            self.host.statistics.expire(now)
        self.reload(again=False)
        self._snapshot()
        if self.host.journal.trace is not None:
            self.host.journal.trace.flush_if_due(now)
        if self.host.requests is not None:
            self.host.requests.flush_if_due(now)

    # --- what users may do ------------------------------------------------------------------------

    def regrant(
        self, roles: Sequence[RoleEntry] | None = None, renewed: Renew = lambda subject: subject
    ) -> None:
        """Have clients, and the owners of durable sessions, do at once what they may do now.

        `roles`: those of the network file, if they have changed; `renewed`: returns what a user is
        now, with his roles and claims, and None if there is no such user any more. What a client
        must no longer see is not matched for it, and dropped where it waits in this broker; what
        it may see besides comes as soon as its rows have settled. Raises `ConfigurationError`, and
        changes nothing, for roles that contradict themselves."""
        granting, hosting = self.host.core.granting, self.host.core.delivering.hosting
        before = granting.grants
        if roles is not None:
            granting.grants = grants_of(roles)
        self.clients.regrant(renewed)
        for link, subject in hosting.subjects().items():
            now = renewed(subject) or Subject(subject.user, subject.proof)
            if now != subject or granting.of(now) != before.of(subject):
                self.host.driver.handle(Regrant(now), link)

    def become(self, network: NetworkFile) -> None:
        """Authenticate users, and grant them rights, as this network file says: the present one
        with other `[security]`, `[[certificate]]`s and `[[role]]`s. Raises `ConfigurationError` for
        files that are not there or wrong, and then changes nothing."""
        grants_of(network.role)
        self._current.become(network)
        self.network = network
        self._review()
        self.regrant(network.role)

    def look_at_users(self) -> bool:
        """Read the files of users again if they have changed; return whether they have."""
        if changed := self.shared.authenticator.look():
            self._review()
        return changed

    # --- who comes in -----------------------------------------------------------------------------

    def _greet(self, connection: Connection, hello: Hello) -> End | None:
        """Let the authenticator prove the other end; its principal then has the role that `hello`
        needs."""
        if hello.role in (Role.CLIENT, Role.ADMIN):
            objection = self.of_users.objection(connection)
            if objection:
                connection.close(objection, retry=True)
                return None
        if hello.role is Role.CLIENT:
            return self.clients.arrive(connection, hello)
        if hello.role is Role.ADMIN:
            connection.say_hello(self.host.me)
            granting, audit = self.host.core.granting, self.host.audit
            asked = connection, self.status, self.wishes.meet
            end = AdminEnd(*asked, lambda: granting.grants, audit)
            end.shows = self.looks.answer
            return end
        if hello.role is Role.SOFT:
            return self.soft_links.arrive(connection, hello)
        return self.overlay_links.arrive(connection, hello)

    def _review(self) -> None:
        """Review all users: end the sessions and connections of those who no longer exist, and
        apply the present rights of the others, also as owners of durable sessions."""
        review = self.shared.authenticator.review
        for session in list(self.clients.sessions.values()):
            if session.port.line is None and review(session.principal) is None:
                session.end()
        for line in sorted(self.shared.all, key=_where):
            principal = review(line.principal)
            if principal is None:
                self._end_line(line)
            elif principal is not line.principal:
                line.prove_again(principal)
        self.regrant(renewed=self._renewed)

    def _end_line(self, line: Line) -> None:
        """End a connection whose proof no longer counts."""
        user = line.principal.user
        if line.principal.proof != TOKEN:
            line.close(f"user {user!r} was removed")
            return
        reason = f"the key that signed the token of user {user!r} was removed"
        self.host.audit.write("expired", user=user, reason=reason)
        line.close(reason, retry=True)

    def _renewed(self, subject: Subject) -> Subject | None:
        """Return what a user is by now, None if there is no such user any more."""
        client = frozenset({UserRole.CLIENT})
        before = Principal(subject.user, client, subject.proof, subject.granted, subject.claims)
        now = self.shared.authenticator.review(before)
        return None if now is None else msgspec.structs.replace(subject, granted=now.granted)

    # --- what can be seen -------------------------------------------------------------------------

    def status(self, request: StatusRequest) -> dict[str, object]:
        """Return the status of the core, with the live state of links and clients, as plain
        data."""
        now = self.loop.time()
        asked = request.network_file
        return {
            **host_status(self.host, request, now),
            **({"network_file": dump_network(self.network.for_peers())} if asked else {}),
            **process_status(),
            "uptime_s": round(self.uptime_s, 3),
            "stopping": self.stopping,
            **self.wishes.status(),
            "mqtt": None if self.mqtt is None else self.mqtt.status(),
            "http": None if self.http is None else self.http.status(),
            "certificate": None if self.tls is None else certificate_status(self.tls.value),
            "links": self.link_states(),
            **clients_status(list(self.clients.sessions.values())),
        }

    @property
    def uptime_s(self) -> float:
        """Seconds since it was made."""
        return self.loop.time() - self._started_at_s

    def link_states(self) -> list[dict[str, Any]]:
        """Return the state of each link, soft ones included."""
        return [*self.overlay_links.status(), *self.soft_links.status()]

    def _snapshot(self) -> None:
        """Write a snapshot into the trace, if there is one."""
        core, journal = self.host.core, self.host.journal
        if journal.trace is None:
            return
        queues = {name: queue.window.queue_len for name, queue in self.host.outputs.links.items()}
        journal.trace.snapshot(
            core.tables(),
            queues,
            core.counters + journal.counters,
            core.links.lst.found_overloaded,
        )


def _where(line: Line) -> str:
    named = line.transport.get_extra_info  # no other open connection has both addresses
    return f"{named('peername')} {named('sockname')}"

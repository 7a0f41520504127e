"""One connection of an MQTT client to a broker.

Rules
-----
- The first packet is CONNECT; it must come within `HELLO_S`, and be answered within another
  `HELLO_S`. When one of these is over, what has come is still read: this broker may have been
  busy. Its authenticator proves who the client is, as for any other.
- What comes behind a packet that is being worked on waits, and nothing more is read meanwhile: so
  does what comes while the client has no credit to publish.
- After `SLICE_S` of work on one read the other connections get their turn.
- What the client does wrong ends with DISCONNECT (3.1.1: with nothing), for this connection alone.
- A client that is silent for one and a half times its keep-alive is gone (MQTT-3.1.2-22)."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import cast

from reefcast.errors import BusyError, InternalError, ProtocolError
from reefcast.logs import part
from reefcast.model.effort import FilterLimits
from reefcast.model.messages import ControlMessage, Publish
from reefcast.model.wire import Hello, Role, hello
from reefcast.mqtt.delivering import NO_LIMIT
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.gateway import Gateway
from reefcast.mqtt.packets import MQTT_3_1_1, Connect, Packet
from reefcast.mqtt.reasons import (
    MqttError,
    Reason,
)
from reefcast.mqtt.surroundings import Settings
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.principal import NOBODY, Principal
from reefcast.server.asking import filter_limits
from reefcast.server.auditing import said_of, who
from reefcast.server.client_session import ClientSession
from reefcast.server.clients import Welcome
from reefcast.server.connection import HELLO_S, SLICE_S
from reefcast.server.mqtt.front import MqttFront
from reefcast.server.mqtt.inflow import Inflow
from reefcast.server.mqtt.introduction import (
    client_id_of,
    may_last,
    refusal_of,
    shown_in,
    silence_s,
)
from reefcast.server.mqtt.parting import last_packet
from reefcast.server.mqtt.port import MqttPort
from reefcast.server.mqtt.wills import Key
from reefcast.server.outbox import HIGH_WATER_BYTES
from reefcast.server.web.proving import RequestGreeting, prove
from reefcast.timing import MACHINE, now_us

LATE_S = 0.05
"""How long a broker still waits for a packet that is due."""
CLOSING_S = 2.0
"""How long the last packet of a connection may take to be written."""

log = part("connections")


class MqttLine(asyncio.Protocol):
    """One connection. `client_id`: the client's identifier; `user`: whose it is; `gateway`: None
    before the client is admitted. `over`: whether it is closing, or closed."""

    def __init__(self, front: MqttFront, settings: Settings) -> None:
        self._front = front
        self._settings = settings
        self._shared = front.shared
        self._loop = asyncio.get_running_loop()
        self._inflow = Inflow(settings.maximum_packet_size)
        self._paused = self._stopped_reading = self._working = False
        self._most_bytes = NO_LIMIT
        self._heard_s = self._loop.time()
        self._silence_s = math.inf
        self._timer: asyncio.TimerHandle | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self._proving: asyncio.Task[None] | None = None
        self._port: MqttPort | None = None
        self._session: ClientSession | None = None
        self._connected = self._has_left = self._is_late = False
        self.gateway: Gateway | None = None
        self.client_id = ""
        self.hello: Hello | None = None
        self.principal: Principal = NOBODY
        self.tried = ""
        self.greeted = self.over = False
        self.closed = asyncio.Event()
        self.transport: asyncio.Transport

    # --- asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)
        self._shared.all.add(self)
        self._set_timer(HELLO_S)
        if len(self._shared.all) > self._shared.limit:
            most = f"this broker has {self._shared.limit} connections already, which is the most"
            self.close(f"{most} (max_connections in [limits])", retry=True)
        elif self._shared.greetings is not None:
            self._shared.greetings.began(self)

    def data_received(self, data: bytes) -> None:
        self._heard_s = self._loop.time()
        if self.over:
            return
        self._inflow.came(data)
        if not self._working:
            self._work()

    def pause_writing(self) -> None:
        if self._port is not None:
            self._port.paused = True

    def resume_writing(self) -> None:
        if self._port is not None:
            self._port.resume()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.greeted:
            self._shared.audit.limited("disconnected", **who(self))
        self.over = True
        self._leave()
        self._stop_timers()
        if self._proving is not None:
            self._proving.cancel()
        self._shared.all.discard(self)
        self.closed.set()

    # --- packets ----------------------------------------------------------------------------------

    def _work(self) -> None:
        """Handle what came, as far as it can be handled now."""
        self._working = True
        stopwatch_s = MACHINE.get().stopwatch_s
        until_s = stopwatch_s() + SLICE_S
        try:
            while not self.over and self._step() and stopwatch_s() < until_s:
                pass
            if self.gateway is not None and not self.over:
                self.gateway.flush()
        except MqttError as error:
            self.end(error.reason, str(error))
        except ProtocolError as error:
            self.end(Reason.PROTOCOL_ERROR, str(error))
        except InternalError as error:
            self.end(Reason.UNSPECIFIED_ERROR, str(error))
        except Exception:
            self._failed()
        self._working = False
        self._go_on_later()

    def _step(self) -> bool:
        """Handle some of what came; return False if nothing can be handled now."""
        goes_on, packet = self._inflow.step()
        if packet is not None:
            self._handle(packet)
        return goes_on

    def _handle(self, packet: Packet) -> None:
        if self.gateway is None:
            if not isinstance(packet, Connect):
                raise MqttError(Reason.PROTOCOL_ERROR, "the first packet must be CONNECT")
            self._connect(packet)
            return
        self.gateway.handle(packet)

    def _go_on_later(self) -> None:
        """Read on if nothing waits; come back soon if what waits may be handled."""
        if self.over:
            return
        waits = self._inflow.waits
        if self._inflow.may_go_on:
            self._loop.call_soon(self._go_on)
        if waits is not self._paused:
            self._paused = waits
            if waits:
                self.transport.pause_reading()
            elif not self._stopped_reading:
                self._heard_s = self._loop.time()
                self.transport.resume_reading()

    def _go_on(self) -> None:
        if not (self._working or self.over):
            self._work()

    def granted(self, credit: int) -> None:
        """Take credit for further publications."""
        self._inflow.credit += credit
        if self._inflow.waits and not self._working:
            self._loop.call_soon(self._go_on)

    def _failed(self) -> None:
        words = "error while handling input from %s"
        self.note(
            "failures", words, said_of(self)["connection"], level=logging.ERROR, traceback=True
        )
        self.end(Reason.UNSPECIFIED_ERROR, "the broker failed on this input; its log says how")

    # --- who it is --------------------------------------------------------------------------------

    def _connect(self, packet: Connect) -> None:
        """Begin to prove who the client is."""
        self._most_bytes = packet.properties.maximum_packet_size or NO_LIMIT
        assigned = not packet.client_id
        self.client_id = client_id_of(packet, self.version)
        self._is_late = False
        self._set_timer(HELLO_S)
        self.hello = hello(Role.CLIENT, self.client_id, "", MACHINE.get().token(16))
        self._proving = self._loop.create_task(self._prove(packet, self.hello, assigned=assigned))

    async def _prove(self, packet: Connect, hello: Hello, *, assigned: bool) -> None:
        greeting = None
        try:
            shown = self.transport.get_extra_info
            greeting = RequestGreeting(hello, shown, shown_in(packet))
            self.principal = await prove(self._shared.authenticator, greeting)
            if not self.over:
                self._let_in(packet, assigned=assigned)
        except BusyError as error:
            self.end(Reason.CONNECTION_RATE_EXCEEDED, str(error))
        except MqttError as error:
            self.end(error.reason, str(error))
        except ProtocolError as error:
            self.tried = greeting.tried if greeting is not None else ""
            self.end(refusal_of(packet), str(error))
        except Exception:
            self._failed()

    def _let_in(self, packet: Connect, *, assigned: bool) -> None:
        front = self._front
        objection = front.node.of_users.objection(self)
        if objection:
            raise MqttError(Reason.QUOTA_EXCEEDED, objection)
        wait_s, lasting = 0.0, may_last(packet, self.version)
        if lasting or not assigned:
            wait_s = front.wait_s(self.principal.user, self.client_id, self._loop.time())
        front.take_over(self, anew=packet.clean_start)
        identity = front.identity(self.principal.user, self.client_id, lasting=lasting)
        asked = hello(
            *(Role.CLIENT, identity.id, "", MACHINE.get().token(16)), secret=identity.secret
        )
        self.hello = asked
        self._silence_s = silence_s(packet, self._settings.keep_alive_s)

        def make_port() -> MqttPort:
            self._port = MqttPort(self._shared.flusher, front.renderer, self.granted)
            self._port.serve(self._make_gateway(packet, identity, assigned=assigned))
            return self._port

        session = front.node.clients.admit(self, asked, make_port, self._welcome)
        if session is None:
            return
        assert self.gateway is not None
        self._session = session
        self._inflow.serve(session, self.gateway)
        self.greeted = True
        self._shared.audit.limited("connected", **who(self))
        at = said_of(self)["connection"]
        self.note("connected", "MQTT client %s is connected from %s", self.client_id, at)
        if self.principal.expires_at_s < math.inf:
            left_s = self.principal.expires_at_s - now_us() / 1e6
            ends = f"the {self.principal.proof} of user {self.principal.user!r} has expired"
            self.later(max(0.0, left_s), lambda: self.end(Reason.MAXIMUM_CONNECT_TIME, ends))
        if wait_s > 0:
            self.later(wait_s, self.gateway.begin)
        else:
            self.gateway.begin()

    def _make_gateway(self, packet: Connect, identity: Identity, *, assigned: bool) -> Gateway:
        front = self._front
        self.gateway = Gateway(
            *(self, packet, self.version, self.client_id, identity.id),
            *(self._settings, front.renderer, self._encode),
            assigned=assigned,
        )
        return self.gateway

    def _welcome(self, session: ClientSession, how: Welcome) -> None:
        self._inflow.credit = how.credit

    @property
    def key(self) -> Key:
        """Which client this is, among those of all users."""
        return self.principal.user, self.client_id

    @property
    def version(self) -> int:
        """The protocol level, that of 3.1.1 as long as it is not known."""
        return self._inflow.version or MQTT_3_1_1

    # --- what the gateway uses (`gateway.Broker`) -------------------------------------------------

    def control(self, message: ControlMessage) -> None:
        if self._session is not None:
            self._session.control(message)

    def publish(self, publications: list[Publish]) -> None:
        if self._session is not None:
            self._session.publications(publications)

    def unspent(self) -> None:
        self.granted(1)

    def write(self, packet: bytes) -> None:
        self._connected = True
        if self._port is not None:
            self._port.push_packet(packet)

    def send(self, packet: bytes) -> None:
        if self._port is not None:
            self._port.push_delivery(packet)

    def now_us(self) -> int:
        return now_us()

    def later(self, delay_s: float, call: Callable[[], None]) -> None:
        def due() -> None:
            self._timers.discard(timer)
            if not self.over:
                call()

        timer = self._loop.call_later(delay_s, due)
        self._timers.add(timer)

    def count(self, name: str) -> None:
        self._front.node.host.journal.counters[name] += 1

    def ready(self) -> None:
        self._inflow.is_ready = True
        self._connected = True
        self._heard_s = self._loop.time()
        self._set_timer(self._silence_s)
        self._loop.call_soon(self._go_on)

    def system(self, topic_filter: str) -> dict[str, bytes]:
        return self._front.system_values(topic_filter)

    def may_see_system(self) -> bool:
        return self._front.may_see_system(self.principal)

    def limits(self) -> FilterLimits:
        return filter_limits(self._front.node.host.limits)

    # --- the end ----------------------------------------------------------------------------------

    def close(
        self,
        reason: str,
        *,
        retry: bool = False,
        too_slow: bool = False,
        elsewhere: tuple[str, ...] = (),
    ) -> None:
        """End the connection for a reason of the broker."""
        if too_slow:
            self.end(Reason.QUOTA_EXCEEDED, reason)
        elif elsewhere and (places := self._front.places(elsewhere)):
            self.end(Reason.USE_ANOTHER_SERVER, reason, places)
        elif retry and self._front.node.stopping:
            self.end(Reason.SERVER_SHUTTING_DOWN, reason)
        elif retry:
            self.end(Reason.SERVER_BUSY, reason)
        else:
            self.end(Reason.ADMINISTRATIVE_ACTION, reason)

    def end(self, reason: Reason, words: str, server_reference: str = "") -> None:
        """End the connection; tell the client why, if it speaks MQTT 5.0."""
        if self.over:
            return
        kind = "closed" if self.greeted else "turned_away"
        if words:
            self.note(kind, "closed the connection to %s: %s", said_of(self)["connection"], words)
            if kind == "turned_away":
                self._shared.audit.limited("refused", **who(self), reason=words)
        last = b""
        if self._inflow.version is not None:  # else nobody knows what it speaks
            last = last_packet(
                *(reason, words, server_reference, self.version, self._encode, self._most_bytes),
                connected=self._connected,
            )
        if self._port is not None:
            self._port.flush()
        self.over = True
        self._leave()
        if last and not self.transport.is_closing():
            self.transport.write(last)
        self.transport.close()
        self._set_timer(CLOSING_S)

    def _encode(self, packet: Packet) -> bytes:
        return encode(packet, self.version)

    def _leave(self) -> None:
        """Leave the broker: the will is published, unless the client took it back, and the session
        ends or waits, as was agreed."""
        self._front.left(self)
        if self._session is not None and self.gateway is not None and not self._has_left:
            self._has_left = True
            self._front.wills.lost(self.key, self, self._session, self.gateway)

    def stop_reading(self) -> None:
        self._stopped_reading = True
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def prove_again(self, principal: Principal) -> None:
        self.principal = principal
        self._shared.audit.limited("proved_again", **who(self))
        if self._session is not None:
            self._session.proved_again(principal)

    # --- time -------------------------------------------------------------------------------------

    def _set_timer(self, delay_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        if delay_s < math.inf:
            self._timer = self._loop.call_later(delay_s, self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        if self.over:
            self.transport.abort()
        elif not (self._inflow.is_ready or self._is_late):
            self._is_late = True  # if this broker was busy, what is due may have come: read it
            self._set_timer(LATE_S)
        elif not self._inflow.is_ready:
            self.end(Reason.UNSPECIFIED_ERROR, f"no end of the greeting within {HELLO_S:g} s")
        else:
            silent_s = self._loop.time() - self._heard_s
            if silent_s >= self._silence_s and not self._paused:
                said = f"nothing was heard for {self._silence_s:g} s"
                self.end(Reason.KEEP_ALIVE_TIMEOUT, said)
            else:
                self._set_timer(max(self._silence_s - silent_s, 0.1))

    def _stop_timers(self) -> None:
        for timer in (self._timer, *self._timers):
            if timer is not None:
                timer.cancel()

    def note(
        self,
        kind: str,
        message: str,
        *args: object,
        level: int = logging.INFO,
        traceback: bool = False,
    ) -> None:
        """Log what happened on this connection, unless there is too much of its kind."""
        about = said_of(self)
        self._shared.floods.log(log, level, kind, message, *args, about=about, traceback=traceback)

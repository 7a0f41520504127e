"""The protocols of the brokers: how a subscriber and a publisher begin, what a publication looks
like, and how the publisher handles what the broker says.

Sockets block here. When a subscriber has begun, `native` reads from its socket.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

from reefcast.errors import PeerError
from reefcast.model import wire
from reefcast.model.messages import Advertise, ControlMessage, Publish, Subscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.client_ids import identity_of
from reefcast.protocol.frames import FrameReader
from reefcast_lab.bench import quotes
from reefcast_lab.bench.live import heads, mqtt, nats
from reefcast_lab.bench.live.brokers import OURS
from reefcast_lab.bench.live.heads import PUBLISHER, SECRET

READ_BYTES = 256 * 1024
SUBSCRIBE_AT_ONCE = 500
"""The most subscriptions that are not settled."""
PING = wire.encode(FrameKind.PING, 0)


class Subscriber(NamedTuple):
    """A connection that will subscribe. `meanwhile` is called after each part of the filters."""

    connection: socket.socket
    name: str
    filters: Sequence[str]
    meanwhile: Callable[[], None]


class Wire(ABC):
    """`number`: the protocol's number in compiled code (`heads`). `ping`: what a client must send
    from time to time, if anything. `credit`: publications that may be sent now; None if there is no
    limit."""

    number: ClassVar[int]
    knows_conditions: ClassVar[bool] = False
    """Whether the broker filters by content; another one sends everything to every connection."""
    ping: ClassVar[bytes] = b""

    def __init__(self) -> None:
        self.credit: int | None = None

    @abstractmethod
    def subscribe(self, who: Subscriber) -> int:
        """Begin as a subscriber; return how many numbered frames have come."""

    @abstractmethod
    def begin_publishing(self, connection: socket.socket) -> None:
        """Begin as the publisher."""

    @abstractmethod
    def publication(self, event: Publication, body: bytes) -> bytes:
        """Return the frame of an event, which contains the encoded event `body`."""

    @abstractmethod
    def take(self, data: bytes) -> bytes:
        """Handle what the broker said to the publisher; return what must be answered."""


class Reefcast(Wire):
    number = heads.REEFCAST
    knows_conditions = True
    ping = PING

    def __init__(self) -> None:
        super().__init__()
        self._frames = FrameReader()

    def subscribe(self, who: Subscriber) -> int:
        name, secret = identity_of(who.name, who.name)
        hello = wire.hello(Role.CLIENT, name, "", who.name, secret=secret, queue_policy="block")
        answers = FrameReader()
        who.connection.sendall(wire.encode(FrameKind.HELLO, hello))
        _await_answers(who.connection, answers, 1)
        for start in range(0, len(who.filters), SUBSCRIBE_AT_ONCE):
            part = who.filters[start : start + SUBSCRIBE_AT_ONCE]
            said = [
                Subscribe((name, number), filter, number)
                for number, filter in enumerate(part, start + 1)
            ]
            who.connection.sendall(b"".join(map(_control, said)))
            _await_answers(who.connection, answers, len(said))
            who.meanwhile()
        return len(who.filters)

    def begin_publishing(self, connection: socket.socket) -> None:
        hello = wire.hello(Role.CLIENT, PUBLISHER, "", PUBLISHER, secret=SECRET)
        advertisement = Advertise((PUBLISHER, 1), quotes.EVERYTHING, 1)
        connection.sendall(wire.encode(FrameKind.HELLO, hello) + _control(advertisement))
        _, answer = _await_answers(connection, self._frames, 2)[0]
        self.credit = wire.decode_hello(answer).credit

    def publication(self, event: Publication, body: bytes) -> bytes:
        return wire.encode_publish(Publish(event, body=body))

    def take(self, data: bytes) -> bytes:
        credit = self.credit or 0
        for kind, payload in self._frames.feed(data):
            if kind == FrameKind.CREDIT:
                credit += wire.decode_number(payload)
            elif kind == FrameKind.CLOSE:
                raise PeerError(f"the broker closed: {wire.decode_close(payload).reason}")
        self.credit = credit
        return b""


def _control(message: ControlMessage) -> bytes:
    return wire.encode(FrameKind.CONTROL, message)


def _await_answers(
    connection: socket.socket, frames: FrameReader, count: int
) -> list[tuple[int, bytes]]:
    """Read until so many answers have come; return them as (kind, payload)."""
    answers: list[tuple[int, bytes]] = []
    while len(answers) < count:
        for kind, payload in frames.feed(read(connection)):
            if kind == FrameKind.CLOSE:
                raise PeerError(f"the broker closed: {wire.decode_close(payload).reason}")
            if kind in (FrameKind.HELLO, FrameKind.CONTROL):
                answers.append((kind, payload))
    return answers


class Mqtt(Wire):
    number = heads.MQTT

    def subscribe(self, who: Subscriber) -> int:
        who.connection.sendall(mqtt.connect(who.name) + mqtt.subscribe())
        _read_exactly(who.connection, mqtt.CONNACK_BYTES + mqtt.SUBACK_BYTES)
        return 0

    def begin_publishing(self, connection: socket.socket) -> None:
        connection.sendall(mqtt.connect(PUBLISHER))
        _read_exactly(connection, mqtt.CONNACK_BYTES)

    def publication(self, event: Publication, body: bytes) -> bytes:
        return mqtt.publish(body)

    def take(self, data: bytes) -> bytes:
        return b""


class Nats(Wire):
    number = heads.NATS

    def __init__(self) -> None:
        super().__init__()
        self._cut = b""

    def subscribe(self, who: Subscriber) -> int:
        who.connection.sendall(nats.CONNECT + nats.subscribe() + nats.PING)
        _read_until(who.connection, nats.PONG)
        return 0

    def begin_publishing(self, connection: socket.socket) -> None:
        connection.sendall(nats.CONNECT + nats.PING)
        _read_until(connection, nats.PONG)

    def publication(self, event: Publication, body: bytes) -> bytes:
        return nats.publish(body)

    def take(self, data: bytes) -> bytes:
        lines = (self._cut + data).splitlines(keepends=True)
        self._cut = lines.pop() if lines and not lines[-1].endswith(nats.END) else b""
        for line in lines:
            if line.startswith(nats.ERROR):
                raise PeerError(f"nats-server says {line!r}")
        return nats.PONG * lines.count(nats.PING)


WIRES: dict[str, type[Wire]] = {OURS: Reefcast, "mosquitto": Mqtt, "nats": Nats}
"""By the name of the broker."""


def read(connection: socket.socket) -> bytes:
    """Read what is there, or what comes next."""
    data = connection.recv(READ_BYTES)
    if not data:
        raise PeerError("the broker closed a connection without a word")
    return data


def _read_exactly(connection: socket.socket, count: int) -> None:
    data = b""
    while len(data) < count:
        data += read(connection)


def _read_until(connection: socket.socket, end: bytes) -> None:
    data = b""
    while not data.endswith(end):
        data += read(connection)

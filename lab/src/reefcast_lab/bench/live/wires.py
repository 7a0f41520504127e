"""What is said on a connection to each of the brokers: how a subscriber and a publisher begin, what
a publication looks like, and what the publisher does about what the broker says.

Sockets block here. Once subscribers have begun, `native` reads from theirs.
"""

from __future__ import annotations

import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import ClassVar

from reefcast.errors import PeerError
from reefcast.model import wire
from reefcast.model.messages import Advertise, ControlMessage, Publish, Subscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.frames import FrameReader
from reefcast_lab.bench.live import heads, mqtt, nats, quotes
from reefcast_lab.bench.live.brokers import OURS

READ_BYTES = 256 * 1024
SUBSCRIBE_AT_ONCE = 500
"""Subscriptions that are under way together."""
PUBLISHER = "p"
PING = wire.encode(FrameKind.PING, 0)


class Wire(ABC):
    """`number`: how compiled code knows it (`heads`). `ping`: what a client must say from time to
    time, if anything. `credit`: publications that may be sent now; None if nobody counts."""

    number: ClassVar[int]
    knows_conditions: ClassVar[bool] = False
    """Whether the broker filters by content; others get everything to every connection."""
    ping: ClassVar[bytes] = b""

    def __init__(self) -> None:
        self.credit: int | None = None

    @abstractmethod
    def subscribe(
        self,
        connection: socket.socket,
        name: str,
        filters: Sequence[str],
        meanwhile: Callable[[], None],
    ) -> int:
        """Begin as a subscriber; how many numbered frames came. `meanwhile` is called when some of
        the filters are there."""

    @abstractmethod
    def begin_publishing(self, connection: socket.socket) -> None:
        """Begin as the publisher."""

    @abstractmethod
    def publication(self, event: Publication, body: bytes) -> bytes:
        """The frame of an event; it holds `body`, the encoded event, as it is."""

    @abstractmethod
    def take(self, data: bytes) -> bytes:
        """Take what the broker said to the publisher; what must be answered."""


class Reefcast(Wire):
    number = heads.REEFCAST
    knows_conditions = True
    ping = PING

    def __init__(self) -> None:
        super().__init__()
        self._frames = FrameReader()

    def subscribe(
        self,
        connection: socket.socket,
        name: str,
        filters: Sequence[str],
        meanwhile: Callable[[], None],
    ) -> int:
        hello = wire.hello(Role.CLIENT, name, "", name, queue_policy="block")
        answers = FrameReader()
        connection.sendall(wire.encode(FrameKind.HELLO, hello))
        _await_answers(connection, answers, 1)
        for start in range(0, len(filters), SUBSCRIBE_AT_ONCE):
            part = filters[start : start + SUBSCRIBE_AT_ONCE]
            said = [
                Subscribe((name, number), filter, number)
                for number, filter in enumerate(part, start + 1)
            ]
            connection.sendall(b"".join(map(_control, said)))
            _await_answers(connection, answers, len(said))
            meanwhile()
        return len(filters)

    def begin_publishing(self, connection: socket.socket) -> None:
        hello = wire.hello(Role.CLIENT, PUBLISHER, "", PUBLISHER)
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
    """That many frames that answer something."""
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

    def subscribe(
        self,
        connection: socket.socket,
        name: str,
        filters: Sequence[str],
        meanwhile: Callable[[], None],
    ) -> int:
        connection.sendall(mqtt.connect(name) + mqtt.subscribe())
        _read_exactly(connection, mqtt.CONNACK_BYTES + mqtt.SUBACK_BYTES)
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

    def subscribe(
        self,
        connection: socket.socket,
        name: str,
        filters: Sequence[str],
        meanwhile: Callable[[], None],
    ) -> int:
        connection.sendall(nats.CONNECT + nats.subscribe() + nats.PING)
        _read_until(connection, nats.PONG)
        return 0

    def begin_publishing(self, connection: socket.socket) -> None:
        connection.sendall(nats.CONNECT + nats.PING)
        _read_until(connection, nats.PONG)

    def publication(self, event: Publication, body: bytes) -> bytes:
        return nats.publish(body)

    def take(self, data: bytes) -> bytes:
        if nats.ERROR in data:
            raise PeerError(f"nats-server says {data!r}")
        return nats.PONG * data.count(nats.PING)


WIRES: dict[str, type[Wire]] = {OURS: Reefcast, "mosquitto": Mqtt, "nats": Nats}
"""By the name of the broker."""


def read(connection: socket.socket) -> bytes:
    """What is there next."""
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

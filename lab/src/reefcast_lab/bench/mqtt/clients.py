"""The clients of the load, which speak MQTT 3.1.1 on sockets that do not block.

All PUBLISH packets of a load have the same size, and all other packets that come have four bytes:
so what came is counted without a look at most of it, and clients cost less than brokers."""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Iterator, Sequence

from reefcast.errors import PeerError
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    Connack,
    Connect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    TopicRequest,
)

WINDOW = 100
"""The most unacknowledged publications of a publisher: mosquitto's queue for one client is not full
then, and brokers have something to do while packets are on their way."""
READ_BYTES, AT_ONCE_BYTES = 256 * 1024, 32 * 1024
ANSWER_BYTES = 4
AT_ONCE = 200
"""Topic filters in one SUBSCRIBE."""
PATIENCE_S = 300.0
_PUBLISH, _PUBACK, _PUBREC, _PUBREL, _PUBCOMP = 0x3, 0x4, 0x5, 0x6, 0x7


class Client:
    """A connection that is accepted."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), PATIENCE_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._decoder = Decoder(MQTT_3_1_1)
        self._rest = b""
        self.waiting = bytearray()
        self.send_now(Connect(name))
        (answer,) = self._await(1)
        if not isinstance(answer, Connack) or answer.reason:
            raise PeerError(f"the broker refuses a client: {answer}")

    def subscribe(self, filters: Sequence[str], qos: int) -> None:
        """Subscribe to all of these; return when they are granted. Raises `PeerError`."""
        for first in range(0, len(filters), AT_ONCE):
            some = filters[first : first + AT_ONCE]
            self.send_now(Subscribe(1, tuple(TopicRequest(each, qos) for each in some)))
            (answer,) = self._await(1)
            if not isinstance(answer, Suback) or set(answer.reasons) != {qos}:
                raise PeerError(f"the broker does not grant what it should: {answer}")

    def send_now(self, packet: Packet) -> None:
        self.socket.sendall(encode(packet, MQTT_3_1_1))

    def _await(self, count: int) -> list[Packet]:
        packets: list[Packet] = []
        while len(packets) < count:
            found, error = self._decoder.receive(self._received())
            if error is not None:
                raise PeerError(f"the broker said something wrong: {error}")
            packets += found
        return packets

    def _received(self) -> bytes:
        try:
            data = self.socket.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionError as error:
            raise PeerError(f"the broker broke a connection: {error}") from error
        if not data:
            raise PeerError("the broker closed a connection without a word")
        return data

    def write(self, data: bytes = b"") -> None:
        """Send what waits and this, as far as the socket takes it."""
        self.waiting += data
        if self.waiting:
            try:
                del self.waiting[: self.socket.send(self.waiting)]
            except BlockingIOError:
                return

    def packets(self, size: int) -> Iterator[tuple[int, bytes, int]]:
        """Yield what came: the type of each whole packet, the bytes, and where it begins there.
        `size`: of a PUBLISH."""
        data = self._rest + self._received()
        at, end = 0, len(data)
        while at < end:
            kind = data[at] >> 4
            after = at + (size if kind == _PUBLISH else ANSWER_BYTES)
            if after > end:
                break
            yield kind, data, at
            at = after
        self._rest = data[at:]


class Subscriber(Client):
    """A client that acknowledges what it gets. `delivered`: how many came."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.delivered = self._bytes = self._size = self._qos = self._id_at = 0

    def begin(self, packet: Publish) -> None:
        """Get ready for packets like this one."""
        self.socket.setblocking(False)
        self._size, self._qos = len(encode(packet, MQTT_3_1_1)), packet.qos
        head = 3 if self._size - 2 > 0x7F else 2
        self._id_at = head + 2 + len(packet.topic.encode())

    def came(self) -> None:
        if not self._qos:
            self._bytes += len(self._received())
            self.delivered = self._bytes // self._size
            return
        answers, at, first = [], self._id_at, b"\x40\x02" if self._qos == 1 else b"\x50\x02"
        for kind, data, start in self.packets(self._size):
            if kind == _PUBLISH:
                answers.append(first + data[start + at : start + at + 2])
                self.delivered += self._qos == 1
            else:  # PUBREL: now it is delivered
                answers.append(b"\x70\x02" + data[start + 2 : start + 4])
                self.delivered += 1
        self.write(b"".join(answers))


class Publisher(Client):
    """A client that publishes, with at most `WINDOW` publications that are not acknowledged.
    `done`: how many are acknowledged; with
    QoS 0: how many are sent."""

    def __init__(self, port: int, name: str) -> None:
        super().__init__(port, name)
        self.done = self._sent = self._most = 0
        self._free = deque(range(1, WINDOW + 1))
        self._made: list[bytes] = []
        self._qos = self._id_at = 0

    def begin(self, made: Sequence[Publish]) -> None:
        """Get ready to publish these, again and again."""
        self.socket.setblocking(False)
        self._qos = made[0].qos
        self._made = [encode(each, MQTT_3_1_1) for each in made]
        self._id_at = len(self._made[0]) - len(made[0].payload) - 2

    def publish(self, count: int) -> None:
        """Publish so many more."""
        self._most += count

    @property
    def is_done(self) -> bool:
        return self.done == self._most and not self.waiting

    def fill(self) -> None:
        """Publish as much as may be."""
        if self.waiting:
            self.write()
            return
        size = len(self._made[0])
        room = min(self._most - self._sent, max(1, AT_ONCE_BYTES // size))
        room = min(room, len(self._free)) if self._qos else room
        if room > 0:
            made, first = self._made, self._sent
            packets = [made[number % len(made)] for number in range(first, first + room)]
            self._sent += room
            if self._qos:
                packets = list(map(self._numbered, packets))
            else:
                self.done += room
            self.write(b"".join(packets))

    def _numbered(self, packet: bytes) -> bytes:
        at = self._id_at
        return packet[:at] + self._free.popleft().to_bytes(2) + packet[at + 2 :]

    def came(self) -> None:
        last = _PUBACK if self._qos == 1 else _PUBCOMP
        answers = []
        for kind, data, start in self.packets(0):
            id = data[start + 2 : start + 4]
            if kind == last:
                self.done += 1
                self._free.append(int.from_bytes(id))
            elif kind == _PUBREC:
                answers.append(b"\x62\x02" + id)
        self.write(b"".join(answers))

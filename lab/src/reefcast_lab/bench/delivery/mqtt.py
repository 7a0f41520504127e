"""As much of MQTT 3.1.1 as is needed: persistent sessions and QoS 1.

Source: the OASIS standard, sections 2.2 (fixed header), 3.1, 3.3, 3.4, 3.8.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator

from reefcast.errors import PeerError
from reefcast_lab.bench.delivery.events import some_bodies
from reefcast_lab.bench.delivery.wires import Consumer, Publisher, Wire, connected

PUBLISH, PUBACK = 3, 4
CONNACK_BYTES, SUBACK_BYTES = 4, 5
IDS = 65_535


def _length(size: int) -> bytes:
    """Encode the remaining length: seven bits a byte, the lowest first."""
    out = bytearray()
    while size > 127:
        out.append(size & 127 | 128)
        size >>= 7
    out.append(size)
    return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def _packet(first: int, body: bytes) -> bytes:
    return bytes([first]) + _length(len(body)) + body


class Packets:
    """Cuts what a broker says into packets."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the kind of each packet, and what follows its length."""
        data, position = self._rest + data, 0
        while position + 2 <= len(data):
            length, shift, start = 0, 0, position + 1
            while start < len(data):
                length |= (data[start] & 127) << shift
                shift, start = shift + 7, start + 1
                if data[start - 1] < 128:
                    break
            else:
                break
            if len(data) < start + length:
                break
            yield data[position] >> 4, data[start : start + length]
            position = start + length
        self._rest = data[position:]


def _begin(
    port: int, name: str, *subscriptions: bytes, clean: bool
) -> tuple[socket.socket, Packets]:
    """Connect as a client with this name, and subscribe. Read nothing beyond the answers: what the
    session is owed follows directly."""
    connection, packets = connected(port), Packets()
    body = _text("MQTT") + bytes([4, 2 * clean, 0, 0]) + _text(name)
    connection.sendall(_packet(0x10, body) + b"".join(subscriptions))
    left = CONNACK_BYTES + SUBACK_BYTES * len(subscriptions)
    while left:
        data = connection.recv(left)
        if not data:
            raise PeerError("mosquitto closed the connection")
        left -= len(data)
    return connection, packets


def _subscribe(topic: str) -> bytes:
    return _packet(0x82, b"\x00\x01" + _text(topic) + b"\x01")


class Mosquitto(Wire):
    """A broker with persistence; a session is that of a client that is not clean."""

    def prepare(self, run: int, sessions: int) -> None:
        for session in range(sessions):
            self._make(f"run{run}s{session}", f"run/{run}")

    def publisher(self, run: int, number: int) -> Publisher:
        connection, packets = _begin(self.port, f"run{run}p{number}", clean=True)
        return MqttPublisher(connection, packets, f"run/{run}")

    def consumer(self, run: int, session: int) -> Consumer:
        connection, packets = _begin(self.port, f"run{run}s{session}", clean=False)
        return MqttConsumer(connection, packets)

    def make_idle(self, count: int) -> None:
        for number in range(count):
            self._make(f"idle{number}", f"idle/{number}")

    def _make(self, name: str, topic: str) -> None:
        connection, _ = _begin(self.port, name, _subscribe(topic), clean=False)
        connection.sendall(b"\xe0\x00")
        connection.close()


class MqttPublisher(Publisher):
    """Packet ids come round, so a window is smaller than `IDS`."""

    def __init__(self, connection: socket.socket, packets: Packets, topic: str) -> None:
        super().__init__(connection)
        self._packets = packets
        self._numbers: dict[int, int] = {}
        named = _text(topic)
        bodies = some_bodies()
        self._heads = [b"\x32" + _length(len(named) + 2 + len(body)) + named for body in bodies]
        self._bodies = bodies

    def publish(self, first: int, count: int) -> bytes:
        heads, bodies, parts = self._heads, self._bodies, []
        for number in range(first, first + count):
            id, which = number % IDS + 1, number % len(bodies)
            self._numbers[id] = number
            parts += [heads[which], id.to_bytes(2, "big"), bodies[which]]
        return b"".join(parts)

    def confirmed(self, data: bytes) -> tuple[list[int], bytes]:
        numbers = [
            self._numbers.pop(int.from_bytes(body[:2], "big"))
            for kind, body in self._packets.feed(data)
            if kind == PUBACK
        ]
        return numbers, b""


class MqttConsumer(Consumer):
    """It acknowledges each message; MQTT knows nothing else."""

    def __init__(self, connection: socket.socket, packets: Packets) -> None:
        super().__init__(connection)
        self._packets = packets

    def take(self, data: bytes) -> tuple[int, bytes]:
        answers = []
        for kind, body in self._packets.feed(data):
            if kind == PUBLISH:
                start = 2 + int.from_bytes(body[:2], "big")
                answers.append(b"\x40\x02" + body[start : start + 2])
        return len(answers), b"".join(answers)

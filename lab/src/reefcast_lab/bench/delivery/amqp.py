"""As much of AMQP 0-9-1 as is needed: durable queues, publisher confirms, consumers.

A session is a durable queue, bound to the exchange of the run.
Source: the specification, chapters 2.3 (framing) and 4.2 (formats), and the list of its methods;
confirms: https://www.rabbitmq.com/docs/confirms
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import takewhile

from reefcast.errors import PeerError
from reefcast_lab.bench.delivery.events import some_bodies
from reefcast_lab.bench.delivery.wires import (
    PREFETCH,
    READ_BYTES,
    Consumer,
    Publisher,
    Wire,
    connected,
)

METHOD, HEADER, BODY = 1, 2, 3
END = b"\xce"
_HEAD = struct.Struct(">BHI")
_ACK = struct.Struct(">QB")
NO_TABLE = bytes(4)
START, TUNE, OPENED, CHANNEL_OPENED = (10, 10), (10, 30), (10, 41), (20, 11)
EXCHANGE_OK, QUEUE_OK, BIND_OK, SELECT_OK = (40, 11), (50, 11), (50, 21), (85, 11)
QOS_OK, CONSUME_OK, DELIVER, ACK = (60, 11), (60, 21), (60, 60), (60, 80)
DURABLE = 2
DELIVERY_MODE, PERSISTENT = 0x1000, 2
FRAME_BYTES = 131_072
ASK_AT_ONCE = 100


def _text(text: str) -> bytes:
    data = text.encode()
    return bytes([len(data)]) + data


def _long(data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + data


def _frame(kind: int, payload: bytes, channel: int = 1) -> bytes:
    return _HEAD.pack(kind, channel, len(payload)) + payload + END


def _method(method: tuple[int, int], arguments: bytes, channel: int = 1) -> bytes:
    return _frame(METHOD, struct.pack(">HH", *method) + arguments, channel)


class Frames:
    """Cuts what a broker says into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield kind and payload of each frame. Raises `PeerError` if the broker closes."""
        data, position = self._rest + data, 0
        size = len(data)
        while position + 8 <= size:
            kind, _, length = _HEAD.unpack_from(data, position)
            stop = position + 7 + length
            if stop + 1 > size:
                break
            payload = data[position + 7 : stop]
            position = stop + 1
            if kind == METHOD and payload[:4] in (b"\x00\x0a\x00\x32", b"\x00\x14\x00\x28"):
                raise PeerError(f"RabbitMQ closes: {payload[6:].decode(errors='replace')}")
            yield kind, payload
        self._rest = data[position:]


class Channel:
    """A connection with its one channel."""

    def __init__(self, port: int) -> None:
        self.socket = connected(port)
        self.frames = Frames()
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._until(START)
        login = NO_TABLE + _text("PLAIN") + _long(b"\x00guest\x00guest") + _text("en_US")
        self.socket.sendall(_method((10, 11), login, 0))
        self._until(TUNE)
        tuned = struct.pack(">HIH", 16, FRAME_BYTES, 0)
        opening = _method((10, 31), tuned, 0) + _method(
            (10, 40), _text("/") + _text("") + b"\x00", 0
        )
        self.ask(opening, OPENED)
        self.ask(_method((20, 10), _text("")), CHANNEL_OPENED)

    def ask(self, asked: bytes, answer: tuple[int, int], times: int = 1) -> None:
        """Send methods and wait for so many answers of this kind."""
        self.socket.sendall(asked)
        self._until(answer, times)

    def _until(self, answer: tuple[int, int], times: int = 1) -> None:
        wanted = struct.pack(">HH", *answer)
        while times > 0:
            data = self.socket.recv(READ_BYTES)
            if not data:
                raise PeerError("RabbitMQ closed the connection")
            times -= sum(payload[:4] == wanted for _, payload in self.frames.feed(data))


def _declare(queue: str) -> bytes:
    return _method((50, 10), b"\x00\x00" + _text(queue) + bytes([DURABLE]) + NO_TABLE)


def _bind(queue: str, exchange: str, key: str) -> bytes:
    named = _text(queue) + _text(exchange) + _text(key)
    return _method((50, 20), b"\x00\x00" + named + b"\x00" + NO_TABLE)


def _exchange(name: str, kind: str) -> bytes:
    named = _text(name) + _text(kind)
    return _method((40, 10), b"\x00\x00" + named + bytes([DURABLE]) + NO_TABLE)


class RabbitMq(Wire):
    """A node with the user guest."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._channel = Channel(port)

    def prepare(self, run: int, sessions: int) -> None:
        self._channel.ask(_exchange(f"run{run}", "fanout"), EXCHANGE_OK)
        for session in range(sessions):
            queue = f"run{run}.{session}"
            self._channel.ask(_declare(queue) + _bind(queue, f"run{run}", ""), BIND_OK)

    def publisher(self, run: int, number: int) -> Publisher:
        return RabbitMqPublisher(Channel(self.port), f"run{run}")

    def consumer(self, run: int, session: int) -> Consumer:
        return RabbitMqConsumer(Channel(self.port), f"run{run}.{session}")

    def make_idle(self, count: int) -> None:
        self._channel.ask(_exchange("idle", "direct"), EXCHANGE_OK)
        for start in range(0, count, ASK_AT_ONCE):
            queues = [f"idle{number}" for number in range(start, min(count, start + ASK_AT_ONCE))]
            asked = b"".join([_declare(each) + _bind(each, "idle", each) for each in queues])
            self._channel.ask(asked, BIND_OK, len(queues))


class RabbitMqPublisher(Publisher):
    """Its messages are persistent; a confirm may be for all up to one."""

    def __init__(self, channel: Channel, exchange: str) -> None:
        super().__init__(channel.socket)
        channel.ask(_method((85, 10), b"\x00"), SELECT_OK)
        self._frames = channel.frames
        self._open: dict[int, None] = {}
        publish = _method((60, 40), b"\x00\x00" + _text(exchange) + _text("") + b"\x00")
        self._messages = []
        for body in some_bodies():
            header = struct.pack(">HHQHB", 60, 0, len(body), DELIVERY_MODE, PERSISTENT)
            self._messages.append(publish + _frame(HEADER, header) + _frame(BODY, body))

    def publish(self, first: int, count: int) -> bytes:
        messages, numbers = self._messages, range(first, first + count)
        self._open.update(dict.fromkeys(numbers))
        return b"".join([messages[number % len(messages)] for number in numbers])

    def confirmed(self, data: bytes) -> tuple[list[int], bytes]:
        done: list[int] = []
        for _, payload in self._frames.feed(data):
            if payload[:4] != b"\x00\x3c\x00\x50":
                raise PeerError("RabbitMQ did not take a publication")
            tag, several = _ACK.unpack_from(payload, 4)
            confirmed = list(takewhile(tag.__ge__, self._open)) if several else [tag]
            done += confirmed
            for number in confirmed:
                self._open.pop(number, None)
        return done, b""


class RabbitMqConsumer(Consumer):
    """It has a prefetch, and acknowledges all up to the last one that came."""

    def __init__(self, channel: Channel, queue: str) -> None:
        super().__init__(channel.socket)
        self._frames = channel.frames
        self._tag = 0
        channel.ask(_method((60, 10), struct.pack(">IHB", 0, PREFETCH, 0)), QOS_OK)
        consume = b"\x00\x00" + _text(queue) + _text("c") + b"\x00" + NO_TABLE
        channel.socket.sendall(_method((60, 20), consume))

    def take(self, data: bytes) -> tuple[int, bytes]:
        count = 0
        for kind, payload in self._frames.feed(data):
            if kind == METHOD and payload[:4] == b"\x00\x3c\x00\x3c":
                self._tag = int.from_bytes(payload[6:14], "big")  # behind the consumer's name, "c"
            elif kind == BODY:
                count += 1
                last = self._tag
        return count, _method(ACK, _ACK.pack(last, 1)) if count else b""

"""The publishing process, which sends prepared frames at a given rate, or as fast as the broker
takes them.

The frames of all events lie in one buffer. Before some of them are sent with one call, their
numbers and times are written into the buffer. So an event costs the publisher some ten nanoseconds
and the copy into the socket.
"""

from __future__ import annotations

import select
import socket
import time
from collections.abc import Callable

import numpy as np

from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast_lab.bench import quotes
from reefcast_lab.bench.live import heads, wires
from reefcast_lab.bench.live.points import Point
from reefcast_lab.bench.live.wires import WIRES, Wire

AT_ONCE_BYTES = 64 * 1024
EVENTS, EVENTS_BYTES = 20_000, 8 * 1024 * 1024
"""The most different events that there are, and the most bytes; then they repeat."""
LEAST_EVENTS, TRIED_EVENTS = 16, 8
PING_S = 3.0


class Frames:
    """The frames of a point's events, one behind the other in `data`. `starts`: where each begins,
    and where the last one ends; `places`: where the bodies begin."""

    def __init__(self, made_for: Wire, point: Point) -> None:
        payload = np.random.default_rng(quotes.EVENTS_SEED).bytes(point.payload)
        tried = _frames(made_for, point, payload, TRIED_EVENTS)
        size = sum(len(frame) for frame, _ in tried) / TRIED_EVENTS
        count = max(LEAST_EVENTS, min(EVENTS, int(EVENTS_BYTES / size)))
        frames = _frames(made_for, point, payload, count)
        lengths = np.array([len(frame) for frame, _ in frames])
        self.starts = np.concatenate(([0], np.cumsum(lengths)))
        self.places = self.starts[:-1] + np.array([place for _, place in frames])
        self.data = np.frombuffer(bytearray(b"".join(frame for frame, _ in frames)), np.uint8)

    def upto(self, first: int, most: int) -> int:
        """Return the end of what is sent with one call from the event `first` on: at least one
        event, at most `most`."""
        end = int(np.searchsorted(self.starts, self.starts[first] + AT_ONCE_BYTES, "right")) - 1
        return min(max(end, first + 1), first + most, len(self.places))

    def stamped(self, first: int, end: int, seq: int) -> memoryview:
        """Return the frames from `first` to before `end`, numbered from `seq` on, with the time."""
        heads.stamp(self.data, self.places[first:end], seq, time.time_ns() // 1000)
        return self.data[self.starts[first] : self.starts[end]].data


def _frames(made_for: Wire, point: Point, payload: bytes, count: int) -> list[tuple[bytes, int]]:
    """Return the frame of each event, and the place in it where the body begins."""
    made = []
    for seq, attributes in enumerate(quotes.events(count, point.attributes), heads.FIRST_SEQ):
        time_us = time.time_ns() // 1000
        event = Publication(heads.PUBLISHER, seq, time_us, dict(attributes), (), payload)
        body = wire.encode_publication(event)
        frame = made_for.publication(event, body)
        made.append((frame, frame.index(body)))
    return made


class Publisher:
    """The publisher as a `worker.Work`."""

    def __init__(self) -> None:
        self._wire: Wire
        self._connection: socket.socket | None = None
        # Compiled before anything is connected: a broker closes a connection that says nothing.
        heads.stamp(np.empty(0, np.uint8), np.empty(0, np.int64), 0, 0)

    def open(self, broker: str, port: int, point: Point) -> None:
        """Connect to a broker, and prepare the frames of this point."""
        self.close()  # a connection is left over when something failed
        self._wire = WIRES[broker]()
        self._frames = Frames(self._wire, point)
        connection = socket.create_connection(("127.0.0.1", port))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._wire.begin_publishing(connection)
        self._connection = connection
        self._seq = heads.FIRST_SEQ

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    def wait(self, asked: Callable[[float], bool]) -> None:
        while not asked(PING_S):
            if self._connection is not None:
                self._listen(self._connection, 0)
                self._connection.sendall(self._wire.ping)

    def publish(self, count: int, rate_per_s: float) -> int:
        """Publish `count` events at a rate, 0: as fast as the broker takes them. Return when the
        first was sent, in microseconds since 1970."""
        connection = self._connection
        assert connection is not None
        start_ns = time.time_ns()
        sent = 0
        while sent < count:
            due = count
            if rate_per_s:
                due = min(count, int((time.time_ns() - start_ns) / 1e9 * rate_per_s) + 1)
            if due > sent:
                sent += self._send(connection, due - sent)
            else:
                time.sleep(max(0.0, (start_ns - time.time_ns()) / 1e9 + sent / rate_per_s))
        return start_ns // 1000

    def _send(self, connection: socket.socket, most: int) -> int:
        """Send some of the next events; return how many."""
        self._listen(connection, 0)
        while self._wire.credit == 0:
            if not self._listen(connection, PING_S):
                connection.sendall(self._wire.ping)
        if self._wire.credit is not None:
            most = min(most, self._wire.credit)
        first = (self._seq - heads.FIRST_SEQ) % len(self._frames.places)
        end = self._frames.upto(first, most)
        connection.sendall(self._frames.stamped(first, end, self._seq))
        self._seq += end - first
        if self._wire.credit is not None:
            self._wire.credit -= end - first
        return end - first

    def _listen(self, connection: socket.socket, timeout_s: float) -> bool:
        """Handle what the broker sends; return whether it sent anything within `timeout_s`."""
        ready, _, _ = select.select([connection], [], [], timeout_s)
        if ready:
            answer = self._wire.take(wires.read(connection))
            if answer:
                connection.sendall(answer)
        return bool(ready)

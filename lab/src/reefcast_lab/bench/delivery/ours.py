"""Our own protocol, as light as those of the others: bytes and frames, without the client library.

A session is a durable session with one subscription.
"""

from __future__ import annotations

import time
from typing import TypeVar

from reefcast.errors import PeerError
from reefcast.history.messages import CLIENT_CODEC
from reefcast.model import wire
from reefcast.model.messages import (
    FIRST_HOP,
    Advertise,
    Confirmed,
    ControlMessage,
    Refused,
    Settled,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.frames import FrameReader
from reefcast.sessions.messages import (
    Acknowledge,
    AddFilter,
    Attach,
    Done,
    Failed,
    Handed,
    OpenSession,
)
from reefcast_lab.bench.delivery.events import some_events
from reefcast_lab.bench.delivery.wires import (
    PREFETCH,
    READ_BYTES,
    Consumer,
    Publisher,
    Wire,
    connected,
)

MOST_EVENTS = 10_000_000
"""In a queue; more than any run publishes."""
ASK_AT_ONCE = 200
_HEAD = (1, False, FIRST_HOP.hops)
M = TypeVar("M", bound=ControlMessage)


class Frames:
    """What a broker says to one client. `answer`: what is to be said to it now: that frames were
    taken over. `credit`: what it has granted since this was last asked."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._taken = 0
        self.answer = b""
        self.credit = 0

    def feed(self, data: bytes) -> list[ControlMessage]:
        """Return the messages. Raises `PeerError` if the broker closes, or refuses something."""
        messages: list[ControlMessage] = []
        taken = self._taken
        for kind, payload in self._reader.feed(data):
            if kind == FrameKind.CONTROL:
                self._taken += 1
                message = CLIENT_CODEC.decode_control(payload)
                if isinstance(message, Refused | Failed):
                    raise PeerError(f"the broker refuses: {message.reason}")
                messages.append(message)
            elif kind == FrameKind.CREDIT:
                self.credit += wire.decode_number(payload)
            elif kind == FrameKind.HELLO:
                self.credit += wire.decode_hello(payload).credit
            elif kind == FrameKind.CLOSE:
                raise PeerError(f"the broker closes: {wire.decode_close(payload).reason}")
        self.answer = wire.encode(FrameKind.ACK, self._taken) if self._taken > taken else b""
        return messages


class Line:
    """A client's connection while something is set up."""

    def __init__(self, port: int, name: str) -> None:
        self.socket = connected(port)
        self.frames = Frames()
        hello = wire.hello(Role.CLIENT, name, "", name)
        self.socket.sendall(wire.encode(FrameKind.HELLO, hello))
        while not self.frames.credit:
            self.frames.feed(self._some())

    def ask(self, kind: type[M], *asked: ControlMessage) -> list[M]:
        """Send messages and wait for as many of this kind."""
        self.socket.sendall(b"".join(map(control, asked)))
        found: list[M] = []
        while len(found) < len(asked):
            found += [each for each in self.frames.feed(self._some()) if isinstance(each, kind)]
            self.socket.sendall(self.frames.answer)
        return found

    def _some(self) -> bytes:
        data = self.socket.recv(READ_BYTES)
        if not data:
            raise PeerError("the broker closed the connection")
        return data


def control(message: ControlMessage) -> bytes:
    """Return the frame of a message."""
    return wire.encode(FrameKind.CONTROL, message)


class Reefcast(Wire):
    """A broker with a directory for sessions."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self._line: Line | None = None
        self._token = 0

    def prepare(self, run: int, sessions: int) -> None:
        self._make([(_name(run, session), f"run = {run}") for session in range(sessions)])

    def publisher(self, run: int, number: int) -> Publisher:
        return ReefcastPublisher(self.port, run, number)

    def consumer(self, run: int, session: int) -> Consumer:
        return ReefcastConsumer(self.port, run, session)

    def make_idle(self, count: int) -> None:
        self._make([(f"idle {number}", f"idle = {number}") for number in range(count)])

    def _make(self, sessions: list[tuple[str, str]]) -> None:
        line = self._line = self._line or Line(self.port, "setup")
        for start in range(0, len(sessions), ASK_AT_ONCE):
            some = sessions[start : start + ASK_AT_ONCE]
            options: dict[str, float | int | str] = {"max_events": MOST_EVENTS}
            line.ask(
                Done,
                *(OpenSession(token=self._next(), session=n, options=options) for n, _ in some),
            )
            line.ask(Done, *(AddFilter(token=self._next(), session=n, filter=f) for n, f in some))

    def _next(self) -> int:
        self._token += 1
        return self._token


def _name(run: int, session: int) -> str:
    return f"run {run} session {session}"


class ReefcastPublisher(Publisher):
    """It has advertised what it publishes."""

    def __init__(self, port: int, run: int, number: int) -> None:
        self._name = f"r{run}p{number}-{time.time_ns():x}"
        line = Line(port, self._name)
        line.ask(Settled, Advertise((self._name, 1), f"run = {run}", 1))
        super().__init__(line.socket)
        self._frames = line.frames
        self.credit = self._taken_credit()
        self._events = [{**event, "run": run} for event in some_events()]

    def publish(self, first: int, count: int) -> bytes:
        assert self.credit is not None
        self.credit -= count
        name, events, now_us = self._name, self._events, time.time_ns() // 1000
        return b"".join(
            [
                wire.encode_parts(
                    FrameKind.PUBLISH_CONFIRM,
                    _HEAD,
                    wire.encode_publication(
                        Publication(name, number, now_us, events[number % len(events)])
                    ),
                )
                for number in range(first, first + count)
            ]
        )

    def confirmed(self, data: bytes) -> tuple[list[int], bytes]:
        numbers: list[int] = []
        for message in self._frames.feed(data):
            if isinstance(message, Confirmed):
                if message.refused:
                    raise PeerError(f"the broker did not take a publication: {message.refused}")
                numbers += range(message.seq, message.seq + message.more + 1)
        self.credit = (self.credit or 0) + self._taken_credit()
        return numbers, self._frames.answer

    def _taken_credit(self) -> int:
        credit, self._frames.credit = self._frames.credit, 0
        return credit


class ReefcastConsumer(Consumer):
    """It acknowledges all up to the last event that came."""

    def __init__(self, port: int, run: int, session: int) -> None:
        line = Line(port, f"r{run}c{session}-{time.time_ns():x}")
        super().__init__(line.socket)
        self._frames = line.frames
        self._token = 1
        attach = Attach(token=1, session=_name(run, session), consumer=1, window=PREFETCH)
        line.socket.sendall(control(attach))

    def take(self, data: bytes) -> tuple[int, bytes]:
        count = 0
        for message in self._frames.feed(data):
            if isinstance(message, Handed):
                count += len(message.events)
                last = message.events[-1].position
        answer = self._frames.answer
        if count:
            self._token += 1
            answer += control(
                Acknowledge(token=self._token, consumer=1, positions=(last,), up_to=True)
            )
        return count, answer

"""A client, or a neighbour, whose connections break and come back: with the right ticket and count,
with those of before, with others, and where nothing may be resumed."""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple

import msgspec
from broker_doors import MESSAGES, BrokerDoor, Transport

from fuzzing import changed_packed
from live_networks import until
from reefcast.model import wire
from reefcast.model.messages import Subscribe
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.protocol.frames import FrameReader
from reefcast.server.connection import Connection

LINES = 2
"""How many connections of one client are open at once."""


class Step(NamedTuple):
    """What happens on line `at`; see `Comer`."""

    what: str
    at: int = 0
    seed: int = 0


WHAT = ("hello",) * 4 + ("lose",) * 3 + ("events",) * 3 + ("ack", "ack", "say", "close", "pause")


def made(rng: random.Random) -> list[Step]:
    """A life of one client."""
    steps = [Step("hello", 0, 0), Step("events", 0, 1)]
    for _ in range(rng.choice((2, 4, 8, 12))):
        steps.append(Step(rng.choice(WHAT), rng.randrange(LINES), rng.randrange(1 << 30)))
    return steps


class Line:
    """One connection, as the client sees it. `hello`: the broker's."""

    def __init__(self, door: BrokerDoor) -> None:
        self.transport = Transport()
        self.connection = Connection(door.node.shared, door.node._greet)
        self.connection.connection_made(self.transport)
        self._reader = FrameReader()
        self.hello: Hello | None = None

    @property
    def open(self) -> bool:
        return not (self.transport.closed or self.connection.over)

    def say(self, data: bytes) -> None:
        if self.open:
            self.connection.data_received(data)

    def say_hello(self, hello: Hello) -> None:
        self.say(wire.encode(FrameKind.HELLO, hello))

    def read(self, found: list[int] | None = None) -> int:
        """Read what came; return how many numbered frames there are. `found`: where the numbers of
        publications are put."""
        data, self.transport.written = b"".join(self.transport.written), []
        count = 0
        for kind, payload in self._reader.feed(data):
            if kind == FrameKind.HELLO:
                self.hello = wire.decode_hello(payload)
            elif kind in (FrameKind.CONTROL, FrameKind.DELIVER, FrameKind.DELIVER_AGAIN):
                count += 1
            if found is not None and kind in (FrameKind.DELIVER, FrameKind.DELIVER_AGAIN):
                found.append(wire.decode_publication(wire.split_parts(payload)[1]).seq)
        return count

    def lose(self) -> None:
        if not self.transport.closed:
            self.transport.abort()
        self.connection.connection_lost(None)


async def comes_back(door: BrokerDoor) -> None:
    """A client whose connection breaks again and again finds what came, in order and once."""
    found: list[int] = []
    line, received, ticket, first = Line(door), 0, "", door.seq + 1

    def came() -> bool:
        nonlocal received
        received += line.read(found)
        return bool(found) and found[-1] == door.seq

    line.say_hello(wire.hello(Role.CLIENT, "honest", "", "s"))
    line.say(wire.encode(FrameKind.CONTROL, Subscribe(("honest", 1), "of = 'bystander'", 1)))
    for attempt in (1, 2, 3):
        door.publish(attempt)
        await until(came)
        assert line.hello is not None and line.hello.resumed is (attempt > 1)
        ticket = line.hello.ticket
        line.lose()
        door.publish(attempt)
        line = Line(door)
        hello = wire.hello(
            *(Role.CLIENT, "honest", "", "s"), received=received, ticket=ticket, attempt=attempt
        )
        line.say_hello(hello)
    await until(came)
    assert found == list(range(first, door.seq + 1))
    line.say(wire.encode(FrameKind.CLOSE, wire.Close("bye")))
    line.lose()


class Comer:
    """A program that lives by these steps; what it knows of its session may be true."""

    def __init__(self, door: BrokerDoor, role: Role) -> None:
        self._door = door
        self._role = role
        self._lines: dict[int, Line] = {}
        self._tickets = [""]
        self._received = self._attempt = self._told = 0
        self.resumed = 0

    async def live(self, steps: list[Step]) -> None:
        for step in steps:
            rng = random.Random(step.seed)
            line = self._lines.get(step.at)
            if step.what == "hello" and (line is None or rng.random() < 0.2):
                self._say_hello(step.at, rng)
            elif step.what == "events":
                self._door.publish(rng.choice((1, 1, 5)))
            elif line is not None and step.what == "ack":
                line.say(wire.encode(FrameKind.ACK, self._count(rng)))
            elif line is not None and step.what == "say":
                payload = rng.choice(MESSAGES)
                payload = changed_packed(payload, rng) if rng.random() < 0.5 else payload
                line.say(wire.frame(rng.choice((FrameKind.CONTROL, *FrameKind)), payload))
            elif line is not None and step.what == "close":
                line.say(wire.encode(FrameKind.CLOSE, wire.Close("bye")))
            elif line is not None and step.what == "lose":
                self._lines.pop(step.at).lose()
            await asyncio.sleep(0)
            self._read()
        for line in self._lines.values():
            line.lose()
        await asyncio.sleep(0)

    def _read(self) -> None:
        for line in self._lines.values():
            before = line.hello
            count = line.read()
            if line.hello is not before and line.hello is not None:
                self._tickets.append(line.hello.ticket)
                self.resumed += line.hello.resumed
                self._told = line.hello.received
                if not line.hello.resumed:
                    self._received = 0
            self._received += count

    def _count(self, rng: random.Random) -> int:
        wrong = (0, -1, 1, 2**31, 2**63 - 1, self._received + 1, self._received - 1)
        return self._received if rng.random() < 0.7 else rng.choice(wrong)

    def _say_hello(self, at: int, rng: random.Random) -> None:
        line = self._lines.get(at) or Line(self._door)
        self._lines[at] = line
        self._attempt += rng.choice((1, 1, 1, 0, -1))
        client = self._role is Role.CLIENT
        mine = self._door.node.host.me.session
        fields: dict[str, Any] = {
            "ticket": self._tickets[-1] if rng.random() < 0.7 else rng.choice(self._tickets),
            "received": self._count(rng),
            "peer_session": rng.choice((mine, mine, mine, "", "other")),
            "attempt": max(0, self._attempt),
        }
        session = "s" if rng.random() < 0.8 else rng.choice(("", "other"))
        name, network = ("c", "") if client else ("a", "test")
        hello = wire.hello(self._role, name, network, session, **fields)
        if rng.random() < 0.2:
            hello = msgspec.structs.replace(
                hello,
                features=rng.choice((frozenset(), hello.features)),
                resumed=rng.random() < 0.5,
                credit=rng.choice((0, -1, 10**9)),
            )
        payload = wire.encode(FrameKind.HELLO, hello)[wire.HEAD_BYTES :]
        if rng.random() < 0.1:
            payload = changed_packed(payload, rng)
        line.say(wire.frame(FrameKind.HELLO, payload))
        if client and rng.random() < 0.7:
            number = rng.randrange(1, 4)
            wish = Subscribe(("c", number), "of = 'bystander'", number)
            line.say(wire.encode(FrameKind.CONTROL, wish))

"""A broker without sockets: connections of fake transports, and two clients that must not notice
what comes over the others."""

from __future__ import annotations

import asyncio
import gc
import random
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fuzzing import MOST_CPU_S, changed_packed
from live_networks import make_network, until
from reefcast.history import messages as history
from reefcast.model import messages, wire
from reefcast.model.messages import Publish, Subscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.network.listeners import ListenerEntry
from reefcast.protocol.frames import FrameReader
from reefcast.retaining import messages as retaining
from reefcast.routing.registry import routing_named
from reefcast.server.connection import Connection
from reefcast.server.greeting import Authenticator
from reefcast.server.node import Node
from reefcast.sessions import messages as sessions

ROUTINGS = ("acyclic", "mesh", "tid-s")
DELIVERIES = (FrameKind.DELIVER, FrameKind.DELIVER_AGAIN)
TRIED = 200
"""Inputs between two looks at the bystanders."""


class Transport(asyncio.Transport):
    """Takes all that is written."""

    def __init__(self, address: str = "127.0.0.1") -> None:
        super().__init__({"peername": (address, 1), "sockname": ("127.0.0.1", 2)})
        self.written: list[bytes] = []
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: Any) -> None:
        self.written.append(bytes(data))

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        self.closed = True

    close = abort


class Bystander:
    """A client that subscribes to what another one publishes."""

    def __init__(self, node: Node, name: str) -> None:
        self.transport = Transport()
        self.name = name
        self._received = 0
        self.connection = Connection(node.shared, node._greet)
        self.connection.connection_made(self.transport)
        self.say(FrameKind.HELLO, wire.hello(Role.CLIENT, name, "", "s"))

    def say(self, kind: FrameKind, value: object) -> None:
        self.connection.data_received(wire.encode(kind, value))

    def publish(self, seq: int) -> None:
        publication = Publication(self.name, seq, 0, {"of": "bystander", "n": seq})
        body = wire.encode_publication(publication)
        self.connection.data_received(wire.encode_publish(Publish(publication, body=body)))

    def has(self) -> list[int]:
        """The numbers of the publications that came since this was last asked. What came is
        acknowledged: who never does so is cut off in the end."""
        written, self.transport.written = b"".join(self.transport.written), []
        frames = list(FrameReader().feed(written))
        came = sum(kind in (FrameKind.CONTROL, *DELIVERIES) for kind, _ in frames)
        if came:
            self._received += came
            self.say(FrameKind.ACK, self._received)
        return [
            wire.decode_publication(wire.split_parts(payload)[1]).seq
            for kind, payload in frames
            if kind in DELIVERIES
        ]


# --- what is said --------------------------------------------------------------------------------

NAMES = ("c", "c2", "b", "b", "stranger", "", "x" * 201, "$session:1", "127.0.0.1:9")


USUAL = {Role.CLIENT: "c", Role.BROKER: "a", Role.SOFT: "a", Role.ADMIN: ""}


def hello_of(rng: random.Random) -> bytes:
    role = rng.choice((*Role, Role.CLIENT, Role.CLIENT, Role.BROKER, Role.BROKER))
    odd = rng.random() < 0.1
    hello = wire.hello(
        role,
        USUAL[role] if rng.random() < 0.8 else rng.choice(NAMES),
        "test" if rng.random() < 0.95 else rng.choice(("", "other")),
        rng.choice(("s", "t")),
        secret=rng.choice(("", "s", "t" * 300)),
        queue_policy=rng.choice(("", "block", "disconnect", "drop_oldest", "other" * odd)),
        queue_limit=rng.choice((0, 0, 1, 10**6, -1 if odd else 5)),
    )
    return wire.encode(FrameKind.HELLO, hello)


def examples() -> list[Any]:
    """A message of every kind, with plain values."""
    made = []
    routed = {kind for name in ROUTINGS for kind in routing_named(name).messages}
    kinds = (
        *sorted(routed, key=lambda kind: kind.__name__),
        *(messages.Advertise, messages.Unadvertise, messages.Subscribe, messages.Unsubscribe),
        *(messages.Settled, messages.Refused, messages.Confirmed, messages.Synced),
        *(messages.Relearned, messages.Leaving),
        *(history.MESSAGES),
        *(sessions.SESSION_MESSAGES),
        *(retaining.CLIENT_MESSAGES),
    )
    for kind in kinds:
        made.append(wire.encode_message(_example(kind)))
    return made


def _example(kind: Any) -> Any:
    import msgspec

    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.required:
            values[field.name] = _value(msgspec.inspect.type_info(field.type))
    return kind(**values)


def _value(kind: Any) -> Any:
    from msgspec import inspect

    plain: dict[type, Any] = {
        inspect.StrType: "c",
        inspect.BytesType: BODY,
        inspect.IntType: 1,
        inspect.FloatType: 1.0,
        inspect.BoolType: True,
        inspect.NoneType: None,
        inspect.DictType: {},
    }
    if type(kind) in plain:
        return plain[type(kind)]
    if isinstance(kind, inspect.Metadata):
        return _value(kind.type)
    if isinstance(kind, inspect.TupleType):
        return tuple(map(_value, kind.item_types))
    if isinstance(kind, inspect.VarTupleType):
        return (_value(kind.item_type),)
    if isinstance(kind, inspect.ListType):
        return [_value(kind.item_type)]
    if isinstance(kind, inspect.UnionType):
        return _value(kind.types[0])
    if isinstance(kind, inspect.LiteralType):
        return kind.values[0]
    if isinstance(kind, inspect.EnumType):
        return next(iter(kind.cls))
    if isinstance(kind, inspect.StructType):
        return _example(kind.cls)
    raise TypeError(kind)


BODY = wire.encode_publication(Publication("c", 1, 0, {"a": 1, "b": "x", "t": 1.5}, ("t/u",), b"p"))
MESSAGES = examples()


def _payload(kind: FrameKind, rng: random.Random) -> bytes:
    if kind == FrameKind.CONTROL:
        return rng.choice(MESSAGES)
    if kind in PUBLICATIONS:
        body = wire.encode_publication(
            Publication(rng.choice(("c", "c2")), rng.randrange(1, 100), 0, {"a": 1}, ("t",))
        )
        head = rng.choice((wire.FIRST_HEADER, wire.encode_message((1, False, 0)), b"\x92\x01\x02"))
        return wire.frame(kind, len(head).to_bytes(4, "big") + head + body)[5:]
    values: dict[FrameKind, object] = {
        FrameKind.CONGESTION: wire.Congestion("b", 1, True),
        FrameKind.STATUS: wire.StatusRequest(("PRT",), 5),
        FrameKind.CLOSE: wire.Close("bye"),
        FrameKind.WISH: messages.MoveLink("b", "a"),
        FrameKind.DROPPED: wire.Dropped(1, (((1,), 1),)),
    }
    return wire.encode(kind, values.get(kind, rng.choice((0, 1, 5, 2**40, -1))))[5:]


PUBLICATIONS = (
    *(FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN, FrameKind.PUBLISH_CONFIRM),
    *(FrameKind.DELIVER, FrameKind.DELIVER_AGAIN),
)


COMMON = (FrameKind.CONTROL,) * 6 + (FrameKind.PUBLISH, FrameKind.PUBLISH_CONFIRM, FrameKind.ACK)


def conversation(rng: random.Random) -> list[bytes]:
    """What one connection sends, read by read."""
    frames = [hello_of(rng)]
    if rng.random() < 0.1:
        frames[0] = wire.frame(FrameKind.HELLO, changed_packed(frames[0][5:], rng))
    for _ in range(rng.choice((0, 2, 4, 8, 16))):
        kind = rng.choice(tuple(FrameKind) if rng.random() < 0.1 else COMMON)
        payload = _payload(kind, rng)
        if rng.random() < 0.4:
            payload = changed_packed(payload, rng)
        frames.append(wire.frame(kind, payload))
    data = b"".join(frames)
    if rng.random() < 0.1:
        cut = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((1, 2, 5))))
        return [data[a:b] for a, b in zip([0, *cut], [*cut, len(data)], strict=True)]
    return [data] if rng.random() < 0.5 else frames


class BrokerDoor:
    """One broker; each input is a connection to it. `authenticator`: proves others, if not as in a
    network without security."""

    def __init__(
        self,
        routing: str = "acyclic",
        authenticator: Authenticator | None = None,
        admin: str = "",
        http: str = "",
    ) -> None:
        network = make_network("ab", [("a", "b")], routing=routing, link_patience_s=0.02)
        network.broker[1].admin = admin
        if http:
            network.listener.append(ListenerEntry(broker="b", protocol="http", listen=http))
        self.node = Node(network, "b", authenticator=authenticator)
        self.loop = asyncio.get_running_loop()
        self.subscriber = Bystander(self.node, "subscriber")
        self.publisher = Bystander(self.node, "publisher")
        filter = "of = 'bystander'"
        self.subscriber.say(FrameKind.CONTROL, Subscribe(("subscriber", 1), filter, 1))
        self.seq = 0
        self.expected: list[int] = []

    async def knock(self, reads: list[bytes]) -> None:
        transport = Transport()
        connection = Connection(self.node.shared, self.node._greet)
        connection.connection_made(transport)
        for data in reads:
            connection.data_received(data)
            if transport.closed or connection.over:
                break
            await asyncio.sleep(0)
        if not transport.closed:
            transport.abort()
        connection.connection_lost(None)
        await asyncio.sleep(0)

    @asynccontextmanager
    async def trying(self, at: int, seed: int, given: object) -> AsyncIterator[None]:
        """Try input number `at` in the block: it takes no longer than it may, and nothing fails.
        Now and then look at the bystanders, and let time pass."""
        began_s = time.process_time()
        try:
            yield
            assert time.process_time() - began_s < 3 * MOST_CPU_S
            self.check()
            if at % TRIED == 0:
                await self.look()
                self.forget()
                gc.collect()
        except Exception as error:
            error.add_note(f"REEFCAST_FUZZ_ONLY={seed} {given!r:.3000}")
            raise

    def publish(self, count: int = 1) -> None:
        """Have one bystander publish what the other one expects."""
        for _ in range(count):
            self.seq += 1
            self.expected.append(self.seq)
            self.publisher.publish(self.seq)

    async def look(self) -> None:
        """The bystanders go on, and nothing failed."""
        self.subscriber.say(FrameKind.PING, 0)
        self.publish()
        found: list[int] = []

        def came() -> bool:
            found.extend(self.subscriber.has())
            return len(found) >= len(self.expected)

        await until(came)
        assert found == self.expected
        self.expected.clear()
        self.publisher.transport.written.clear()
        self.check()

    def check(self) -> None:
        assert not self.node.host.journal.counters["failures"]

    def forget(self) -> None:
        """Time passes: clients that went are forgotten."""
        self.node.clients.forget_old(self.loop.time() + 1000)

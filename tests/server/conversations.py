"""Recorded conversations with a broker, which are repeated with brokers of later versions.

`python tests/server/conversations.py` records those of this version in a file of its own; files of
former versions are never changed.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, NamedTuple, cast

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a program it is alone

from live_brokers import Live

from live_networks import make_network, path_network, until
from reefcast.model import wire
from reefcast.model.messages import (
    Advertise,
    Publish,
    Relearned,
    Settled,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import RESUME, FrameKind, Hello, Role
from reefcast.protocol.frames import FrameReader

FOLDER = Path(__file__).parent / "conversations"
QUIET_S = 0.5
PATIENCE_S = 60.0
AT_ANY_TIME = {FrameKind.ACK, FrameKind.PING, FrameKind.CREDIT}
"""The frames that a broker may send at any time."""
Frame = tuple[int, bytes]
Step = dict[str, Any]
Dial = Callable[[], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]


def publication(publisher: str, seq: int, **attributes: Any) -> bytes:
    event = Publication(publisher, seq, 1_700_000_000_000_000 + seq, attributes)
    return wire.encode_publish(Publish(event, body=wire.encode_publication(event)))


def control(message: object) -> bytes:
    return wire.encode(FrameKind.CONTROL, message)


def as_client() -> list[bytes]:
    """Return what client c says to its broker."""
    return [
        wire.encode(FrameKind.HELLO, wire.hello(Role.CLIENT, "c", "", "s1")),
        control(Advertise(("c", 1), "x >= 0", 1)) + control(Subscribe(("c", 2), "x > 1", 2)),
        publication("c", 1, x=1) + publication("c", 2, x=2, s="words", truth=True, share=0.5),
        control(Subscribe(("c", 3), "x >", 3)),
        wire.encode(FrameKind.PING, 0) + control(Unsubscribe(("c", 2), 4)),
        publication("c", 3, x=3),
        control(Unadvertise(("c", 1), 5)),
    ]


def as_broker() -> list[bytes]:
    """Return what broker a says to broker b, which has a client with a subscription to `x > 1`."""
    return [
        wire.encode(FrameKind.HELLO, wire.hello(Role.BROKER, "a", "recorded", "s1")),
        control(Synced()) + control(Relearned()),
        control(Advertise(("p", 1), "x >= 0", 1)),
        control(Settled(1)),
        publication("p", 1, x=1) + publication("p", 2, x=2),
        control(Subscribe(("q", 1), "x > 5", 2)),
        control(Unadvertise(("p", 1), 3)),
    ]


class Again(NamedTuple):
    """A step: the connection breaks, and a new one is dialled. `hello` makes the first frame on it
    from the hello that was received on the former one."""

    hello: Callable[[Hello], bytes]


def as_session() -> list[bytes | Again]:
    """Return what client c says that comes back to its session, where an event is not acknowledged
    yet, and then leaves."""
    fields = {"features": (RESUME,)}

    def hello(**more: Any) -> bytes:
        values = {"name": "c", "network": "", "session": "s1", "role": Role.CLIENT}
        versions = {"version": wire.OFFER.version, "oldest": wire.OFFER.oldest}
        return wire.encode(FrameKind.HELLO, Hello(**values, **versions, **fields, **more))

    def back(heard: Hello) -> bytes:
        return hello(peer_session=heard.session, ticket=heard.ticket, received=2, attempt=1)

    return [
        hello(),
        control(Subscribe(("c", 1), "x > 1", 1)),
        publication("c", 1, x=2) + publication("c", 2, x=3),
        wire.encode(FrameKind.ACK, 2),
        Again(back),
        publication("c", 3, x=4),
        wire.encode(FrameKind.CLOSE, wire.Close("done")),
    ]


def as_resumed_link() -> list[bytes | Again]:
    """Return what broker a says that comes back to broker b, both with their memory: b has
    acknowledged the first publication, and has not handled the second."""

    def back(heard: Hello) -> bytes:
        known = {"peer_session": heard.session, "ticket": heard.ticket}
        hello = wire.hello(Role.BROKER, "a", "recorded", "s1", received=4, **known)
        return wire.encode(FrameKind.HELLO, hello)

    return [*as_broker()[:5], Again(back), publication("p", 3, x=3)]


SAID: dict[str, Callable[[], Sequence[bytes | Again]]] = {
    "client": as_client,
    "broker": as_broker,
    "session": as_session,
    "resumed link": as_resumed_link,
}


async def dial_for(who: str, live: Live, stack: AsyncExitStack) -> Dial:
    """Start a broker for the conversation of a client, or of broker a; return how to dial it."""
    if who in ("client", "session"):
        node = await live.node(path_network(1), "b1")
    else:
        network = make_network("ab", [("a", "b")])
        network.network.name = "recorded"
        node = await live.node(network, "b")
        client = await live.client(node, "s")
        asking = asyncio.create_task(client.subscribe("x > 1"))
        stack.callback(asking.cancel)
        await until(lambda: node.host.core.tables()["PRT"])
    host, port = node.network.address(node.name)
    return lambda: asyncio.open_connection(host, port)


class Listener:
    """The reader of one connection; it leaves out the frames that may come at any time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writer = writer
        self.acknowledged = 0
        self._reader = reader
        self._frames = FrameReader()
        self._heard: list[Frame] = []

    async def handle(self) -> Frame:
        """Return the next frame. Raises `EOFError` at the connection's end."""
        while not self._heard:
            await self._read()
        return self._heard.pop(0)

    async def handle_acknowledged(self, number: int) -> None:
        """Read until `number` of the frames sent are acknowledged."""
        while self.acknowledged < number:
            await self._read()

    async def _read(self) -> None:
        data = await self._reader.read(65536)
        if not data:
            raise EOFError
        for kind, payload in self._frames.feed(data):
            if kind == FrameKind.ACK:
                self.acknowledged = wire.decode_number(payload)
            if kind not in AT_ANY_TIME:
                self._heard.append((kind, bytes(payload)))

    async def handle_all(self) -> list[Frame]:
        """Return all frames until nothing more comes, or the connection ends."""
        frames = []
        while True:
            try:
                frames.append(await asyncio.wait_for(self.handle(), QUIET_S))
            except (TimeoutError, EOFError):
                return frames


async def record(said: Sequence[bytes | Again], dial: Dial) -> list[Step]:
    listener = Listener(*await dial())
    steps: list[Step] = []
    for each in said:
        again = isinstance(each, Again)
        if again:
            listener = await redialled(listener, dial)
        data = each.hello(hellos(steps)[-1]) if isinstance(each, Again) else each
        listener.writer.write(data)
        heard = [[kind, payload.hex()] for kind, payload in await listener.handle_all()]
        step = {"say": data.hex(), "hear": heard, "acknowledged": listener.acknowledged}
        steps.append({"again": True, **step} if again else step)
    listener.writer.close()
    return steps


def hellos(steps: list[Step]) -> list[Hello]:
    """Return the hellos that were received."""
    heard = [(kind, payload) for step in steps for kind, payload in step["hear"]]
    return [wire.decode_hello(bytes.fromhex(p)) for kind, p in heard if kind == FrameKind.HELLO]


async def redialled(listener: Listener, dial: Dial) -> Listener:
    listener.writer.transport.abort()
    return Listener(*await dial())


async def hold(steps: list[Step], dial: Dial) -> None:
    """Repeat a conversation, and compare what is received. Where the recorded broker drew something
    at random, send what this broker has drawn instead."""
    listener = Listener(*await dial())
    drawn: dict[bytes, bytes] = {}
    async with asyncio.timeout(PATIENCE_S):
        for step in steps:
            if "again" in step:
                listener = await redialled(listener, dial)
            listener.writer.write(with_drawn(bytes.fromhex(step["say"]), drawn))
            for kind, payload in step["hear"]:
                heard_kind, heard = await listener.handle()
                assert heard_kind == kind, step
                recorded = bytes.fromhex(payload)
                assert same(kind, heard, recorded), (heard, payload)
                if kind == FrameKind.HELLO:
                    now, then = wire.decode_hello(heard), wire.decode_hello(recorded)
                    drawn[then.session.encode()] = now.session.encode()
                    if then.ticket:
                        drawn[then.ticket.encode()] = now.ticket.encode()
            await listener.handle_acknowledged(step["acknowledged"])
        assert listener.acknowledged == steps[-1]["acknowledged"]
    listener.writer.close()


def with_drawn(data: bytes, drawn: dict[bytes, bytes]) -> bytes:
    for then, now in drawn.items():
        if then in data:
            assert len(then) == len(now), (
                "the two strings differ in length, and so would the frames"
            )
            data = data.replace(then, now)
    return data


def same(kind: int, heard: bytes, recorded: bytes) -> bool:
    """Return whether a peer of the recorded version would receive the same. It skips fields that it
    does not know; sessions and tickets differ each time, and sentences may be worded better."""
    if kind in (FrameKind.PUBLISH, FrameKind.DELIVER):
        return heard == recorded
    now, then = (cast("Any", wire.decode_any(payload)) for payload in (heard, recorded))
    if kind == FrameKind.HELLO:
        return all(now.get(key) == then[key] for key in set(then) - {"session", "ticket"})
    if then[0] == "refused":
        return bool(now[:2] == then[:2] and now[3:] == then[3:])
    return bool(now[: len(then)] == then)


async def record_all() -> None:
    conversations = {}
    for who, said in SAID.items():
        async with AsyncExitStack() as stack:
            conversations[who] = await record(said(), await dial_for(who, Live(stack), stack))
    file = file_of(wire.OFFER.version)
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(conversations, indent=1) + "\n")


def read(version: int) -> dict[str, list[Step]]:
    return cast("dict[str, list[Step]]", json.loads(file_of(version).read_text()))


def file_of(version: int) -> Path:
    return FOLDER / f"version-{version}.json"


if __name__ == "__main__":
    asyncio.run(record_all())

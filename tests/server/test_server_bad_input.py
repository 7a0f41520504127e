"""Whatever one connection does wrong, it is told, and the others lose nothing."""

from __future__ import annotations

import asyncio
import itertools
import struct
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from live_brokers import Live, OneBroker
from raw_client import RawClient, expect

from live_networks import has_traceback, make_network
from reefcast.errors import InternalError, ProtocolError
from reefcast.model import wire
from reefcast.model.messages import (
    Advertise,
    Effect,
    Header,
    Publish,
    Send,
    Settled,
    Subscribe,
    Synced,
    Unsubscribe,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role, StatusRequest
from reefcast.routing.broker import Broker
from reefcast.routing.clt import CivSet
from reefcast.routing.router import Decision
from reefcast.server.end import End
from reefcast.server.greeting import LOCAL
from reefcast.server.node import Node


class Bystanders:
    """A publisher and a subscriber who go on, whatever happens to the others."""

    def __init__(self, publisher: RawClient, subscriber: RawClient) -> None:
        self.publisher = publisher
        self.subscriber = subscriber
        self.seen = 0

    async def lose_nothing(self) -> None:
        self.publisher.publish(50, good=True)
        expect(await self.subscriber.seqs_of(50), self.seen + 1, self.seen + 50)
        self.seen += 50


@pytest.fixture
async def node(one: OneBroker) -> Node:
    return await one(credit=64)


@pytest.fixture
async def bystanders(live: Live, node: Node) -> AsyncIterator[Bystanders]:
    publisher = await live.client(node, "good-p")
    await publisher.advertise()
    subscriber = await live.client(node, "good-s")
    await subscriber.subscribe("good = TRUE")
    bystanders = Bystanders(publisher, subscriber)
    await bystanders.lose_nothing()
    yield bystanders
    await bystanders.lose_nothing()


def frame(kind: int, payload: bytes) -> bytes:
    return struct.pack(">IB", 1 + len(payload), kind) + payload


def publish_frame(body: object, header: tuple[object, ...] = (0,)) -> bytes:
    return wire.encode_parts(FrameKind.PUBLISH, header, msgspec.msgpack.encode(body))


BEFORE_HELLO = [
    (b"GET / HTTP/1.1\r\nHost: reefcast\r\n\r\n", "a frame has 1 to"),
    (frame(FrameKind.PUBLISH, b"\x00\x00"), "first frame must be HELLO"),
    (frame(99, b""), "first frame must be HELLO"),
    (frame(FrameKind.HELLO, b"\xff\xff"), "malformed hello"),
    (wire.encode(FrameKind.HELLO, {"version": 1}), "malformed hello"),
    (
        wire.encode(FrameKind.HELLO, {"version": 7, "oldest": 5}),
        "versions 5 to 7.*this one version 1",
    ),
    (struct.pack(">IB", 1_000_000, FrameKind.HELLO), "frame of 1000000 bytes"),
    (struct.pack(">IB", 0, 0), "frame of 0 bytes"),
]


@pytest.mark.parametrize(("data", "reason"), BEFORE_HELLO, ids=[r for _, r in BEFORE_HELLO])
async def test_before_the_hello(
    live: Live, node: Node, bystanders: Bystanders, data: bytes, reason: str
):
    offender = await live.dial(node)
    offender.writer.write(data)
    await matches(offender, reason)


HELLOS: list[tuple[dict[str, Any], str]] = [
    ({"name": ""}, "1 to 200 characters"),
    ({"name": "a"}, "name of a broker"),
    ({"network": "other"}, "belongs to the network 'test'"),
    ({"queue_policy": "often"}, "policy is one of block"),
    ({"queue_limit": -1}, "limit is not negative"),
    ({"role": Role.BROKER, "name": "z", "network": "test"}, "no link to 'z'"),
    ({"role": Role.BROKER, "name": "z", "network": "x"}, "not to 'x'"),
]


@pytest.mark.parametrize(("fields", "reason"), HELLOS, ids=[r for _, r in HELLOS])
async def test_hellos(
    live: Live, node: Node, bystanders: Bystanders, fields: dict[str, Any], reason: str
):
    offender = await live.dial(node)
    offender.say_hello(**fields)
    await matches(offender, reason)


AFTER_HELLO = [
    (frame(77, b"x"), "kind 77"),
    (struct.pack(">IB", 1 << 31, FrameKind.PUBLISH), "frame of 2147483648 bytes"),
    (frame(FrameKind.PUBLISH, b""), "shorter than its header"),
    (frame(FrameKind.PUBLISH, b"\xff\xff\xff\xffabc"), "longer than the frame"),
    (frame(FrameKind.PUBLISH, b"\x00\x00\x00\x01\xc1rest"), "malformed publication header"),
    (publish_frame("no publication"), "malformed publication"),
    (publish_frame(["c", 1, 0, {"x": [1]}, [], b""]), "malformed publication"),
    (publish_frame(["c", 1, 0, {"x": 2**63}, [], b""]), "malformed publication"),
    (publish_frame(["c", 2**63, 0, {"x": 1}, [], b""]), "malformed publication"),
    (publish_frame(["c", 1, 0, {"x": 1}, [7], b""]), "malformed publication"),
    (publish_frame(["c", 1, 0, {b"\xff": 1}, [], b""]), "malformed publication"),
    *(
        (publish_frame(["c", 1, 0, {}, [], b""], header), "header of one that is on its way")
        for header in [(1,), (0, 3), (0, 0, ("c", 1), False), ()]
    ),
    (frame(FrameKind.CONTROL, b"\x93\xa3foo\x01\x02"), "malformed control message"),
    (
        wire.encode(FrameKind.CONTROL, CivSet(advertisements=(("c", 1),), token=1)),
        "control message.*'civ_set'",
    ),
    (wire.encode(FrameKind.CONTROL, Subscribe(("c", 1), "n > 1", 0)), "token 0"),
    (wire.encode(FrameKind.CONTROL, Settled(3)), "must not send Settled"),
    (wire.encode(FrameKind.CONTROL, Synced()), "must not send Synced"),
    (wire.encode(FrameKind.ACK, 3), "ACK frame is out of place from a client"),
    (wire.encode(FrameKind.STATUS, StatusRequest()), "STATUS frame is out of place from a client"),
    (wire.encode(FrameKind.HELLO, None), "kind 1, which has no place here"),
    (
        wire.encode(FrameKind.CONGESTION, wire.Congestion("c", 1, True)),
        "CONGESTION frame is out of place from a client",
    ),
]


@pytest.mark.parametrize(("data", "reason"), AFTER_HELLO, ids=[r for _, r in AFTER_HELLO])
async def test_after_the_hello(
    live: Live, node: Node, bystanders: Bystanders, data: bytes, reason: str
):
    offender = await live.client(node)
    offender.writer.write(data)
    await matches(offender, reason)


async def test_what_only_brokers_of_another_routing_say(live: Live):
    node = await live.node(make_network("ab", [("a", "b")]), "b")
    offender = await live.dial(node, "a")
    offender.say_hello(role=Role.BROKER, network="test")
    offender.send(FrameKind.CONTROL, CivSet(advertisements=(("c", 1),), token=1))
    await matches(offender, "malformed control message.*'civ_set'")


async def test_a_request_for_the_status_that_is_none(live: Live, node: Node):
    offender = await live.dial(node)
    offender.say_hello(role=Role.ADMIN)
    offender.send(FrameKind.STATUS, {"rows": -1})
    await matches(offender, "malformed request for the status")


async def matches(offender: RawClient, reason: str) -> None:
    import re

    said = await offender.reason()
    assert re.search(reason, said), said


async def test_what_came_whole_before_the_error_counts(
    live: Live, node: Node, bystanders: Bystanders
):
    subscriber = await live.client(node, "s")
    await subscriber.subscribe("of = 'offender'")
    offender = await live.client(node)
    await offender.advertise()
    offender.publish(3, of="offender")
    offender.writer.write(frame(77, b""))
    expect(await subscriber.seqs_of(3), 1, 3)


REFUSALS: list[tuple[object, str]] = [
    (Subscribe(("c", 1), "n >", 5), "line 1"),
    (Subscribe(("c", 1), "(" * 5000 + "n > 1" + ")" * 5000, 5), "nest"),
    (Subscribe(("c", 1), "", 5), "line 1"),
    (Advertise(("c", 1), "n LIKE", 5), "line 1"),
    (Subscribe(("other", 1), "n > 1", 5), "not one of client"),
    (Unsubscribe(("c", 9), 5), "no subscription number 9"),
]


@pytest.mark.parametrize(("message", "reason"), REFUSALS, ids=range(len(REFUSALS)))
async def test_refusals_keep_the_connection(
    live: Live, node: Node, bystanders: Bystanders, message: object, reason: str
):
    client = await live.client(node)
    with pytest.raises(ValueError, match=reason):
        await client.ask(message)
    await client.subscribe("n = 1")


async def test_no_hello_in_time(
    live: Live, node: Node, bystanders: Bystanders, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("reefcast.server.connection.HELLO_S", 0.05)
    assert "no hello within" in await (await live.dial(node)).reason()


async def test_silence_is_noticed_and_pings_prevent_it(
    live: Live, node: Node, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(End, "silence_s", 0.3)
    monkeypatch.setattr(End, "ping_s", 0.05)
    client = await live.client(node)
    assert wire.decode_number(await client.next(FrameKind.PING)) == 0
    for _ in range(5):
        client.send(FrameKind.PING, 0)
        await client.next(FrameKind.PING)
    assert "nothing was heard" in await client.reason()


async def test_too_many_clients(live: Live, one: OneBroker):
    node = await one(max_clients=1)
    await live.client(node, "one")
    one_more = await live.dial(node, "two")
    one_more.say_hello()
    assert "1 clients already" in await one_more.reason()
    assert one_more.close_frame is not None and one_more.close_frame.retry
    assert list(node.clients.sessions) == ["one"]


async def test_a_client_that_returns_needs_no_place_of_its_own(live: Live, one: OneBroker):
    node = await one(max_clients=1)
    before = await live.client(node, "one")
    await live.client(node, "one")
    assert "took over" in await before.reason()
    assert list(node.clients.sessions) == ["one"]


async def test_too_many_connections(live: Live, node: Node, bystanders: Bystanders):
    node.shared = node.shared._replace(limit=2)
    offender = await live.dial(node)
    assert "max_connections" in await offender.reason()


async def test_overdrawing_the_credit(live: Live, node: Node, bystanders: Bystanders):
    """The subscriber to the client's own events does not read, so that the client gets no new
    credit."""
    offender = await live.client(node)
    node.host.congestion.full("c")
    await offender.subscribe()
    await offender.advertise()
    for _ in range(4):
        offender.publish(64)
        await offender.writer.drain()
    assert "more than the credit allows" in await offender.reason()


async def test_what_came_before_a_header_that_is_no_clients_counts(
    live: Live, node: Node, bystanders: Bystanders
):
    subscriber = await live.client(node, "s")
    await subscriber.subscribe("of = 'offender'")
    offender = await live.client(node)
    await offender.advertise()
    forged = publish_frame(["c", 4, 0, {"of": "offender"}, [], b""], (0, 1))
    offender.publish(3, of="offender")
    offender.writer.write(forged)
    offender.publish(1, of="offender")
    await offender.reason()
    expect(await subscriber.seqs_of(3), 1, 3)
    assert node.host.core.counters["published"] == bystanders.seen + 3


async def test_an_effect_that_cannot_be_encoded_costs_only_itself(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    nodes = await live.up(make_network("abc", [("a", "b"), ("b", "c")]))
    subscriber = await live.client(nodes["c"], "s")
    await subscriber.subscribe()
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    for name in "ab":  # where it comes from a client, and where it comes from a neighbour
        spoil_header(monkeypatch, nodes[name].host.core, f"poison for {name}")
    for words in ("good", "poison for a", "good", "poison for b", "good"):
        publisher.publish(1, word=words)
    assert await subscriber.seqs_of(3) == [1, 3, 5]
    assert [nodes[name].host.journal.counters["failures"] for name in "abc"] == [1, 1, 0]
    assert not publisher.close_frame
    assert all(link.reconnects == 0 for node in nodes.values() for link in node.links.values())
    assert "broker b failed to carry out: send publication p#4 to c" in caplog.text
    assert has_traceback(caplog)


def only_readable(monkeypatch: pytest.MonkeyPatch, core: Broker) -> None:
    """Let no publication be plain, so that all take the path that fails."""
    monkeypatch.setattr(core.plain_way, "source", lambda link, now: None)


def spoil_header(monkeypatch: pytest.MonkeyPatch, core: Broker, word: str) -> None:
    """Give publications with this word a hop count that no frame can hold."""
    only_readable(monkeypatch, core)
    method = core.handle_publications

    def spoiled(*arguments: Any) -> list[Effect]:
        effects = method(*arguments)
        for at, effect in enumerate(effects):
            if isinstance(effect, Send) and _has(effect.message, word):
                message = msgspec.structs.replace(effect.message, header=Header(2**70))
                effects[at] = Send(effect.link, message)
        return effects

    monkeypatch.setattr(core, "handle_publications", spoiled)


async def test_a_frame_that_grew_too_large_on_the_way_does_not_end_the_link(live: Live):
    network = make_network("ab", [("a", "b")], routing="tid-s")  # a long header between brokers
    nodes = await live.up(network)
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe()
    short = len(publish_frame(["p", 2, 0, {"n": 2, "x": "x" * 70_000}, [], b""])) - 70_000
    publisher.publish(1)
    publisher.publish(1, x="x" * (wire.LENGTH_BYTES + wire.MAX_FRAME_BYTES - short))
    publisher.publish(1)
    assert await subscriber.seqs_of(2) == [1, 3]
    assert nodes["a"].host.journal.counters["failures"] == 1
    assert all(link.reconnects == 0 for node in nodes.values() for link in node.links.values())


async def test_time_does_not_go_back_while_a_read_is_handled(
    live: Live, monkeypatch: pytest.MonkeyPatch
):
    """One read has publications of both paths, the compiled one and the readable one; the windows
    of the links' rates end between them."""
    nodes = await live.up(make_network("ab", [("a", "b")]))
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe()
    publisher.publish(1)
    assert await subscriber.seqs_of(1) == [1]
    loop, host = asyncio.get_running_loop(), nodes["a"].host
    hours, times, pass_time = itertools.count(1), list[float](), host.core.links.pass_time
    clock = SimpleNamespace(time=lambda: loop.time() + 3600 * next(hours), call_at=loop.call_at)
    monkeypatch.setattr(host.driver, "_loop", clock)
    monkeypatch.setattr(
        host.core.links, "pass_time", lambda now: (times.append(now), pass_time(now))
    )
    frames = [
        publish_frame([who, seq, 0, {"n": seq}, [], b""]) for seq, who in enumerate("ppqp", 1)
    ]
    publisher.writer.write(b"".join(frames[1:]))  # the third is not its own, so it is not plain
    assert await subscriber.seqs_of(2) == [2, 4]
    assert len(times) > 2 and times == sorted(times)


async def test_a_subscription_that_cannot_be_passed_on_is_refused(
    live: Live, monkeypatch: pytest.MonkeyPatch
):
    nodes = await live.up(make_network("ab", [("a", "b")]))
    publisher = await live.client(nodes["b"], "p")
    await publisher.advertise()
    monkeypatch.setattr(nodes["a"].links["b"].queue, "send_control", broken)
    subscriber = await live.client(nodes["a"], "s")
    subscriber.send(FrameKind.CONTROL, Subscribe(("s", 1), "n > 0", 1))
    assert "failed on this Subscribe" in await subscriber.reason()


def broken(frame: bytes) -> None:
    raise RuntimeError("a fault of the link")


@pytest.mark.parametrize("method", ["handle", "match", "route"])
async def test_a_core_that_fails_on_one_input(
    live: Live,
    bystanders: Bystanders,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
):
    node = live.nodes["a"]
    core = node.host.core
    only_readable(monkeypatch, core)
    if method == "route":
        monkeypatch.setattr(core.router, method, fails_in_turn("poison", core.router.route))
    else:
        part = core if method == "handle" else core.router
        monkeypatch.setattr(part, method, fails_on("poison", getattr(part, method)))
    offender = await live.client(node, "c")
    await offender.advertise("n > 0")
    subscriber = await live.client(node, "s")
    await subscriber.subscribe("word IS NOT NULL")
    offender.publish(2, word="good")
    if method == "handle":
        offender.send(FrameKind.CONTROL, Subscribe(("c", 9), "word = 'poison'", 9))
    else:
        offender.publish(1, word="poison")
        offender.publish(1, word="good")
    expect(await subscriber.seqs_of(2), 1, 2)
    assert "failed on" in await offender.reason()
    assert node.host.journal.counters["failures"] == 1
    assert has_traceback(caplog)


async def test_a_core_that_fails_on_what_came_before_an_error(
    live: Live, bystanders: Bystanders, monkeypatch: pytest.MonkeyPatch
):
    """Both are in one read: the connection ends with a reason, and the broker goes on."""
    core = live.nodes["a"].host.core
    only_readable(monkeypatch, core)
    monkeypatch.setattr(core, "handle_publications", fails_on("poison", core.handle_publications))
    offender = await live.client(live.nodes["a"])
    await offender.advertise()
    offender.publish(1, word="poison")
    offender.writer.write(frame(77, b""))
    assert "the broker failed on 1 of the publications" in await offender.reason()


async def test_whose_fault_it_is(one: OneBroker, monkeypatch: pytest.MonkeyPatch):
    """A caller in the broker can tell the broker's own fault from that of a client."""
    node = await one()
    monkeypatch.setattr(
        node.host.core,
        "handle_publications",
        fails_on("poison", node.host.core.handle_publications),
    )
    poison = Publish(Publication("p", 1, 0, {"word": "poison"}))
    with pytest.raises(InternalError, match="failed on 1 of the publications"):
        node.host.driver.handle_publications([poison], "p")
    hello = wire.hello(Role.CLIENT, "c", "another", "s")
    with pytest.raises(ProtocolError, match="belongs to the network 'test', not to 'another'"):
        node.clients.admit(SimpleNamespace(principal=LOCAL), hello, None, None)


async def test_a_failure_at_the_next_broker_is_answered(
    live: Live, monkeypatch: pytest.MonkeyPatch
):
    nodes = await live.up(make_network("ab", [("a", "b")]))
    publisher = await live.client(nodes["b"], "p")
    await publisher.advertise()
    core = nodes["b"].host.core
    monkeypatch.setattr(core, "handle", fails_on("poison", core.handle))
    subscriber = await live.client(nodes["a"], "s")
    with pytest.raises(ValueError, match="broker b failed on this Subscribe"):
        await subscriber.subscribe("word = 'poison'")
    await subscriber.subscribe("n > 0")
    publisher.publish(3)
    expect(await subscriber.seqs_of(3), 1, 3)


def fails_on(word: str, method: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(item: object, *rest: Any) -> Any:
        if isinstance(item, Subscribe) and word in item.filter:
            raise RuntimeError("a fault of the core")
        if isinstance(item, (list, tuple)) and any(_has(each, word) for each in item):
            raise RuntimeError("a fault of the core")
        return method(item, *rest)

    return guarded


def fails_in_turn(word: str, method: Callable[..., Iterable[Decision]]) -> Callable[..., Any]:
    """Return decisions one by one, and fail on a publication with this word, as a routing might."""

    def guarded(publications: Sequence[Publish], *rest: Any) -> Iterator[Decision]:
        for publish, decision in zip(publications, method(publications, *rest), strict=True):
            if _has(publish, word):
                raise RuntimeError("a fault of the core")
            yield decision

    return guarded


def _has(publish: object, word: str) -> bool:
    assert isinstance(publish, Publish)
    publication: Publication = publish.publication
    return word in publication.attributes.values()

"""Soft links between live brokers: opened, refused, broken, throttled, closed. Nothing is lost, and
nothing comes twice. Rounds are not due here (see `test_server_mesh_rounds`)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from live_brokers import Live, Throttle, as_seen, count_sent, shut
from live_mesh import (
    Members,
    both_up,
    core_has,
    counted,
    cut,
    cut_after,
    drop,
    gone,
    line,
    opened,
    soft_count,
    wish,
)
from raw_client import Closed, RawClient

from live_networks import linked, path_network, until
from reefcast.model import wire
from reefcast.model.messages import Publish, Subscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role, StatusRequest
from reefcast.network.sections import TraceSection
from reefcast.server.node import Node

# --- opening --------------------------------------------------------------------------------------


async def test_publications_go_over_a_soft_link_that_is_open(live: Live):
    network = line("abc")
    nodes = await live.up(network)
    a, c = nodes["a"], nodes["c"]
    async with Members(network, "ac") as members:
        await opened(a, c)
        sent = count_sent(nodes)
        await members.everybody_publishes(50)
        await members.all_got_everything_once()
    assert sent == {("a", "c"): 50, ("c", "a"): 50}
    for node, to in ((a, "c"), (c, "a")):
        status = node.status(StatusRequest())
        assert [(link["link"], link["state"]) for link in status["links"]] == [
            ("b", "up"),
            (to, "up"),
        ]
        kinds = {link: row["kind"] for link, row in status["lst"].items()}
        assert kinds == {"b": "", to: "soft"}
        assert [row[:3] for row in status["rows"]["soft links"]["rows"]] == [
            [to, "opened" if node is a else "accepted", 2]
        ]
    assert not counted(nodes.values(), "failures")


async def test_a_broker_without_room_refuses(live: Live, caplog: pytest.LogCaptureFixture):
    caplog.set_level(logging.INFO)
    network = line("abc")
    network.entry("c").routing["fanout"] = 1
    nodes = await live.up(network.validate())
    a, c = nodes["a"], nodes["c"]
    wish(a, "c")
    await gone(a, c)
    assert "no soft link to c: broker c does not take a soft link to a" in caplog.text
    async with Members(network, "abc") as members:
        await members.everybody_publishes(20)
        await members.all_got_everything_once()


async def test_a_broker_that_is_not_there(live: Live):
    network = line("abc")
    nodes = await live.up(network)
    await live.crash(nodes["c"])
    a = nodes["a"]
    for to in ("c", "stranger"):
        wish(a, to)
        await until(lambda: not a.host.core.router.soft_links)
    assert not counted([a], "failures")


async def test_two_brokers_that_dial_each_other_get_one_link(live: Live):
    network = line("abc")
    nodes = await live.up(network)
    a, c = nodes["a"], nodes["c"]
    async with Members(network, "ac") as members:
        for attempt in range(40):
            first, second = (a, c) if attempt % 2 else (c, a)
            traffic = [asyncio.create_task(member.publish(10)) for member in members.all.values()]
            wish(first, second.name)
            for _ in range(attempt // 4):
                await asyncio.sleep(0)
            if not core_has(second, first.name):
                wish(second, first.name)
            await both_up(a, c)
            await asyncio.gather(*traffic)
            await until(lambda: not (a.soft_links._dials or c.soft_links._dials))
            assert core_has(a, "c") and core_has(c, "a")
            assert soft_count(nodes.values()) == 1
            drop(first, second.name)
            await gone(a, c)
        await members.all_got_everything_once()
    assert not counted(nodes.values(), "failures")
    assert not counted(nodes.values(), "tunnelled")


async def test_traces_tell_of_soft_links_as_of_others(live: Live, tmp_path: Path):
    network = line("abc")
    network.trace = TraceSection(level="full", directory=str(tmp_path))
    nodes = await live.up(network)
    async with Members(network, "ac") as members:
        await opened(nodes["a"], nodes["c"])
        await members["a"].publish(20)
        await members.all_got_everything_once()
        for node in nodes.values():
            node._snapshot()
    for node in nodes.values():
        await node.stop()
    sent = [(r["broker"], r["link"]) for r in rows(tmp_path, "message") if r["seq"] is not None]
    assert sent == [("a", "c")] * 20
    assert {row["hops"] for row in rows(tmp_path, "delivery") if row["broker"] == "c"} == {1}
    queues = {(row["broker"], row["link"]) for row in rows(tmp_path, "queue")}
    assert {("a", "b"), ("a", "c"), ("c", "a")} <= queues


def rows(directory: Path, kind: str) -> list[dict[str, Any]]:
    files = sorted((directory / kind).glob("*.parquet"))
    return [row for file in files for row in pq.read_table(file).to_pylist()]


# --- broken links ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", ["S1", "S2"])
async def test_cuts_under_load_lose_nothing_and_double_nothing(live: Live, strategy: str):
    network = line("abcde")
    network.routing["strategy"] = strategy
    nodes = await live.up(network.validate())
    a, e = nodes["a"], nodes["e"]
    async with Members(network, "ae") as members:
        traffic = asyncio.create_task(members.everybody_publishes(3000, pause_s=0.002))
        cuts = 0
        while not traffic.done():
            await opened(a, e)
            end, other = (a, e) if cuts % 2 else (e, a)
            broken = cut_after(cuts % 7, end, other.name)
            await asyncio.wait((broken, traffic), return_when=asyncio.FIRST_COMPLETED)
            if not broken.done():
                cut(end, other.name)
            await gone(a, e)
            cuts += 1
        await members.all_got_everything_once()
    assert cuts > 20
    assert counted(nodes.values(), "tunnelled")
    assert not counted(nodes.values(), "failures")


def under_way(end: Node, other: Node) -> bool:
    link = end.soft_links.links.get(other.name)
    return link is not None and bool(link.queue.window.queue_len)


async def through(live: Live, names: str) -> tuple[dict[str, Node], Throttle]:
    """Start the brokers in a line; the first one reaches the last one through a proxy."""
    network = line(names)
    first, last = names[0], names[-1]
    proxy = await Throttle(network.address(last)).start()
    for name in names[1:]:
        await live.node(network, name)
    await live.node(as_seen(network, {last: proxy.port}), first)
    await linked(live.nodes.values())
    return live.nodes, proxy


@pytest.mark.parametrize("bytes_per_s", [0.0, 20_000.0], ids=["as fast as it goes", "throttled"])
async def test_what_is_on_the_wire_as_the_link_breaks_is_not_lost(live: Live, bytes_per_s: float):
    nodes, proxy = await through(live, "abcd")
    a, d = nodes["a"], nodes["d"]
    async with Members(d.network, "ad") as members:
        for _ in range(10):
            await opened(a, d)
            if bytes_per_s:
                proxy.throttle(bytes_per_s)
            await members.everybody_publishes(200)
            proxy.cut()
            proxy.release()
            await gone(a, d)
        await members.all_got_everything_once()
    assert counted(nodes.values(), "tunnelled")
    assert not counted(nodes.values(), "failures")
    await proxy.stop()


async def test_what_comes_after_its_tunnelled_copy_is_dropped(live: Live):
    """One end knows that the link is gone, while the other still reads what had come before."""
    network = line("abc")
    nodes = await live.up(network)
    a, c = nodes["a"], nodes["c"]
    async with Members(network, "ac") as members:
        await opened(a, c)
        here, there = a.soft_links.links["c"].connection, c.soft_links.links["a"].connection
        assert here is not None and there is not None
        there.transport.pause_reading()
        await members["a"].publish(100)
        await until(lambda: a.soft_links.links["c"].queue.window.queue_len == 100)
        here.transport.close()
        await until(lambda: members["c"].got.total() == 100)
        assert counted([a], "tunnelled") == 100
        there.transport.resume_reading()
        await gone(a, c)
        await members.all_got_everything_once()
    assert counted([c], "duplicate") == 100


async def test_when_a_broker_dies_the_others_go_on(live: Live):
    network = line("abcd")
    nodes = await live.up(network)
    a, d = nodes["a"], nodes["d"]
    subscriber = await live.client(d, "s")
    await subscriber.subscribe("m > 0")
    publisher = await live.client(a, "p")
    await publisher.advertise()
    async with Members(network, "ac") as members:
        await opened(a, d)
        await opened(a, nodes["c"])
        traffic = asyncio.create_task(members.everybody_publishes(500, pause_s=0.002))
        publisher.publish(200, n=0, m=1)
        await subscriber.seqs_of(100)
        publisher.publish(200, n=0, m=1)
        await live.crash(d)
        await until(lambda: "d" not in a.host.core.router.soft_links)
        publisher.publish(200, n=0, m=1)
        await traffic
        await members.all_got_everything_once()
    assert core_has(a, "c")


# --- slow links -----------------------------------------------------------------------------------


@pytest.mark.parametrize("then", ["it reads on", "it breaks"])
async def test_a_soft_link_that_does_not_read_slows_publishers_and_loses_nothing(
    live: Live, then: str
):
    network = line("abc", link_high=200, credit=400)
    nodes = await live.up(network)
    a, c = nodes["a"], nodes["c"]
    async with Members(network, "ac") as members:
        await opened(a, c)
        there = c.soft_links.links["a"].connection
        assert there is not None
        there.transport.pause_reading()
        traffic = asyncio.create_task(members["a"].publish(5000))
        await until(lambda: "c" in a.host.congestion.targets)
        await asyncio.sleep(0.1)
        assert a.soft_links.links["c"].queue.window.queue_len <= 200 + 400
        assert not traffic.done()
        if then == "it breaks":
            cut(a, "c")
            await until(lambda: "c" not in a.soft_links.links)
        there.transport.resume_reading()
        await traffic
        await members.all_got_everything_once()
    assert "c" not in a.host.congestion.targets
    assert (counted([a], "tunnelled") > 0) == (then == "it breaks")


async def test_a_congested_broker_behind_a_soft_link_slows_publishers(live: Live):
    """Its notice comes over the links of the tree, and counts for soft links that lead there."""
    network = line("abcd", queue_limit=50, queue_policy="block")
    nodes = await live.up(network)
    a, d = nodes["a"], nodes["d"]
    await opened(a, d)
    slow = await live.client(d, "slow")
    await slow.subscribe("n > 0")
    slow.writer.transport.pause_reading()
    async with Members(network, "a") as members:
        text = "x" * 20_000

        async def flood() -> None:
            for n in range(1, 2001):
                await members["a"].client.publish(n=n, text=text)

        traffic = asyncio.create_task(flood())
        await until(lambda: "d" in a.host.congestion.targets)
        assert a.host.congestion.targets["d"] == {"d"}
        assert a.host.congestion.targets["b"] == {"d"}
        slow.writer.transport.resume_reading()
        got = await slow.seqs_of(2000)
        await traffic
    assert len(set(got)) == 2000
    await until(lambda: not a.host.congestion.targets)


# --- closing --------------------------------------------------------------------------------------


async def test_links_that_close_under_load_lose_nothing(live: Live):
    network = line("abcd")
    nodes = await live.up(network)
    a, d = nodes["a"], nodes["d"]
    async with Members(network, "ad") as members:
        traffic = asyncio.create_task(members.everybody_publishes(2000, pause_s=0.003))
        closed = 0
        while not traffic.done():
            await opened(a, d)
            await asyncio.sleep(0.01)
            for end, other in ((a, d), (d, a), (a, d)):
                # One end, the other, or both at the same time.
                if (closed % 3 == 2 or end is (a, d)[closed % 3]) and core_has(end, other.name):
                    drop(end, other.name)
            await gone(a, d)
            closed += 1
        await traffic
        await members.all_got_everything_once()
    assert closed > 20
    assert not counted(nodes.values(), "tunnelled")
    assert not counted(nodes.values(), "duplicate")
    assert not counted(nodes.values(), "failures")


async def test_a_link_closes_when_what_was_sent_has_been_taken_in(live: Live):
    network = line("abc")
    nodes = await live.up(network)
    a, c = nodes["a"], nodes["c"]
    async with Members(network, "ac") as members:
        await opened(a, c)
        there = c.soft_links.links["a"].connection
        assert there is not None
        there.transport.pause_reading()
        await members["a"].publish(100)
        await until(lambda: a.soft_links.links["c"].queue.window.queue_len == 100)
        drop(a, "c")
        await members["a"].publish(100)  # the other way
        await until(lambda: members["c"].got.total() == 100)
        states = [link["state"] for link in a.soft_links.status()]
        assert states == ["closing"] and core_has(c, "a")
        wish(a, "c")  # it changes its mind: another one, as soon as this one is over
        there.transport.resume_reading()
        await both_up(a, c)
        await members.all_got_everything_once()
    assert a.soft_links.links["c"].connection is not there
    assert not counted(nodes.values(), "tunnelled")


async def test_a_link_that_closes_may_break_all_the_same(live: Live):
    network = line("abc")
    nodes = await live.up(network)
    a, c = nodes["a"], nodes["c"]
    async with Members(network, "ac") as members:
        for closing, first in ((a, a), (a, c), (c, a)):
            await opened(a, c)
            for end, to in ((a, "c"), (c, "a")):
                connection = end.soft_links.links[to].connection
                assert connection is not None
                connection.transport.pause_reading()
            await members.everybody_publishes(100)
            await until(lambda: under_way(a, c) and under_way(c, a))
            drop(closing, "c" if closing is a else "a")
            cut(first, "c" if first is a else "a")
            for end, to in ((a, "c"), (c, "a")):
                link = end.soft_links.links.get(to)
                if link is not None and link.connection is not None:
                    link.connection.transport.resume_reading()
            await gone(a, c)
        await members.all_got_everything_once()
    assert not counted(nodes.values(), "failures")


@pytest.mark.parametrize("frozen", [False, True], ids=["drained", "not read"])
async def test_a_broker_that_stops_drains_its_soft_links(live: Live, frozen: bool):
    network = line("abcd", drain_s=2.0)
    nodes = await live.up(network)
    a, d = nodes["a"], nodes["d"]
    async with Members(network, "d") as members:
        publisher = await live.client(a, "p")
        await publisher.advertise()
        await opened(a, d)
        there = d.soft_links.links["a"].connection
        assert there is not None
        there.transport.pause_reading()
        publisher.publish(500)
        await until(lambda: a.soft_links.links["d"].queue.window.queue_len == 500)
        if not frozen:
            asyncio.get_running_loop().call_later(0.05, there.transport.resume_reading)
        await a.stop()
        if frozen:
            there.transport.resume_reading()
        await until(lambda: members["d"].got.total() >= 500)
        assert len(members["d"].got) == members["d"].got.total() == 500
    await until(lambda: not d.soft_links.links)
    assert bool(counted([a], "tunnelled")) == frozen


# --- what the other end must not do ---------------------------------------------------------------


@pytest.fixture
async def middle(live: Live) -> Node:
    """Start a line; return its broker c, and let the test play broker e."""
    network = line("abcde")
    nodes = await live.up(network)
    e = nodes["e"]
    assert "e" in nodes["c"].host.core.router.mesh.mom
    c = nodes["c"]
    shut(e)
    return c


async def as_soft(live: Live, node: Node, session: str = "s", name: str = "e") -> RawClient:
    """Say hello as broker e, which wants a soft link."""
    peer = await live.dial(node, name)
    peer.say_hello(role=Role.SOFT, network="test", session=session)
    return peer


async def accepted(live: Live, node: Node, session: str = "s") -> RawClient:
    peer = await as_soft(live, node, session)
    hello = wire.decode_hello(await peer.next(FrameKind.HELLO))
    assert (hello.role, hello.name) == (Role.SOFT, "c")
    return peer


@pytest.mark.parametrize(
    ("send", "reason"),
    [
        (
            lambda peer: peer.send(FrameKind.CONTROL, Subscribe(("s", 1), "n > 0", 1)),
            "a CONTROL frame is out of place from a broker, over a soft link",
        ),
        (lambda peer: peer.send(FrameKind.ACK, 1), "acknowledgement of frame 1, but only 0"),
    ],
)
async def test_nothing_that_changes_tables_crosses_it(
    live: Live, middle: Node, send: Callable[[RawClient], None], reason: str
):
    peer = await accepted(live, middle)
    send(peer)
    assert reason in await peer.reason()
    assert "e" not in middle.host.core.router.soft_links


async def test_congestion_notices_are_passed_over(live: Live, middle: Node):
    """The other end may regard it as a link of the overlay already."""
    peer = await accepted(live, middle)
    peer.send(FrameKind.CONGESTION, wire.Congestion("e", 1, True))
    peer.publish(1)
    await peer.until_acknowledged(1)
    assert core_has(middle, "e")
    assert not middle.host.congestion.targets


async def test_nothing_comes_after_done(live: Live, middle: Node):
    for kind, value in ((FrameKind.PUBLISH, None), (FrameKind.DONE, 0)):
        peer = await accepted(live, middle)
        # It owes us something, and so cannot be done.
        middle.soft_links.links["e"].queue.send_publication(
            b"", Publish(Publication("p", 1, 0, {}))
        )
        peer.send(FrameKind.DONE, 0)
        await until(lambda: "e" not in middle.host.core.router.soft_links)
        assert "e" in middle.soft_links.links
        if kind is FrameKind.PUBLISH:
            peer.publish(1)
        else:
            peer.send(kind, value)
        assert f"a {kind.name} frame is out of place" in await peer.reason()
        await until(lambda: not middle.soft_links.links)
    assert not counted([middle], "failures")


@pytest.mark.parametrize("role", [Role.CLIENT, Role.BROKER])
async def test_done_is_for_soft_links(live: Live, middle: Node, role: Role):
    peer = await live.dial(middle, "b" if role is Role.BROKER else "me")
    peer.say_hello(role=role, network="test")
    peer.send(FrameKind.DONE, 0)
    what = "a broker" if role is Role.BROKER else "a client"
    assert f"a DONE frame is out of place from {what}" in await peer.reason()


@pytest.mark.parametrize(
    ("name", "network", "reason"),
    [
        ("e", "other", "belongs to the network 'test'"),
        ("x", "test", "has no soft link to 'x'"),
        ("d", "test", "has no soft link to 'd'"),  # it has a primary one
        ("c", "test", "has no soft link to 'c'"),
    ],
)
async def test_who_is_turned_away(live: Live, middle: Node, name: str, network: str, reason: str):
    peer = await live.dial(middle, name)
    peer.say_hello(role=Role.SOFT, network=network)
    assert reason in await peer.reason()


async def test_a_second_connection_is_refused_unless_its_broker_started_anew(
    live: Live, middle: Node
):
    first = await accepted(live, middle)
    again = await as_soft(live, middle)
    assert await again.reason() == "broker c has a soft link to e already"
    anew = await accepted(live, middle, "another life")
    assert await first.reason() == "broker e started anew"
    assert core_has(middle, "e")
    middle.stopping = True
    middle.soft_links.refuse()
    last = await as_soft(live, middle, "yet another")
    assert "was told to stop" in await last.reason()
    await anew.close()
    with pytest.raises(Closed):
        await anew.next(FrameKind.HELLO)


async def test_a_routing_without_soft_links_refuses_them(live: Live):
    nodes = await live.up(path_network(3))
    peer = await live.dial(nodes["b1"], "b3")
    peer.say_hello(role=Role.SOFT, network="test")
    assert await peer.reason() == "broker b1 does not take a soft link to b3"

"""Subscribers that do not keep up, credits, and congestion over several brokers."""

from __future__ import annotations

import asyncio
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
from live_brokers import Live, make_scot
from raw_client import LARGE, RawClient, expect, publish_within_credit

from live_networks import make_network, until
from reefcast.model.wire import Congestion
from reefcast.server.node import Node
from reefcast.server.outputs import Outputs


async def sleeper(live: Live, node: Node, policy: str, limit: int) -> RawClient:
    """Connect a subscriber to everything that does not read (the buffers of its socket are
    small)."""
    client = await live.client(node, "s", queue_policy=policy, queue_limit=limit)
    await client.subscribe()
    client.writer.transport.pause_reading()
    return client


async def publisher_at(live: Live, node: Node) -> RawClient:
    client = await live.client(node, "p")
    await client.advertise()
    return client


async def test_drop_oldest_keeps_the_newest_and_counts(live: Live):
    node = await live.node(make_network("a"), "a")
    subscriber = await sleeper(live, node, "drop_oldest", 10)
    publisher = await publisher_at(live, node)
    publisher.publish(1500, text=LARGE)
    await publisher.until_acknowledged(1501)
    dropped = node.host.journal.counters["queue_full"]
    assert dropped > 0
    subscriber.writer.transport.resume_reading()
    seqs = await subscriber.seqs_of(1500 - dropped)
    assert seqs == sorted(set(seqs))
    expect(seqs[-10:], 1491, 1500)


async def test_disconnect_ends_the_slow_one_only(live: Live, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("reefcast.protocol.link.LINGER_S", 120.0)  # it may take long to read all
    node = await live.node(make_network("a"), "a")
    subscriber = await sleeper(live, node, "disconnect", 10)
    quick = await live.client(node, "q")
    await quick.subscribe()
    publisher = await publisher_at(live, node)
    publisher.publish(1500, text=LARGE)
    expect(await quick.seqs_of(1500), 1, 1500)
    assert "s" not in node.clients.sessions
    subscriber.writer.transport.resume_reading()
    assert "asked to be disconnected" in await subscriber.reason()


@pytest.mark.parametrize("path", ["a", "ab", "abc"])
async def test_a_blocked_subscriber_holds_its_publisher_back_and_loses_nothing(
    live: Live, path: str
):
    links = list(pairwise(path))
    nodes = await live.up(make_network(path, links, credit=64))
    expect(await held_back(live, nodes[path[0]], nodes[path[-1]]), 1, 3000)


@pytest.mark.parametrize("routing", ["spr", "idr"])
@pytest.mark.parametrize("far", ["b2-0", "b1-1", "b2-1"])
async def test_a_blocked_subscriber_holds_its_publisher_back_on_a_cyclic_overlay(
    live: Live, far: str, routing: str
):
    """This holds whichever way the notice came first, and whichever way the publications go."""
    network = make_scot("path:2", 3, routing=routing)
    network.limits.credit = 64
    nodes = await live.up(network)
    expect(sorted(await held_back(live, nodes["b1-0"], nodes[far])), 1, 3000)


async def held_back(live: Live, near: Node, far: Node) -> list[int]:
    """Let a publisher at `near` wait for a subscriber at `far` that does not read; return what this
    one reads when it wakes up."""
    subscriber = await sleeper(live, far, "block", 10)
    bystander = await live.client(near, "q")
    await bystander.subscribe("n < 0")
    publisher = await publisher_at(live, near)
    stop = asyncio.Event()
    publishing = asyncio.create_task(publish_within_credit(publisher, 3000, stop))
    await until(lambda: near.host.congestion.accounts["p"].owed >= 64)
    assert near.host.congestion.accounts["p"].blockers
    assert not publishing.done()
    assert near.host.core.counters["published"] < 3000
    subscriber.writer.transport.resume_reading()
    seqs = await subscriber.seqs_of(3000)
    assert await publishing == 3000
    await until(lambda: not near.host.congestion.targets and not far.host.congestion.announced)
    return seqs


async def test_a_blocked_subscriber_that_leaves_frees_its_publishers(live: Live):
    nodes = await live.up(make_network("ab", [("a", "b")], credit=64))
    subscriber = await sleeper(live, nodes["b"], "block", 10)
    publisher = await publisher_at(live, nodes["a"])
    stop = asyncio.Event()
    publishing = asyncio.create_task(publish_within_credit(publisher, 3000, stop))
    await until(lambda: nodes["a"].host.congestion.accounts["p"].owed >= 64)
    subscriber.writer.transport.abort()
    async with asyncio.timeout(120):
        assert await publishing == 3000


async def test_a_slow_link_holds_publishers_back(live: Live):
    """Neighbour b reads nothing for a while: what it has not acknowledged counts as queue."""
    nodes = await live.up(make_network("ab", [("a", "b")], credit=64, link_high=100))
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe()
    publisher = await publisher_at(live, nodes["a"])
    at_b = nodes["b"].links["a"].connection
    assert at_b is not None
    at_b.transport.pause_reading()
    stop = asyncio.Event()
    publishing = asyncio.create_task(publish_within_credit(publisher, 2000, stop))
    await until(lambda: nodes["a"].host.congestion.accounts["p"].owed >= 64)
    assert nodes["a"].links["b"].queue.window.queue_len > 100
    assert nodes["a"].links["b"].queue.window.queue_len < 500
    at_b.transport.resume_reading()
    expect(await subscriber.seqs_of(2000), 1, 2000)
    assert await publishing == 2000


def test_notices_of_congestion_go_over_links_of_the_overlay_only() -> None:
    outputs, heard = Outputs(), list[str]()
    for name, overlay in (("a", True), ("b", True), ("soft", False)):
        end = SimpleNamespace(overlay=overlay)
        notice = partial(lambda name, frame: heard.append(name), name)
        queue = SimpleNamespace(end=end, send_notice=notice)
        outputs.links[name] = queue  # type: ignore[assignment]  # what is needed of one
    outputs.flood(Congestion("x", 1, True), "a")
    assert heard == ["b"]

"""One client that does not keep up harms nobody else, is told what it misses, and is named."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

import pytest
from live_brokers import Live
from raw_client import Closed, RawClient, expect, publish_within_credit

from live_networks import PATIENCE_S, make_network, until
from reefcast.model import wire
from reefcast.model.wire import FrameKind
from reefcast.server import clients
from reefcast.server.node import Node

MANY = 1500
"""More publications than the buffers of the sockets hold, if they are large."""


async def sleeper(live: Live, node: Node, **wishes: object) -> RawClient:
    """Connect a subscriber to everything that does not read."""
    client = await live.client(node, "s", **wishes)
    await client.subscribe()
    client.writer.transport.pause_reading()
    return client


async def publish_all(live: Live, node: Node, name: str = "p") -> None:
    """Publish `MANY` events, as credit allows."""
    publisher = await live.client(node, name)
    await publisher.advertise()
    assert await publish_within_credit(publisher, MANY, asyncio.Event()) == MANY
    await publisher.until_acknowledged(MANY + 1)


def lines(caplog: pytest.LogCaptureFixture, words: str) -> list[str]:
    return [record.message for record in caplog.records if words in record.message]


async def test_by_default_one_that_does_not_read_holds_nobody_up_and_is_told_what_it_missed(
    live: Live, caplog: pytest.LogCaptureFixture
):
    node = await live.node(make_network("a", credit=64), "a")
    slow = await sleeper(live, node, queue_limit=10)
    assert slow.hello.queue_policy == "drop_oldest"
    quick = await live.client(node, "quick")
    await quick.subscribe()
    reading = asyncio.create_task(quick.seqs_of(MANY))
    await publish_all(live, node)
    expect(await reading, 1, MANY)
    [session] = [each for each in node.clients.sessions.values() if each.name == "s"]
    dropped = session.port.dropped
    assert dropped == node.host.journal.counters["queue_full"] > 0
    assert session.status()["slow"]
    assert len(lines(caplog, "client s does not keep up")) == 1
    slow.writer.transport.resume_reading()
    assert await in_order(slow, MANY) == dropped
    await until(lambda: not session.status()["slow"])
    [over] = lines(caplog, "client s keeps up again")
    assert f"{dropped} publications for it were dropped" in over


async def in_order(client: RawClient, last: int) -> int:
    """Read up to publication `last`; check that gaps are told at their place. Return how many are
    missing."""
    expected, dropped = 1, 0
    while expected <= last:
        kind, payload = await any_frame(client)
        if kind == FrameKind.DROPPED:
            told = wire.decode_dropped(payload)
            assert told.groups == (((1,), told.count),)
            dropped += told.count
            expected += told.count
        elif kind == FrameKind.DELIVER:
            body = wire.split_parts(payload)[1]
            assert wire.decode_publication(body).seq == expected
            expected += 1
    return dropped


async def any_frame(client: RawClient) -> tuple[int, bytes]:
    async with asyncio.timeout(120):
        while not client.inbox:
            await client._read()
    return client.inbox.pop(0)


async def test_who_blocks_is_disconnected_when_its_time_is_over(
    live: Live, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Until then, publishers at another broker wait for it; then they go on. The client reads the
    reason when everything is published, which may be long after."""
    monkeypatch.setattr("reefcast.protocol.link.LINGER_S", PATIENCE_S)
    network = make_network("ab", [("a", "b")], credit=64, queue_limit=10, block_s=0.3)
    nodes = await live.up(network)
    slow = await sleeper(live, nodes["b"], queue_policy="block")
    await asyncio.wait_for(publish_all(live, nodes["a"]), 120)
    assert "s" not in nodes["b"].clients.sessions
    assert len(lines(caplog, "client s does not keep up")) == 1
    assert len(lines(caplog, "client s was disconnected")) == 1
    slow.writer.transport.resume_reading()
    await slow.next(FrameKind.CLOSE)
    assert slow.close_frame is not None and "block_s" in slow.close_frame.reason
    assert slow.close_frame.too_slow and not slow.close_frame.retry
    await until(lambda: not nodes["a"].host.congestion.targets)


async def test_who_blocks_and_reads_in_time_stays(live: Live):
    node = await live.node(make_network("a", credit=64, queue_limit=10, block_s=60.0), "a")
    slow = await sleeper(live, node, queue_policy="block")
    publishing = asyncio.create_task(publish_all(live, node))
    await until(lambda: node.host.congestion.targets)
    session = node.clients.sessions["s"]
    patience = session._patience
    assert patience is not None
    slow.writer.transport.resume_reading()
    expect(await slow.seqs_of(MANY), 1, MANY)
    await publishing
    await until(lambda: not node.host.congestion.targets)
    assert patience.cancelled() and node.clients.sessions["s"] is session


@pytest.mark.parametrize("policy", ["disconnect", "block"])
async def test_who_was_cut_off_is_told_again_when_it_comes_back(
    live: Live, monkeypatch: pytest.MonkeyPatch, policy: str
):
    """It had not read the first notice, which was lost with the connection."""
    monkeypatch.setattr("reefcast.protocol.link.LINGER_S", 0.0)
    node = await live.node(make_network("a", block_s=0.1, session_s=0.01), "a")
    slow = await sleeper(live, node, session="same", queue_policy=policy, queue_limit=10)
    await publish_all(live, node)
    await until(lambda: "s" not in node.clients.sessions)
    node.clients.forget_old(asyncio.get_running_loop().time() + 1)
    slow.writer.transport.resume_reading()
    with suppress(Closed, AssertionError):
        await slow.reason()
    for _ in range(2):
        again = await live.dial(node, "s")
        again.say_hello(session="same")
        assert "for this client" in await again.reason()
        assert again.close_frame is not None and again.close_frame.too_slow
    another = await live.client(node, "s", session="another program")
    await another.subscribe()
    assert not node.clients._cut_off


async def test_of_those_that_were_cut_off_only_the_latest_are_known(
    live: Live, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(clients, "MOST_CUT_OFF", 2)
    node = await live.node(make_network("a"), "a")
    for name in "cde":
        await live.client(node, name)
        node.clients.sessions[name]._disconnect()
    assert list(node.clients._cut_off) == ["d", "e"]


async def test_a_client_whose_queue_is_full_again_and_again_does_not_fill_the_log(
    live: Live, caplog: pytest.LogCaptureFixture
):
    caplog.set_level(logging.WARNING)
    node = await live.node(make_network("a"), "a")
    await live.client(node, "s", queue_limit=1)
    session = node.clients.sessions["s"]
    for _ in range(500):
        session.port.paused = True
        for _ in range(3):
            session.port.push_delivery(wire.encode_deliver((1,), b"\xc0"))
        session.port.resume()
    assert len(lines(caplog, "client s")) == 20
    node.host.journal.floods.sum_up()
    assert len(lines(caplog, "490 more of these were not written")) == 2
    assert node.host.journal.counters["slow_clients"] == 500

"""Connections that are cut again and again under load: to both ends it looks as if nothing had
happened."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from live_brokers import Live
from raw_client import RawClient

import reefcast
from live_networks import make_network, until
from reefcast.client import connection
from reefcast.model.wire import RESUME
from reefcast.server.node import Node
from torture.proxy import Proxy

CUTS, MANY_CUTS = 60, 1000
OPTIONS = {"backoff_first_s": 0.001, "backoff_max_s": 0.01, "reconnect_timeout_s": 60.0}


@asynccontextmanager
async def through_proxy(node: Node) -> AsyncIterator[tuple[reefcast.Client, Proxy]]:
    """Connect a client to this broker through a proxy; return both."""
    async with AsyncExitStack() as stack:
        proxy = Proxy(node.network.address(node.name))
        await proxy.start()
        stack.push_async_callback(proxy.stop)
        client = await reefcast.connect(f"reefcast://127.0.0.1:{proxy.port}", **OPTIONS)
        stack.push_async_callback(client.close)
        yield client, proxy


def harm(proxy: Proxy, rng: random.Random) -> None:
    """Do to the connection what networks do."""
    proxy.delay_s = rng.choice([0.0, 0.0, 0.003])
    fault = rng.randrange(4)
    if fault == 0:
        proxy.reset()
    elif fault == 1:
        proxy.half_close(forward=rng.random() < 0.5)
    else:
        proxy.cut_after(rng.randrange(3000), forward=rng.random() < 0.5)


async def harmed(client: reefcast.Client, proxy: Proxy, rng: random.Random, cuts: int) -> None:
    """Break the client's connection so many times."""
    for _ in range(cuts):
        await until(lambda: client.connected)
        await asyncio.sleep(rng.random() * 0.01)
        before = client._connection
        harm(proxy, rng)
        await until(lambda before=before: client._connection is not before or not client.connected)


async def feed(client: reefcast.Client, stop: asyncio.Event) -> int:
    """Publish as fast as credit allows; return how many."""
    n = 0
    while not stop.is_set():
        await client.publish(n=n, text="x" * 50)
        n += 1
        if n % 20 == 0:
            await asyncio.sleep(0.001)
    return n


async def gather(subscription: reefcast.Subscription, got: list[int]) -> None:
    async for event in subscription:
        got.append(event["n"])


async def change(client: reefcast.Client, stop: asyncio.Event) -> int:
    """Subscribe and unsubscribe again and again; each answer must come."""
    times = 0
    while not stop.is_set():
        subscription = await client.subscribe(f"n = -{times + 1}")
        await subscription.cancel()
        times += 1
    return times


async def suffer(live: Live, seed: int, cuts: int) -> None:
    nodes = await live.up(make_network("ab", [("a", "b")], queue_limit=1_000_000))
    rng = random.Random(seed)
    stop = asyncio.Event()
    async with (
        through_proxy(nodes["a"]) as (publisher, way_in),
        through_proxy(nodes["b"]) as (subscriber, way_out),
    ):
        subscription = await subscriber.subscribe("n >= 0")
        numbers, got = subscription.numbers, list[int]()
        reading = asyncio.create_task(gather(subscription, got))
        feeding = asyncio.create_task(feed(publisher, stop))
        changing = asyncio.create_task(change(subscriber, stop))
        async with asyncio.TaskGroup() as harming:
            harming.create_task(harmed(publisher, way_in, rng, cuts // 2))
            harming.create_task(harmed(subscriber, way_out, rng, cuts // 2))
        stop.set()
        count, times = await feeding, await changing
        await publisher.flush()
        await until(lambda: len(got) >= count)
        assert got == list(range(count))
        assert subscription.numbers == numbers
        assert times > 0
        rows = nodes["b"].host.core.tables()["PRT"]
        assert rows == 1
        reading.cancel()


async def test_nothing_is_lost_or_doubled_however_often_connections_are_cut(live: Live) -> None:
    await suffer(live, 1, CUTS)


async def cut_off(node: Node, client: RawClient) -> None:
    client.writer.transport.abort()
    await until(lambda: node.clients.sessions[client.name].port.line is None)


async def resumable(live: Live, node: Node, name: str, **fields: Any) -> RawClient:
    return await live.client(node, name, features=(RESUME,), **fields)


async def test_what_had_settled_is_certain_again_after_a_cut(live: Live) -> None:
    node = await live.node(make_network("a"), "a")
    async with through_proxy(node) as (client, proxy):
        subscription = await client.subscribe("n > 0")
        numbers = subscription.numbers
        proxy.refuses = True
        proxy.reset()
        await until(lambda: not client.connected)
        with pytest.raises(TimeoutError):
            await subscription.settled(timeout=0.01)
        other = client.subscribe("n < 0")
        proxy.refuses = False
        await subscription.settled(timeout=20)
        await other.settled(timeout=20)
        assert subscription.numbers == numbers
        assert node.host.core.tables()["PRT"] == 2


async def test_another_program_gets_a_session_of_its_own(live: Live) -> None:
    node = await live.node(make_network("a"), "a")
    first = await resumable(live, node, "c")
    await first.subscribe()
    await cut_off(node, first)
    me, ticket = node.host.me.session, "0" * len(first.hello.ticket)
    second = await resumable(live, node, "c", peer_session=me, ticket=ticket)
    assert not second.hello.resumed
    assert node.host.core.tables()["PRT"] == 0


async def test_where_there_are_enough_clients_the_one_that_is_away_for_longest_ends(
    live: Live,
) -> None:
    node = await live.node(make_network("a", max_clients=3), "a")
    for name in ("first", "second"):
        await cut_off(node, await resumable(live, node, name))
    for name in ("third", "fourth"):
        await resumable(live, node, name)
    assert set(node.clients.sessions) == {"second", "third", "fourth"}


async def test_what_waited_for_a_client_that_did_not_come_back_is_said(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    node = await live.node(make_network("a", session_s=0.5), "a")
    gone = await resumable(live, node, "gone")
    await gone.subscribe()
    await cut_off(node, gone)
    publisher = await live.client(node, "p")
    publisher.publish(3)
    await publisher.until_acknowledged(3)
    await until(lambda: "gone" not in node.clients.sessions)
    assert "client gone did not come back: 3 publications that waited for it are" in caplog.text


@pytest.mark.parametrize(("delay_s", "size"), [(0.01, 10), (1000.0, 300_000)])
async def test_a_client_says_now_and_then_what_it_has_had(
    live: Live, monkeypatch: pytest.MonkeyPatch, delay_s: float, size: int
) -> None:
    """The client acknowledges after a while, or after many frames, so that its broker may forget
    them."""
    monkeypatch.setattr(connection, "ACK_DELAY_S", delay_s)
    node = await live.node(make_network("a"), "a")
    async with through_proxy(node) as (client, _):
        subscription = await client.subscribe("n > 0")
        await client.publish(n=1, payload=bytes(size))
        await anext(subscription)
        [session] = node.clients.sessions.values()
        await until(lambda: not session.port._sent)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_or_doubled_in_a_thousand_cuts(live: Live, seed: int) -> None:
    await suffer(live, seed, MANY_CUTS)

"""Connections that are cut again and again under load: to both ends it looks as if nothing was."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from live_brokers import Live

import reefcast
from live_networks import make_network, until
from reefcast.server.node import Node
from torture.proxy import Proxy

CUTS, MANY_CUTS = 60, 1000
OPTIONS = {"backoff_first_s": 0.001, "backoff_max_s": 0.01, "reconnect_timeout_s": 60.0}


@asynccontextmanager
async def through_proxy(node: Node) -> AsyncIterator[tuple[reefcast.Client, Proxy]]:
    """A client of this broker, and what its connection goes through."""
    async with AsyncExitStack() as stack:
        proxy = Proxy(node.network.address(node.name))
        await proxy.start()
        stack.push_async_callback(proxy.stop)
        client = await reefcast.connect(f"reefcast://127.0.0.1:{proxy.port}", **OPTIONS)
        stack.push_async_callback(client.close)
        yield client, proxy


def harm(proxy: Proxy, rng: random.Random) -> None:
    """Does to the connection what networks do."""
    proxy.delay_s = rng.choice([0.0, 0.0, 0.003])
    fault = rng.randrange(4)
    if fault == 0:
        proxy.reset()
    elif fault == 1:
        proxy.half_close(forward=rng.random() < 0.5)
    else:
        proxy.cut_after(rng.randrange(3000), forward=rng.random() < 0.5)


async def harmed(client: reefcast.Client, proxy: Proxy, rng: random.Random, cuts: int) -> None:
    """So many connections of the client are broken."""
    for _ in range(cuts):
        await until(lambda: client.connected)
        await asyncio.sleep(rng.random() * 0.01)
        before = client._connection
        harm(proxy, rng)
        await until(lambda before=before: client._connection is not before or not client.connected)


async def feed(client: reefcast.Client, stop: asyncio.Event) -> int:
    """Publishes as fast as it may; returns how many."""
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
    """Subscribes and takes it back, again and again: each answer comes."""
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


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(3))
async def test_nothing_is_lost_or_doubled_in_a_thousand_cuts(live: Live, seed: int) -> None:
    await suffer(live, seed, MANY_CUTS)

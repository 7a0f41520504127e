"""A broker that stops, dies or hangs, and comes back, between live neighbours. What these hold for
it arrives, once and in order (`delivery.md`, P5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from live_brokers import Live, Throttle, as_seen

import reefcast
from live_networks import PATIENCE_S, linked, path_network, until, url_of
from reefcast.client import Client, Subscription
from reefcast.network.file import NetworkFile
from reefcast.server.node import Node

MIDDLE = "b2"
"""The middle of the path b1 - b2 - b3."""


class Reader:
    """A subscriber to everything, and the numbers that came to it, by publisher."""

    def __init__(self, client: Client, subscription: Subscription) -> None:
        self.client = client
        self.numbers: dict[str, list[int]] = {}
        self._task = asyncio.get_running_loop().create_task(self._read(subscription))

    async def _read(self, subscription: Subscription) -> None:
        async for event in subscription:
            self.numbers.setdefault(event.publisher, []).append(event["n"])

    async def has(self, publisher: str, count: int) -> list[int]:
        """Return its numbers, once so many have come."""
        await until(lambda: len(self.numbers.get(publisher, ())) >= count)
        return self.numbers[publisher]


@asynccontextmanager
async def reader_at(network: NetworkFile, name: str) -> AsyncIterator[Reader]:
    async with reefcast.connect(url_of(network, name)) as client:
        subscription = client.subscribe("n >= 0")
        await subscription.settled()
        yield Reader(client, subscription)


@asynccontextmanager
async def talking(network: NetworkFile, far: str) -> AsyncIterator[tuple[Reader, Client]]:
    """Connect a reader at `far`, and a client at b1 whose first ten events it has received."""
    async with (
        reader_at(network, far) as reader,
        reefcast.connect(url_of(network, "b1")) as writer,
    ):
        await publish(writer, range(10))
        await reader.has(writer.id, 10)
        yield reader, writer


async def publish(client: Client, numbers: range) -> None:
    for n in numbers:
        await client.publish(n=n)
    await client.flush()


async def fall(live: Live, name: str = MIDDLE) -> None:
    """Kill the broker, and wait until all neighbours have noticed."""
    node = live.nodes[name]
    neighbours = list(node.links)
    await live.crash(node)
    await until(lambda: all(live.nodes[n].links[name].state == "broken" for n in neighbours))


async def rise(live: Live, network: NetworkFile, name: str = MIDDLE) -> Node:
    node = await live.node(network, name)
    await linked(live.nodes.values())
    return node


@pytest.mark.parametrize("routing", ["acyclic", "flooding", "mesh"])
async def test_what_is_published_while_a_broker_is_dead_comes_when_it_is_back(
    live: Live, routing: str
) -> None:
    network = path_network(3, routing=routing)
    await live.up(network)
    async with talking(network, "b3") as (reader, writer):
        await fall(live)
        await publish(writer, range(10, 200))
        await rise(live, network)
        await publish(writer, range(200, 250))
        assert await reader.has(writer.id, 250) == list(range(250))


async def test_what_was_not_acknowledged_is_sent_again_and_dropped_by_who_has_it(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = path_network(3)
    nodes = await live.up(network)
    async with talking(network, "b3") as (reader, writer):
        await until(lambda: nodes["b1"].links[MIDDLE].queue.window.all_acknowledged)
        silent = nodes[MIDDLE].links["b1"].connection
        assert silent is not None
        monkeypatch.setattr(silent.link, "acknowledge_soon", lambda now: None)
        await publish(writer, range(10, 40))
        await reader.has(writer.id, 40)
        assert nodes["b1"].links[MIDDLE].queue.window.queue_len == 30
        await fall(live)
        await publish(writer, range(40, 50))
        await rise(live, network)
        await publish(writer, range(50, 60))
        assert await reader.has(writer.id, 60) == list(range(60))
        passed_on = live.nodes[MIDDLE].host.core.counters["forwarded"]
        assert passed_on == 50, "the 30 went again"


async def test_publishers_that_left_meanwhile_are_heard(live: Live) -> None:
    network = path_network(3)
    await live.up(network)
    async with reader_at(network, "b3") as reader:
        async with reefcast.connect(url_of(network, "b1")) as guest:
            await publish(guest, range(10))
            await reader.has(guest.id, 10)
            await fall(live)
            await publish(guest, range(10, 20))
        await until(lambda: not live.nodes["b1"].clients.sessions)
        async with reefcast.connect(url_of(network, "b1")) as late:
            await publish(late, range(20))
        await rise(live, network)
        assert await reader.has(guest.id, 20) == list(range(20))
        assert await reader.has(late.id, 20) == list(range(20))
        # What showed the way is taken back.
        await until(lambda: all(n.host.core.tables()["SRT"] == 0 for n in live.nodes.values()))


async def test_nothing_is_lost_when_a_broker_is_told_to_stop(live: Live) -> None:
    network = path_network(4)
    await live.up(network)
    stop = asyncio.Event()

    async def keep_publishing(client: Client) -> int:
        n = 0
        while not stop.is_set():
            await client.publish(n=n)
            n += 1
            if n % 8 == 0:
                await asyncio.sleep(0)
        await client.flush()
        return n

    async with (
        reader_at(network, "b4") as far,
        reader_at(network, "b1") as near,
        reefcast.connect(url_of(network, "b1")) as one,
        reefcast.connect(url_of(network, "b4")) as other,
    ):
        publishing = [asyncio.ensure_future(keep_publishing(client)) for client in (one, other)]
        await far.has(one.id, 100)
        await near.has(other.id, 100)
        for name in (MIDDLE, "b3"):
            await live.nodes.pop(name).stop()
            before = len(far.numbers[one.id])
            await live.node(network, name)
            await far.has(one.id, before + 100)
        stop.set()
        ours, theirs = await asyncio.gather(*publishing)
        assert await far.has(one.id, ours) == list(range(ours))
        assert await near.has(other.id, theirs) == list(range(theirs))


async def test_two_neighbours_that_die_together(live: Live) -> None:
    network = path_network(4)
    await live.up(network)
    async with talking(network, "b4") as (reader, writer):
        for name in (MIDDLE, "b3"):
            await live.crash(live.nodes[name])
        await until(lambda: live.nodes["b1"].links[MIDDLE].state == "broken")
        await publish(writer, range(10, 100))
        await live.node(network, MIDDLE)
        await until(lambda: live.nodes["b1"].links[MIDDLE].state == "up")
        await publish(writer, range(100, 120))
        await rise(live, network, "b3")
        assert await reader.has(writer.id, 120) == list(range(120))


async def test_a_neighbour_that_hangs_is_noticed_and_nothing_is_lost(live: Live) -> None:
    """The connection is open and takes what is sent, but nothing comes back."""
    network = path_network(3, silence_s=1.0)
    proxy = await Throttle(network.address(MIDDLE)).start()
    await live.node(as_seen(network, {MIDDLE: proxy.port}), "b1")
    for name in (MIDDLE, "b3"):
        await live.node(network, name)
    await linked(live.nodes.values())
    loop = asyncio.get_running_loop()
    async with talking(network, "b3") as (reader, writer):
        link = live.nodes["b1"].links[MIDDLE]
        await asyncio.sleep(3 * network.limits.silence_s)
        assert link.reconnects == 0, "an idle link was taken for dead"
        hung_at_s = loop.time()
        proxy.throttle(0.001)
        await publish(writer, range(10, 40))
        await until(lambda: link.state == "broken")
        assert loop.time() - hung_at_s < PATIENCE_S
        proxy.release()
        await linked(live.nodes.values())
        assert await reader.has(writer.id, 40) == list(range(40))
        assert link.reconnects >= 1


async def test_what_waits_for_a_broker_that_relearns_is_bounded(live: Live) -> None:
    network = path_network(3, link_buffer=10)
    await live.up(network)
    async with talking(network, "b3") as (reader, writer):
        await fall(live)
        await publish(writer, range(10, 35))
        assert live.nodes["b1"].host.journal.counters["link_lost"] == 15
        await rise(live, network)
        assert await reader.has(writer.id, 20) == [*range(10), *range(25, 35)]


async def test_neighbours_hold_back_while_a_broker_empties_its_queues(live: Live) -> None:
    network = path_network(3, drain_s=PATIENCE_S)
    await live.up(network)
    async with talking(network, "b3") as (reader, writer):
        slow = await live.client(live.nodes[MIDDLE], "slow")
        await slow.subscribe("big = 1")
        slow.writer.transport.pause_reading()
        stopping = live.nodes.pop(MIDDLE)
        outbox = stopping.host.outputs.clients["slow"]
        while outbox.empty:
            await writer.publish(big=1, text="x" * 100_000)
            await writer.flush()
            await asyncio.sleep(0)
        stop = asyncio.ensure_future(stopping.stop())
        core = live.nodes["b1"].host.core
        await until(lambda: core.neighbours._holding.closed)
        await publish(writer, range(10, 20))
        assert core.links.queue_len(MIDDLE) >= 10 and not stop.done()
        slow.writer.transport.resume_reading()
        await asyncio.gather(stop, slow.reader.read())
        await live.node(network, MIDDLE)
        assert await reader.has(writer.id, 20) == list(range(20))

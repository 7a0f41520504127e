"""Retained values in networks of real brokers, with real clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from live_brokers import Live, make_scot

import reefcast
from live_networks import PATIENCE_S, linked, make_network, until, url_of
from reefcast.client import Client, Event, LastValues
from reefcast.model.wire import StatusRequest
from reefcast.network.file import NetworkFile
from reefcast.network.sections import RetainedSection, SessionsSection
from reefcast.server.node import Node

Connect = Callable[..., Awaitable[Client]]


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        async def connect(network: NetworkFile, broker: str) -> Client:
            return await stack.enter_async_context(reefcast.connect(url_of(network, broker)))

        yield connect


def values_of(node: Node) -> int:
    return node.host.core.status(0.0)["counters"].get("retained_values", 0)


async def numbers(events: LastValues, count: int) -> list[tuple[int, bool]]:
    async with asyncio.timeout(PATIENCE_S):
        found = [await anext(events) for _ in range(count)]
    return [(event["n"], event.retained) for event in found]


async def test_a_late_subscriber_gets_the_last_values_first(live: Live, connect: Connect):
    network = make_network("abc", [("a", "b"), ("b", "c")])
    nodes = await live.up(network)
    publisher, late = await connect(network, "a"), await connect(network, "c")
    early = await late.subscribe("n > 0")
    for n, topic in enumerate(("x", "y", "x", "z"), 1):
        await publisher.publish(n=n, topics=[topic], retain=True)
    await until(lambda: values_of(nodes["c"]) == 3)
    last = late.subscribe("n > 1 AND topic <> 'z'", retained=True)
    assert sorted(await numbers(last, 2)) == [(2, True), (3, True)]
    await publisher.publish(n=5, topics=["x"], retain=True)
    await publisher.publish(n=6, topics=["x"])  # not retained
    assert await numbers(last, 2) == [(5, False), (6, False)]
    got = [await anext(early) for _ in range(6)]  # they are publications like all others
    assert [(e["n"], e.retained) for e in got] == [(n, False) for n in range(1, 7)]
    assert sorted(event["n"] for event in await late.retained("n > 2")) == [4, 5]


async def test_what_is_cleared_at_one_broker_is_gone_at_all(live: Live, connect: Connect):
    network = make_network("abc", [("a", "b"), ("b", "c")])
    nodes = await live.up(network)
    publisher, other = await connect(network, "a"), await connect(network, "c")
    await publisher.publish(symbol="IBM", price=1, retain="symbol")
    await publisher.publish(symbol="IBM", price=2, venue="N", retain=("venue", "symbol"))
    await publisher.publish(n=1, topics=["x"], retain=True)
    await until(lambda: values_of(nodes["c"]) == 3)
    await other.clear_retained(topic="x")
    await other.clear_retained(attributes={"symbol": "IBM"})
    await until(lambda: values_of(nodes["a"]) == 1)
    assert [event["price"] for event in await publisher.retained()] == [2]


@pytest.mark.parametrize("overlay", ["line", "scot", "mesh"])
async def test_who_subscribes_while_values_change_misses_none(
    live: Live, connect: Connect, overlay: str
):
    """The events of each subscriber are the last one at some time, and all later ones."""
    if overlay == "scot":
        network = make_scot("path:3", 2)
    else:
        routing = "mesh" if overlay == "mesh" else "acyclic"
        network = make_network("abc", [("a", "b"), ("b", "c")], routing=routing)
    await live.up(network)
    ends = network.names[0], network.names[-1]
    publisher = await connect(network, ends[0])
    await publisher.publish(n=1, topics=["t"], retain=True)
    total, found = 150, dict[int, list[int]]()

    async def read(number: int) -> None:
        client = await connect(network, ends[number % 2])
        last = client.subscribe("n > 0", retained=True)
        its = found[number] = []
        async with asyncio.timeout(PATIENCE_S):
            while not its or its[-1] != total:
                its.append((await anext(last))["n"])

    readers = []
    for n in range(2, total + 1):
        await publisher.publish(n=n, topics=["t"], retain=True)
        if n % 10 == 0:
            readers.append(asyncio.create_task(read(n)))
    await asyncio.gather(*readers)
    assert len(found) == total // 10
    for its in found.values():
        assert its == list(range(its[0], total + 1)), its


async def test_a_broker_without_a_disk_gets_its_values_from_neighbours(
    live: Live, connect: Connect
):
    network = make_network("ab", [("a", "b")])
    nodes = await live.up(network)
    publisher = await connect(network, "a")
    for n in range(3):
        await publisher.publish(n=n, topics=[f"t{n}"], retain=True)
    await until(lambda: values_of(nodes["b"]) == 3)
    await live.crash(nodes["b"])
    again = await live.node(network, "b")
    await linked(live.nodes.values())
    await until(lambda: values_of(again) == 3)
    assert sorted(e["n"] for e in await (await connect(network, "b")).retained()) == [0, 1, 2]


async def test_values_on_disk_are_there_after_a_restart(
    live: Live, connect: Connect, tmp_path: Path
):
    network = make_network("a")
    network.sessions = SessionsSection(directory=str(tmp_path))
    node = await live.node(network.validate(), "a")
    async with reefcast.connect(url_of(network, "a")) as publisher:
        for n in range(3):
            await publisher.publish(n=n, topics=[f"t{n}"], retain=True)
        await publisher.clear_retained(topic="t1")
    await live.crash(node)
    await live.node(network, "a")
    client = await connect(network, "a")
    assert sorted(event["n"] for event in await client.retained()) == [0, 2]


async def test_a_durable_session_gets_the_last_values_into_its_queue_once(
    live: Live, connect: Connect, tmp_path: Path
):
    network = make_network("ab", [("a", "b")])
    network.sessions = SessionsSection(directory=str(tmp_path))
    nodes = await live.up(network.validate())
    publisher, client = await connect(network, "a"), await connect(network, "b")
    for n in range(3):
        await publisher.publish(n=n, topics=[f"t{n}"], retain=True)
    await until(lambda: values_of(nodes["b"]) == 3)
    session = await client.session("s")
    number = await session.subscribe("n > 0", retained=True)
    await publisher.publish(n=9, topics=["t1"], retain=True)
    got: list[Event] = []
    async with asyncio.timeout(PATIENCE_S):
        while len(got) < 3:
            got += await session.next_batch()
    assert sorted(event["n"] for event in got) == [1, 2, 9]
    assert await session.subscribe("n > 0", retained=True) == number
    assert (await session.status()).events == 3  # nothing that it has had comes again


async def test_what_a_broker_does_not_retain(live: Live, connect: Connect):
    network = make_network("a")
    network.retained = RetainedSection(max_values=2, max_bytes=700, max_value_bytes=500)
    node = await live.node(network.validate(), "a")
    client = await connect(network, "a")
    events = await client.subscribe("n > 0")
    await client.publish(n=1, topics=["a"], retain=True)
    with pytest.raises(reefcast.RefusedError, match=r"at most 500 \(max_value_bytes\)"):
        await client.publish(n=2, topics=["b"], payload=bytes(600), retain=True)
    await client.publish(n=3, topics=["b"], payload=bytes(400), retain=True)
    with pytest.raises(reefcast.RefusedError, match=r"2 values .* the limit \(max_values\)"):
        await client.publish(n=4, topics=["c"], retain=True)
    await client.publish(n=5, topics=["b"], payload=bytes(300), retain=True)  # in its place
    with pytest.raises(reefcast.RefusedError, match=r"may have 700 \(max_bytes\)"):
        await client.publish(n=6, topics=["a"], payload=bytes(400), retain=True)
    async with asyncio.timeout(PATIENCE_S):
        assert [(await anext(events))["n"] for _ in range(5)] == [1, 2, 3, 4, 5]  # but it came
    status = node.status(StatusRequest(tables=("retained",)))
    assert status["counters"]["retained_refused"] == 3
    assert status["tables"]["retained"] == status["counters"]["retained_values"] == 2
    assert status["counters"]["retained_bytes"] == sum(
        row[4] for row in status["rows"]["retained"]["rows"]
    )


async def test_what_lies_outside_the_advertisements_is_not_retained(live: Live, connect: Connect):
    network = make_network("a")
    await live.node(network, "a")
    client = await connect(network, "a")
    await client.advertise("topic = 'fx' AND price > 0")
    outside = "lies outside what this client advertised: topic = 'fx' AND price > 0"
    with pytest.raises(reefcast.RefusedError, match=outside):
        await client.publish(price=-1, topics=["fx"], retain=True)
    await client.flush()  # that the publication itself is refused, too, is not said twice
    with pytest.raises(reefcast.RefusedError, match="topic 'other' " + outside):
        await client.clear_retained(topic="other")
    await client.publish(price=1, topics=["fx"], retain=True)
    await client.clear_retained(topic="fx")
    assert await client.retained() == []


async def test_a_network_without_links_retains_nothing(live: Live, connect: Connect):
    network = make_network("a", routing="gossip", options={"contacts": ["a"]})
    await live.node(network, "a")
    client = await connect(network, "a")
    no_links = "routing 'gossip' retains nothing, for its brokers have no fixed links"
    with pytest.raises(reefcast.RefusedError, match=no_links):
        await client.publish(n=1, topics=["t"], retain=True)
    with pytest.raises(reefcast.RefusedError, match=no_links):
        await client.retained()
    with pytest.raises(reefcast.RefusedError, match=no_links):
        await anext(client.subscribe("topic = 't'", retained=True))

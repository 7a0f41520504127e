"""Brokers that hand their clients to others."""

from __future__ import annotations

import asyncio
import random
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from live_brokers import Live
from raw_client import LARGE, RawClient, expect

import reefcast
from live_networks import make_network, until, url_of
from reefcast.errors import ConnectionLostError
from reefcast.model.operations import Drain
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection
from reefcast.server.admin import admin_connection
from reefcast.server.draining import places
from reefcast.server.metrics.observed import not_ready
from reefcast.server.node import Node

STAR = [("hub", "a"), ("hub", "b")]


def star(folder: Path | None = None, **limits: float) -> NetworkFile:
    network = make_network(["hub", "a", "b"], STAR, **limits)
    if folder is not None:
        network.sessions = SessionsSection(directory=str(folder), custody_after_s=0.05)
    return network


def state(node: Node) -> dict[str, object]:
    return node.draining.status()


async def test_clients_go_to_the_brokers_that_are_named(live: Live) -> None:
    """Without an error to their programs, each time, and also if they come only then; and they
    spread over those brokers."""
    network = star()
    nodes = await live.up(network)
    clients = [await reefcast.connect(url_of(network, "hub")) for _ in range(4)]
    subscriptions = [await client.subscribe("n > 0") for client in clients]
    nodes["hub"].wishes.meet(Drain(on=True))
    assert not_ready(nodes["hub"]) == ["it is drained"]
    await until(lambda: state(nodes["hub"])["state"] == "empty")
    await until(lambda: sum(len(node.clients.sessions) for node in nodes.values()) == 4)
    for subscription in subscriptions:
        await subscription.settled()
    clients.append(await reefcast.connect(url_of(network, "hub")))  # names a broker as well
    found = {name: len(node.clients.sessions) for name, node in nodes.items()}
    assert found["hub"] == 0 and sorted(found.values()) in ([0, 2, 3], [0, 1, 4])
    await clients[0].publish(n=1, confirm=True)
    for subscription in subscriptions:
        assert (await anext(subscription))["n"] == 1
    nodes["hub"].wishes.meet(Drain(on=False))
    for name in ("a", "b"):
        nodes[name].wishes.meet(Drain(on=True))
    await until(lambda: all(state(nodes[name])["state"] == "empty" for name in ("a", "b")))
    await until(lambda: len(nodes["hub"].clients.sessions) == 5)
    for subscription in subscriptions:
        await subscription.settled()
    await clients[0].publish(n=2, confirm=True)
    for subscription in subscriptions:
        assert (await anext(subscription))["n"] == 2
    for client in clients:
        await client.close()


async def test_what_was_taken_over_and_what_waits_is_handed_on_first(live: Live) -> None:
    """A publisher sends without a pause, and a subscriber reads late; nobody subscribes anew, so
    that nothing may be missing, and nothing double."""
    network = star(queue_limit=100_000)
    nodes = await live.up(network)
    reader = await live.client(nodes["a"], "r")
    await reader.subscribe("n > 0")
    late = await live.client(nodes["hub"], "late")
    await late.subscribe("n > 0")
    async with reefcast.connect(url_of(network, "hub")) as publisher:
        total = 600
        for n in range(1, total + 1):
            if n == 300:
                nodes["hub"].wishes.meet(Drain(on=True))
            await publisher.publish(n=n, text=LARGE)
            await asyncio.sleep(0)
        await publisher.flush()
        assert state(nodes["hub"])["state"] == "draining"  # `late` has not read
        seen = []
        while len(set(seen)) < total:
            seen.append((await reader.delivery())[1].seq)
        assert seen[:1] == [1] and sorted(set(seen)) == list(range(1, total + 1))
        got = []
        while late.close_frame is None:
            try:
                got.append((await late.delivery())[1].seq)
            except Exception:
                break
        expect(got, 1, len(got))
        assert len(got) >= 299
        assert late.close_frame is not None and late.close_frame.retry
        assert set(late.close_frame.elsewhere) == {
            network.entry("a").listen,
            network.entry("b").listen,
        }
        await until(lambda: state(nodes["hub"])["state"] == "empty")


async def test_consumers_of_durable_sessions_go_on_from_elsewhere(
    live: Live, tmp_path: Path
) -> None:
    """Confirmed events, while broker after broker is drained; the home keeps the session."""
    network = star(tmp_path)
    nodes = await live.up(network)
    got: list[int] = []
    total = 60
    async with (
        reefcast.connect(url_of(network, "hub")) as consumer,
        reefcast.connect(url_of(network, "a")) as publisher,
    ):
        session = await consumer.session("orders")
        await session.subscribe("n > 0")

        async def consume() -> None:
            while len(got) < total:
                async with session.processing() as event:
                    got.append(event["n"])

        consuming = asyncio.create_task(consume())
        for n in range(1, total + 1):
            await publisher.publish(n=n, confirm=True)
            if n % 20 == 10:
                name = ("hub", "a", "b")[n // 20]
                nodes[name].wishes.meet(Drain(on=True))
                await until(lambda name=name: state(nodes[name])["state"] == "empty")
                if name != "hub":
                    nodes[name].wishes.meet(Drain(on=False))
        await consuming
    assert got == list(range(1, total + 1))
    (home,) = [name for name, node in nodes.items() if state(node)["homes"]]
    assert home == "hub"


@pytest.mark.parametrize("routing", ["acyclic", "mesh", "flooding", "tid-s"])
async def test_subscribers_miss_nothing_when_they_go(live: Live, routing: str) -> None:
    """Nor do they get anything twice, or in another order: while a publisher that moves, too, sends
    without a pause, broker after broker is drained."""
    network = make_network(["hub", "a", "b"], STAR, routing=routing)
    nodes = await live.up(network)
    seen: dict[int, list[int]] = {}
    published, on = 0, True

    async def publish() -> None:
        nonlocal published
        async with reefcast.connect(url_of(network, "hub")) as client:
            while on:
                published += 1
                await client.publish(n=published, text="x" * 100)
                if published % 5 == 0:
                    await asyncio.sleep(0)
            await client.flush()

    async def read(number: int, subscription: reefcast.Subscription) -> None:
        async for event in subscription:
            seen.setdefault(number, []).append(event["n"])

    async with AsyncExitStack() as stack:
        readers = []
        for number in range(4):
            url = url_of(network, ("hub", "a")[number % 2])
            client = await stack.enter_async_context(reefcast.connect(url))
            # Two that overlap, of which an event comes once each.
            readers.append(read(number, await client.subscribe("n > 0")))
            readers.append(read(number + 10, await client.subscribe("text = 'no' OR n >= 1")))
        tasks = [asyncio.create_task(each) for each in (publish(), *readers)]
        for name in ("hub", "a", "b", "hub"):
            before = published
            await until(lambda before=before: published > before + 200)
            nodes[name].wishes.meet(Drain(on=True))
            await until(lambda name=name: state(nodes[name])["state"] == "empty")
            nodes[name].wishes.meet(Drain(on=False))
        on = False
        await tasks[0]
        for number in (0, 1, 2, 3, 10, 11, 12, 13):
            await until(lambda number=number: seen.get(number, [0])[-1] == published)
        for task in tasks:
            task.cancel()
    assert all(each == list(range(1, published + 1)) for each in seen.values())
    assert sum(node.host.journal.counters["session_lost"] for node in nodes.values()) == 0


@pytest.mark.parametrize("seed", range(4))
async def test_connections_that_break_meanwhile_cost_nothing(live: Live, seed: int) -> None:
    """Of a subscriber, at any moment of its moves; and brokers are drained before it has come back
    to the former one."""
    rng = random.Random(seed)
    network = star(session_s=600.0)
    nodes = await live.up(network)
    published, on = 0, True
    seen: list[int] = []

    async def publish() -> None:
        nonlocal published
        quick = {"backoff_first_s": 0.001, "backoff_max_s": 0.01}
        async with reefcast.connect(url_of(network, "hub"), redirects=False, **quick) as client:
            while on:
                published += 1
                await client.publish(n=published)
                await asyncio.sleep(0.0005)
            await client.flush()

    async def read(subscription: reefcast.Subscription) -> None:
        async for event in subscription:
            seen.append(event["n"])

    urls = [url_of(network, name) for name in ("a", "b")]
    options = {"backoff_first_s": 0.001, "backoff_max_s": 0.01, "name": "reader"}
    async with reefcast.connect(urls, **options) as client:
        reading = asyncio.create_task(read(await client.subscribe("n > 0")))
        publishing = asyncio.create_task(publish())
        for _ in range(12):
            drained = nodes[rng.choice("ab")]
            if not nodes["ab".replace(drained.name, "")].draining.on:
                drained.wishes.meet(Drain(on=True))
            await asyncio.sleep(rng.random() * 0.02)
            for node in nodes.values():
                for session in list(node.clients.sessions.values()):
                    line = session.port.line
                    if session.name == client.id and line is not None and rng.random() < 0.3:
                        line.transport.abort()
            await asyncio.sleep(rng.random() * 0.02)
            if drained.draining.on and rng.random() < 0.7:
                await until(lambda drained=drained: drained.draining.empty)
                drained.wishes.meet(Drain(on=False))
        on = False
        await publishing
        await until(lambda: len(seen) >= published)
        reading.cancel()
    assert sorted(seen) == list(range(1, published + 1))


async def test_a_client_that_is_away_gets_what_waits_and_goes(live: Live) -> None:
    network = star(session_s=600.0)
    nodes = await live.up(network)
    client = await live.client(nodes["hub"], "c", version=1, features=("resume",))
    await client.subscribe("n > 0")
    client.writer.transport.abort()
    await until(lambda: nodes["hub"].clients.sessions["c"].port.line is None)
    publisher = await live.client(nodes["a"], "p")
    publisher.publish(5)
    await publisher.until_acknowledged(5)
    await until(lambda: nodes["hub"].host.outputs.clients["c"].queue_len == 5)
    nodes["hub"].wishes.meet(Drain(on=True))
    await asyncio.sleep(0)
    assert state(nodes["hub"]) == {"state": "draining", "clients": 1, "custody": 0, "homes": []}
    fields = {"features": ("resume",), "ticket": client.hello.ticket, "received": 1, "attempt": 1}
    again = await RawClient.connect(network.address("hub"), "c", **fields)
    expect(await again.seqs_of(5), 1, 5)
    assert await again.reason() == "broker hub is drained"
    await until(lambda: state(nodes["hub"])["state"] == "empty")
    # Another one is turned away at once.
    with pytest.raises(ConnectionLostError, match="broker hub is drained"):
        await reefcast.connect(url_of(network, "hub"), redirects=False, connect_timeout_s=0.1)
    await again.close()


async def test_custody_is_handed_over_before_a_broker_is_empty(live: Live, tmp_path: Path) -> None:
    network = star(tmp_path)
    nodes = await live.up(network)
    async with reefcast.connect(url_of(network, "b")) as consumer:
        session = await consumer.session("orders")
        await session.subscribe("n > 0")
    await nodes["b"].stop()
    async with reefcast.connect(url_of(network, "a")) as publisher:
        await publisher.publish(n=1, confirm=True)
        nodes["hub"].wishes.meet(Drain(on=True))
        await until(lambda: state(nodes["hub"])["custody"] == 1)
        assert state(nodes["hub"])["state"] == "draining"
        await live.node(network, "b")
        await until(lambda: state(nodes["hub"])["state"] == "empty")


async def test_operators_drain_over_the_admin_connection(live: Live) -> None:
    network = star()
    nodes = await live.up(network)
    async with admin_connection(*network.address("hub")) as asked:
        assert (await asked.drain())["drain"]["state"] in ("draining", "empty")
        assert (await asked.drain())["drain"]["state"] in ("draining", "empty")
        assert (await asked.drain(on=False))["drain"]["state"] == "no"
    async with reefcast.connect(url_of(network, "hub")):
        assert len(nodes["hub"].clients.sessions) == 1


def test_brokers_whose_address_is_of_no_use_to_clients_are_not_named() -> None:
    network = star()
    network.network.insecure = True
    network.broker[1].listen = "0.0.0.0:7401"
    assert places(network, "hub", ["b"]) == [network.broker[2].listen]
    assert places(network, "b", []) == [network.broker[0].listen]

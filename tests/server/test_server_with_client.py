"""The client library against a live broker: connections that break, brokers that stop."""

from __future__ import annotations

import asyncio

import pytest
from live_brokers import Live, Proxy
from raw_client import expect

import reefcast
from live_networks import linked, make_network, url_of


async def test_a_publisher_whose_connection_breaks_loses_and_doubles_nothing(live: Live):
    network = make_network("ab", [("a", "b")], credit=256)
    nodes = await live.up(network)
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe("n > 0")
    proxy = await Proxy(network.address("a")).start()
    async with reefcast.connect(f"reefcast://127.0.0.1:{proxy.port}") as publisher:

        async def publish() -> None:
            for n in range(1, 4001):
                await publisher.publish(n=n)
            await publisher.flush()

        publishing = asyncio.create_task(publish())
        got: list[int] = []
        for _ in range(6):
            got += await subscriber.seqs_of(300)
            proxy.cut()
        got += await subscriber.seqs_of(4000 - len(got))
        expect(got, 1, 4000)
        await publishing
        assert proxy.connections > 1
    await proxy.stop()


async def test_a_subscriber_returns_by_itself_to_a_broker_that_was_restarted(live: Live):
    network = make_network("ab", [("a", "b")])
    nodes = await live.up(network)
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    host, port = network.address("b")
    async with reefcast.connect(f"reefcast://{host}:{port}") as client:
        subscription = client.subscribe("n > 0")
        await subscription.settled()
        publisher.publish(1)
        async with asyncio.timeout(120):
            assert (await anext(subscription))["n"] == 1
        await nodes["b"].stop()
        del live.nodes["b"]
        await live.node(network, "b")
        await linked(live.nodes.values())
        await subscription.settled()
        publisher.publish(1)
        async with asyncio.timeout(120):
            assert (await anext(subscription))["n"] == 2


async def test_a_client_goes_to_its_next_broker_if_the_first_is_full(live: Live):
    network = make_network("ab", [("a", "b")], max_clients=1)
    nodes = await live.up(network)
    await live.client(nodes["a"], "other")
    urls = [url_of(network, name) for name in "ab"]
    async with asyncio.timeout(120), reefcast.connect(urls, name="c") as client:
        assert list(nodes["b"].clients.sessions) == [client.id]
        assert list(nodes["a"].clients.sessions) == ["other"]


async def test_what_a_client_is_told_if_all_its_brokers_are_full(live: Live):
    network = make_network("a", max_clients=1)
    nodes = await live.up(network)
    await live.client(nodes["a"], "other")
    with pytest.raises(reefcast.ConnectionLostError, match="max_clients"):
        await reefcast.connect(url_of(network, "a"), connect_timeout_s=0.01)

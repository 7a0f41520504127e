"""Confirmed publications, between programs and live brokers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import reefcast
from live_networks import PATIENCE_S, linked, make_network, path_network, running, url_of
from reefcast.errors import LocalError, RefusedError
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection
from reefcast.server.node import Node


@asynccontextmanager
async def started(directory: Path, network: NetworkFile) -> AsyncIterator[list[str]]:
    network.sessions = SessionsSection(directory=str(directory))
    async with running(network) as urls, asyncio.timeout(PATIENCE_S):
        yield urls


async def test_what_is_confirmed_is_in_the_queue(tmp_path: Path) -> None:
    async with (
        started(tmp_path, path_network(2)) as (near, far),
        reefcast.connect(near) as publisher,
        reefcast.connect(far) as consumer,
    ):
        session = await consumer.session("billing")
        await session.subscribe("x > 0")
        await publisher.publish(x=1, confirm=True)
        [row] = await consumer.sessions()
        assert row.events == 1
        async with publisher.confirming():
            for x in range(2, 50):
                await publisher.publish(x=x)
            await publisher.publish_many([{"x": x} for x in range(50, 100)])
        assert publisher.unconfirmed == 0
        [row] = await consumer.sessions()
        assert row.events == 99


LINE = [("a", "b"), ("b", "c")]
CYCLE = [*LINE, ("c", "a")]


@pytest.mark.parametrize(
    ("routing", "links"),
    [("flooding", CYCLE), ("tid-s", CYCLE), ("tid-d", CYCLE), ("mesh", LINE)],
)
async def test_what_is_confirmed_arrives_by_the_ways_of_other_routings(
    tmp_path: Path, routing: str, links: list[tuple[str, str]]
) -> None:
    async with (
        started(tmp_path, make_network("abc", links, routing=routing)) as urls,
        reefcast.connect(urls[0]) as publisher,
        reefcast.connect(urls[2]) as consumer,
    ):
        session = await consumer.session("billing")
        await session.subscribe("x > 0")
        async with publisher.confirming():
            for x in range(1, 100):
                await publisher.publish(x=x)
        assert (await session.status()).events == 99


async def test_a_session_that_refuses_is_named(tmp_path: Path) -> None:
    async with (
        started(tmp_path, make_network("a")) as [url],
        reefcast.connect(url) as client,
    ):
        session = await client.session("billing", max_events=2, policy="refuse")
        await session.subscribe("x > 0")
        with pytest.raises(RefusedError, match="billing") as caught:
            async with client.confirming():
                for x in (1, 2, 0, 3, 4):
                    await client.publish(x=x)
        assert caught.value.publications == ((client.id, 4), (client.id, 5))
        with pytest.raises(RefusedError, match="billing"):
            await client.publish(x=5, confirm=True)
        await client.publish(x=0, confirm=True)


async def test_all_is_done_when_no_broker_keeps_it_for_another_any_more(tmp_path: Path) -> None:
    network = make_network("ab", [("a", "b")])
    network.sessions = SessionsSection(directory=str(tmp_path), custody_after_s=0.05)
    near, home = (Node(network, name) for name in "ab")
    async with asyncio.timeout(PATIENCE_S):
        for node in (near, home):
            await node.start()
        await linked((near, home))
        async with reefcast.connect(url_of(network, "b")) as consumer:
            await (await consumer.session("billing")).subscribe("x > 0")
        async with reefcast.connect(url_of(network, "a")) as publisher:
            await publisher.all_done()
            await publisher.publish(x=1, confirm=True)
            await publisher.all_done()
            await home.stop()
            await publisher.publish(x=2, confirm=True)  # returns: a has it in custody
            waiting = asyncio.create_task(publisher.all_done())
            await publisher.publish(x=3, confirm=True)
            assert publisher.unconfirmed == 2 and not waiting.done()
            home = Node(network, "b")
            await home.start()
            await waiting
            await publisher.all_done()
            assert publisher.unconfirmed == 0
            async with reefcast.connect(url_of(network, "b")) as consumer:
                assert (await consumer.session("billing").status()).events == 3
            await home.stop()
            await publisher.publish(x=4, confirm=True)
            waiting = asyncio.create_task(publisher.all_done())
        with pytest.raises(LocalError, match="closed"):
            await waiting  # a keeps it, and the publisher has gone
        with pytest.raises(LocalError, match="closed"):
            await publisher.all_done()
        await near.stop()


async def test_programs_without_asyncio_wait_too(tmp_path: Path) -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            session = client.session("billing", max_events=3, policy="refuse")
            session.subscribe("x > 0", timeout=PATIENCE_S)
            client.publish(x=1)
            client.publish(x=2, confirm=True)
            assert session.status().events == 2
            with pytest.raises(RefusedError, match="billing"), client.confirming(PATIENCE_S):
                for x in (3, 4):
                    client.publish(x=x)
            assert session.status().events == 3
            client.publish(x=0)
            client.all_done(timeout=PATIENCE_S)
            assert client._client.unconfirmed == 0

    async with started(tmp_path, make_network("a")) as [url]:
        await asyncio.to_thread(work, url)

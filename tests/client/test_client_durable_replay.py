"""Durable sessions that begin in the past: first what storages have, then new events, each once
(see use-durable-sessions.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import reefcast
from live_networks import make_network, path_network, running
from live_storages import published, storing, until_found, until_stored
from reefcast.client.history import PORTION_BYTES, in_portions
from reefcast.errors import RefusedError
from reefcast.network.sections import SessionsSection
from reefcast.sessions.messages import MOST_DEPOSITED


@asynccontextmanager
async def started(folder: Path, count: int) -> AsyncIterator[list[str]]:
    network = path_network(count) if count > 1 else make_network("a")
    network.sessions = SessionsSection(directory=str(folder / "sessions"))
    async with running(network) as urls:
        yield urls


async def all_of(session: reefcast.DurableSession, count: int) -> list[int]:
    """Consume `count` events, and check that no more are owed."""
    found = []
    async for event in session:
        assert not event.redelivered
        found.append(event["n"])
        await event.ack()
        if len(found) == count:
            break
    await session.flush()
    assert (await session.status()).events == 0
    return found


async def test_from_the_past_into_the_present_without_a_gap_or_double(tmp_path: Path) -> None:
    async with (
        started(tmp_path, 3) as urls,
        storing(urls[2], tmp_path / "storage") as node,
        reefcast.connect(urls[0]) as client,
    ):
        await published(urls[1], 300)
        await until_stored(node, 300)
        await until_found(client)
        going_on = asyncio.create_task(published(urls[1], 1500, 300))
        session = await client.session("billing")
        number = await session.subscribe("topic = 'fx' AND n >= 100", replay=True, handover_s=0.3)
        assert await session.subscribe("topic = 'fx' AND n >= 100", replay=True) == number
        await going_on
        async with client.session("billing", prefetch=500) as consuming:
            found = await all_of(consuming, 1700)
        assert sorted(found) == list(range(100, 1800))
        past = [n for n in found if n < 300]
        assert past == sorted(past), "past events come in their order"


async def test_a_replay_that_breaks_off_goes_on_without_doubles(tmp_path: Path) -> None:
    async with started(tmp_path, 2) as urls, storing(urls[1], tmp_path / "storage") as node:
        await published(urls[1], 400)
        await until_stored(node, 400)
        for _ in range(3):
            async with reefcast.connect(urls[0]) as client:
                await until_found(client)
                session = await client.session("billing")
                broken = asyncio.create_task(
                    session.subscribe("topic = 'fx'", replay=True, handover_s=0.1)
                )
                while not (await client.sessions()) or not (await session.status()).events:
                    if broken.done():
                        break
                broken.cancel()
        async with reefcast.connect(urls[0]) as client, client.session("billing") as session:
            await session.subscribe("topic = 'fx'", replay=True, handover_s=0.1)
            assert await all_of(session, 400) == list(range(400))


async def test_a_full_session_says_so_and_goes_on(tmp_path: Path) -> None:
    async with (
        started(tmp_path, 1) as [url],
        storing(url, tmp_path / "storage") as node,
        reefcast.connect(url) as client,
    ):
        await published(url, 10)
        await until_stored(node, 10)
        await until_found(client)
        refusing = await client.session("refusing", max_events=4, policy="refuse")
        with pytest.raises(RefusedError, match="'refusing' is full"):
            await refusing.subscribe("topic = 'fx'", replay=True, handover_s=0.1)
        async with client.session("refusing") as session:
            assert await all_of(session, 4) == [0, 1, 2, 3]
        nobody = await client.session("nobody")
        with pytest.raises(RefusedError, match="nobody stores"):
            await nobody.subscribe("topic = 'cars'", replay=True, handover_s=0.1)


def without_asyncio(url: str) -> list[int]:
    with reefcast.sync.connect(url) as client, client.session("billing") as session:
        session.subscribe("topic = 'fx'", replay=True, handover_s=0.1)
        found = []
        for event in session:
            found.append(event["n"])
            event.ack()
            if len(found) == 5:
                break
        return found


async def test_without_asyncio(tmp_path: Path) -> None:
    async with started(tmp_path, 1) as [url], storing(url, tmp_path / "storage") as node:
        await published(url, 5)
        await until_stored(node, 5)
        async with reefcast.connect(url) as client:
            await until_found(client)
        assert await asyncio.to_thread(without_asyncio, url) == [0, 1, 2, 3, 4]


@given(st.lists(st.integers(1, 3 * PORTION_BYTES // 2), max_size=12), st.booleans())
def test_portions_hold_all_in_order_and_are_not_too_large(sizes: list[int], many: bool) -> None:
    bodies = [bytes(1)] * (2 * MOST_DEPOSITED + 1) if many else [bytes(size) for size in sizes]
    portions = list(in_portions(bodies))
    assert [body for portion in portions for body in portion] == bodies
    for portion in portions:
        assert 1 <= len(portion) <= MOST_DEPOSITED
        assert len(portion) == 1 or sum(map(len, portion)) <= PORTION_BYTES

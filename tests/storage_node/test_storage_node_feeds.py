"""A storage that gets new events from a durable session misses nothing that was confirmed."""

from __future__ import annotations

import asyncio
import threading
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import reefcast
from children import Children, line_of
from live_networks import path_network, running
from live_storages import WITHIN_S, storing, until_found
from reefcast.history.limits import Limits
from reefcast.history.rows import Incoming
from reefcast.history.store import HistoryStore
from reefcast.model.topics import topic_filter
from reefcast.network.sections import SessionsSection
from reefcast.storage_node.node import StorageNode
from reefcast.storage_node.process import Keeping, serve_store


@asynccontextmanager
async def brokers(directory: Path) -> AsyncIterator[list[str]]:
    network = path_network(2)
    network.sessions = SessionsSection(directory=str(directory / "sessions"))
    async with running(network) as urls:
        yield urls


async def started(children: Children, url: str, directory: Path) -> Process:
    storage = await children.start(
        *("storage", url, "fx", "--directory", directory / "history", "--session", "archive")
    )
    assert b"answers for fx" in await line_of(storage.stdout)
    return storage


async def stored(client: reefcast.Client) -> list[object]:
    return [event["n"] async for event in client.history("topic = 'fx'")]


async def test_what_is_confirmed_while_the_storage_is_dead_is_stored_when_it_is_back(
    tmp_path: Path,
) -> None:
    async with (
        brokers(tmp_path) as urls,
        Children() as children,
        reefcast.connect(urls[0]) as client,
    ):
        storage = await started(children, urls[1], tmp_path)
        await client.publish(n=0, topics=["fx"], confirm=True)
        storage.kill()
        await storage.wait()
        for n in range(1, 20):
            await client.publish(n=n, topics=["fx"], confirm=True)
        await started(children, urls[1], tmp_path)
        await until_found(client)
        assert await stored(client) == list(range(20)), "it answers only when all is stored"


async def test_an_event_is_owed_until_it_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, began, free = HistoryStore.append, threading.Event(), threading.Event()

    def slow(store: HistoryStore, items: list[Incoming]) -> object:
        began.set()
        assert free.wait(WITHIN_S)
        return append(store, items)

    monkeypatch.setattr(HistoryStore, "append", slow)
    async with (
        brokers(tmp_path) as urls,
        reefcast.connect(urls[1]) as client,
        storing(urls[1], tmp_path / "history", session="archive"),
        asyncio.timeout(WITHIN_S),
    ):
        try:
            await client.publish(n=0, topics=["fx"], confirm=True)
            assert await asyncio.to_thread(began.wait, WITHIN_S)
            (row,) = await client.sessions()
            assert row.events == 1
        finally:
            free.set()
        while (await client.sessions())[0].events:  # noqa: ASYNC110 (the broker says no more)
            await asyncio.sleep(0.01)


async def test_topics_come_and_go(tmp_path: Path) -> None:
    async with (
        brokers(tmp_path) as urls,
        reefcast.connect(urls[1]) as client,
        storing(urls[1], tmp_path / "history", session="archive") as node,
        asyncio.timeout(WITHIN_S),
    ):
        node.change(["fx", "gold"])
        await node.until_ready()
        (row,) = await client.sessions()
        assert len(row.subscriptions) == 2
        node.change(["fx"])
        await node.until_ready()
        (row,) = await client.sessions()
        assert list(row.subscriptions.values()) == [topic_filter(["fx"])]


async def test_the_session_ends_with_the_storage(tmp_path: Path) -> None:
    """It goes when the storage is taken out of the network file, and stays when the storage
    stops."""
    keeping = Keeping(directory=tmp_path / "history", limits=Limits(), session="archive")
    answers, removed, stop = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def until_removed(node: StorageNode) -> None:
        await removed.wait()

    async def serve() -> None:
        await serve_store(
            *(urls[1], ["fx"], keeping, (), stop),
            ready=lambda node: answers.set(),
            follow=until_removed,
        )

    async with (
        brokers(tmp_path) as urls,
        reefcast.connect(urls[1]) as client,
        asyncio.timeout(WITHIN_S),
    ):
        for ends, left in ((stop, 1), (removed, 0)):
            stop.clear()
            answers.clear()
            storage = asyncio.create_task(serve())
            await answers.wait()
            ends.set()
            await storage
            assert len(await client.sessions()) == left

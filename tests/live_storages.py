"""Storages in the test's own event loop, with events published to them and questions asked of
them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import reefcast
from live_networks import PATIENCE_S, until
from reefcast.client import Client
from reefcast.errors import DamagedError
from reefcast.history.store import HistoryStore
from reefcast.storage_node.node import StorageNode

WITHIN_S = PATIENCE_S


def complain(error: DamagedError) -> None:
    raise error


@asynccontextmanager
async def attached(
    url: str,
    directory: Path,
    topics: Sequence[str] = ("fx",),
    joining: Sequence[str] = (),
    **options: Any,
) -> AsyncIterator[StorageNode]:
    """Yield a storage in this process, which is not ready yet. If it ends by itself, its error is
    raised."""
    store = HistoryStore(directory, complain)
    async with reefcast.connect(url, name="storage") as client:
        node = StorageNode(client, store, topics, joining, handover_s=0.2, **options)
        task = asyncio.create_task(node.run())
        try:
            yield node
        finally:
            task.cancel()
            [ended] = await asyncio.gather(task, return_exceptions=True)
    store.close()
    assert isinstance(ended, asyncio.CancelledError), ended


@asynccontextmanager
async def storing(
    url: str, directory: Path, topics: Sequence[str] = ("fx",), **options: Any
) -> AsyncIterator[StorageNode]:
    """Yield a storage in this process that answers for its topics."""
    async with attached(url, directory, topics, **options) as node:
        async with asyncio.timeout(WITHIN_S):
            await node.until_ready()
        yield node


async def published(url: str, count: int, first: int = 0, topic: str = "fx") -> None:
    async with reefcast.connect(url, name="publisher") as client:
        for n in range(first, first + count):
            await client.publish({"n": n, "third": n % 3}, topics=[topic])


async def until_stored(node: StorageNode, count: int) -> None:
    await until(lambda: node.stored >= count)


async def until_found(client: Client) -> None:
    """Wait until the client's broker knows that there are storages."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            try:
                async for _ in client.history("topic = 'fx'", limit=1):
                    pass
                return
            except reefcast.RefusedError:
                await asyncio.sleep(0.01)


async def numbers(events: AsyncIterator[reefcast.Event], count: int | None = None) -> list[object]:
    found: list[object] = []
    async with asyncio.timeout(WITHIN_S):
        async for event in events:
            found.append(event["n"])
            if len(found) == count:
                break
    return found

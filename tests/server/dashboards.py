"""A town of brokers with something to see, and a browser that looks at it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from live_brokers import Live

import reefcast
from asking_http import with_admin
from live_networks import make_network, url_of
from reefcast.network.file import NetworkFile
from reefcast.network.sections import SessionsSection, StorageEntry
from reefcast.server.node import Node

SCRIPT = "<img src=x onerror=document.title=1>"
"""What a stranger may call things, so that a page runs it that takes texts for markup."""


class Town:
    """Brokers a - b - c and b - d; `base`: where the page of a is. A client at c reads what is
    about IBM, slowly at d; the durable session `billing` of a is owed events."""

    def __init__(self, live: Live, network: NetworkFile) -> None:
        self.live = live
        self.network = network
        host, port = network.admin_address("a") or ("", 0)
        self.base = f"http://{host}:{port}/"
        self.writer: reefcast.Client
        self.reader: reefcast.Client

    @property
    def nodes(self) -> dict[str, Node]:
        return self.live.nodes

    async def publish(self, count: int = 1, **attributes: Any) -> None:
        for number in range(count):
            await self.writer.publish(symbol="IBM", price=50 + number, **attributes)


def town_network(folder: Path) -> NetworkFile:
    network = with_admin(make_network("abcd", [("a", "b"), ("b", "c"), ("b", "d")]))
    network.sessions = SessionsSection(directory=str(folder))
    network.storage = [StorageEntry("archive", "b", ["trades"], str(folder / "archive"))]
    return network.validate()


@asynccontextmanager
async def town(folder: Path) -> AsyncIterator[Town]:
    async with AsyncExitStack() as stack:
        live = Live(stack)
        found = Town(live, town_network(folder))
        await live.up(found.network)

        async def client(broker: str, name: str) -> reefcast.Client:
            url = url_of(found.network, broker)
            return await stack.enter_async_context(reefcast.connect(url, name=name))

        found.writer, found.reader = await client("a", "writer"), await client("c", "reader")
        await found.writer.advertise("price > 0")
        kept = [await found.reader.subscribe("symbol = 'IBM' AND price > 10")]
        kept += [await found.reader.subscribe(f"symbol = '{SCRIPT}'")]
        for each in kept:
            await each.settled()
        owner = await client("a", "owner")
        session = await owner.session("billing")
        await session.subscribe("price > 60")
        stack.callback(kept.clear)  # a subscription that nobody holds ends
        stack.callback(lambda: session)
        reading = asyncio.create_task(_read(kept[0]))
        stack.callback(reading.cancel)
        for number in range(30):
            await live.client(live.nodes["d"], f"idle-{number:02}")
        yield found


async def _read(subscription: Any) -> None:
    async for _ in subscription:
        pass

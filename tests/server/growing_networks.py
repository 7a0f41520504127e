"""Live networks whose file changes while they run: brokers join, and leave."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from live_brokers import Live
from msgspec.structs import replace

import reefcast
from live_networks import linked, make_network, until
from reefcast.network.changes import fingerprint
from reefcast.network.file import NetworkFile, dump_network, load_network
from reefcast.network.sections import SessionsSection
from reefcast.server.applying import Applied, Applying
from reefcast.server.node import Node

QUICK: dict[str, Any] = {"backoff_first_s": 0.005, "backoff_max_s": 0.02}


class Growing:
    """A network whose file changes. `whole`: it has all brokers; those of the file are started."""

    def __init__(self, live: Live, folder: Path, whole: NetworkFile) -> None:
        self.live, self.whole = live, whole
        self.path = folder / "net.toml"
        self.nodes: dict[str, Node] = {}

    def write(self, *without: str) -> None:
        """Write the file without these brokers, and their links."""
        network = replace(
            self.whole,
            broker=[each for each in self.whole.broker if each.name not in without],
            link=[each for each in self.whole.link if not {*each.between} & {*without}],
        )
        self.path.write_text(dump_network(network.validate()))

    @property
    def network(self) -> NetworkFile:
        return load_network(self.path)

    async def start(self, name: str) -> None:
        node = self.nodes[name] = await self.live.node(self.network, name)
        node.wishes.applying = Applying(node, self.path, ())
        ended = asyncio.Event()
        node.wishes.end_process = lambda again: ended.set()
        task = asyncio.create_task(self._end(node, ended))
        self.live._stack.callback(task.cancel)

    async def _end(self, node: Node, ended: asyncio.Event) -> None:
        await ended.wait()
        await node.stop()
        del self.nodes[node.name]

    async def start_all(self) -> None:
        for name in self.network.names:
            await self.start(name)
        await linked(self.nodes.values())

    async def apply(self) -> list[Applied]:
        """Have all brokers that run apply the file; return what they say, each once."""
        wanted = fingerprint(self.network)
        found = [node.wishes.applying for node in self.nodes.values()]
        rows = [row for each in found if each for row in each.apply(wanted, dry=False)]
        return [row for at, row in enumerate(rows) if row not in rows[:at]]


def growing(
    live: Live, folder: Path, routing: str, *, disk: bool, coordinator: str = ""
) -> Growing:
    """Return the line a-b-c-d. `coordinator`: of a mesh whose links may be moved."""
    links = [("a", "b"), ("b", "c"), ("c", "d")]
    options = {"coordinator": coordinator} if coordinator else {}
    whole = make_network("abcd", links, routing=routing, options=options)
    if disk:
        whole.sessions = SessionsSection(directory=str(folder / "sessions"))
    return Growing(live, folder, whole)


class Publishing:
    """Confirmed events from the client of a broker, without a pause."""

    def __init__(self, url: str) -> None:
        self._url, self.count, self._on = url, 0, True

    async def run(self, published: Callable[[], None]) -> None:
        async with reefcast.connect(self._url, **QUICK) as client:
            while self._on:
                await client.publish(n=self.count + 1, confirm=True)
                self.count += 1
                published()
                await asyncio.sleep(0.001)

    async def more(self) -> None:
        """Wait until some more are published."""
        wanted = self.count + 5
        await until(lambda: self.count >= wanted)

    def stop(self) -> None:
        self._on = False

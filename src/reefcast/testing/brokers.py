"""Brokers in the running event loop: the very same as those of `reefcast broker`."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from reefcast.client import Options
from reefcast.client.address import Address
from reefcast.errors import ConfigurationError, LocalError, PeerError
from reefcast.extras import extra_for
from reefcast.history.limits import Limits
from reefcast.network.file import NetworkFile
from reefcast.server.admin import UNASKED, key_at_hand
from reefcast.server.node import Node
from reefcast.server.supervisor import not_up
from reefcast.storage_node.beside import StorageBeside
from reefcast.storage_node.process import Keeping
from reefcast.testing.describing import described

ATTEMPTS = 5
"""How often other ports are tried, when another program was faster."""
START_S = 60.0
POLL_S = 0.002


class Broker:
    """A broker in the running event loop. `url`: for `reefcast.connect`; `name`: its name.

    `stop` and `start` show what a program does while its broker is away; the test's end stops it
    by itself."""

    def __init__(self, network: NetworkFile, name: str, history: Path | None) -> None:
        self.name = name
        self.url = str(Address(*network.address(name)))
        self._network, self._history = network, history
        self._node: Node | None = None
        self._storage: StorageBeside | None = None
        self._stored_before = 0

    @property
    def node(self) -> Node:
        """What runs. Raises `LocalError` while the broker is stopped."""
        if self._node is None:
            raise LocalError(f"broker {self.name} does not run; start it again")
        return self._node

    async def start(self) -> None:
        """Start again, with the same port and the same sessions and history. Raises
        `ConfigurationError` if the port is taken by now, `LocalError` if the broker runs."""
        await self.listen()
        await self.store()

    async def listen(self) -> None:
        """Start without the history, which waits for all brokers of the network."""
        if self._node is not None:
            raise LocalError(f"broker {self.name} runs already")
        node = Node(self._network, self.name)
        self._node = node
        try:
            await node.start()
        except BaseException:
            await self.stop()
            raise

    async def store(self) -> None:
        """Begin to store, if this broker has a history, when all links are up."""
        if self._history is None:
            return
        key = key_at_hand(self._network)
        shown: Options = {"network_key": key} if key else {}
        keeping = Keeping(directory=self._history, limits=Limits(), seal_after_s=None)
        self._storage = StorageBeside(self.node, self.url, keeping, shown=shown)
        await self._storage.start()

    async def stop(self) -> None:
        """Stop as at SIGTERM: clients get what waits for them, and try to connect again. Does
        nothing if the broker does not run."""
        node, self._node = self._node, None
        if node is None:
            return
        await node.stop()
        if self._storage is not None:
            self._stored_before += self._storage.stored
            self._storage = None

    async def stored(self, count: int) -> None:
        """Wait until the history has stored so many events since the test began. An event counts
        once, however many topics it has; without a topic it is not kept. Raises `LocalError` if
        the broker has no history, or does not run."""
        while self._stored < count:  # noqa: ASYNC110 (the storage works in threads)
            await asyncio.sleep(POLL_S)

    @property
    def _stored(self) -> int:
        if self._storage is None:
            raise LocalError(
                f"broker {self.name} has no history; it is at the first broker, unless it was "
                "made with history=False, and while that runs"
            )
        return self._stored_before + self._storage.stored


@asynccontextmanager
async def running(
    names: Sequence[str],
    links: Sequence[tuple[str, str]],
    *,
    settings: str,
    history: bool,
    directory: Path | None,
) -> AsyncIterator[Mapping[str, Broker]]:
    """Run brokers by their names until the end of the block, whatever ends it; see
    `reefcast.testing.network`."""
    async with AsyncExitStack() as stack:
        if directory is None:
            folder = tempfile.TemporaryDirectory(prefix="reefcast-test-")
            directory = Path(stack.enter_context(folder))
        with extra_for("a broker in a test"):
            from reefcast.matching import warm_up

            await asyncio.to_thread(warm_up)  # takes seconds with an empty cache
        brokers = await _listening(names, links, settings, history, directory)
        for broker in brokers.values():
            stack.push_async_callback(broker.stop)
        await _linked(brokers)
        await brokers[names[0]].store()
        yield brokers


async def _listening(
    names: Sequence[str],
    links: Sequence[tuple[str, str]],
    settings: str,
    history: bool,
    directory: Path,
) -> dict[str, Broker]:
    """Start brokers on ports that are free: also if another program took one meanwhile."""
    failures = 0
    while True:
        network = described(names, links, settings, directory)
        first = directory / "history" if history else None
        brokers = {
            name: Broker(network, name, None if number else first)
            for number, name in enumerate(names)
        }
        try:
            for broker in brokers.values():
                await broker.listen()
        except BaseException as error:
            for broker in brokers.values():
                await broker.stop()
            failures += 1
            taken = isinstance(error, ConfigurationError) and isinstance(error.__cause__, OSError)
            if not taken or failures == ATTEMPTS:
                raise
        else:
            return brokers


async def _linked(brokers: Mapping[str, Broker]) -> None:
    """Wait until all links are up, and every broker knows what its neighbours know."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + START_S
    while missing := not_up({n: each.node.status(UNASKED) for n, each in brokers.items()}):
        if loop.time() > until_s:
            raise PeerError(f"after {START_S:g} s these are not up: {', '.join(missing)}")
        await asyncio.sleep(POLL_S)

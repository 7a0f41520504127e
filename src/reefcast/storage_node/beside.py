"""A storage in the process of its broker: of one that is in no network file, or of a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from reefcast.client import Options
from reefcast.errors import ReefcastError
from reefcast.logs import part
from reefcast.server.node import Node
from reefcast.storage_node.node import StorageNode
from reefcast.storage_node.process import Keeping, serve_store

log = part("storage")

EVERYTHING = ("#",)
CLOSE_S = 0.02
"""How long its client waits for the end of its connection: a broker that stops no longer reads."""
AGAIN_S = 5.0
"""Seconds until a storage that failed, for instance because the disk is full, starts again."""


class StorageBeside:
    """A storage that keeps these topics of a broker, from `start` until the broker stops.

    `url`: the broker's; `shown`: the options of its client that say who it is. `stored`: how many
    events it has stored."""

    def __init__(
        self,
        node: Node,
        url: str,
        keeping: Keeping,
        topics: Sequence[str] = EVERYTHING,
        *,
        shown: Options | None = None,
    ) -> None:
        self._url, self._keeping, self._topics = url, keeping, topics
        self._shown: Options = {**(shown or {}), "close_timeout_s": CLOSE_S}
        self._network = node.network.network.name
        self._stop, self._answers = asyncio.Event(), asyncio.Event()
        self._before = 0
        self._storage: StorageNode | None = None
        self._task: asyncio.Task[None]
        node.before_leaving.append(self.stop)

    @property
    def stored(self) -> int:
        return self._before + (0 if self._storage is None else self._storage.stored)

    async def start(self) -> None:
        """Wait until it answers for its topics. Raises what keeps it from that: for instance a
        `ConfigurationError` if another process uses its directory."""
        self._task = asyncio.create_task(self._run())
        answers = asyncio.create_task(self._answers.wait())
        await asyncio.wait((self._task, answers), return_when=asyncio.FIRST_COMPLETED)
        answers.cancel()
        if self._task.done():
            self._task.result()

    async def stop(self) -> None:
        """Store what has arrived, and close the history."""
        self._stop.set()
        await asyncio.wait((self._task,))  # whoever started it has heard of its error

    async def _run(self) -> None:
        while not self._stop.is_set():
            try:
                await self._serve()
            except ReefcastError as error:
                if not self._answers.is_set():
                    raise
                log.error("the history fails: %s; it is tried again in %g s", error, AGAIN_S)
                with suppress(TimeoutError):
                    async with asyncio.timeout(AGAIN_S):
                        await self._stop.wait()

    async def _serve(self) -> None:
        await serve_store(
            *(self._url, self._topics, self._keeping, (), self._stop),
            network=self._network,
            shown=self._shown,
            ready=self._ready,
        )

    def _ready(self, storage: StorageNode) -> None:
        if storage is not self._storage:
            self._before, self._storage = self.stored, storage
        if set(storage.answers) == set(self._topics):
            self._answers.set()

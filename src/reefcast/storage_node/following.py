"""A storage of a network file: it keeps the topics that the file gives it, and follows the file's
changes."""

from __future__ import annotations

import asyncio
from pathlib import Path

from msgspec.structs import replace

from reefcast.errors import ConfigurationError
from reefcast.logs import part
from reefcast.network.file import load_network
from reefcast.network.sections import StorageEntry
from reefcast.network.watching import Watched
from reefcast.storage_node.node import StorageNode

log = part("storage")

FOLLOW_S = 0.2
"""Seconds between two looks at the network file."""


class Following:
    """A storage that follows its entry in the network file; `entry`: the entry at the start."""

    def __init__(self, file: Path, entry: StorageEntry) -> None:
        self._watched = Watched(file, load_network)
        self._entry = entry

    async def follow(self, node: StorageNode) -> None:
        """Follow the entry in the network file until it is removed."""
        node.change(self._entry.topics, self._entry.joining)
        while (entry := self._look()) is not None:
            if entry != self._entry:
                self._entry = entry
                node.change(entry.topics, entry.joining)
            await asyncio.sleep(FOLLOW_S)

    def _look(self) -> StorageEntry | None:
        before = self._entry
        try:
            network = self._watched.look()
        except ConfigurationError as error:
            log.warning("storage %s stays as it is: %s", before.name, error)
            return before
        if network is None:
            return before
        now = next((entry for entry in network.storage if entry.name == before.name), None)
        if now and replace(now, topics=before.topics, joining=before.joining) != before:
            log.warning("storage %s: all but its topics are as they were at its start", now.name)
        return now

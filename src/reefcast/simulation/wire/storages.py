"""A live storage in simulated time: `storage_node.node.StorageNode`, with a history on the disk."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import weakref
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path

from reefcast.client.client import Client
from reefcast.errors import DamagedError
from reefcast.history.limits import Limits
from reefcast.history.store import HistoryStore
from reefcast.model.publication import INT64_MIN, Publication
from reefcast.model.wire import decode_publication
from reefcast.simulation.past import Storing
from reefcast.storage_node.node import StorageNode
from reefcast.storage_node.process import first_of


class Disk:
    """The histories of one simulation, by the names of their storages; they are removed with it.
    `damage`: the damage that was found."""

    def __init__(self) -> None:
        self.damage: list[DamagedError] = []
        self._open: dict[str, HistoryStore] = {}

    def open(self, name: str, limits: Limits) -> HistoryStore:
        """Open the store of this name, with what it had before."""
        store = HistoryStore(self._folder / name.encode().hex(), self.damage.append, limits)
        self._open[name] = store
        return store

    @cached_property
    def _folder(self) -> Path:
        """Return the folder of the storages, and create it for the first of them."""
        folder = Path(tempfile.mkdtemp(prefix="reefcast-simulated-"))
        weakref.finalize(self, _remove, folder, self._open)
        return folder

    def close(self, name: str) -> None:
        """Close a store as the end of its process does; do nothing if it is not open."""
        store = self._open.pop(name, None)
        if store is not None:
            store.close()


def _remove(folder: Path, opened: Mapping[str, HistoryStore]) -> None:
    for store in opened.values():
        store.close()
    shutil.rmtree(folder, ignore_errors=True)


class WireStorage:
    """The storage that a client is, from when it starts until it is told to end. `node`: the live
    one; `topics`: those of its script."""

    def __init__(self, live: Client, disk: Disk, script: Storing) -> None:
        self.handle = script.handle
        self.topics = script.topics
        self._name = script.client
        self._disk = disk
        self._store = disk.open(script.client, script.limits)
        self.node = StorageNode(live, self._store, script.topics)
        self._ends = asyncio.Event()

    async def run(self) -> None:
        """Run until told to end. Raises the reason if it cannot go on."""
        try:
            await first_of(self.node.run(), self._ends.wait())
        finally:
            self._disk.close(self._name)

    def end(self) -> None:
        """End as a storage does that is told to stop."""
        self._ends.set()

    @property
    def is_catching_up(self) -> bool:
        """Whether there is a topic that it does not answer for yet."""
        return set(self.node.answers) != set(self.node.topics)

    def kept(self) -> Iterator[Publication]:
        """Yield what the open store has; also what has expired and is still there."""
        for bodies in self._store.read(("#",), INT64_MIN):
            yield from map(decode_publication, bodies)

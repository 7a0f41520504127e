"""What operators see of a storage: whether it is ready, its status, and its figures."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from typing import Any

from reefcast.history.store import HistoryStore
from reefcast.network.sections import StorageEntry
from reefcast.server.metrics import definitions as common
from reefcast.server.metrics.collecting import free_bytes, own_version
from reefcast.server.metrics.observed import Figure, figure
from reefcast.storage_node import metric_definitions as of
from reefcast.storage_node.node import QUEUE, StorageNode
from reefcast.timing import now_us


class Observed:
    """A storage for the whole life of its process: it may open its history, and attach to its
    broker, several times. `entry`: what it was started with; `stopping`: whether it was told to
    stop."""

    def __init__(self, entry: StorageEntry, network: str) -> None:
        self.entry = entry
        self.stopping = False
        self._network = network
        self._node: StorageNode | None = None
        self._store: HistoryStore | None = None
        self._before: Counter[str] = Counter()
        self._restarts: Counter[str] = Counter()

    # --- what the process tells -------------------------------------------------------------------

    def opened(self, store: HistoryStore) -> None:
        """Note that it has its history open."""
        self._store = store

    def attached(self, node: StorageNode) -> None:
        """Note that this is the storage from now on."""
        self._node = node

    def ended(self) -> None:
        """Note that its history gets closed."""
        if self._node is not None:
            self._before += self._node.counters
        self._node = self._store = None

    def failed(self, reason: str) -> None:
        """Note that it has to start again."""
        self._restarts[reason] += 1

    # --- what operators see -----------------------------------------------------------------------

    @property
    def counters(self) -> Counter[str]:
        """The counts of all that it was in this process."""
        now = Counter() if self._node is None else self._node.counters
        return self._before + now

    def not_ready(self) -> list[str]:
        """Return in words what is missing until it is ready; no names, for anybody may ask."""
        node = self._node
        if self.stopping:
            return ["it was told to stop"]
        if node is None:
            return ["it opens its history, and looks for its broker"]
        if not node.is_connected:
            return ["it is not connected to its broker"]
        lacks = set(node.topics) - set(node.answers)
        if lacks:
            return [f"it does not answer for {len(lacks)} of its {len(node.topics)} topics yet"]
        return []

    def _topics(self) -> dict[str, list[str]]:
        """Return its topics by their states."""
        found: dict[str, list[str]] = {state: [] for state in of.TOPIC_STATES}
        node = self._node
        topics = tuple(self.entry.topics) if node is None else node.topics
        joining = frozenset(self.entry.joining) if node is None else node.joining
        answers = () if node is None else node.answers
        for topic in topics:
            waits = "taking_over" if topic in joining else "catching_up"
            found["answering" if topic in answers else waits].append(topic)
        return found

    def status(self) -> dict[str, Any]:
        """Return what `network status` says of it, and what it counts, as plain data."""
        node, states = self._node, self._topics()
        return {
            "storage": self.entry.name,
            "broker": self.entry.broker,
            "connected": node is not None and node.is_connected,
            "ready": not self.not_ready(),
            "stopping": self.stopping,
            "topics": sorted(topic for topics in states.values() for topic in topics),
            "answers": [] if node is None else sorted(node.answers),
            "joins": states["taking_over"],
            "silent": states["catching_up"],
            "waiting_events": 0 if node is None else node.waiting,
            "requests_running": 0 if node is None else node.running,
            "restarts": dict(self._restarts),
            "counters": dict(self.counters),
            "history": None if self._store is None else self._store.contents()._asdict(),
        }

    async def figures(self) -> list[Figure]:
        """Return its figures; those of its history come from a thread, for it may have many
        topics."""
        store = self._store
        history = [] if store is None else await asyncio.to_thread(_history, store)
        return [*self._figures(), *history]

    def _figures(self) -> Iterator[Figure]:
        node, entry, counters = self._node, self.entry, self.counters
        yield figure(of.INFO, 1, entry.name, self._network, entry.broker, own_version())
        yield figure(common.READY, not self.not_ready())
        yield figure(of.CONNECTED, node is not None and node.is_connected)
        for state, topics in self._topics().items():
            yield figure(of.TOPICS, len(topics), state)
        for source in of.EVENT_SOURCES:
            yield figure(of.STORED, counters[f"events_of_{source}"], source)
        yield figure(of.STORED_BYTES, counters["event_bytes"])
        yield figure(of.WAITING, 0 if node is None else node.waiting)
        yield figure(of.WAITING_LIMIT, QUEUE)
        for outcome in of.OUTCOMES:
            yield figure(of.REQUESTS, counters[f"requests_{outcome}"], outcome)
        yield figure(of.RUNNING, 0 if node is None else node.running)
        for reason in of.RESTART_REASONS:
            yield figure(of.RESTARTS, self._restarts[reason], reason)


def _history(store: HistoryStore) -> list[Figure]:
    has = store.contents()
    found = [
        figure(of.ROWS, has.rows),
        figure(of.ROW_BYTES, has.row_bytes),
        figure(of.SEGMENTS, has.segments),
        figure(of.SEGMENT_ROWS, has.segment_rows),
        figure(of.DISK_BYTES, has.disk_bytes),
    ]
    if has.newest_us is not None:
        found.append(figure(of.NEWEST_AGE, max(0.0, (now_us() - has.newest_us) / 1e6)))
    free = free_bytes(store.directory)
    return found if free is None else [*found, figure(of.DISK_FREE, free)]

"""The thread that writes what the core wants kept, and says when it is on disk.

What comes while a batch is being written is the next batch: one sync for all of it (*group
commit*). A disk that fails (full, broken) does not end the broker: nothing of the batch is
confirmed, the failure is logged, and the same batch is tried again until it succeeds or the broker
ends.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from reefcast.keeping.interface import Bodies, Store
from reefcast.keeping.store import SqliteStore
from reefcast.logs import part
from reefcast.model.keeping import Change, Contents, EventNumber
from reefcast.network.sections import SessionsSection
from reefcast.server.metrics.histograms import MILLI, Histogram

log = part("sessions")

MOST_CHANGES = 20_000
"""In one batch: what is written within some tens of milliseconds."""
AGAIN_S = (0.1, 5.0)
"""Seconds until a batch that failed is tried again: at first, and at most."""

Kept = Callable[[int], None]
Fetched = Callable[[Bodies], None]


class Keeping(Protocol):
    """What a broker needs of its disk: `Keeper`, or the simulator's."""

    contents: Contents
    """What it held at the start. It may be cleared once it was read."""

    def listen(self, kept: Kept, fetched: Fetched) -> None:
        """Set who is told, on the event loop's thread, that all changes up to those of a token are
        synced, and of bodies that were asked for; before the first `keep`."""
        ...

    def keep(self, changes: Sequence[Change], token: int) -> None:
        """Write changes behind all earlier ones. `token`: above those before; 0: nobody waits."""
        ...

    def fetch(self, events: Iterable[EventNumber]) -> None:
        """Read bodies of events; what was to be kept before is written first."""
        ...

    async def close(self) -> None:
        """Write what is left, and close the files."""
        ...


class _Work(NamedTuple):
    """What one turn of the thread does."""

    changes: list[Change]
    token: int
    wanted: list[EventNumber]


class Keeper:
    """`Keeping` with a store and a thread of its own. `interval_s`: seconds between syncs, for a
    store that does not sync each commit; 0: it does. Made on the event loop's thread. `commits`:
    how long commits took, in seconds."""

    def __init__(self, store: Store, interval_s: float = 0.0) -> None:
        self.contents = store.load()
        self.commits = Histogram(MILLI)
        self._store = store
        self._interval_s = interval_s
        self._loop = asyncio.get_running_loop()
        self._kept: Kept = lambda token: None
        self._fetched: Fetched = lambda bodies: None
        self._changes: list[Sequence[Change]] = []
        self._tokens: list[int] = []
        self._wanted: list[EventNumber] = []
        self._is_unsynced = False
        self._synced_s = 0.0
        self._failures = 0
        self._closing = False
        self._ended = asyncio.Event()
        self._wake = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="keeper", daemon=True)
        self._thread.start()

    # --- on the event loop's thread --------------------------------------------------------------

    def listen(self, kept: Kept, fetched: Fetched) -> None:
        """Set who is told; before the first `keep`."""
        self._kept, self._fetched = kept, fetched

    def keep(self, changes: Sequence[Change], token: int) -> None:
        """Write changes behind all earlier ones."""
        with self._wake:
            self._changes.append(changes)
            self._tokens.append(token)
            self._wake.notify()

    def fetch(self, events: Iterable[EventNumber]) -> None:
        """Read bodies, behind what is to be kept."""
        with self._wake:
            self._wanted += events
            self._wake.notify()

    @property
    def pending(self) -> int:
        """How many inputs of the broker wait for the disk, besides those that are being written."""
        return len(self._changes)

    @property
    def is_failing(self) -> bool:
        """Whether the disk failed the last time."""
        return self._failures > 0

    async def close(self) -> None:
        """Write what is left, and close the store. A disk that fails loses what nobody was told is
        kept."""
        with self._wake:
            self._closing = True
            self._wake.notify()
        await self._ended.wait()
        self._thread.join()

    # --- on the thread ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while (work := self._next()) is not None:
                if work.changes and not self._persist(lambda: self._commit(work.changes)):
                    break
                self._is_unsynced = self._is_unsynced or bool(work.changes)
                self._tell(self._say_kept, work.token)
                if work.wanted:
                    self._read(work.wanted)
                self._sync_if_due()
        except Exception:
            log.exception("the keeper of this broker failed: nothing more is confirmed")
        try:
            self._store.close()
        except Exception:
            log.exception("the store of this broker cannot be closed")
        self._tell(self._ended.set)

    def _commit(self, changes: list[Change]) -> None:
        began_s = time.monotonic()
        self._store.commit(changes)
        self.commits.observe(time.monotonic() - began_s)

    def _sync_if_due(self) -> None:
        """Sync where commits do not, once in a while."""
        due = time.monotonic() - self._synced_s >= self._interval_s > 0
        if due and self._is_unsynced and self._persist(self._store.sync):
            self._is_unsynced = False
            self._synced_s = time.monotonic()

    def _next(self) -> _Work | None:
        """Wait for work and return it; None: there is none left, and no more will come."""
        with self._wake:
            while not (self._changes or self._wanted or self._closing):
                patience = self._interval_s if self._is_unsynced else 0.0
                if not self._wake.wait(patience or None) and patience:
                    return _Work([], 0, [])
            if not (self._changes or self._wanted):
                return None
            count = size = 0
            while count < len(self._changes) and (not count or size < MOST_CHANGES):
                size += len(self._changes[count])
                count += 1
            changes = [change for each in self._changes[:count] for change in each]
            token = max(self._tokens[:count], default=0)
            del self._changes[:count], self._tokens[:count]
            wanted: list[EventNumber] = []
            if not self._changes:  # bodies may be among what is still to be written
                wanted, self._wanted = self._wanted, []
            return _Work(changes, token, wanted)

    def _persist(self, call: Callable[[], object]) -> bool:
        """Make a call until it succeeds; return False if the broker ends before that."""
        pause_s, most_s = AGAIN_S
        while True:
            try:
                call()
            except OSError as error:
                log.error(
                    "the disk of this broker fails: %s; nothing more is confirmed until it works "
                    "again, which is tried every %.1f s",
                    *(error, pause_s),
                )
                self._failures += 1
                with self._wake:
                    if self._wake.wait_for(lambda: self._closing, pause_s):
                        return False
                pause_s = min(2 * pause_s, most_s)
            else:
                if self._failures:
                    log.warning("the disk of this broker works again")
                    self._failures = 0
                return True

    def _read(self, wanted: list[EventNumber]) -> None:
        bodies: list[Bodies] = []
        if self._persist(lambda: bodies.append(self._store.bodies(wanted))):
            self._tell(self._say_fetched, bodies[-1])

    def _tell(self, call: Callable[..., object], *arguments: object) -> None:
        """Call on the event loop's thread, if there still is one."""
        try:
            self._loop.call_soon_threadsafe(call, *arguments)
        except RuntimeError:
            log.debug("the event loop has ended before the keeper")

    def _say_kept(self, token: int) -> None:
        if token:
            self._kept(token)

    def _say_fetched(self, bodies: Bodies) -> None:
        self._fetched(bodies)


def open_keeper(section: SessionsSection, broker: str) -> Keeper | None:
    """Open the store of a broker as the network file says; None if it keeps nothing on disk. Raises
    `ConfigurationError` if the store cannot be opened."""
    if not section.directory:
        return None
    always = section.fsync == "always"
    path = Path(section.directory) / f"{broker}.sqlite"
    store = SqliteStore(path, log.error, always=always)
    return Keeper(store, 0.0 if always else section.fsync_interval_s)

"""The upkeep of a storage's store beside storing and answering: cleaning, sealing, and recording
what it certainly has. It works in small steps, between which events are stored."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection
from functools import partial
from typing import Any, Protocol

from reefcast.errors import LocalError
from reefcast.history.store import HistoryStore
from reefcast.logs import part
from reefcast.timing import now_us

log = part("storage")

CLEAN_EVERY_S = 1.0
SEAL_EVERY_S = 60.0
NOTE_EVERY_S = 10.0
SEAL_SHARE = 0.25
"""Share of a processor: other threads of the same Python encode and store what comes in."""


class Do(Protocol):
    """Runs a function in a thread, and returns its result."""

    def __call__(self, work: Callable[[], Any], /) -> Awaitable[Any]: ...


class StoppedError(Exception):
    """The work of a thread is no longer wanted."""


class Pace:
    """Holds a thread to this share of a processor, until it is stopped."""

    def __init__(self, share: float) -> None:
        self._rest = 1 / share - 1
        self._done_s: float | None = None
        self.stopped = False

    def pause(self) -> None:
        """Rest in proportion to the work since the last call; the working thread calls this now and
        then. Raises `StoppedError`."""
        if self.stopped:
            raise StoppedError
        if self._done_s is not None:
            time.sleep(self._rest * (time.thread_time() - self._done_s))
        self._done_s = time.thread_time()


class Upkeep:
    """`change` runs functions that change the store, one at a time; `read` the others.
    `seal_after_s`: seconds from the end of a stretch until it is sealed; None: never."""

    def __init__(
        self, store: HistoryStore, change: Do, read: Do, seal_after_s: float | None
    ) -> None:
        self._store = store
        self._change = change
        self._read = read
        self._seal_after_s = seal_after_s

    async def clean(self) -> None:
        """Clean the store for ever, without a pause while there is something to clean."""
        while True:
            await asyncio.sleep(CLEAN_EVERY_S)
            while (await self._change(partial(self._store.clean, now_us()))).more:
                self._raise_damage()
            self._raise_damage()

    async def seal(self) -> None:
        """Seal for ever the stretches that ended long enough ago. A full disk only delays it."""
        while self._seal_after_s is not None:
            try:
                await self._seal_before(now_us() - round(self._seal_after_s * 1e6))
            except LocalError as error:
                log.error("%s", error)
            await asyncio.sleep(SEAL_EVERY_S)

    async def _seal_before(self, before_us: int) -> None:
        for since_us in await self._read(partial(self._store.closed, before_us)):
            pace = Pace(SEAL_SHARE)
            try:
                export = partial(self._store.export, since_us, now_us(), pace.pause)
                segment = await self._read(export)
            finally:
                pace.stopped = True  # the thread may still be at it
            self._raise_damage()
            if segment is not None:
                await self._change(partial(self._store.seal, segment))

    async def note_whole(self, topics: Callable[[], Collection[str]]) -> None:
        """Note for ever that nothing of these topics is lacking up to the last event stored. Events
        come in their order, more or less (see `catching_up.OVERLAP_S`)."""
        noted: dict[str, int] = {}
        while True:
            await asyncio.sleep(NOTE_EVERY_S)
            marks = {topic: self._last_us(topic) for topic in topics()}
            if marks != noted:
                await self._change(partial(self._store.note_whole, marks))
                noted = marks

    def _last_us(self, topic: str) -> int:
        """Return the time of the last event, but no later than now, whatever clocks publishers
        have."""
        times_us = [time_us for time_us, *_ in self._store.positions([topic]).values()]
        return min(max(times_us, default=0), now_us())

    def _raise_damage(self) -> None:
        if self._store.damage is not None:
            raise self._store.damage

"""The store of a simulated broker: what was synced stays, the rest is lost when the power goes.

`SimulatedStore` outlives its broker, as a disk does; `SimulatedKeeper` is what one life of the
broker has of it. Both have the faces of the real ones (`keeping`, `server.keeper`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch

from reefcast.keeping.interface import Bodies
from reefcast.model.keeping import (
    Change,
    Contents,
    DropEvents,
    DropOwed,
    DropRow,
    DropSeen,
    DropSession,
    EventNumber,
    PutEvent,
    PutMark,
    PutNotes,
    PutOwed,
    PutRow,
    PutSeen,
    PutSession,
    PutTries,
    StoredEvent,
    StoredOwed,
    StoredSession,
)

WRITE_S, SYNC_S = 0.0005, 0.002
"""What a batch takes on average until it is written, and from then on until it is synced."""


class Stored:
    """Everything that is stored."""

    def __init__(self) -> None:
        self.contents = Contents()
        self.bodies: dict[EventNumber, bytes] = {}

    def copied(self) -> Contents:
        """Return the contents for somebody who may change them."""
        contents = self.contents
        return Contents(
            {table: dict(rows) for table, rows in contents.rows.items() if rows},
            {
                number: StoredSession(
                    each.record, each.mark, dict(each.owed), dict(each.seen), dict(each.notes)
                )
                for number, each in contents.sessions.items()
            },
            dict(contents.events),
        )


class SimulatedStore:
    """What `write` has written may be gone after `kill`, unless `sync` was called since then."""

    def __init__(self) -> None:
        self._state = Stored()
        self._unsynced: list[tuple[Change, ...]] = []
        self.fails = False

    @property
    def synced(self) -> Contents:
        """What a power failure now would leave; it is not to be changed."""
        return self._state.contents

    def load(self) -> Contents:
        """Return all that is there, once it is synced."""
        self.sync()
        return self._state.copied()

    def commit(self, changes: Sequence[Change]) -> None:
        """Write a batch, and sync it."""
        self.write(changes)
        self.sync()

    def write(self, changes: Sequence[Change]) -> None:
        """Write a batch without syncing it. Raises `OSError` while the disk `fails`."""
        if self.fails:
            raise OSError(28, "no space left on the simulated disk")
        self._unsynced.append(tuple(changes))

    def sync(self, batches: int | None = None) -> None:
        """Sync the first `batches` that were written and are not synced; by default all."""
        count = len(self._unsynced) if batches is None else batches
        for batch in self._unsynced[:count]:
            for change in batch:
                self._store(change)
        del self._unsynced[:count]

    def _store(self, change: Change) -> None:
        apply(change, self._state)

    def kill(self, rng: random.Random | None = None) -> None:
        """Lose batches that are not synced: of a power failure with `rng` all behind a random
        instant; without, only the process died, and the page cache has them all."""
        if rng is not None:
            del self._unsynced[rng.randint(0, len(self._unsynced)) :]

    def bodies(self, events: Iterable[EventNumber]) -> Bodies:
        """Read bodies; what is written counts."""
        written = dict(self._state.bodies)
        for batch in self._unsynced:
            written |= {each.event: each.body for each in batch if isinstance(each, PutEvent)}
        wanted = list(events)
        found = {number: written[number] for number in wanted if number in written}
        return Bodies(found, tuple(number for number in wanted if number not in written))

    def close(self) -> None:
        """Sync all."""
        self.sync()


class SimulatedKeeper:
    """The keeper of one life of a broker, on the event loop that runs when it is made."""

    def __init__(self, store: SimulatedStore, rng: random.Random) -> None:
        self._store = store
        self._rng = rng
        self._loop = asyncio.get_running_loop()
        self._next: list[tuple[Sequence[Change], int]] = []
        self._wanted: list[EventNumber] = []
        self._idle = asyncio.Event()
        self._idle.set()
        self.contents = store.load()

    def listen(self, kept: Callable[[int], None], fetched: Callable[[Bodies], None]) -> None:
        """Set who is told; before the first `keep`."""
        self._kept, self._fetched = kept, fetched

    def keep(self, changes: Sequence[Change], token: int) -> None:
        """Write changes behind all earlier ones."""
        self._next.append((changes, token))
        self._begin()

    def fetch(self, events: Iterable[EventNumber]) -> None:
        """Read bodies, behind what is to be kept."""
        self._wanted += events
        self._begin()

    async def close(self) -> None:
        """Write what is left."""
        await self._idle.wait()

    def _begin(self) -> None:
        if self._idle.is_set():
            self._idle.clear()
            self._loop.call_later(self._rng.expovariate(1 / WRITE_S), self._write)

    def _write(self) -> None:
        batch, self._next = self._next, []
        wanted, self._wanted = self._wanted, []
        try:
            self._store.write([change for changes, _ in batch for change in changes])
        except OSError:
            self._next, self._wanted = batch + self._next, wanted + self._wanted
            self._loop.call_later(1.0, self._write)
            return
        token = max((token for _, token in batch), default=0)
        self._loop.call_later(self._rng.expovariate(1 / SYNC_S), self._sync, token, wanted)

    def _sync(self, token: int, wanted: list[EventNumber]) -> None:
        self._store.sync()
        self._idle.set()
        if token:
            self._kept(token)
        if wanted:
            self._fetched(self._store.bodies(wanted))
        if self._next or self._wanted:
            self._begin()


# --- changes -------------------------------------------------------------------------------------


@singledispatch
def apply(change: Change, state: Stored) -> None:
    """Apply a change to what is stored, in the plainest way."""
    raise TypeError(f"{change!r} is no change")


@apply.register
def _(change: PutRow, state: Stored) -> None:
    state.contents.rows.setdefault(change.table, {})[change.key] = change.row


@apply.register
def _(change: DropRow, state: Stored) -> None:
    state.contents.rows.get(change.table, {}).pop(change.key, None)


@apply.register
def _(change: PutSession, state: Stored) -> None:
    sessions = state.contents.sessions
    if change.session in sessions:
        sessions[change.session].record = change.record
    else:
        sessions[change.session] = StoredSession(change.record)


@apply.register
def _(change: DropSession, state: Stored) -> None:
    state.contents.sessions.pop(change.session, None)


@apply.register
def _(change: PutMark, state: Stored) -> None:
    state.contents.sessions[change.session].mark = change.position


@apply.register
def _(change: PutEvent, state: Stored) -> None:
    state.bodies[change.event] = change.body
    event = StoredEvent(change.id, change.expires_s, len(change.body))
    state.contents.events[change.event] = event


@apply.register
def _(change: DropEvents, state: Stored) -> None:
    for number in range(change.first, change.last + 1):
        state.bodies.pop(number, None)
        state.contents.events.pop(number, None)


@apply.register
def _(change: PutOwed, state: Stored) -> None:
    state.contents.sessions[change.session].owed[change.position] = StoredOwed(
        change.event, change.at_s, change.subscriptions, change.late
    )


@apply.register
def _(change: PutTries, state: Stored) -> None:
    owed = state.contents.sessions[change.session].owed
    if change.position in owed:
        at = owed[change.position]
        owed[change.position] = StoredOwed(
            at.event, at.at_s, at.subscriptions, at.late, change.tries, change.dead
        )


@apply.register
def _(change: DropOwed, state: Stored) -> None:
    for position in range(change.first, change.last + 1):
        state.contents.sessions[change.session].owed.pop(position, None)


@apply.register
def _(change: PutSeen, state: Stored) -> None:
    seen = state.contents.sessions[change.session].seen
    seen[change.publisher, change.chunk] = change.bits, change.at_s


@apply.register
def _(change: DropSeen, state: Stored) -> None:
    state.contents.sessions[change.session].seen.pop((change.publisher, change.chunk), None)


@apply.register
def _(change: PutNotes, state: Stored) -> None:
    notes = state.contents.sessions[change.session].notes
    for key, text in change.notes.items():
        if text is None:
            notes.pop(key, None)
        else:
            notes[key] = text

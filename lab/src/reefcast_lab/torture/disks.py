"""The disk of a tortured broker: it writes, syncs and reports in steps of its own.

A kill may come between any two of them. What a session was ever owed, as far as it is synced, is
remembered here: brokers forget it, and the checkers must not."""

from __future__ import annotations

import random
from collections import deque

from reefcast.model.keeping import Change, Contents, PutOwed
from reefcast.model.messages import Fetch, Fetched, Keep, Kept
from reefcast.model.publication import PublicationId
from reefcast_lab.torture.stores import SimulatedStore

Had = dict[str, dict[PublicationId, None]]
"""Link of a session -> the events that were in its queue once, in this order."""


class Disk(SimulatedStore):
    """`had`: what was in the queues of sessions once, and synced. `did`: its last step."""

    def __init__(self) -> None:
        super().__init__()
        self.had: Had = {}
        self._writes: deque[Keep] = deque()
        self._reads: deque[Fetch] = deque()
        self._written = self._synced = 0
        self.did = ""

    @property
    def busy(self) -> bool:
        """Whether there is something to do that it can do."""
        able = not self.fails and (self._writes or self._written)
        return bool(able or self._synced or self._reads)

    def take(self, effect: Keep | Fetch) -> None:
        """Take what a broker wants written or read."""
        if isinstance(effect, Keep):
            self._writes.append(effect)
        else:
            self._reads.append(effect)

    def step(self, rng: random.Random) -> Kept | Fetched | None:
        """Report what is synced; or sync what is written; or write some of what is to be written;
        or read. Return what the broker is told."""
        if self._synced:
            token, self._synced = self._synced, 0
            self.did = "reports"
            return Kept(token)
        if self._written and not self.fails:
            self.sync()
            self.did = "syncs"
            self._synced, self._written = self._written, 0
        elif self._writes and not self.fails:
            some = [self._writes.popleft() for _ in range(rng.randint(1, len(self._writes)))]
            self.write([change for keep in some for change in keep.changes])
            self._written = some[-1].token
            self.did = f"writes {len(some)}"
        elif self._reads:
            self.did = "reads"
            bodies = self.bodies(self._reads.popleft().events)
            return Fetched(bodies.found, bodies.missing)
        return None

    def kill(self, rng: random.Random | None = None) -> None:
        """Lose what the broker wanted written, and with `rng` what is not synced."""
        self._writes.clear()
        self._reads.clear()
        self._written = self._synced = 0
        super().kill(rng)

    def _store(self, change: Change) -> None:
        super()._store(change)
        note(change, self.synced, self.had)


def note(change: Change, contents: Contents, had: Had) -> None:
    """Note in `had` what a session is owed by a change that the contents have already."""
    if isinstance(change, PutOwed):
        link = contents.sessions[change.session].record.link
        had.setdefault(link, {})[contents.events[change.event].id] = None

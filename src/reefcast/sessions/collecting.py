"""What the sessions of a broker want written and told, collected until the driver takes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

from reefcast.model.keeping import (
    Change,
    DropEvents,
    DropOwed,
    DropSession,
    EventNumber,
    Position,
    SessionNumber,
)
from reefcast.model.messages import is_advisory
from reefcast.model.publication import PublicationId
from reefcast.sessions.outcome import Advisory, ConsumerName, Delivery, Ended, Read, Told

_Chunk = tuple[str, int]
"""A publisher, and the number of a chunk of its numbers."""
_REST = ("deliveries", "ended", "read", "taken")
_Advised = tuple[Told, str, str, ConsumerName, str, bool]


class Chunks(Protocol):
    """The ids that one session has had (`seen.Seen`)."""

    def change(self, key: _Chunk) -> Change:
        """Return the change that writes the present state of a chunk."""
        ...


class Collected:
    """Changes collect in *batches*, numbered from 1: a batch is what one `take` returns, and is
    synced as a whole. `batch` is the one that collects now, `synced` the last one that is synced.

    What is dropped is written last, in runs; of the ids that a session has had, only how they stand
    at the end.
    """

    def __init__(self) -> None:
        self.batch = 1
        self.synced = 0
        self.deliveries: list[Delivery] = []
        self.ended: list[Ended] = []
        self.read: list[Read] = []
        self.taken: list[PublicationId] = []
        self._changes: list[Change] = []
        self._seen: dict[SessionNumber, tuple[Chunks, set[_Chunk]]] = {}
        self._owed: dict[SessionNumber, list[Position]] = {}
        self._events: list[EventNumber] = []
        self._sessions: list[SessionNumber] = []
        self._advisories: dict[_Advised, tuple[int, tuple[PublicationId, ...]]] = {}

    # --- changes ---------------------------------------------------------------------------------

    def put(self, change: Change) -> None:
        """Write something."""
        self._changes.append(change)

    def seen_changed(self, session: SessionNumber, chunk: _Chunk, seen: Chunks) -> None:
        """Write which ids of a chunk a session has had, as it stands when the batch is taken."""
        changed = self._seen.get(session)
        if changed is None:
            changed = self._seen[session] = (seen, set())
        changed[1].add(chunk)

    def drop_owed(self, session: SessionNumber, position: Position) -> None:
        """Write that a session owes nothing at this position any more."""
        self._owed.setdefault(session, []).append(position)

    def drop_event(self, number: EventNumber) -> None:
        """Write that an event is gone."""
        self._events.append(number)

    def drop_session(self, session: SessionNumber) -> None:
        """Write that a session is gone, with all that it owed."""
        self._owed.pop(session, None)
        self._seen.pop(session, None)
        self._sessions.append(session)

    def take_changes(self) -> tuple[Change, ...]:
        """Return the changes of this batch, and begin the next one if there are any."""
        changes = self._changes
        for seen, chunks in self._seen.values():
            changes += map(seen.change, sorted(chunks))
        for session, positions in self._owed.items():
            changes += (DropOwed(session, first, last) for first, last in runs(positions))
        changes += (DropEvents(first, last) for first, last in runs(self._events))
        changes += map(DropSession, self._sessions)
        self._changes, self._seen, self._owed = [], {}, {}
        self._events, self._sessions = [], []
        self.batch += bool(changes)
        return tuple(changes)

    def take_rest(self) -> dict[str, Any]:
        """Remove and return what has collected besides changes, under the names that `Outcome` has
        for it."""
        rest = {name: getattr(self, name) for name in _REST}
        for name in _REST:
            setattr(self, name, [])
        return rest

    # --- advisories ------------------------------------------------------------------------------

    def advise(
        self,
        kind: Told,
        owner: str,
        session: str,
        *,
        consumer: ConsumerName = "",
        reason: str = "",
        id: PublicationId | None = None,
        by: PublicationId | None = None,
        count: int = 1,
    ) -> None:
        """Collect an advisory; the same event several times is one advisory, with the number of
        times. `by`: the publication that brought it about, if it is not the one with this `id`."""
        cause = by or id
        key = kind, owner, session, consumer, reason, cause is not None and is_advisory(cause)
        before, ids = self._advisories.get(key, (0, ()))
        self._advisories[key] = before + count, ids or (() if id is None else (id,))

    def take_advisories(self) -> list[Advisory]:
        """Remove and return the advisories."""
        advised, self._advisories = self._advisories, {}
        return [
            Advisory(kind, owner, session, consumer, count, ids, reason, quiet)
            for (kind, owner, session, consumer, reason, quiet), (count, ids) in advised.items()
        ]


def runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Yield the first and the last of each run of consecutive numbers, ascending."""
    first = last = None
    for number in sorted(numbers):
        if last is not None and first is not None and number > last + 1:
            yield first, last
            first = number
        first = number if first is None else first
        last = number
    if first is not None and last is not None:
        yield first, last

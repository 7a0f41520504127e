"""The queue of a session: what it owes, within its limits, and its dead letters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from reefcast.model.keeping import (
    Position,
    PutOwed,
    PutTries,
    SessionNumber,
    SessionOptions,
    StoredOwed,
)
from reefcast.sessions.collecting import Collected
from reefcast.sessions.events import Entry, Event, Events, State
from reefcast.sessions.lines import Heap, Line, is_not_owed

FOREVER_S = float("inf")


class Queue:
    """`options`: those of the session now. `dropped`: how many events its limits have cost."""

    __slots__ = (
        "_collected",
        "_events",
        "_expiring",
        "_last",
        "_oldest",
        "_session",
        "bytes",
        "damaged",
        "dead",
        "dropped",
        "entries",
        "options",
    )

    def __init__(
        self,
        session: SessionNumber,
        options: SessionOptions,
        collected: Collected,
        events: Events,
        stored: Mapping[Position, StoredOwed],
        mark: Position,
    ) -> None:
        self.options = options
        self.entries: dict[Position, Entry] = {}
        self.dead: dict[Position, Entry] = {}
        self.bytes = 0
        self.dropped = 0
        self.damaged: list[Position] = []
        self._session = session
        self._collected = collected
        self._events = events
        self._oldest = Line(is_not_owed)
        self._expiring = Heap(is_not_owed)
        for position, owed in sorted(stored.items()):
            self._restore(position, owed, mark)
        self._last = max(mark, *self.entries, *self.dead, 0)

    def _restore(self, position: Position, owed: StoredOwed, mark: Position) -> None:
        """Take what was stored. What may have been handed out counts as handed out."""
        event = self._events.get(owed.event)
        if event is None:
            self.damaged.append(position)
            self._collected.drop_owed(self._session, position)
            return
        tries = max(owed.tries, int(position <= mark))
        entry = Entry(
            position,
            event,
            owed.at_s,
            owed.subscriptions,
            owed.late,
            0,
            tries,
            tries,
            State.DEAD if owed.dead else State.READY,
            owed.dead,
        )
        event.owed += 1
        if owed.dead:
            self.dead[position] = entry
        else:
            self._add(entry)

    def _add(self, entry: Entry) -> None:
        self.entries[entry.position] = entry
        self.bytes += entry.event.size
        self._oldest.append(entry)
        if entry.event.expires_s:
            self._expiring.push(entry.event.expires_s, entry)

    def owe(
        self, event: Event, subscriptions: tuple[int, ...], utc_s: float, *, late: bool
    ) -> Entry:
        """Add an event behind all others; the caller has made sure that there is room."""
        self._last += 1
        position, batch = self._last, self._collected.batch
        entry = Entry(position, event, utc_s, subscriptions, late, batch)
        event.owed += 1
        self._add(entry)
        self._collected.put(
            PutOwed(self._session, position, event.number, utc_s, subscriptions, late)
        )
        return entry

    def remove(self, entry: Entry) -> None:
        """Remove an entry, also a dead letter."""
        if entry.state is State.DEAD:
            del self.dead[entry.position]
        else:
            self._leave(entry)
        entry.state = State.GONE
        self._collected.drop_owed(self._session, entry.position)
        self._events.release(entry.event, self._collected)

    def _leave(self, entry: Entry) -> None:
        del self.entries[entry.position]
        self.bytes -= entry.event.size

    def count_try(self, entry: Entry) -> None:
        """Write that an entry is about to be handed out once more; it is handed out only when that
        is synced."""
        entry.known = entry.tries + 1
        entry.batch = self._collected.batch
        self._collected.put(PutTries(self._session, entry.position, entry.known))

    # --- limits ----------------------------------------------------------------------------------

    @property
    def oldest(self) -> Entry | None:
        """The entry that is owed for the longest time."""
        return self._oldest.first()

    def has_room(self, size: int) -> bool:
        """Return whether one more event of `size` bytes exceeds no limit."""
        return (
            len(self.entries) < self.options.max_events
            and self.bytes + size <= self.options.max_bytes
        )

    def too_old(self, utc_s: float) -> Iterator[Entry]:
        """Yield the entries that have expired or exceed the greatest age; remove each before asking
        for the next."""
        while self._age_s <= utc_s and (entry := self._oldest.first()) is not None:
            yield entry
        while (first := self._next_to_expire()) is not None and first[0] <= utc_s:
            yield first[1]

    def _next_to_expire(self) -> tuple[float, Entry] | None:
        """Return when the time of the next event is over, and its entry. With the option `expires =
        "fresh"`, events that may have been handed out have no such time any more."""
        first = self._expiring.first()
        while first is not None and first[1].tries and self.options.expires == "fresh":
            self._expiring.pop()
            first = self._expiring.first()
        return first

    @property
    def _age_s(self) -> float:
        """When the oldest entry is too old."""
        oldest = self._oldest.first() if self.options.max_age_s else None
        return FOREVER_S if oldest is None else oldest.at_s + self.options.max_age_s

    @property
    def due_s(self) -> float:
        """When the next entry expires, in seconds UTC; inf: never."""
        expiring = self._next_to_expire()
        return min(self._age_s, FOREVER_S if expiring is None else expiring[0])

    # --- dead letters ----------------------------------------------------------------------------

    def bury(self, entry: Entry, reason: str) -> list[Entry]:
        """Make an entry a dead letter; return those that exceed the limit, to be removed."""
        self._leave(entry)
        entry.state, entry.dead = State.DEAD, reason
        self.dead[entry.position] = entry
        self._collected.put(PutTries(self._session, entry.position, entry.tries, reason))
        many = len(self.dead) - self.options.max_dead_letters
        return [self.dead[position] for position in sorted(self.dead)[:many]] if many > 0 else []

    def revive(self, entry: Entry, utc_s: float) -> Entry:
        """Owe a dead letter again, behind all others, as if it were new."""
        new = self.owe(entry.event, entry.subscriptions, utc_s, late=entry.late)
        self.remove(entry)
        return new

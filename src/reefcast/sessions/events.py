"""The events that the sessions of a broker owe: each once in memory, whoever is owed it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum

import msgspec

from reefcast.model.keeping import EventNumber, Position, PutEvent, StoredEvent
from reefcast.model.messages import Publish
from reefcast.model.publication import PublicationId, Value
from reefcast.model.wire import encode_publication
from reefcast.sessions.collecting import Collected

EXPIRES = "$expires_s"
"""The attribute of an event that says after how many seconds it is worth nothing any more."""


class Event(msgspec.Struct, gc=False):
    """An event that somebody is owed. `body`: None where it is only on disk. `owed`: in how many
    queues it is. `batch`: of the changes with which it was written. `wanted`: its body has been
    asked for."""

    number: EventNumber
    id: PublicationId
    expires_s: float
    size: int
    body: bytes | None
    batch: int = 0
    owed: int = 0
    wanted: bool = False


class State(IntEnum):
    """What an entry of a queue waits for: a consumer, its acknowledgement, the end of a delay,
    somebody who looks at dead letters, or nothing any more."""

    READY = 0
    OUT = 1
    DELAYED = 2
    DEAD = 3
    GONE = 4


class Entry(msgspec.Struct, gc=False):
    """An event in the queue of a session.

    `tries`: how often it may have been handed out; `known`: what the disk knows of that. `batch`:
    of the changes that must be synced before it may be handed out."""

    position: Position
    event: Event
    at_s: float
    subscriptions: tuple[int, ...]
    late: bool
    batch: int
    tries: int = 0
    known: int = 0
    state: State = State.READY
    dead: str = ""


def body_of(publish: Publish) -> bytes:
    """Return the encoding of a publication; the simulator's copies come without."""
    return publish.body or encode_publication(publish.publication)


def lifetime_of(attributes: Mapping[str, Value]) -> float:
    """Return for how many seconds after its publication an event is valid; 0: it never expires."""
    seconds = attributes.get(EXPIRES)
    if seconds is None:
        return 0.0
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds > 0:
        return 0.0
    return seconds


def expiry_of(publish: Publish) -> float:
    """Return when the publication expires, in seconds UTC; 0: never."""
    seconds = lifetime_of(publish.publication.attributes)
    return publish.publication.time_us / 1e6 + seconds if seconds else 0.0


class Events:
    """All events that some session is owed. `memory_bytes`: how much of bodies that are synced and
    wait stays in memory."""

    def __init__(self, stored: Mapping[EventNumber, StoredEvent], memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._held_bytes = 0
        self._wanted: list[EventNumber] = []
        self._unsynced: deque[Event] = deque()
        self._all = {
            number: Event(number, event.id, event.expires_s, event.size, None)
            for number, event in stored.items()
        }
        self._next = max(self._all, default=0) + 1

    def __len__(self) -> int:
        return len(self._all)

    def get(self, number: EventNumber) -> Event | None:
        return self._all.get(number)

    def unowed(self) -> Iterator[Event]:
        """Yield the events that nobody is owed."""
        return (event for event in self._all.values() if not event.owed)

    def add(self, id: PublicationId, body: bytes, expires_s: float, collected: Collected) -> Event:
        """Write a new event, which nobody is owed yet."""
        number = self._next
        self._next = number + 1
        event = Event(number, id, expires_s, len(body), body, collected.batch)
        self._all[number] = event
        self._held_bytes += event.size
        self._unsynced.append(event)
        collected.put(PutEvent(number, id, expires_s, body))
        return event

    def release(self, event: Event, collected: Collected) -> None:
        """Take note that one queue less is owed this event; with the last one it goes."""
        event.owed -= 1
        if not event.owed:
            self.forget(event, collected)

    def forget(self, event: Event, collected: Collected) -> None:
        """Remove an event that nobody is owed."""
        self._unload(event)
        del self._all[event.number]
        collected.drop_event(event.number)

    # --- bodies ----------------------------------------------------------------------------------

    def want(self, events: Iterable[Event]) -> None:
        """Ask the store for bodies that are not in memory."""
        for event in events:
            if event.body is None and not event.wanted:
                event.wanted = True
                self._wanted.append(event.number)

    def take_wanted(self) -> tuple[EventNumber, ...]:
        """Return, once, the events whose bodies are wanted."""
        wanted, self._wanted = tuple(self._wanted), []
        return wanted

    def load(self, number: EventNumber, body: bytes) -> None:
        """Take a body that was read."""
        event = self._all.get(number)
        if event is not None and event.body is None:
            event.body, event.wanted = body, False
            self._held_bytes += event.size

    def synced(self, batch: int) -> None:
        """Note that all events up to those of a batch are on disk: their bodies may leave memory,
        but for those that are being handed out next."""
        while self._unsynced and self._unsynced[0].batch <= batch:
            self.unload_if_much(self._unsynced.popleft())

    def unload_if_much(self, event: Event) -> None:
        """Forget the body of an event that is synced, if those in memory are too many."""
        if self._held_bytes > self._memory_bytes:
            self._unload(event)

    def _unload(self, event: Event) -> None:
        if event.body is not None:
            event.body = None
            self._held_bytes -= event.size

"""The state of one advertisement or subscription in the session: its filters, and the events that
the application has not read yet. No I/O."""

from __future__ import annotations

from collections import deque
from typing import Any, Protocol

from reefcast.client.event import Event
from reefcast.client.signal import Signal
from reefcast.errors import ReefcastError
from reefcast.protocol.registrations import Registration, State


class Reading(Protocol):
    """The part of the client that pauses and resumes reading from the broker."""

    def inbox_is_full(self, inbox: Inbox) -> None: ...

    def inbox_has_room(self, inbox: Inbox) -> None: ...


class Holding:
    """The filters of one advertisement or subscription, `registrations`. `changed` fires when one
    of them is answered, and at the end; `error` says why one was refused, or why all ended."""

    def __init__(self) -> None:
        self.registrations: list[Registration[Holding]] = []
        self.changed = Signal()
        self.ended = False
        self.error: ReefcastError | None = None

    @property
    def settled(self) -> bool:
        return not any(registration.unanswered for registration in self.registrations)

    def registration_changed(self, registration: Registration[Any]) -> None:
        if registration.state is State.REFUSED and not registration.watched:
            self.error = registration.error
        if registration.state in (State.ENDED, State.REFUSED):
            self.registrations.remove(registration)
        self.changed.fire()

    def put(self, event: Event) -> None:
        """Ignore the event: advertisements get none, and a broker that sends one does no harm."""

    def lack(self, count: int) -> None:
        """Note that the broker dropped `count` events; an advertisement has none."""

    def end(self, error: ReefcastError | None = None) -> None:
        """End the holding: nothing more arrives, and what has arrived may still be read."""
        self.ended = True
        self.error = self.error or error
        self.changed.fire()


class Inbox(Holding):
    """A subscription's. `changed` fires also when an event comes where none was. `limit`: see
    `Options.local_queue_limit`; reading goes on when half of it has been taken. `dropped`: events
    that the broker dropped."""

    def __init__(self, limit: int, reading: Reading) -> None:
        super().__init__()
        self.events: deque[Event] = deque()
        self.dropped = 0
        self._limit = limit
        self._full = False
        self._reading = reading

    def put(self, event: Event) -> None:
        if self.ended:
            return
        events = self.events
        events.append(event)
        if len(events) == 1:
            self.changed.fire()
        if len(events) >= self._limit and not self._full:
            self._full = True
            self._reading.inbox_is_full(self)

    def lack(self, count: int) -> None:
        self.dropped += count

    def pop(self) -> Event:
        event = self.events.popleft()
        if self._full and len(self.events) <= self._limit // 2:
            self._has_room()
        return event

    def pop_all(self) -> list[Event]:
        events = list(self.events)
        self.events.clear()
        if self._full:
            self._has_room()
        return events

    def _has_room(self) -> None:
        self._full = False
        self._reading.inbox_has_room(self)

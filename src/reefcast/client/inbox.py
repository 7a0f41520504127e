"""The state of one advertisement or subscription in the session: its filters, and the events that
the application has not read yet. No I/O."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Protocol

from reefcast.client.event import Event, Replier
from reefcast.client.signal import Signal
from reefcast.errors import ReefcastError
from reefcast.protocol.registrations import Registration, State


class Reading(Protocol):
    """The part of the client that pauses and resumes reading from the broker, and says what events
    the application gets, and who replies to them."""

    event_type: type[Event]
    replier: Replier | None

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

    def put(self, bodies: Sequence[bytes]) -> None:
        """Ignore events: an advertisement gets none, and a broker that sends some does no harm."""

    def lack(self, count: int) -> None:
        """Note that the broker dropped `count` events; an advertisement has none."""

    def end(self, error: ReefcastError | None = None) -> None:
        """End the holding: nothing more arrives, and what has arrived may still be read."""
        self.ended = True
        self.error = self.error or error
        self.changed.fire()


class Inbox(Holding):
    """The inbox of a subscription. `bodies`: encoded events in the order in which they came;
    `changed` also fires when events arrive. `limit`: see `Options.local_queue_limit`; reading
    resumes when half of it has been taken. `dropped`: events that the broker dropped."""

    def __init__(self, limit: int, reading: Reading) -> None:
        super().__init__()
        self.bodies: deque[bytes] = deque()
        self.full = False
        self.dropped = 0
        self._limit = limit
        self._reading = reading

    def put(self, bodies: Sequence[bytes]) -> None:
        if self.ended:
            return
        self.bodies.extend(bodies)
        self.changed.fire()
        if len(self.bodies) >= self._limit and not self.full:
            self.full = True
            self._reading.inbox_is_full(self)

    def lack(self, count: int) -> None:
        self.dropped += count

    def pop(self) -> Event:
        reading = self._reading
        event = reading.event_type(self.bodies.popleft(), reading.replier)
        if self.full:
            self._look_for_room()
        return event

    def pop_all(self) -> list[Event]:
        make, replier = self._reading.event_type, self._reading.replier
        return [make(body, replier) for body in self.pop_bodies(len(self.bodies))]

    def pop_bodies(self, most: int) -> list[bytes]:
        """Remove the oldest events, at most `most`, and return their bodies."""
        bodies = self.bodies
        if most >= len(bodies):
            some = list(bodies)
            bodies.clear()
        else:
            some = [bodies.popleft() for _ in range(most)]
        if self.full:
            self._look_for_room()
        return some

    def _look_for_room(self) -> None:
        if len(self.bodies) <= self._limit // 2:
            self.full = False
            self._reading.inbox_has_room(self)

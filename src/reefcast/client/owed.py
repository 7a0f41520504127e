"""Events that a durable session owes its consumers, as these get them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from reefcast.client.consuming import Attachment
from reefcast.client.event import Event, Replier
from reefcast.client.session import Session
from reefcast.errors import LocalError
from reefcast.sessions.messages import MOST_DELAY_S, LetterRow, Owed

DETACHED = "this consumer has left its session"


class OwedEvent(Event):
    """An event of a durable session: an `Event` that is owed until it is acknowledged.

    `async with session.processing() as event` acknowledges by itself; everywhere else call `ack`
    when the event is processed, or `reject`. An event that is neither acknowledged nor rejected
    within the session's `ack_wait_s` is handed out again.
    """

    __slots__ = ("_acknowledgements", "_owed")

    def __init__(self, owed: Owed, acknowledgements: Acknowledgements) -> None:
        super().__init__(owed.body, acknowledgements.replier)
        self._owed = owed
        self._acknowledgements = acknowledgements

    @property
    def position(self) -> int:
        """Its place in the session's queue, ascending from 1."""
        return self._owed.position

    @property
    def deliveries(self) -> int:
        """How often it may have been handed to a consumer, this time included."""
        return self._owed.tries

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have had it before."""
        return self._owed.tries > 1

    @property
    def late(self) -> bool:
        """Whether it came so late that it may be a duplicate of what the session had before."""
        return self._owed.late

    async def ack(self, *, wait: bool = False) -> None:
        """Acknowledge the event: it is not owed any more.

        Acknowledgements are sent together, in the next turn of the loop, and again after a
        reconnect. `wait`: wait until the home has this one on disk; until then the event may come
        again, should this program die first. Raises `RefusedError` if the home does not take it,
        and the reason if the client has ended, both only with `wait`; see `DurableSession.flush`.
        """
        self._acknowledgements.add((self.position,))
        if wait:
            await self._acknowledgements.until_answered((self.position,))

    async def reject(self, *, delay_s: float = 0.0) -> None:
        """Give the event back: it is handed out again, to this consumer or another one, but not
        before `delay_s` seconds have passed. With `max_deliveries` it becomes a dead letter when it
        has been handed out so often. Raises `LocalError` for a delay that is none."""
        self._acknowledgements.reject(self.position, delay_s)


class QueuedEvent(NamedTuple):
    """An event in the queue of a session, as who looks into it sees it. `deliveries`: how often it
    may have been handed out; `taken_s`: when its home took it, in seconds UTC; `dead`: why it is a
    dead letter, "" if it is none; `late`: see `OwedEvent`."""

    event: Event
    position: int
    deliveries: int
    taken_s: float
    late: bool
    dead: str


def queued(letter: LetterRow) -> QueuedEvent:
    """Return what a home says of an event in a queue."""
    row = letter
    return QueuedEvent(Event(row.body), row.position, row.tries, row.at_s, row.late, row.dead)


class Acknowledgements:
    """Collects the acknowledgements of one turn of the loop."""

    def __init__(self, session: Session, attachment: Attachment) -> None:
        self._session = session
        self._attachment = attachment
        self._loop = asyncio.get_running_loop()
        self._positions: dict[int, None] = {}

    @property
    def replier(self) -> Replier | None:
        """Who publishes replies to the events."""
        return self._session.replier

    def add(self, positions: tuple[int, ...]) -> None:
        """Acknowledge these positions in the next turn of the loop."""
        if not self._positions:
            self._loop.call_soon(self.send)
        self._positions.update(dict.fromkeys(positions))

    def add_up_to(self, position: int) -> tuple[int, ...]:
        """Acknowledge all up to this position; return which these are."""
        positions = tuple(self._attachment.in_hand_up_to(position))
        self.add(positions)
        return positions

    def send(self) -> None:
        """Say what was acknowledged."""
        positions, self._positions = self._positions, {}
        self._attachment.acknowledge(positions)

    def reject(self, position: int, delay_s: float) -> None:
        """Give an event back."""
        if not 0 <= delay_s <= MOST_DELAY_S:
            raise LocalError(f"delay_s {delay_s} is not between 0 and {MOST_DELAY_S:g} seconds")
        if position not in self._positions:
            self._attachment.reject(position, float(delay_s))

    async def until_answered(self, positions: Iterable[int] | None = None) -> None:
        """Wait until the home has these acknowledgements on disk; None: all. Raises why it does
        not take them, or why the session ended for this consumer before that."""
        self.send()
        attachment = self._attachment
        with self._session.awaiting_answer():
            while not attachment.is_acknowledged(positions):
                if attachment.ended:
                    raise attachment.error or LocalError(DETACHED)
                await attachment.changed.wait()
        failure = attachment.take_failure()
        if failure is not None:
            raise failure

"""Durable sessions for programs without asyncio: the same names, from any thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime
from types import TracebackType
from typing import Self, Unpack

from reefcast.client.backlog import BackloggedClient
from reefcast.client.durable import PREFETCH, SessionChoices
from reefcast.client.durable import DurableSession as AsyncDurableSession
from reefcast.client.event import replier_of
from reefcast.client.owed import DETACHED, QueuedEvent
from reefcast.client.owed import OwedEvent as AsyncOwedEvent
from reefcast.client.requesting_sync import Event
from reefcast.client.thread import LoopThread
from reefcast.errors import LocalError
from reefcast.sessions.messages import SessionRow


class OwedEvent(Event):
    """An event of a durable session, as `reefcast.OwedEvent`."""

    __slots__ = ("_event", "_thread")

    def __init__(self, thread: LoopThread, event: AsyncOwedEvent) -> None:
        super().__init__(event.body, replier_of(event))
        self._thread = thread
        self._event = event

    @property
    def position(self) -> int:
        """Its place in the session's queue, ascending from 1."""
        return self._event.position

    @property
    def deliveries(self) -> int:
        """How often it may have been handed to a consumer, this time included."""
        return self._event.deliveries

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have had it before."""
        return self._event.redelivered

    @property
    def late(self) -> bool:
        """Whether it came so late that it may be a duplicate of what the session had before."""
        return self._event.late

    def ack(self, timeout: float | None = None, *, wait: bool = False) -> None:
        """Acknowledge the event; as `reefcast.OwedEvent.ack`, and `TimeoutError` after `timeout`
        seconds."""
        self._thread.run(self._event.ack(wait=wait), timeout)

    def reject(self, timeout: float | None = None, *, delay_s: float = 0.0) -> None:
        """Give the event back; as `reefcast.OwedEvent.reject`."""
        self._thread.run(self._event.reject(delay_s=delay_s), timeout)


class DurableSession:
    """A durable session at its home, and this program as one of its consumers; as
    `reefcast.DurableSession`.

        with client.session("billing", expiry_s=86_400) as session:
            session.subscribe("symbol = 'IBM' AND price < 100")
            for event in session:
                ...
                event.ack()

    Each method has a `timeout` in seconds, after which it raises `TimeoutError`.
    """

    def __init__(self, thread: LoopThread, session: AsyncDurableSession) -> None:
        self._thread = thread
        self._session = session
        self._batch: deque[OwedEvent] = deque()

    @property
    def name(self) -> str:
        """The name of the session, unique for its owner."""
        return self._session.name

    @property
    def ended(self) -> bool:
        """Whether this program was a consumer, and is none any more: the session ended, or the
        client did."""
        return self._session.ended

    @property
    def in_hand(self) -> list[int]:
        """The positions of the events that this consumer has read, and neither acknowledged nor
        rejected; as `reefcast.DurableSession.in_hand`."""
        unread = {event.position for event in self._batch}
        return [each for each in self._thread.run(self._in_hand()) if each not in unread]

    async def _in_hand(self) -> list[int]:
        return self._session.in_hand

    # --- the session ------------------------------------------------------------------------------

    def subscribe(
        self,
        filter: str,
        timeout: float | None = None,
        *,
        retained: bool = False,
        replay: datetime | bool = False,
        handover_s: float = 2.0,
    ) -> int:
        """Subscribe the session to what matches, wait until that has settled and is on disk, and
        return the subscription's number. `retained`: the retained values that match go into the
        queue, too; `replay`: what storages have since then does. See
        `reefcast.DurableSession.subscribe`."""
        calling = self._session.subscribe(
            filter, retained=retained, replay=replay, handover_s=handover_s
        )
        return self._thread.run(calling, timeout)

    def unsubscribe(self, filter: str, timeout: float | None = None) -> None:
        """Remove the subscription with this text; what the session owes already stays owed."""
        self._thread.run(self._session.unsubscribe(filter), timeout)

    def close(self, timeout: float | None = None) -> None:
        """End the session, with its subscriptions and all that it owes, for all consumers."""
        self._batch.clear()
        self._thread.run(self._session.close(), timeout)

    def status(self, timeout: float | None = None) -> SessionRow:
        """Return what the home knows of the session."""
        return self._thread.run(self._session.status(), timeout)

    def drain(self, timeout: float | None = None) -> int:
        """Drop everything that the session owes, but for dead letters; return how many events."""
        return self._thread.run(self._session.drain(), timeout)

    def move_dead_letters(self, timeout: float | None = None) -> int:
        """Owe the session's dead letters again; return how many."""
        return self._thread.run(self._session.move_dead_letters(), timeout)

    def drop_dead_letters(self, timeout: float | None = None) -> int:
        """Forget the session's dead letters; return how many."""
        return self._thread.run(self._session.drop_dead_letters(), timeout)

    def look(
        self,
        timeout: float | None = None,
        *,
        after: int = 0,
        most: int = 100,
        dead: bool = False,
    ) -> list[QueuedEvent]:
        """Return events of the queue, or dead letters, without taking them."""
        return self._thread.run(self._session.look(after=after, most=most, dead=dead), timeout)

    # --- consuming --------------------------------------------------------------------------------

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> OwedEvent:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: float | None = None) -> OwedEvent | None:
        """Wait for the next event and return it; None at the end.

        Raises `TimeoutError` after `timeout` seconds, and what iterating raises.
        """
        while True:
            with suppress(IndexError):  # another thread may read, too
                return self._batch.popleft()
            if not self._thread.run(self._fill(), timeout):
                return None

    def next_batch(self, timeout: float | None = None) -> list[OwedEvent]:
        """Wait for at least one event and return all that have arrived; an empty list at the end.

        Raises `TimeoutError` after `timeout` seconds, and what iterating raises.
        """
        if not self._batch:
            self._thread.run(self._fill_all(), timeout)
        batch: list[OwedEvent] = []
        with suppress(IndexError):  # the end of what is here
            while True:
                batch.append(self._batch.popleft())
        return batch

    @property
    def waiting(self) -> int:
        """How many events have arrived and have not been read."""
        return len(self._batch) + self._session.waiting

    async def _fill_all(self) -> None:
        """Wait for events and keep them, none at the end; see `_fill`."""
        with suppress(StopAsyncIteration):
            events = await self._session.next_batch()
            self._batch.extend(OwedEvent(self._thread, event) for event in events)

    async def _fill(self) -> bool:
        """Wait for an event; return False at the end. It keeps it itself: its result is dropped if
        the caller's time runs out in the very moment in which it comes."""
        try:
            self._batch.append(OwedEvent(self._thread, await anext(self._session)))
        except StopAsyncIteration:
            return False
        return True

    @contextmanager
    def processing(self, timeout: float | None = None) -> Iterator[OwedEvent]:
        """Wait for the next event; acknowledge it at the end of the `with` block, or reject it if
        the block raises an exception. Raises `LocalError` if there will be none."""
        event = self.next(timeout)
        if event is None:
            raise LocalError(DETACHED)
        try:
            yield event
        except BaseException:
            event.reject()
            raise
        event.ack()

    def ack_up_to(
        self, event: OwedEvent, timeout: float | None = None, *, wait: bool = False
    ) -> None:
        """Acknowledge this event and all that this consumer got before it."""
        self._thread.run(self._session.ack_up_to(event._event, wait=wait), timeout)

    def ack_positions(
        self, positions: Iterable[int], timeout: float | None = None, *, wait: bool = False
    ) -> None:
        """Acknowledge events by their positions; as `reefcast.DurableSession.ack_positions`."""
        self._thread.run(self._session.ack_positions(positions, wait=wait), timeout)

    def reject_position(self, position: int, delay_s: float = 0.0) -> None:
        """Give back an event that is `in_hand`; as `reefcast.DurableSession.reject_position`."""
        self._thread.run(self._reject_position(position, delay_s))

    async def _reject_position(self, position: int, delay_s: float) -> None:
        self._session.reject_position(position, delay_s)

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the home has all acknowledgements on disk."""
        self._thread.run(self._session.flush(), timeout)

    def resize(self, prefetch: int) -> None:
        """Change how many events this consumer may have without having acknowledged them; 0: none
        comes until this is called again."""
        self._thread.run(self._resize(prefetch))

    async def _resize(self, prefetch: int) -> None:
        self._session.resize(prefetch)

    def detach(self, timeout: float | None = None) -> None:
        """Leave the session, once all acknowledgements are on its disk. The session stays."""
        self._batch.clear()
        self._thread.run(self._session.detach(), timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._batch.clear()
        self._thread.run(self._session.__aexit__(kind, error, trace))


class SessionClient:
    """The part of a synchronous client that opens durable sessions."""

    _thread: LoopThread
    _client: BackloggedClient

    def session(
        self,
        name: str,
        *,
        prefetch: int = PREFETCH,
        filter: str = "",
        owner: str = "",
        here: bool = False,
        timeout: float | None = None,
        **choices: Unpack[SessionChoices],
    ) -> DurableSession:
        """Return the durable session with this name, made if the network has none; arguments and
        errors as in `reefcast.Client.session`, and `TimeoutError` after `timeout` seconds."""
        session = self._client.session(
            name, prefetch=prefetch, filter=filter, owner=owner, here=here, **choices
        )
        return DurableSession(self._thread, self._thread.run(_opened(session), timeout))

    def sessions(self, owner: str = "", timeout: float | None = None) -> list[SessionRow]:
        """Return the durable sessions of a user; as `reefcast.Client.sessions`."""
        return self._thread.run(self._client.sessions(owner), timeout)


async def _opened(session: AsyncDurableSession) -> AsyncDurableSession:
    return await session

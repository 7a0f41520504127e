"""The results of `history` and `subscribe(..., replay=...)`."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from reefcast.client.event import Event
from reefcast.client.filter_check import check_filter, require_text
from reefcast.client.session import Session
from reefcast.client.settings import Options
from reefcast.client.signal import Signal
from reefcast.errors import ConfigurationError, LocalError
from reefcast.history.asking import Asking, Question, question_about
from reefcast.history.spread import ROWS, STORAGE, Stretch
from reefcast.sessions.messages import MOST_DEPOSITED
from reefcast.timing import now_us

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MOST_HANDOVER_S = 3600
PORTION_BYTES = 256 * 1024
"""The most bytes of past events in one `Deposit`, unless a single event is larger."""


class History:
    """Past events that match a filter, by their time, each once; read it like a `Subscription`:

        async for event in client.history("topic = 'fx' AND price > 10", limit=100):
            ...

    Storages send as fast as the program reads. If an answer breaks off, another storage continues
    it."""

    def __init__(self, session: Session, question: Question, patience_s: float) -> None:
        self._session = session
        self._patience_s = patience_s
        self._asking: Asking[Any] = Asking(question, session.numbers, Event, now_us())
        self._events: deque[Any] = deque()
        self._changed = Signal()
        self._started = self._cancelled = False

    def start(self) -> None:
        """Send the question unless it has been sent; iterating does so by itself."""
        if not self._started:
            self._started = True
            self._session.ask(self._asking, self._changed)

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; cancelling the wait loses none.

        The iteration ends with the last event, or when it is cancelled. Raises `RefusedError` if
        nobody stores the topics or the user may see nothing of them, `ConnectionLostError` if the
        storages or the connection are gone for good."""
        await self._some()
        event: Event = self._events.popleft()
        return event

    async def next_batch(self) -> list[Event]:
        """Wait for at least one event and return all that have arrived. Raises `StopAsyncIteration`
        at the end."""
        await self._some()
        events = list(self._events)
        self._events.clear()
        return events

    async def next_bodies(self) -> list[bytes]:
        """Wait for at least one event and return all that have arrived as they are encoded, which
        costs the least for each. Raises `StopAsyncIteration` at the end.

        For programs that read all of a question so: it is not mixed with the other ways."""
        if not self._started:
            from reefcast.history.asking_bodies import BodyAsking

            self._asking = BodyAsking(self._asking.question, self._session.numbers)
        await self._some()
        bodies = list(self._events)
        self._events.clear()
        return bodies

    def cancel(self) -> None:
        """Cancel the question and end the iteration."""
        self._cancelled = True
        self._events.clear()
        self._session.forget(self._asking)
        self._changed.fire()

    async def _some(self) -> None:
        self.start()
        while not self._events:
            self._events.extend(self.poll())
            if self._events:
                break
            if self.over:
                raise StopAsyncIteration
            await self.wait()

    @property
    def over(self) -> bool:
        """Whether nothing more comes, not even an error."""
        return self._cancelled or (self._asking.over and self._asking.error is None)

    @property
    def hands_over(self) -> bool:
        """Whether everything stored has arrived, and only events published meanwhile may follow."""
        return self._asking.hands_over and self._asking.error is None

    @property
    def answered(self) -> dict[str, tuple[str, ...]]:
        """The ids of the storages that have answered so far, each with the brokers on the path to
        it, ours first. A storage whose answer broke off is among them if anything arrived from it.
        """
        return {storage: path[1:-1] for storage, path in self._asking.answered.items()}

    def poll(self) -> list[Any]:
        """Return the events that have arrived, possibly none. Raises what iterating raises."""
        events, messages = self._asking.drain()
        self._session.say(messages)
        if events:
            return events
        if self._asking.error is not None:
            self._session.forget(self._asking)
            raise self._asking.error
        if self._asking.over:
            self._session.forget(self._asking)
        elif self._session.ended and not self._cancelled:
            raise self._session.ending()
        return []

    async def wait(self) -> None:
        """Wait until something arrives; ask again if that takes too long."""
        heard = self._asking.heard
        patience_s = self._patience_s + self._asking.question.handover_s
        with self._session.awaiting_answer():
            try:
                async with asyncio.timeout(patience_s):
                    await self._changed.wait()
            except TimeoutError:
                if self._asking.heard == heard and self._session.connected:
                    self._session.say(self._asking.hangs())


class HistoryClient:
    """The part of a client that asks about the past. `_session`: its state; `_settings`: its
    options."""

    _session: Session
    _settings: Options

    def history(
        self,
        filter: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 0,
        attributes: Iterable[str] | None = None,
        payload: bool = True,
    ) -> History:
        """Ask storages for the past events that match; see `History`.

        The filter must name its topics: `topic = 'fx' AND price > 10`. `since` (inclusive) and
        `until` (exclusive) bound the time of publication; `limit`: return at most so many, the
        oldest; 0: all. `attributes`: the events come with these only; with `payload=False`, without
        their payload: what is left out is not sent. Raises `FilterSyntaxError` and
        `ConfigurationError`.
        """
        check_filter(filter)
        question = question_about(
            filter,
            since_us=microseconds(since),
            until_us=microseconds(until),
            limit=limit,
            attributes=attributes,
            payload=payload,
        )
        return History(self._session, question, self._settings["history_patience_s"])

    async def stretches(
        self,
        filter: str,
        most: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> list[Stretch] | None:
        """Ask storages where past events that match lie, to divide the reading of them: return
        some `most` stretches for each storage with about how many they are, in the order of time.
        This costs much less than to read them. Of topics of which the filter, or what the user may
        see, may leave out events, only those events count, by a sample. None: a storage does not
        know this question. Raises what reading a `History` raises."""
        check_filter(filter)
        question = question_about(
            filter, since_us=microseconds(since), until_us=microseconds(until)
        )._replace(stretches=max(most, 1))
        history = History(self._session, question, self._settings["history_patience_s"])
        found: list[Stretch] = []
        async for event in history:
            rows = event.attributes.get(ROWS)
            if not isinstance(rows, int):
                history.cancel()
                return None
            storage = str(event.attributes.get(STORAGE))
            found.append(Stretch(event.time_us, event.publisher, rows, storage))
        return found


def either(filters: Sequence[str]) -> str:
    """Return one filter that matches what any of `filters` matches."""
    for text in filters:
        require_text(text)
    return filters[0] if len(filters) == 1 else " OR ".join(f"({text})" for text in filters)


def microseconds(time: datetime | None) -> int | None:
    """Return a time as microseconds since 1970. Raises `ConfigurationError` for a time without a
    zone."""
    if time is None:
        return None
    if time.tzinfo is None:
        raise ConfigurationError(f"{time} has no time zone; write datetime(..., tzinfo=UTC)")
    return (time - EPOCH) // timedelta(microseconds=1)


def check_handover(handover_s: float) -> float:
    """Return `handover_s` if a storage would wait that long. Raises `LocalError` otherwise."""
    if not 0 <= handover_s <= MOST_HANDOVER_S:
        raise LocalError(f"handover_s {handover_s} is not between 0 and {MOST_HANDOVER_S} seconds")
    return handover_s


def past_of(session: Session, filter: str, replay: datetime | bool, handover_s: float) -> History:
    """Return what storages have from the time `replay` on (True: everything), and what comes to
    them within `handover_s`. Raises `ConfigurationError`."""
    question = question_about(
        filter,
        since_us=None if isinstance(replay, bool) else microseconds(replay),
        handover_s=check_handover(handover_s),
    )
    return History(session, question, session.settings["history_patience_s"])


def in_portions(bodies: Sequence[bytes]) -> Iterator[tuple[bytes, ...]]:
    """Divide the bodies of events into portions that go into one message each."""
    portion: list[bytes] = []
    size = 0
    for body in bodies:
        if portion and (size + len(body) > PORTION_BYTES or len(portion) == MOST_DEPOSITED):
            yield tuple(portion)
            portion, size = [], 0
        portion.append(body)
        size += len(body)
    if portion:
        yield tuple(portion)

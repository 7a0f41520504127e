"""The result of `Client.session`: a durable session, and this program as one of its consumers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Generator, Iterable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Any, Self, TypedDict, TypeVar, cast

import msgspec

from reefcast.client.consuming import Attachment, Call
from reefcast.client.filter_check import check_filter
from reefcast.client.history import History, in_portions, past_of
from reefcast.client.owed import DETACHED, Acknowledgements, OwedEvent, QueuedEvent, queued
from reefcast.client.session import Session
from reefcast.errors import LocalError, ProtocolError
from reefcast.model.keeping import Expires, FullPolicy
from reefcast.sessions.messages import (
    MOST_LETTERS,
    MOST_NAME_CHARS,
    MOST_WINDOW,
    AddFilter,
    Asked,
    CloseSession,
    Deposit,
    Done,
    Letters,
    ListSessions,
    Look,
    Manage,
    Notes,
    OpenSession,
    RemoveFilter,
    SessionRow,
    Sessions,
)

PREFETCH = 100


class SessionChoices(TypedDict, total=False):
    """What a session's owner may choose; each one has a default, and stays as it is where it is
    left out.

    - `expiry_s`: seconds without consumers after which the session ends (86 400); 0: never.
    - `max_events`, `max_bytes`: how much its queue may hold (1 000 000 events, 1 GiB).
    - `policy`: what happens when the queue is full: "drop_oldest" (the default), "refuse" or
      "block"; the last two concern publishers who ask for a confirmation.
    - `max_age_s`: seconds after which an event is dropped (0: never).
    - `expires`: which events are dropped when their `$expires_s` is over: "all" (the default), or
      "fresh", those that were never handed out.
    - `ack_wait_s`: seconds that a consumer has to acknowledge an event (30).
    - `max_deliveries`: how often an event is handed out before it becomes a dead letter (0: for
      ever).
    - `max_dead_letters`: how many of these are kept, the newest (10 000).
    """

    expiry_s: float
    max_events: int
    max_bytes: int
    policy: FullPolicy
    max_age_s: float
    expires: Expires
    ack_wait_s: float
    max_deliveries: int
    max_dead_letters: int


class DurableSession:
    """A durable session at its home, a broker of the network.

        session = await client.session("billing", expiry_s=86_400)
        await session.subscribe("symbol = 'IBM' AND price < 100")
        async for event in session:
            ...
            await event.ack()

    Awaiting it makes the session if the network has none with this name; its home is the broker
    that the client is connected to then. What its subscriptions match is kept on the home's disk
    until it is acknowledged, whether a consumer is there or not. Consumers may be connected to any
    broker, which passes events and acknowledgements on. This program becomes a consumer when it
    first asks for an event; several consumers share the events. The client attaches again after a
    reconnect, and when the way to the home broke. `async with` leaves the session at the end of
    the block; only `close` ends it.
    """

    def __init__(
        self,
        session: Session,
        name: str,
        *,
        owner: str,
        prefetch: int,
        filter: str,
        here: bool,
        choices: SessionChoices,
    ) -> None:
        if not 0 < len(name) <= MOST_NAME_CHARS:
            raise LocalError(f"the name of a session has 1 to {MOST_NAME_CHARS} characters")
        if filter:
            check_filter(filter)
        self._name = name
        self._session = session
        self._owner = owner
        self._prefetch = _checked(prefetch)
        self._filter = filter
        self._here, self._choices = here, choices
        self._attachment: Attachment | None = None
        self._acknowledgements: Acknowledgements

    # --- the session ------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The name of the session, unique for its owner."""
        return self._name

    def __await__(self) -> Generator[Any, None, Self]:
        return self._open().__await__()

    async def _open(self) -> Self:
        options = cast("dict[str, float | int | str]", {**self._choices})
        await self._done(
            lambda token: OpenSession(
                token=token,
                session=self.name,
                owner=self._owner,
                options=options,
                here=self._here,
            )
        )
        return self

    async def subscribe(
        self,
        filter: str,
        *,
        retained: bool = False,
        replay: datetime | bool = False,
        handover_s: float = 2.0,
    ) -> int:
        """Subscribe the session to what matches, wait until that has settled and is on disk, and
        return the subscription's number. One with this text that it has already stays. `retained`:
        put the retained values that match into the queue, too, but for those that the session has
        had.

        `replay`: put into the queue also what storages have from that time on (True: everything),
        and wait until it is there: no event is missing between the past and what comes now, and
        none is in the queue twice. Past events come in their order, behind what was published
        since the subscription settled. If this breaks off, subscribe with `replay` again: the home
        knows what the session has had. `handover_s`: as in `Client.subscribe`.

        Raises `FilterSyntaxError`, `ConfigurationError`, `RefusedError` with the broker's reason,
        or if nobody stores the topics, and `ConnectionLostError`, as all methods that wait for the
        broker.
        """
        check_filter(filter)
        past = None if replay is False else past_of(self._session, filter, replay, handover_s)
        done = await self._done(
            lambda token: AddFilter(
                token=token,
                session=self.name,
                owner=self._owner,
                filter=filter,
                retained=retained,
            )
        )
        if past is not None:
            await self._deposit(past, done.value)
        return done.value

    async def _deposit(self, past: History, number: int) -> None:
        """Have the session owed past events that its subscription `number` matches."""
        with suppress(StopAsyncIteration):
            while True:
                for bodies in in_portions([event.body for event in await past.next_batch()]):
                    await self._done(partial(self._to_deposit, number, bodies))

    def _to_deposit(self, number: int, bodies: tuple[bytes, ...], token: int) -> Deposit:
        return Deposit(
            token=token, session=self.name, owner=self._owner, number=number, bodies=bodies
        )

    async def unsubscribe(self, filter: str) -> None:
        """Remove the subscription with this text, and wait until every broker has forgotten it;
        what the session owes already stays owed. Raises `RefusedError` if there is none."""
        await self._done(
            lambda token: RemoveFilter(
                token=token, session=self.name, owner=self._owner, filter=filter
            )
        )

    async def close(self) -> None:
        """End the session, with its subscriptions and all that it owes, for all consumers."""
        await self._leave()
        await self._done(
            lambda token: CloseSession(token=token, session=self.name, owner=self._owner)
        )

    async def status(self) -> SessionRow:
        """Return what the home knows of the session: its subscriptions, consumers and queue."""
        message = ListSessions(
            token=self._session.consuming.next_token(), session=self.name, owner=self._owner
        )
        return (await rows_of(self._session, message))[0]

    async def drain(self) -> int:
        """Drop everything that the session owes, but for dead letters; return how many events."""
        return await self._manage("drain")

    async def move_dead_letters(self) -> int:
        """Owe the session's dead letters again, behind all others and as if they were new; return
        how many."""
        return await self._manage("move_dead_letters")

    async def drop_dead_letters(self) -> int:
        """Forget the session's dead letters; return how many."""
        return await self._manage("drop_dead_letters")

    async def look(
        self, *, after: int = 0, most: int = 100, dead: bool = False
    ) -> list[QueuedEvent]:
        """Return events of the queue behind the position `after`, at most `most`, without taking
        them; `dead`: of the dead letters."""
        if not 1 <= most <= MOST_LETTERS:
            raise LocalError(f"most {most} is not between 1 and {MOST_LETTERS} events")
        letters = await answer_to(
            self._session,
            Look(
                token=self._session.consuming.next_token(),
                session=self.name,
                owner=self._owner,
                after=after,
                most=most,
                dead=dead,
            ),
            Letters,
        )
        return [queued(letter) for letter in letters.letters]

    async def _manage(self, wish: Any) -> int:
        done = await self._done(
            lambda token: Manage(token=token, session=self.name, owner=self._owner, wish=wish)
        )
        return done.value

    async def _done(self, make: Callable[[int], Asked]) -> Done:
        return await answer_to(self._session, make(self._session.consuming.next_token()), Done)

    # --- consuming --------------------------------------------------------------------------------

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> OwedEvent:
        """Wait for the next event; a wait that is cancelled loses none.

        The iteration ends when this consumer has left or the client is closed. It raises
        `RefusedError` if there is no such session, or it ended, and `ConnectionLostError` if the
        connection is given up.
        """
        attachment = await self._some()
        return OwedEvent(attachment.pop(), self._acknowledgements)

    async def next_batch(self) -> list[OwedEvent]:
        """Wait for at least one event and return all that have arrived. Raises `StopAsyncIteration`
        at the end, and as iterating."""
        attachment = await self._some()
        waiting = attachment.waiting
        return [OwedEvent(attachment.pop(), self._acknowledgements) for _ in range(len(waiting))]

    @property
    def waiting(self) -> int:
        """How many events have arrived and have not been read."""
        return 0 if self._attachment is None else len(self._attachment.waiting)

    @property
    def ended(self) -> bool:
        """Whether this program was a consumer, and is none any more: the session ended, or the
        client did."""
        return self._attachment is not None and self._attachment.ended

    @property
    def in_hand(self) -> list[int]:
        """The positions of the events that this consumer has read, and neither acknowledged nor
        rejected, in the order in which it got them."""
        return [] if self._attachment is None else list(self._attachment.in_hand)

    def reject_position(self, position: int, delay_s: float = 0.0) -> None:
        """Give back an event that is `in_hand`; see `OwedEvent.reject`."""
        self._attached()
        self._acknowledgements.reject(position, delay_s)

    @asynccontextmanager
    async def processing(self) -> AsyncIterator[OwedEvent]:
        """Wait for the next event; acknowledge it at the end of the `async with` block, or reject
        it if the block raises an exception. Raises `LocalError` if there will be none, and as
        iterating."""
        try:
            event = await anext(self)
        except StopAsyncIteration:
            raise LocalError(DETACHED) from None
        try:
            yield event
        except BaseException:
            await event.reject()
            raise
        await event.ack()

    async def ack_up_to(self, event: OwedEvent, *, wait: bool = False) -> None:
        """Acknowledge this event and all that this consumer got before it; `wait` as in
        `OwedEvent.ack`."""
        if self._attachment is not None:
            positions = self._acknowledgements.add_up_to(event.position)
            if wait:
                await self._acknowledgements.until_answered(positions)

    async def ack_positions(self, positions: Iterable[int], *, wait: bool = False) -> None:
        """Acknowledge events by their positions: those that a program has noted with its results,
        before it was started again. Whoever has these events now, they do not come again; nothing
        happens for those that are no longer owed. `wait` as in `OwedEvent.ack`; a position that was
        never handed out is refused (`RefusedError`)."""
        self._attached()
        chosen = tuple(positions)
        if chosen:
            self._acknowledgements.add(chosen)
        if wait:
            await self._acknowledgements.until_answered(chosen)

    async def flush(self) -> None:
        """Wait until the home has all acknowledgements on disk. Raises `RefusedError` if it did not
        take some, and the reason if the session or the client has ended before."""
        if self._attachment is not None:
            await self._acknowledgements.until_answered()

    def resize(self, prefetch: int) -> None:
        """Change how many events this consumer may have without having acknowledged them; 0: none
        comes until this is called again."""
        self._prefetch = _checked(prefetch)
        if self._attachment is not None:
            self._attachment.resize(self._prefetch)

    async def detach(self) -> None:
        """Leave the session, once all acknowledgements are on its disk. The session stays; events
        that were not acknowledged are owed again. The next event that is asked for attaches
        again."""
        try:
            if self._attachment is not None and not self._attachment.ended:
                await self.flush()
        finally:
            await self._leave()

    async def _leave(self) -> None:
        attachment, self._attachment = self._attachment, None
        if attachment is not None:
            self._acknowledgements.send()
            attachment.detach()

    async def _some(self) -> Attachment:
        attachment = self._attached()
        while not attachment.waiting:
            if attachment.error is not None:
                raise attachment.error
            if attachment.ended:
                raise StopAsyncIteration
            await attachment.changed.wait()
        return attachment

    def _attached(self) -> Attachment:
        if self._attachment is None:
            self._attachment = Attachment(
                self._session.consuming, self.name, self._owner, self._prefetch, self._filter
            )
            self._acknowledgements = Acknowledgements(self._session, self._attachment)
        return self._attachment

    async def __aenter__(self) -> Self:
        return await self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.detach()
        else:
            await self._leave()


async def rows_of(session: Session, message: ListSessions) -> list[SessionRow]:
    """Return the sessions that the home knows, however many messages that takes."""
    answer = await answer_to(session, message, Sessions)
    rows = [*answer.rows]
    while answer.more and answer.rows:
        token = session.consuming.next_token()
        following = msgspec.structs.replace(message, token=token, skip=len(rows))
        answer = await answer_to(session, following, Sessions)
        rows += answer.rows
    return rows


T = TypeVar("T", Done, Sessions, Letters, Notes)


async def answer_to(session: Session, message: Asked, kind: type[T]) -> T:
    """Ask the home, and return its answer, which is of this kind. Raises `RefusedError` with its
    reason, and the client's reason if that ends before."""
    call: Call = session.consuming.ask(message)
    with session.awaiting_answer():
        while not call.over:
            await call.changed.wait()
    if call.error is not None:
        raise call.error
    if not isinstance(call.answer, kind):
        raise ProtocolError(f"the broker answered {type(message).__name__} with something else")
    return call.answer


def _checked(prefetch: int) -> int:
    if not 0 <= prefetch <= MOST_WINDOW:
        raise LocalError(f"prefetch {prefetch} is not between 0 and {MOST_WINDOW} events")
    return prefetch

"""The results of `advertise` and `subscribe`."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Self, Unpack

from reefcast.client.beside import MAX_ROWS, Beside, check_max_rows
from reefcast.client.event import Event
from reefcast.client.filter_check import check_filter
from reefcast.client.inbox import Holding, Inbox
from reefcast.client.session import Session
from reefcast.errors import LocalError
from reefcast.extras import extra_for
from reefcast.protocol.registrations import Registration, State

if TYPE_CHECKING:
    import pyarrow as pa


class _Handle:
    """`await handle` is `await handle.settled()` and returns the handle."""

    def __init__(self, session: Session, holding: Holding) -> None:
        self._session = session
        self._holding = holding
        session.hold(holding)

    def __await__(self) -> Generator[None, None, Self]:
        yield from self.settled().__await__()
        return self

    @property
    def filters(self) -> tuple[str, ...]:
        """The present filters, without those being removed."""
        return tuple(entry.filter for entry in self._standing())

    async def settled(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (for convenience)
        """Wait until every broker that must know the filters knows them.

        After a reconnect, waits until that is certain again. Raises `RefusedError` with the
        broker's reason, `ConnectionLostError` if the connection is given up, and `TimeoutError`
        after `timeout` seconds.
        """
        if not (self._holding.settled or self._session.ended):
            async with asyncio.timeout(timeout):
                await self._wait_until(lambda: self._holding.settled)
        if self._holding.error is not None:
            raise self._holding.error
        if not self._holding.settled:
            raise self._session.ending()

    async def _wait_until(self, done: Callable[[], bool]) -> None:
        """Wait for `done()` or the end of the session."""
        if done():
            return
        with self._session.awaiting_answer():
            while not (done() or self._session.ended):
                await self._holding.changed.wait()

    async def _take_back(self) -> None:
        entries = self._standing()
        self._session.release(self._holding)
        await self._wait_until(lambda: not any(entry.unanswered for entry in entries))

    def _register(self, entry: Registration[Holding]) -> Registration[Holding]:
        self._session.register(entry)
        self._holding.registrations.append(entry)
        return entry

    def _standing(self) -> list[Registration[Holding]]:
        entries = self._holding.registrations
        return [entry for entry in entries if entry.state in (State.PENDING, State.SETTLED)]


class Advertisement(_Handle):
    """A filter of everything that this client will publish. The broker holds publications back
    until the advertisement has settled."""

    def __init__(self, session: Session, filter: str) -> None:
        check_filter(filter)
        super().__init__(session, Holding())
        self._register(Registration(self._holding, filter, advertises=True))

    async def withdraw(self) -> None:
        """Withdraw the advertisement, and wait until every broker has forgotten it."""
        await self._take_back()


class Inflow(_Handle):
    """A subscription whose events go into a `holding` of the client's own."""

    def __init__(self, session: Session, holding: Holding, filter: str) -> None:
        super().__init__(session, holding)
        self._register(Registration(holding, filter))


class Subscription(_Handle):
    """One or several filters, and the events that match at least one of them, each once.

        async for event in client.subscribe("symbol = 'IBM'", "price < 100"):
            ...

    Events wait here until they are read. When `local_queue_limit` of them wait, the client stops
    reading from the broker, for all of its subscriptions, and the broker applies its queue policy:
    by default it drops the oldest of the events that wait there, and `dropped` says how many. A
    subscription that is garbage-collected is cancelled.
    """

    _holding: Inbox

    def __init__(
        self, session: Session, filters: tuple[str, ...], limit: int, order_s: float
    ) -> None:
        if not filters:
            raise LocalError("subscribe needs at least one filter; TRUE is the one for all events")
        for filter in filters:
            check_filter(filter)
        self._loop = asyncio.get_running_loop()
        self._order_s = order_s
        super().__init__(session, Inbox(limit, session))
        for filter in filters:
            self._register(Registration(self._holding, filter, order_s=order_s))

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its filters on the present connection (see `on_deliveries`)."""
        return tuple(entry.number for entry in self._holding.registrations)

    @property
    def waiting(self) -> int:
        """How many events have arrived and have not been read."""
        return len(self._holding.bodies)

    @property
    def dropped(self) -> int:
        """How many of its events the broker dropped because this program did not keep up."""
        return self._holding.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; cancelling the wait loses none.

        The iteration ends when the subscription is cancelled or the client closed; it raises
        `RefusedError` if a filter was refused, `ConnectionLostError` if the connection is given up,
        `SlowConsumerError` if the broker ended it because this program did not keep up."""
        if not self._holding.bodies:
            await self._some()
        return self._holding.pop()

    async def next_batch(self) -> list[Event]:
        """Wait for at least one event and return all that have arrived. Raises `StopAsyncIteration`
        at the end."""
        await self._some()
        return self._holding.pop_all()

    async def next_table(
        self,
        *,
        max_rows: int = MAX_ROWS,
        max_wait_s: float = 0.0,
        schema: pa.Schema | None = None,
        **beside: Unpack[Beside],
    ) -> pa.Table:
        """Wait for at least one event and return those that have arrived as an Arrow table: a row
        for each event, and a column for each attribute that one of them has, null where it is
        missing. Needs pyarrow.

        `max_rows`: the largest number of rows; `max_wait_s`: how long to wait for that many, once
        there is one (not longer than until the client stops reading, see `local_queue_limit`).
        `schema`: the attributes and their types; by default all attributes, as int64, double, bool
        or string: a column of integers and floats is double, any other mixture is string.
        `publisher_column`, `seq_column`, `time_column`, `topics_column`, `payload_column`: names of
        columns for what events have beside their attributes.

        Raises `InvalidValueError` for events that do not fit the table, and drops nothing then;
        otherwise what iterating raises, and `StopAsyncIteration` at the end."""
        with extra_for("next_table"):
            from reefcast.client.tables import table_of
        inbox, rows = self._holding, check_max_rows(max_rows)
        await self._some()
        while max_wait_s > 0 and not await self._fill(rows, max_wait_s):
            await self._some()  # another reader has taken the events
        bodies = list(islice(inbox.bodies, rows))
        table = table_of(bodies, beside, schema)
        inbox.pop_bodies(len(bodies))
        return table

    async def _fill(self, rows: int, wait_s: float) -> bool:
        """Wait for this many events; return whether there are any."""
        inbox = self._holding
        with suppress(TimeoutError):
            async with asyncio.timeout(wait_s):
                while len(inbox.bodies) < rows and not (inbox.full or inbox.ended):
                    await inbox.changed.wait()
        return bool(inbox.bodies)

    async def _some(self) -> None:
        inbox = self._holding
        while not inbox.bodies:
            if inbox.error is not None:
                raise inbox.error
            if inbox.ended:
                raise StopAsyncIteration
            await inbox.changed.wait()

    async def add(self, filter: str) -> None:
        """Add a filter and wait until it has settled. Raises `RefusedError` if the broker refuses
        it; the other filters stay as they are."""
        check_filter(filter)
        entry = self._register(
            Registration(self._holding, filter, watched=True, order_s=self._order_s)
        )
        await self._wait_until(lambda: not entry.unanswered)
        if entry.error is not None:
            raise entry.error
        if self._session.ended:
            raise self._session.ending()
        entry.watched = False

    async def remove(self, filter: str) -> None:
        """Remove a filter and wait until every broker has forgotten it. Raises `LocalError` if the
        subscription does not have it."""
        entry = self._find(filter)
        self._session.withdraw(entry)
        await self._wait_until(lambda: not entry.unanswered)

    async def replace(self, old: str, new: str) -> None:
        """Replace the filter `old` by `new` without a gap: `old` is removed once `new` has settled.
        An event that matches both meanwhile arrives once."""
        self._find(old)
        await self.add(new)
        await self.remove(old)

    async def cancel(self) -> None:
        """Remove all filters and end the iteration; events not yet read are dropped."""
        await self._take_back()

    def _find(self, filter: str) -> Registration[Holding]:
        for entry in self._standing():
            if entry.filter == filter:
                return entry
        raise LocalError(f"this subscription has no filter {filter!r}; it has {self.filters}")

    def __del__(self) -> None:
        """Release the filters, which nobody can read any more. This may run in another thread, so
        the loop's does the work."""
        holding = self.__dict__.get("_holding")
        if holding is not None and not holding.ended and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed between these two lines
                self._loop.call_soon_threadsafe(self._session.release, holding)


def inbox_of(subscription: Subscription) -> Inbox:
    """Return the inbox in which the subscription's events wait, for code that reads it directly."""
    return subscription._holding


def session_of_subscription(subscription: Subscription) -> Session:
    """Return the protocol state of the client that subscribed."""
    return subscription._session

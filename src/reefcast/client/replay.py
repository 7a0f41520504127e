"""What `subscribe(..., replay=...)` returns: the past, and then what comes, without a gap."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from contextlib import suppress
from typing import Self

from reefcast.client.event import Event
from reefcast.client.handles import Subscription, inbox_of
from reefcast.client.history import History
from reefcast.model.publication import PublicationId
from reefcast.routing.recent import RecentIds


class Replay:
    """Past events by their time, then new ones, each once; read it as a `Subscription`.

    The subscription stands before storages are asked, and their answers stay open for the time of
    the handover: so what is under way in between is in one of the two, or in both. Ids tell.
    New events wait here while the past is read; they are more the longer that takes.
    """

    def __init__(self, subscription: Subscription, history: History) -> None:
        self._subscription = subscription
        self._inbox = inbox_of(subscription)
        self._history: History | None = history
        self._given: RecentIds[PublicationId] = RecentIds()
        self._events: deque[Event] = deque()

    def __await__(self) -> Generator[None, None, Self]:
        yield from self.settled().__await__()
        return self

    async def settled(self) -> None:
        """See `Subscription`."""
        await self._subscription.settled()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """The next event; ends when it is cancelled or the client closed. Raises as `History` and
        `Subscription` do."""
        while not self._events:
            self._events.extend(await self._some())
        return self._events.popleft()

    async def next_batch(self) -> list[Event]:
        """All events that can be had, at least one; raises `StopAsyncIteration` at the end."""
        while not self._events:
            self._events.extend(await self._some())
        events = list(self._events)
        self._events.clear()
        return events

    async def cancel(self) -> None:
        """Ends both; events not yet read are dropped."""
        if self._history is not None:
            self._history.cancel()
        self._events.clear()
        await self._subscription.cancel()

    async def _some(self) -> list[Event]:
        """New ones of either, maybe none."""
        history = self._history
        if history is None:
            return self._new(await self._subscription.next_batch())
        await self._subscription.settled()
        history.start()
        events = history.poll()
        if history.over:
            self._history = None
        if history.over or history.hands_over:
            events += self._inbox.pop_all()
        return self._new(events) if events else await self._wait(history)

    async def _wait(self, history: History) -> list[Event]:
        if history.over:
            return []
        waits = [asyncio.ensure_future(history.wait())]
        if history.hands_over and not self._inbox.events:
            waits.append(asyncio.ensure_future(self._inbox.changed.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
                with suppress(asyncio.CancelledError):
                    await wait
        return []

    def _new(self, events: list[Event]) -> list[Event]:
        return [event for event in events if self._given.is_new(event.id)]

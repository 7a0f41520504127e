"""The result of `subscribe(..., replay=...)`: the past, then new events, without a gap."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Generator
from typing import Self

from reefcast.client.event import Event
from reefcast.client.handles import Subscription, inbox_of
from reefcast.client.history import History
from reefcast.history.asking import SLACK_S
from reefcast.model.publication import PublicationId
from reefcast.routing.recent import RecentIds
from reefcast.timing import now_us


class Given:
    """The events that were returned and may come again from the other source: all since shortly
    before the replay began. When the past is over, they are kept until the events that arrive are
    some time younger. Of events with an older time only the latest are known."""

    def __init__(self) -> None:
        self._since_us = now_us() - round(SLACK_S * 1e6)
        self._until_us: int | None = None
        self._ids: set[PublicationId] | None = set()
        self._old: RecentIds[PublicationId] = RecentIds()

    def is_new(self, event: Event) -> bool:
        """Return whether the event has not been returned yet, and remember it."""
        if self._ids is None:
            return True
        if event.time_us < self._since_us:
            return self._old.is_new(event.id)
        if self._until_us is not None and self._until_us < min(event.time_us, now_us()):
            self._ids = None
            return True
        if event.id in self._ids:
            return False
        self._ids.add(event.id)
        return True

    def past_is_over(self) -> None:
        """Note that nothing more comes from storages."""
        self._until_us = now_us() + round(SLACK_S * 1e6)


class Replay:
    """Past events by their time, then new ones, each once; read it like a `Subscription`.

    The subscription settles before storages are asked, and their answers stay open for the time of
    the handover. So an event published meanwhile arrives from one of the two sources or from both,
    and its id reveals duplicates. New events, and the ids to compare, wait in memory while the past
    is read."""

    def __init__(self, subscription: Subscription, history: History) -> None:
        self._subscription = subscription
        self._inbox = inbox_of(subscription)
        self._history: History | None = history
        self._given = Given()
        self._events: deque[Event] = deque()

    def __await__(self) -> Generator[None, None, Self]:
        yield from self.settled().__await__()
        return self

    async def settled(self) -> None:
        """Wait until every broker that must know the filters knows them; raises what
        `Subscription.settled` raises."""
        await self._subscription.settled()

    @property
    def dropped(self) -> int:
        """How many new events the broker dropped; see `Subscription`."""
        return self._subscription.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the iteration ends when it is cancelled or the client closed.
        Raises as `History` and `Subscription` do."""
        while not self._events:
            self._events.extend(await self._some())
        return self._events.popleft()

    async def next_batch(self) -> list[Event]:
        """Wait for at least one event and return all that have arrived. Raises `StopAsyncIteration`
        at the end."""
        while not self._events:
            self._events.extend(await self._some())
        events = list(self._events)
        self._events.clear()
        return events

    async def cancel(self) -> None:
        """Cancel the question about the past and the subscription; events not yet read are
        dropped."""
        if self._history is not None:
            self._history.cancel()
        self._events.clear()
        await self._subscription.cancel()

    async def _some(self) -> list[Event]:
        """Return new events of either source, maybe none."""
        history = self._history
        if history is None:
            return self._new(await self._subscription.next_batch())
        await self._subscription.settled()
        history.start()
        events = history.poll()
        if history.over:
            self._history = None
            self._given.past_is_over()
        if history.over or history.hands_over:
            events += self._inbox.pop_all()
        return self._new(events) if events else await self._wait(history)

    async def _wait(self, history: History) -> list[Event]:
        if history.over:
            return []
        waits = [asyncio.ensure_future(history.wait())]
        if history.hands_over and not self._inbox.bodies:
            waits.append(asyncio.ensure_future(self._inbox.changed.wait()))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)
        return []

    def _new(self, events: list[Event]) -> list[Event]:
        return [event for event in events if self._given.is_new(event)]

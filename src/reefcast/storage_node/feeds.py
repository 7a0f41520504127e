"""Where a storage gets new events from: a subscription, or a durable session.

A subscription costs nothing but has only what is published while the storage is connected. A
durable session has also what was published meanwhile, and what was on its way when the storage or
its broker was killed: an event is acknowledged when it is stored. What comes a second time the
store recognises."""

from __future__ import annotations

import asyncio
from typing import Protocol

from reefcast.client.client import Client
from reefcast.client.event import Event
from reefcast.client.handles import inbox_of
from reefcast.client.owed import OwedEvent
from reefcast.client.signal import Signal
from reefcast.errors import LocalError

PREFETCH = 10_000
"""Events that a storage may have, from a durable session, and not have stored."""
ACK_WAIT_S = 600.0
"""A store that is repaired or sealed may be busy for long; a storage that dies is detached at
once, whatever this is."""


class Feed(Protocol):
    """The filters of a storage, and the events that match them."""

    @property
    def filters(self) -> tuple[str, ...]: ...

    @property
    def waiting(self) -> int:
        """How many events have come and have not been read."""
        ...

    async def add(self, filter: str) -> None: ...

    async def remove(self, filter: str) -> None: ...

    async def settled(self) -> None:
        """Wait until every event that is published from now on will come, on this connection."""
        ...

    async def next_batch(self) -> list[bytes]:
        """Return the bodies of the next events, at least one."""
        ...

    async def stored(self) -> None:
        """Note that the last batch is on disk."""
        ...

    def rest(self) -> list[bytes]:
        """Return what has come and must not be lost when the storage ends."""
        ...

    async def end(self) -> None:
        """End for ever: the storage is given up."""
        ...


class SubscriptionFeed:
    """A subscription; see `Feed`. `limit`: events that may wait."""

    def __init__(self, client: Client, filters: tuple[str, ...], limit: int) -> None:
        self._subscription = client.subscribe(*filters, local_queue_limit=limit)
        self._taken: list[bytes] = []

    @property
    def filters(self) -> tuple[str, ...]:
        return tuple(self._subscription.filters)

    @property
    def waiting(self) -> int:
        return len(self._taken) + self._subscription.waiting

    async def add(self, filter: str) -> None:
        await self._subscription.add(filter)

    async def remove(self, filter: str) -> None:
        await self._subscription.remove(filter)

    async def settled(self) -> None:
        await self._subscription.settled()

    async def next_batch(self) -> list[bytes]:
        self._taken = _bodies(await self._subscription.next_batch())
        return self._taken

    async def stored(self) -> None:
        self._taken = []

    def rest(self) -> list[bytes]:
        return self._taken + _bodies(inbox_of(self._subscription).pop_all())

    async def end(self) -> None:
        """Do nothing: the subscription ends with the client."""


class SessionFeed:
    """The durable session `name`; see `Feed`. Nobody else takes events from it."""

    def __init__(self, client: Client, name: str, filters: tuple[str, ...]) -> None:
        self._filters = dict.fromkeys(filters)
        self._session = client.session(
            name,
            prefetch=PREFETCH,
            expiry_s=0,
            policy="block",
            ack_wait_s=ACK_WAIT_S,
            here=True,  # a storage has one broker, where nobody else makes a session of this name
        )
        self._made = False
        self._taken: list[OwedEvent] = []
        self._count = 0
        self._acknowledging = asyncio.Lock()
        """So that one can tell how many events are owed behind those that are acknowledged."""
        self._progress = Signal()

    @property
    def filters(self) -> tuple[str, ...]:
        return tuple(self._filters)

    @property
    def waiting(self) -> int:
        return len(self._taken) + self._session.waiting

    async def add(self, filter: str) -> None:
        self._filters[filter] = None
        await self.settled()

    async def remove(self, filter: str) -> None:
        del self._filters[filter]
        await self._session.unsubscribe(filter)

    async def settled(self) -> None:
        """Wait as `Feed.settled` says, and until what the session owes now is stored."""
        await self._session
        for filter in self.filters:
            await self._session.subscribe(filter)
        async with self._acknowledging:
            await self._session.flush()
            row = await self._session.status()
            stored = self._count + row.events
        for left in set(row.subscriptions.values()) - self._filters.keys():
            await self._session.unsubscribe(left)  # of a topic that was removed meanwhile
        while self._count < stored:
            await self._progress.wait()

    async def next_batch(self) -> list[bytes]:
        if not self._made:
            await self._session
            self._made = True
        try:
            self._taken = await self._session.next_batch()
        except StopAsyncIteration:
            raise LocalError(f"the durable session {self._session.name!r} has ended") from None
        return [event.body for event in self._taken]

    async def stored(self) -> None:
        async with self._acknowledging:
            await self._session.ack_up_to(self._taken[-1])
            self._count += len(self._taken)
        self._taken = []
        self._progress.fire()

    def rest(self) -> list[bytes]:
        """Return nothing: what is not acknowledged is owed again."""
        return []

    async def end(self) -> None:
        await self._session.close()


def _bodies(events: list[Event]) -> list[bytes]:
    return [event.body for event in events]


def feed_of(client: Client, session: str, filters: tuple[str, ...], limit: int) -> Feed:
    """Return the feed of a storage: the durable session with this name, or without a name a
    subscription."""
    if session:
        return SessionFeed(client, session, filters)
    return SubscriptionFeed(client, filters, limit)

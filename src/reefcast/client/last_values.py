"""The result of `subscribe(..., retained=True)`: the last values, then new events."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from typing import Self, TypeVar

from reefcast.client.event import Event, as_retained, publication_of
from reefcast.client.handles import Subscription, inbox_of, session_of_subscription
from reefcast.client.recalling import Recalling
from reefcast.errors import ConfigurationError
from reefcast.model.publication import PublicationId
from reefcast.retaining.keys import By, Key, key_of
from reefcast.retaining.messages import Entry, Version
from reefcast.timing import now_us

MOST_KEYS = 100_000
"""Keys whose latest event is remembered, and values that may still come as events; the newest."""
K = TypeVar("K")
V = TypeVar("V")


class Merging:
    """Puts retained values and new events into one sequence.

    Rules
    -----
    - Retained values come first, each key once. Events that arrive meanwhile wait (`held`).
    - A value that arrives as an event, too, is given once. One that is older than an event of its
      key which has arrived is not given: it is not the last one. One that is newer than an event
      which still waits is given behind that.
    - Values that come late (see `reefcast.retaining.recalls`) are given when they come.

    `held`: events that wait until the last values are complete; `key_of` under the names of the
    retained values says which events belong to a key, whether they are retained or not."""

    def __init__(self) -> None:
        self._latest: dict[By, OrderedDict[Key, Version]] = {}
        self._given: OrderedDict[PublicationId, None] = OrderedDict()
        self._held: deque[Event] = deque()

    def entered(self, event: Event) -> None:
        """Take an event that has arrived, unless it was given as a retained value."""
        if event.id in self._given:
            del self._given[event.id]
            return
        for by, keys in self._latest.items():
            self._note(keys, event, by)
        self._held.append(event)

    def recalled(
        self,
        entries: Iterable[Entry],
        make: Callable[[bytes], Event],
        before_us: int | None = None,
    ) -> list[Event]:
        """Return the retained values among these that are to be given now. Those published after
        `before_us` only came this way before they came as events, and are not marked."""
        given: list[Event] = []
        for entry in entries:
            keys = self._latest.get(entry.by)
            if keys is None:
                keys = self._begin(entry.by)
            newest = keys.get(entry.key)
            if newest is not None and newest >= entry.version:
                continue
            event = make(entry.body)
            if before_us is None or event.time_us <= before_us:
                event = as_retained(event)
            waits = newest is not None and self._held
            (self._held if waits else given).append(event)
            _keep(keys, entry.key, entry.version)
            _keep(self._given, event.id, None)
        return given

    def _begin(self, by: By) -> OrderedDict[Key, Version]:
        """Remember the latest event of each key that these attributes make, from what waits on."""
        keys = self._latest[by] = OrderedDict()
        for event in self._held:
            self._note(keys, event, by)
        return keys

    @staticmethod
    def _note(keys: OrderedDict[Key, Version], event: Event, by: By) -> None:
        with suppress(ConfigurationError):  # it has no such key
            key, version = key_of(publication_of(event), by), (event.time_us, *event.id)
            if key not in keys or version > keys[key]:
                _keep(keys, key, version)

    def take(self) -> list[Event]:
        """Return the events that have waited."""
        events = list(self._held)
        self._held.clear()
        return events


class LastValues:
    """The last value of each key that matches, then new events, each once; read it like a
    `Subscription`. `event.retained` tells one from the other.

    The broker is asked when the subscription has settled. What was published meanwhile comes as a
    retained value or as an event; nothing that is older than an event of the same key comes as a
    retained value after it. After a reconnect to a broker that has lost the subscription, values
    that were missed come, too."""

    def __init__(self, subscription: Subscription, recalling: Recalling) -> None:
        self._subscription = subscription
        self._inbox = inbox_of(subscription)
        self._recalling = recalling
        self._merging = Merging()
        self._events: deque[Event] = deque()
        self._session = session_of_subscription(subscription)
        self._loop = asyncio.get_running_loop()
        self._asked_us = 0

    def __await__(self) -> Generator[None, None, Self]:
        yield from self.settled().__await__()
        return self

    async def settled(self) -> None:
        """Wait until every broker that must know the filters knows them; raises what
        `Subscription.settled` raises."""
        await self._subscription.settled()

    @property
    def filters(self) -> tuple[str, ...]:
        """The filters of which an event matches at least one."""
        return self._subscription.filters

    @property
    def dropped(self) -> int:
        """How many new events the broker dropped; see `Subscription`."""
        return self._subscription.dropped

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        """Return the next event; the iteration ends when it is cancelled or the client closed.
        Raises as `Subscription` does, and `RefusedError` if the network retains nothing."""
        while not self._events:
            await self._more()
        return self._events.popleft()

    async def next_batch(self) -> list[Event]:
        """Wait for at least one event and return all that have arrived. Raises `StopAsyncIteration`
        at the end."""
        while not self._events:
            await self._more()
        events = list(self._events)
        self._events.clear()
        return events

    async def cancel(self) -> None:
        """Cancel the subscription; events not yet read are dropped."""
        self._recalling.cancel()
        self._events.clear()
        await self._subscription.cancel()

    async def _more(self) -> None:
        """Wait until something comes, and put it where it belongs."""
        recalling, inbox, merging = self._recalling, self._inbox, self._merging
        if not (recalling.asked or recalling.error or inbox.ended):
            await self._subscription.settled()
            recalling.start()
            self._asked_us = now_us()
        for event in inbox.pop_all():
            merging.entered(event)
        self._events += merging.recalled(recalling.take(), self._make)
        self._events += merging.recalled(recalling.take_late(), self._make, self._asked_us)
        if recalling.complete or inbox.ended:
            self._events += merging.take()
        if self._events:
            return
        self._raise_end()
        if recalling.complete:
            await inbox.changed.wait()
        else:
            with self._session.awaiting_answer():
                await inbox.changed.wait()

    def _make(self, body: bytes) -> Event:
        return self._session.event_type(body, self._session.replier)

    def _raise_end(self) -> None:
        """Raise why nothing more comes, if so it is."""
        if not self._inbox.ended:
            if self._recalling.error is not None:
                raise self._recalling.error
            return
        if self._inbox.error is not None:
            raise self._inbox.error
        raise StopAsyncIteration

    def __del__(self) -> None:
        """Cancel the question, whose answers nobody can read any more, in the loop's thread."""
        recalling = self.__dict__.get("_recalling")
        if recalling is not None and not self._loop.is_closed():
            with suppress(RuntimeError):  # closed between these two lines
                self._loop.call_soon_threadsafe(recalling.cancel)


def _keep(kept: OrderedDict[K, V], key: K, value: V) -> None:
    """Put a value under its key, as the latest; forget the oldest one if there are more than
    `MOST_KEYS`."""
    kept[key] = value
    kept.move_to_end(key)
    if len(kept) > MOST_KEYS:
        kept.popitem(last=False)

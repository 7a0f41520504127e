"""What the synchronous client gives for the past: history, replays, and last values."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from reefcast.client.backlog import BackloggedClient
from reefcast.client.history import History as AsyncHistory
from reefcast.client.iterating import Events
from reefcast.client.last_values import LastValues as AsyncLastValues
from reefcast.client.replay import Replay as AsyncReplay
from reefcast.client.thread import LoopThread
from reefcast.history.spread import Stretch


class _ThenNew(Events):
    """An iterator over past events or retained values, then over new events."""

    def __init__(self, thread: LoopThread, source: AsyncReplay | AsyncLastValues) -> None:
        super().__init__(thread, source)
        self._events = source

    @property
    def dropped(self) -> int:
        """How many new events the broker dropped; see `Subscription`."""
        return self._events.dropped

    def settled(self, timeout: float | None = None) -> None:
        """Wait until every broker that must know the filters knows them; raises what
        `Subscription.settled` raises."""
        self._thread.run(self._events.settled(), timeout)

    def cancel(self, timeout: float | None = None) -> None:
        """End the iteration; events not yet read are dropped."""
        self._batch.clear()
        self._thread.run(self._events.cancel(), timeout)


class Replay(_ThenNew):
    """An iterator over past events by their time, and then new ones, each once; as
    `reefcast.Replay`."""


class LastValues(_ThenNew):
    """An iterator over the last value of each key, and then new events, each once; as
    `reefcast.LastValues`."""


class History(Events):
    """An iterator over past events by their time, each once; raises what `reefcast.History`
    raises."""

    def __init__(self, thread: LoopThread, history: AsyncHistory) -> None:
        super().__init__(thread, history)
        self._history = history

    def next_bodies(self) -> list[bytes]:
        """Wait for at least one event and return all that have arrived as they are encoded; an
        empty list at the end. As `reefcast.History.next_bodies`."""
        return self._thread.run(self._next_bodies())

    async def _next_bodies(self) -> list[bytes]:
        try:
            return await self._history.next_bodies()
        except StopAsyncIteration:
            return []

    def cancel(self) -> None:
        """Cancel the question and end the iteration."""
        self._batch.clear()
        self._thread.run(self._cancel())

    async def _cancel(self) -> None:
        self._history.cancel()


class PastClient:
    """The part of a synchronous client that asks about the past."""

    _thread: LoopThread
    _client: BackloggedClient

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
        """Ask storages for the past events that match; arguments and errors as in
        `reefcast.Client.history`."""
        work = self._client.begin_history(filter, since, until, limit, attributes, payload)
        return History(self._thread, self._thread.run(work))

    def stretches(
        self,
        filter: str,
        most: int,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        timeout: float | None = None,
    ) -> list[Stretch] | None:
        """Ask storages where past events that match lie; as `reefcast.Client.stretches`."""
        work = self._client.stretches(filter, most, since=since, until=until)
        return self._thread.run(work, timeout)

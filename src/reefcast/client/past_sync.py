"""What the synchronous client gives for the past: history, replays, and last values."""

from __future__ import annotations

from reefcast.client.history import History as AsyncHistory
from reefcast.client.iterating import Events
from reefcast.client.last_values import LastValues as AsyncLastValues
from reefcast.client.replay import Replay as AsyncReplay
from reefcast.client.thread import LoopThread


class _ThenNew(Events):
    """Something that comes before new events, and then these."""

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

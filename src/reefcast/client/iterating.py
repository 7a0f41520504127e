"""Iterating over events in programs without asyncio, from any thread."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from typing import Protocol, Self

from reefcast.client.event import Event
from reefcast.client.thread import LoopThread
from reefcast.timing import MACHINE


class Source(Protocol):
    """An asyncio iterator over events."""

    async def next_batch(self) -> list[Event]: ...


class Events:
    """An iterator, for any thread, over the batches of an asyncio iterator."""

    def __init__(self, thread: LoopThread, source: Source) -> None:
        self._thread = thread
        self._source = source
        self._batch: deque[Event] = deque()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self.next()
        if event is None:
            raise StopIteration
        return event

    def next(self, timeout: float | None = None) -> Event | None:
        """Wait for the next event and return it; None at the end.

        Raises `TimeoutError` after `timeout` seconds, and what iterating raises.
        """
        while True:
            with suppress(IndexError):  # another thread may read, too
                return self._batch.popleft()
            if not self._more(timeout):
                return None

    def _more(self, timeout: float | None) -> bool:
        """Wait for more events; return False at the end."""
        if self._thread.is_current or not self._thread.stopped:
            return self._thread.run(self._fill(), timeout)
        self._thread.stop()  # then all has ended, and the events that had come are here
        try:
            self._fill().send(None)
        except StopIteration as result:
            return bool(result.value)
        return False

    def next_batch(self, timeout: float | None = None) -> list[Event]:
        """Wait for at least one event and return all that have arrived; an empty list at the end.

        Raises `TimeoutError` after `timeout` seconds, and what iterating raises.
        """
        first = self.next(timeout)
        batch = [] if first is None else [first]
        with suppress(IndexError):  # the end of the events that are here
            while batch:
                batch.append(self._batch.popleft())
        return batch

    def _next_many(self, rows: int, timeout: float | None, wait_s: float) -> list[Event]:
        """Take at most `rows` events, for which it waits `wait_s` once there is one; none at the
        end."""
        events: list[Event] = []
        while not events:
            if not self._batch and not self._more(timeout):
                break
            self._fill_up(rows, wait_s)
            with suppress(IndexError):  # another thread may read, too
                while len(events) < rows:
                    events.append(self._batch.popleft())
        return events

    def _fill_up(self, rows: int, wait_s: float) -> None:
        """Wait until `rows` events have come, for `wait_s` at most."""
        stopwatch_s = MACHINE.get().stopwatch_s
        until_s = stopwatch_s() + wait_s
        with suppress(TimeoutError):
            while len(self._batch) < rows and (left_s := until_s - stopwatch_s()) > 0:
                if not self._more(left_s):
                    return

    async def _fill(self) -> bool:
        """Wait for events; return False at the end. It stores them itself: its result is dropped if
        the caller's time runs out at the moment in which they arrive."""
        try:
            self._batch.extend(await self._source.next_batch())
        except StopAsyncIteration:
            return False
        return True

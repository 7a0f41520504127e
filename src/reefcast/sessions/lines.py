"""Entries of a queue in an order, of which any may leave at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from heapq import heapify, heappop, heappush
from typing import Any, TypeVar

from reefcast.model.keeping import Position
from reefcast.sessions.events import Entry, State

_SLACK = 1000
"""So many entries that have left may stay in a line whatever its length."""


T = TypeVar("T")
NONE: deque[Any] = deque(maxlen=0)
"""Stands for an empty deque that nobody has added to: each takes 700 bytes, and a broker may have
many sessions that do nothing."""


def some(entries: deque[T]) -> deque[T]:
    """Return the deque, or `NONE` if it is empty."""
    return entries or NONE


class Line:
    """Entries by ascending position. Those that are `over` leave by themselves: at once where they
    are looked for, all of them when they are more than the others."""

    __slots__ = (
        "_entries",
        "_limit",
        "_over",
    )

    def __init__(self, over: Callable[[Entry], bool], entries: Iterable[Entry] = ()) -> None:
        self._over = over
        self._entries = some(deque(entries))
        self._limit = 2 * len(self._entries) + _SLACK

    def append(self, entry: Entry) -> None:
        """Add an entry behind all others."""
        if self._entries is NONE:
            self._entries = deque()
        self._entries.append(entry)
        if len(self._entries) > self._limit:
            self._entries = deque(each for each in self._entries if not self._over(each))
            self._limit = 2 * len(self._entries) + _SLACK

    def first(self) -> Entry | None:
        """Return the first entry that is not over; it stays."""
        entries = self._entries
        while entries:
            if not self._over(entries[0]):
                return entries[0]
            entries.popleft()
        return None

    def pop(self) -> None:
        """Remove the entry that `first` has returned."""
        self._entries.popleft()

    def __iter__(self) -> Iterator[Entry]:
        return (entry for entry in self._entries if not self._over(entry))


class Heap:
    """Entries by a number, the lowest first: a position, or a time. Those that are `over` leave
    when they come to the top, or when they are more than the others."""

    __slots__ = (
        "_items",
        "_limit",
        "_over",
    )

    def __init__(self, over: Callable[[Entry], bool]) -> None:
        self._over = over
        self._items: list[tuple[float, Position, Entry]] = []
        self._limit = _SLACK

    def push(self, key: float, entry: Entry) -> None:
        """Add an entry."""
        heappush(self._items, (key, entry.position, entry))
        if len(self._items) > self._limit:
            self._items = [each for each in self._items if not self._over(each[2])]
            heapify(self._items)
            self._limit = 2 * len(self._items) + _SLACK

    def first(self) -> tuple[float, Entry] | None:
        """Return the lowest number, and its entry that is not over; it stays."""
        while self._items:
            key, _, entry = self._items[0]
            if not self._over(entry):
                return key, entry
            heappop(self._items)
        return None

    def pop(self) -> None:
        """Remove what `first` has returned."""
        heappop(self._items)

    def __iter__(self) -> Iterator[Entry]:
        """Iterate over the entries, in no order."""
        return (entry for _, _, entry in self._items if not self._over(entry))


def is_not_ready(entry: Entry) -> bool:
    """Return whether no consumer can have the entry now."""
    return entry.state is not State.READY


def is_not_delayed(entry: Entry) -> bool:
    """Return whether the entry does not wait for the end of a delay."""
    return entry.state is not State.DELAYED


def is_not_owed(entry: Entry) -> bool:
    """Return whether the entry has left the queue."""
    return entry.state is State.GONE or entry.state is State.DEAD

"""Numbered frames of one direction: the side that keeps what is not acknowledged, and the side that
acknowledges.

Frames are counted from 1 by their order, and acknowledged all up to a number. An acknowledgement
may come twice, and is late by design: it waits for more frames, but never for long.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from reefcast.errors import ProtocolError

T = TypeVar("T")

ACK_EVERY = 4
"""Frames of one side that make an acknowledgement due at once. Well below OctopiA's threshold of a
queue (10), for what is not acknowledged counts as queue: with 256, a link that carried 6000 a
second without effort looked overloaded a third of the time. A read of many frames is acknowledged
once, so that it costs a fast connection nothing."""
ACK_DELAY_S = 0.002


class Unacknowledged(Generic[T]):
    """What was sent and not acknowledged, in order; `acknowledged`: the number of the last one that
    was. A list whose beginning is given up now and then: items come and go many at a time."""

    __slots__ = ("_gone", "_kept", "acknowledged")

    def __init__(self) -> None:
        self.acknowledged = 0
        self._kept: list[T] = []
        self._gone = 0

    def __len__(self) -> int:
        return len(self._kept) - self._gone

    def __iter__(self) -> Iterator[T]:
        return islice(self._kept, self._gone, None)

    @property
    def last(self) -> int:
        """The number of the last one that was sent."""
        return self.acknowledged + len(self._kept) - self._gone

    def add(self, item: T) -> None:
        """It goes out now, with the next number."""
        self._kept.append(item)

    def add_all(self, items: Iterable[T]) -> None:
        """They go out now, with the next numbers."""
        self._kept += items

    def acknowledge(self, number: int) -> list[T]:
        """The other end has taken over all up to `number`; returns those that are done with by
        that. Raises `ProtocolError` if so many were not sent."""
        last = self.acknowledged + len(self._kept) - self._gone
        if not 0 <= number <= last:
            raise ProtocolError(f"acknowledgement of frame {number}, but only {last} were sent")
        count = number - self.acknowledged
        if count <= 0:
            return []
        first = self._gone
        self.acknowledged = number
        self._gone += count
        done = self._kept[first : self._gone]
        if 2 * self._gone >= len(self._kept):
            del self._kept[: self._gone]
            self._gone = 0
        return done

    def begin(self, acknowledged: int) -> list[T]:
        """The other end counts anew, from `acknowledged`; returns what it has not taken over, which
        is kept here no more."""
        kept = self._kept[self._gone :]
        self._kept.clear()
        self._gone = 0
        self.acknowledged = acknowledged
        return kept


class Taken:
    """What was taken over of the other end's numbered frames, and how much of that it has been
    told. `count`, `told`: so many; `due_s`: when to look whether there is something to tell."""

    __slots__ = ("count", "due_s", "told")

    def __init__(self) -> None:
        self.count = self.told = 0
        self.due_s = math.inf

    def begin(self, count: int) -> None:
        """Begin to count at `count`, as the other end does."""
        self.count = self.told = count

    @property
    def untold(self) -> bool:
        return self.count > self.told

    def tell(self) -> int:
        """Return the number to acknowledge now."""
        self.told = self.count
        return self.count

"""The numbered frames of one direction: the side that keeps unacknowledged frames, and the side
that acknowledges them.

Frames are numbered from 1 in their order. An acknowledgement covers all frames up to a number. It
may come twice, and it is late by design: it waits for more frames, but never for long."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Generic, TypeVar

from reefcast.errors import ProtocolError

T = TypeVar("T")

ACK_EVERY = 4
"""After this many frames, an acknowledgement goes at once. It is well below OctopiA's threshold of
a queue (10), because unacknowledged frames count as queue: with 256, a link that carried 6000 a
second without effort looked overloaded a third of the time. A read of many frames is acknowledged
once, so that it costs a fast connection nothing."""
ACK_DELAY_S = 0.002


class Unacknowledged(Generic[T]):
    """Frames that were sent and not acknowledged, in order. An item is one frame, or several in one
    piece. `acknowledged`: the number of the last acknowledged frame; `last`: of the last frame
    sent.

    The lists keep a prefix of forgotten items, and drop it now and then: items come and go many at
    a time."""

    __slots__ = ("_ends", "_first", "_gone", "_kept", "acknowledged", "last")

    def __init__(self) -> None:
        self.acknowledged = self.last = 0
        self._first = 0  # the number of frames before the first item
        self._kept: list[T] = []
        self._ends: list[int] | None = (
            None  # the last frame of each item; None: each item is one frame
        )
        self._gone = 0

    def __len__(self) -> int:
        """Return the number of frames."""
        return self.last - self.acknowledged

    def __iter__(self) -> Iterator[T]:
        """Iterate over the items; for the first one see `partly`."""
        return islice(self._kept, self._gone, None)

    @property
    def partly(self) -> int:
        """Return how many frames of the first item are acknowledged, if others of it are not."""
        return self.acknowledged - self._first

    def add(self, item: T, frames: int = 1) -> None:
        """Add an item that goes out now, with the next number, or with as many numbers as it has
        frames."""
        if frames != 1 and self._ends is None:
            self._ends = list(range(self.last - len(self._kept) + 1, self.last + 1))
        self.last += frames
        self._kept.append(item)
        if self._ends is not None:
            self._ends.append(self.last)

    def add_all(self, items: Iterable[T]) -> None:
        """Add items that go out now, with the next numbers; each is a frame."""
        before = len(self._kept)
        self._kept += items
        first = self.last + 1
        self.last += len(self._kept) - before
        if self._ends is not None:
            self._ends.extend(range(first, self.last + 1))

    def acknowledge(self, number: int) -> list[T]:
        """Forget all frames up to `number`, which the other end has taken over; return the items
        that are complete by this. Raise `ProtocolError` if fewer were sent."""
        if not 0 <= number <= self.last:
            raise ProtocolError(
                f"acknowledgement of frame {number}, but only {self.last} were sent"
            )
        if number <= self.acknowledged:
            return []
        first, ends = self._gone, self._ends
        self.acknowledged = number
        if ends is None:
            self._first = number
            self._gone = gone = len(self._kept) - (self.last - number)
        else:
            self._gone = gone = bisect_right(ends, number, first)
            self._first = ends[gone - 1] if gone > first else self._first
        done = self._kept[first:gone]
        if 2 * gone >= len(self._kept):
            self._forget(gone)
        return done

    def _forget(self, count: int) -> None:
        """Drop the beginning of the lists."""
        del self._kept[:count]
        self._gone = 0
        if not self._kept:
            self._ends = None
        elif self._ends is not None:
            del self._ends[:count]

    def begin(self, acknowledged: int) -> list[T]:
        """Restart the numbers at `acknowledged`, as the other end does; forget all items, and
        return those that the other end has not taken over, or only `partly`."""
        kept = self._kept[self._gone :]
        self._kept.clear()
        self._ends = None
        self._gone = 0
        self.acknowledged = self._first = self.last = acknowledged
        return kept


class Taken:
    """Counts the numbered frames taken over from the other end. `count`: all of them; `told`: those
    acknowledged; `due_s`: when to check whether there is something to acknowledge."""

    __slots__ = ("count", "due_s", "told")

    def __init__(self) -> None:
        self.count = self.told = 0
        self.due_s = math.inf

    def begin(self, count: int) -> None:
        """Start to count at `count`, as the other end does."""
        self.count = self.told = count

    @property
    def untold(self) -> bool:
        return self.count > self.told

    def tell(self) -> int:
        """Return the number to acknowledge now."""
        self.told = self.count
        return self.count

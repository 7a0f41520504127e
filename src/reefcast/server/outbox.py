"""What waits to be written to one connection.

Rules
-----
- All that one turn of the event loop produces for a connection is written at once, at its end
  (`Flusher`): writes dominate the cost of a broker.
- Control messages and deliveries keep their order, so that `Settled` of an `Unsubscribe` comes
  after the last delivery. ACK, CREDIT, CONGESTION and PING overtake (`push_urgent`).
- Only deliveries count for the limit of a subscriber's queue; control messages pass.
- What is dropped is always the oldest, so all of it is missing in one place: before the first frame
  that waits. There DROPPED says how many (`drop_oldest`).
- The queue is what has not been written because the socket is not ready for more: `transport` says
  so by `pause_writing`. A burst that the socket takes is no queue.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from reefcast.model import wire
from reefcast.model.wire import LENGTH_BYTES, Dropped, FrameKind

FRAMES_PER_WRITE = 512
HIGH_WATER_BYTES = 256 * 1024
MOST_GROUPS = 1000
"""Of dropped deliveries that are told apart by their subscriptions, between two writes."""
_DELIVERIES = (int(FrameKind.DELIVER), int(FrameKind.DELIVER_AGAIN))
_KIND_AT = LENGTH_BYTES


class Flusher:
    """Flushes each outbox that was filled, once, at the end of the loop's turn."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._filled: list[Outbox] = []

    def add(self, outbox: Outbox) -> None:
        if not self._filled:
            self._loop.call_soon(self._flush)
        self._filled.append(outbox)

    def _flush(self) -> None:
        filled, self._filled = self._filled, []
        for outbox in filled:
            outbox.flush()


def _nothing() -> None:
    pass


class Outbox:
    """The frames for one connection.

    `limit` and `on_crowded` are set for subscribers: when more than `limit` deliveries wait,
    `on_crowded` is called with every further one; `on_drained` when, after that, half are left.
    `dropped`: deliveries that were dropped so far.
    """

    __slots__ = (
        "_controls",
        "_crowded",
        "_dirty",
        "_flusher",
        "_frames",
        "_gap",
        "_transport",
        "_untold",
        "_urgent",
        "dropped",
        "limit",
        "on_crowded",
        "on_drained",
        "paused",
        "wrote",
    )

    def __init__(self, transport: asyncio.WriteTransport, flusher: Flusher) -> None:
        self._transport = transport
        self._flusher = flusher
        self._frames: deque[bytes] = deque()
        self._urgent: list[bytes] = []
        self._controls = 0
        self._gap: dict[bytes, int] = {}
        self._untold = 0
        self._dirty = False
        self._crowded = False
        self.dropped = 0
        self.limit = sys.maxsize
        self.on_crowded: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.paused = False
        self.wrote = False
        transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    @property
    def queue_len(self) -> int:
        """Deliveries that wait for the socket (and those of this turn)."""
        return len(self._frames) - self._controls

    @property
    def empty(self) -> bool:
        """Whether all has been handed to the operating system."""
        waits = self._frames or self._urgent or self._untold
        return not (waits or self._transport.get_write_buffer_size())

    def push_data(self, frame: bytes) -> None:
        """A delivery, or any frame of a link between brokers."""
        self._frames.append(frame)
        if not self._dirty:
            self._mark()
        if len(self._frames) > self.limit:
            self._over_limit()

    def push_control(self, frame: bytes) -> None:
        """A control message to a client: in order with the deliveries, past their limit."""
        self._frames.append(frame)
        self._controls += 1
        if not self._dirty:
            self._mark()

    def push_urgent(self, frame: bytes) -> None:
        self._urgent.append(frame)
        if not self._dirty:
            self._mark()

    def _mark(self) -> None:
        self._dirty = True
        self._flusher.add(self)

    def flush(self) -> None:
        """Write all that waits, as far as the socket takes it."""
        self._dirty = False
        if self.paused:
            return
        write = self._transport.write
        if self._untold:
            write(self._word_of_gap())
        if self._urgent:
            write(b"".join(self._urgent))
            self._urgent.clear()
        frames = self._frames
        while frames and not self.paused:
            if len(frames) <= FRAMES_PER_WRITE:
                chunk = b"".join(frames)
                frames.clear()
                self._controls = 0
            else:
                chunk = b"".join([self._pop() for _ in range(FRAMES_PER_WRITE)])
            write(chunk)
        self.wrote = True
        if self._crowded and self.queue_len <= self.limit // 2:
            self._crowded = False
            self.on_drained()

    def _pop(self) -> bytes:
        frame = self._frames.popleft()
        if frame[_KIND_AT] not in _DELIVERIES and self._controls:
            self._controls -= 1
        return frame

    def resume(self) -> None:
        """The socket takes more."""
        self.paused = False
        if self._frames or self._urgent or self._untold:
            self.flush()

    def discard(self) -> None:
        """The connection is gone: what waits is given up, and nothing is written any more. (uvloop
        raises if it is, and the flush of all the others would end there.)"""
        self._frames.clear()
        self._urgent.clear()
        self._controls = self._untold = 0
        self._gap.clear()
        self.paused = True

    def end(self, last: bytes) -> None:
        """Write `last` and nothing more; what the socket was not ready for is given up."""
        self.flush()
        self.discard()
        if not self._transport.is_closing():
            self._transport.write(last)
            if self._transport.can_write_eof():
                with suppress(OSError):  # the other end may be gone before we hear of it
                    self._transport.write_eof()

    def _over_limit(self) -> None:
        if not self.paused:
            self.flush()
        if self.queue_len > self.limit:
            self._crowded = True
            self.on_crowded()

    def drop_oldest(self) -> bytes:
        """Take out the oldest delivery, which there must be; the client will be told. Control
        messages that are the first ones then will be written first: nothing is left before them."""
        frames = self._frames
        while frames[0][_KIND_AT] not in _DELIVERIES:
            self._urgent.append(frames.popleft())
            self._controls -= 1
        oldest = frames.popleft()
        self.dropped += 1
        self._untold += 1
        numbers, gap = wire.numbers_of(oldest), self._gap
        if numbers in gap:
            gap[numbers] += 1
        elif len(gap) < MOST_GROUPS:
            gap[numbers] = 1
        return oldest

    def _word_of_gap(self) -> bytes:
        """The frame that tells what was dropped since the last one."""
        groups = tuple((wire.decode_numbers(key), count) for key, count in self._gap.items())
        told = Dropped(self._untold, groups)
        self._gap.clear()
        self._untold = 0
        return wire.encode(FrameKind.DROPPED, told)

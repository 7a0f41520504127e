"""The frames that wait to be written to one connection.

Rules
-----
- All frames that one turn of the event loop produces for a connection are written at once, at the
  end of the turn (`Flusher`): writes dominate the cost of a broker.
- ACK, CONGESTION and PING overtake other frames (`push_urgent`).
- Frames queue up only while the socket is not ready for more: `transport` says so by
  `pause_writing`. A burst that the socket accepts is no queue."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

FRAMES_PER_WRITE = 512
HIGH_WATER_BYTES = 256 * 1024


class Flusher:
    """Flushes each filled outbox, once, at the end of the loop's turn."""

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


class Outbox:
    """The frames for one connection. `paused`: whether the socket accepts nothing now; `wrote`: set
    when something was written."""

    __slots__ = ("_dirty", "_flusher", "_frames", "_transport", "_urgent", "paused", "wrote")

    def __init__(self, transport: asyncio.WriteTransport | None, flusher: Flusher) -> None:
        self._transport = transport
        self._flusher = flusher
        self._frames: deque[bytes] = deque()
        self._urgent: list[bytes] = []
        self._dirty = False
        self.paused = False
        self.wrote = False
        if transport is not None:
            transport.set_write_buffer_limits(high=HIGH_WATER_BYTES)

    @property
    def waits(self) -> bool:
        """Whether there is something to write."""
        return bool(self._frames or self._urgent)

    def push_data(self, frame: bytes) -> None:
        """Queue a frame, to be written in order."""
        self._frames.append(frame)
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
        """Write all that waits, as far as the socket accepts it."""
        self._dirty = False
        if self.paused or self._transport is None:
            return
        write = self._transport.write
        if self._urgent:
            write(b"".join(self._urgent))
            self._urgent.clear()
        frames = self._frames
        while frames and not self.paused:
            if len(frames) <= FRAMES_PER_WRITE:
                chunk = b"".join(frames)
                frames.clear()
            else:
                chunk = b"".join([frames.popleft() for _ in range(FRAMES_PER_WRITE)])
            write(chunk)
        self.wrote = True

    def resume(self) -> None:
        """Resume writing: the socket has room again."""
        self.paused = False
        if self.waits:
            self.flush()

    def discard(self) -> None:
        """Discard what waits, because the connection is gone, and write nothing any more. (uvloop
        would raise, and the flush of all other outboxes would end there.)"""
        self._frames.clear()
        self._urgent.clear()
        self._transport = None

    def end(self, last: bytes) -> None:
        """Write `last` and nothing more; give up what the socket was not ready for."""
        self.flush()
        transport = self._transport
        self.discard()
        if transport is not None and not transport.is_closing():
            transport.write(last)
            if transport.can_write_eof():
                with suppress(OSError):  # the other end may be gone before this end learns of it
                    transport.write_eof()

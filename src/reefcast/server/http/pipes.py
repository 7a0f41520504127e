"""A connection within one process: what one end writes the other one reads, in the next turn of the
loop.

It behaves like TCP as far as brokers and clients can tell: bytes keep their order, an end that
reads nothing makes the other one pause (`HIGH_BYTES`), and what was
written before an end closed still arrives."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

HIGH_BYTES, LOW_BYTES = 256 * 1024, 64 * 1024
"""How many unread bytes pause who writes them, and how few resume him."""


class Pipe(asyncio.Transport):
    """One end. `shown`: what it knows of the other one. `begin` it with its protocol."""

    other: Pipe

    def __init__(self, shown: Mapping[str, Any]) -> None:
        super().__init__(dict(shown))
        self._loop = asyncio.get_running_loop()
        self._protocol: asyncio.Protocol
        self._unread: list[bytes] = []
        self._unread_bytes = 0
        self._reads = True
        self._due = False
        self._writer_paused = False
        self._closing = self._lost = False
        self._high = HIGH_BYTES

    def begin(self, protocol: asyncio.Protocol) -> None:
        """Make this the end of a protocol, which learns it at once."""
        self._protocol = protocol
        protocol.connection_made(self)

    # --- writing ----------------------------------------------------------------------------------

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        other = self.other
        if self._closing or other._lost or not data:
            return
        other._unread.append(bytes(data))
        other._unread_bytes += len(data)
        other._come_soon()
        if other._unread_bytes > self._high and not other._writer_paused:
            other._writer_paused = True
            self._protocol.pause_writing()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = HIGH_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        return self.other._unread_bytes

    def can_write_eof(self) -> bool:
        return False

    # --- reading ----------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._come_soon()

    def is_reading(self) -> bool:
        return self._reads and not self._closing

    def _come_soon(self) -> None:
        if not self._due and self._reads and not self._lost:
            self._due = True
            self._loop.call_soon(self._come)

    def _come(self) -> None:
        """Hand over what came; then that the other end has closed, if it has."""
        self._due = False
        if self._lost or not self._reads:
            return
        if self._unread:
            data = b"".join(self._unread)
            self._unread.clear()
            self._unread_bytes = 0
            if self._writer_paused:
                self._writer_paused = False
                if not self.other._lost:
                    self.other._protocol.resume_writing()
            if not self._closing:
                self._protocol.data_received(data)
        if self.other._closing and not self._unread:
            self._lose()

    # --- the end ----------------------------------------------------------------------------------

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Close: the other end learns it when it has read everything."""
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._lose)
            self.other._come_soon()

    def abort(self) -> None:
        """Close at once: what the other end has not read is lost."""
        self.other._unread.clear()
        self.other._unread_bytes = 0
        self.close()

    def _lose(self) -> None:
        if self._lost:
            return
        self._closing = self._lost = True
        self._unread.clear()
        self._unread_bytes = 0
        self._protocol.connection_lost(None)
        self.other._come_soon()


def pipe(shown: Mapping[str, Any]) -> tuple[Pipe, Pipe]:
    """Return the two ends of a connection; the second one knows what is `shown` of the first."""
    near, far = Pipe({}), Pipe(shown)
    near.other, far.other = far, near
    return near, far

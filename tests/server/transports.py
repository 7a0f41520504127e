"""A transport that is a list."""

from __future__ import annotations

from typing import Any


class Transport:
    """A transport that takes `room` writes, then pauses the outbox."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.room = 1_000_000
        self.outbox: Any = None
        self.closing = False

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def is_closing(self) -> bool:
        return self.closing

    def write(self, data: bytes) -> None:
        assert not self.closing, "uvloop would raise"
        self.writes.append(data)
        self.room -= 1
        if self.room <= 0 and self.outbox is not None:
            self.outbox.paused = True

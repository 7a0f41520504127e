"""Batches: several frames in one piece, as the compiled way of publications makes them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reefcast.model.wire import HEAD, LENGTH_BYTES


class Batch(msgspec.Struct, frozen=True, gc=False):
    """Whole frames, `count` of them, one behind the other."""

    data: bytes
    count: int

    def frames(self) -> Iterator[bytes]:
        """Give each by itself."""
        data, start = self.data, 0
        while start < len(data):
            end = _end(data, start)
            yield data[start:end]
            start = end

    def cut(self, count: int) -> tuple[Batch, Batch]:
        """Cut off the first `count` frames; return them, and the others."""
        data, end = self.data, 0
        for _ in range(count):
            end = _end(data, end)
        return Batch(data[:end], count), Batch(data[end:], self.count - count)


def _end(data: bytes, start: int) -> int:
    """Where the frame ends that begins at `start`."""
    length, _ = HEAD.unpack_from(data, start)
    return start + LENGTH_BYTES + int(length)


def each_frame(items: list[bytes | Batch]) -> list[bytes]:
    """Open all batches: frames, each by itself."""
    found: list[bytes] = []
    for item in items:
        if isinstance(item, bytes):
            found.append(item)
        else:
            found.extend(item.frames())
    return found

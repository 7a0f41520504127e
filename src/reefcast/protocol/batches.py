"""Batches: several frames in one bytes object, as the compiled path of publications makes them."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from reefcast.model.wire import HEAD, LENGTH_BYTES


class Batch(msgspec.Struct, frozen=True, gc=False):
    """A sequence of `count` whole frames in one bytes object."""

    data: bytes
    count: int

    def frames(self) -> Iterator[bytes]:
        """Yield the frames one by one."""
        data, start = self.data, 0
        while start < len(data):
            end = _end(data, start)
            yield data[start:end]
            start = end

    def cut(self, count: int) -> tuple[Batch, Batch]:
        """Return the first `count` frames, and the others."""
        data, end = self.data, 0
        for _ in range(count):
            end = _end(data, end)
        return Batch(data[:end], count), Batch(data[end:], self.count - count)


def _end(data: bytes, start: int) -> int:
    """Return the end of the frame that begins at `start`."""
    length, _ = HEAD.unpack_from(data, start)
    return start + LENGTH_BYTES + int(length)


def each_frame(items: list[bytes | Batch]) -> list[bytes]:
    """Return the frames of all items, one by one."""
    found: list[bytes] = []
    for item in items:
        if isinstance(item, bytes):
            found.append(item)
        else:
            found.extend(item.frames())
    return found

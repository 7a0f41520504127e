"""Cutting a stream of bytes into frames (see `model.wire`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from reefcast.errors import ProtocolError
from reefcast.model.wire import HEAD, HEAD_BYTES, LENGTH_BYTES, MAX_FRAME_BYTES, FrameKind

_PUBLICATIONS = (int(FrameKind.PUBLISH), int(FrameKind.PUBLISH_AGAIN))
TLS = b"\x16\x03"
"""How the first bytes of TLS begin (RFC 8446, section 5.1)."""
TLS_HINT = ": the other end speaks TLS, and this one does not"
RUN = -1
"""Stands for the kind of frames that a cutter took: see `FrameReader`."""
Cutter = Callable[[bytes, int], tuple[Any, int]]
"""Takes the consecutive PUBLISH frames that begin with the whole one at this position of the bytes;
returns them in a form of its own, and the position where they end."""


class FrameReader:
    """Cuts a stream of bytes into frames: feed it the bytes of each read, and iterate over the
    frames that are complete.

    With a `cutter`, PUBLISH frames come as the cutter returns them, with `RUN` as their kind.

    The chunks of an incomplete frame are joined once, when its last chunk has come. `max_bytes`
    bounds a frame's length; it may be changed between two calls of `feed`."""

    def __init__(self, max_bytes: int = MAX_FRAME_BYTES) -> None:
        self.max_bytes = max_bytes
        self.cutter: Cutter | None = None
        self._chunks: list[bytes] = []
        self._have = 0
        self._need = HEAD_BYTES

    def begin_run(self, data: bytes) -> tuple[Any, bytes]:
        """Return the run that `data` begins with, if it begins with a whole PUBLISH frame and there
        is a `cutter`, else None; and the bytes behind the run, which must be fed. Most reads of a
        broker are one run, and this costs less than a generator."""
        if self._have or self.cutter is None or len(data) < HEAD_BYTES:
            return None, data
        length, kind = HEAD.unpack_from(data)
        is_whole = 1 <= length <= self.max_bytes and LENGTH_BYTES + length <= len(data)
        if kind not in _PUBLICATIONS or not is_whole:
            return None, data
        run, end = self.cutter(data, 0)
        return run, b"" if end == len(data) else data[end:]

    def feed(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """Yield (kind, payload) of each frame that is complete now; raise `ProtocolError` on an
        impossible length."""
        if self._have:
            self._chunks.append(data)
            self._have += len(data)
            if self._have < self._need:
                return
            data = b"".join(self._chunks)
            self._chunks.clear()
            self._have = 0
        start, size = 0, len(data)
        self._need = HEAD_BYTES
        while size - start >= HEAD_BYTES:
            length, kind = HEAD.unpack_from(data, start)
            if not 1 <= length <= self.max_bytes:
                raise ProtocolError(
                    f"frame of {length} bytes; a frame has 1 to {self.max_bytes} bytes"
                    f"{TLS_HINT if data.startswith(TLS) else ''}"
                )
            end = start + LENGTH_BYTES + length
            if end > size:
                self._need = end - start
                break
            if kind in _PUBLICATIONS and self.cutter is not None:
                run, end = self.cutter(data, start)
                yield RUN, run
            else:
                yield kind, data[start + HEAD_BYTES : end]
            start = end
        if start < size:
            self._chunks.append(data[start:])
            self._have = size - start

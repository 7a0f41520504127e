"""The layout of a frame's bytes, declared once: `wire` and `protocol.frames` read and write them in
Python, `matching.passage.frames` in compiled code; all take offsets and sizes from here.

Every frame begins with `HEAD`; that of a publication (PUBLISH, DELIVER, and the same AGAIN) with
`PARTS`, behind which its header stands, and then its body. Numbers are big endian. The length
counts what stands behind it."""

from __future__ import annotations

import struct
from itertools import accumulate
from typing import NamedTuple

_CODES = {1: "B", 4: "I"}
"""The codes of `struct` for a number of so many bytes."""


class Field(NamedTuple):
    """A number within a frame: `at` bytes from its beginning, `size` bytes long."""

    at: int
    size: int


class Layout(tuple[Field, ...]):
    """Consecutive fields."""

    __slots__ = ()

    @property
    def bytes(self) -> int:
        """The size of the fields in bytes."""
        return sum(field.size for field in self)

    @property
    def counted(self) -> int:
        """The part of this size that the length in the first field counts."""
        return self.bytes - self[0].size

    def packing(self) -> struct.Struct:
        """Return what packs and unpacks these fields, in this order."""
        return struct.Struct(">" + "".join(_CODES[field.size] for field in self))


def _one_behind_the_other(*sizes: int) -> Layout:
    return Layout(map(Field, accumulate(sizes, initial=0), sizes))


PARTS = _one_behind_the_other(4, 1, 4)
LENGTH, KIND, HEADER_LENGTH = PARTS
HEAD = Layout(PARTS[:2])
MAX_FRAME_BYTES = 16 * 1024 * 1024
"""The largest length that a frame may have."""

"""String constants of the filters, each with a code: a small number that the kernels compare."""

from __future__ import annotations

import numpy as np

from reefcast.matching.kernels import STRING_ENTRY, fill_buckets, hash_bytes
from reefcast.matching.old_machine import Array


def grown(array: Array, needed: int) -> Array:
    """`array` if it has `needed` places, else a copy twice as long or longer."""
    if needed <= len(array):
        return array
    larger = np.empty(max(needed, 2 * len(array)), array.dtype)
    larger[: len(array)] = array
    return larger


class Strings:
    """Codes count from 0 in the order of interning; `keep` drops those no longer in use.

    The compiled side is a hash table with open addressing, at most half full: `buckets` (codes),
    `entries` (hash and place of each code's text), `characters` (UTF-8 of all).
    """

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._used = 0  # characters
        self.entries = np.empty(32, STRING_ENTRY)
        self.buckets = np.full(64, -1, np.int32)
        self.characters = np.empty(256, np.uint8)

    def __len__(self) -> int:
        return len(self._codes)

    def code(self, text: str) -> int:
        """The code of `text`, which gets one if it has none."""
        code = self._codes.get(text)
        if code is None:
            code = self._codes[text] = len(self._codes)
            self._enter(code, text.encode())
        return code

    def keep(self, codes: Array) -> None:
        """Drops all strings but those with these (ascending) codes, which become 0, 1, 2, ..."""
        texts = list(self._codes)
        kept = [texts[code] for code in codes.tolist()]
        if len(kept) < len(texts):
            self.__init__()  # type: ignore[misc]
            for text in kept:
                self.code(text)

    def _enter(self, code: int, data: bytes) -> None:
        start, end = self._used, self._used + len(data)
        self.characters = grown(self.characters, end)
        self.characters[start:end] = np.frombuffer(data, np.uint8)
        self.entries = grown(self.entries, code + 1)
        self.entries[code] = (hash_bytes(self.characters, start, len(data)), start, len(data))
        self._used = end
        first = code
        if 2 * code >= len(self.buckets):
            self.buckets = np.full(4 * len(self.buckets), -1, np.int32)
            first = 0
        fill_buckets(self.entries, self.buckets, first, code + 1)

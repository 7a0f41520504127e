"""The keys of an index and the handles of their filters, in tables that grow without a long pause.

A dict with a million keys takes 40 ms to grow. So many keys are in many dicts, by hash, each of
which grows by itself; and the array of the keys grows by steps, in place."""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Any, Generic, TypeVar

import numpy as np

from reefcast.matching.machine import Array
from reefcast.model.publication import INT64_MAX, INT64_MIN

K = TypeVar("K", bound=Hashable)

FIRST_ROOM, STEP = 64, 1 << 16
"""Handles for which there is room at first; how many more there is room for at once, at most."""
FEW, PARTS = 1 << 14, 509
"""So many keys are in one dict; more are in `PARTS` dicts, a prime number of them."""
SMALL_INTS = 257
"""Integers that CPython keeps once; others have 32 bytes each."""


class Keys(Generic[K]):
    """`array`: the keys by handle, as int64 as long as all are such numbers: to return a thousand
    objects that are scattered in memory takes longer than to find them."""

    def __init__(self) -> None:
        self.array: Array = np.empty(FIRST_ROOM, np.int64)
        self._parts: list[dict[K, int]] = [{}]
        self._count = 0
        self._given = 0  # handles given out so far
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._count

    def _part_of(self, key: K) -> dict[K, int]:
        parts = self._parts
        return parts[0] if len(parts) == 1 else parts[hash(key) % PARTS]

    def handle_of(self, key: K) -> int | None:
        """Return the handle of a key; None for one that was not entered."""
        return self._part_of(key).get(key)

    def items(self) -> Iterable[tuple[K, int]]:
        """Return each key with its handle."""
        return chain.from_iterable(part.items() for part in self._parts)

    def memory_bytes(self) -> int:
        """Return the bytes of the tables, and of handles; not of keys."""
        numbers = 32 * max(0, self._count - SMALL_INTS)
        return numbers + self.array.nbytes + sum(map(sys.getsizeof, self._parts))

    # --- changes ----------------------------------------------------------------------------------

    def new_handle(self, key: K) -> int:
        """Return a free handle, at which `array` has the key. It is to be entered."""
        if self._free:
            handle = self._free.pop()
        else:
            handle = self._given
            if handle == len(self.array):
                self.array.resize(handle + min(handle, STEP), refcheck=False)
            self._given += 1
        self._put(handle, key)
        return handle

    def _put(self, handle: int, key: Any) -> None:
        is_int = type(key) is int and INT64_MIN <= key <= INT64_MAX
        if not is_int and self.array.dtype != object:
            self.array = self.array.astype(object)
        self.array[handle] = key

    def enter(self, key: K, handle: int) -> None:
        """Enter a key with its new handle."""
        self._part_of(key)[key] = handle
        self._count += 1
        if self._count > FEW and len(self._parts) == 1:
            self._split()

    def _split(self) -> None:
        (whole,) = self._parts
        self._parts = [{} for _ in range(PARTS)]
        for key, handle in whole.items():
            self._part_of(key)[key] = handle

    def remove(self, key: K) -> int:
        """Remove a key that was entered; return its handle, which is free then."""
        handle = self._part_of(key).pop(key)
        self._count -= 1
        self._free.append(handle)
        if self.array.dtype == object:
            self.array[handle] = None
        return handle

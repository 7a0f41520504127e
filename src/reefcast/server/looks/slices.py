"""Looking through many things in slices, between which the broker does other things."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import islice
from typing import Any, TypeVar

from reefcast.server.metrics.summing import SLICE

T = TypeVar("T")


async def slices(many: Sequence[T]) -> AsyncIterator[Sequence[T]]:
    """Yield parts of `many`, each less than a millisecond's work."""
    for start in range(0, len(many), SLICE):
        if start:
            await asyncio.sleep(0)
        yield many[start : start + SLICE]


async def in_order(
    many: Sequence[T], key: Callable[[T], Any], skip: int, most: int, *, descending: bool
) -> list[T]:
    """Return `most` of these behind the first `skip`, sorted by `key`."""
    runs = [sorted(some, key=key, reverse=descending) async for some in slices(many)]
    merged, found = heapq.merge(*runs, key=key, reverse=descending), list[T]()
    left = skip
    while left > 0:
        step = min(left, SLICE)
        if len(list(islice(merged, step))) < step:
            return []
        left -= step
        await asyncio.sleep(0)
    found.extend(islice(merged, most))
    return found

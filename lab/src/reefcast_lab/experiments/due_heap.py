"""A heap of links by when the next message on each is due, compiled: what is due at one time comes
in the order of the links' ranks, as in the simulator's kernel.

Messages under way on a link are a list: `first` and `last` of them by link, -1 for none, and
`following` by message. The caller keeps how many links there are in the heap."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit

Numbers = NDArray[np.int64]
Seconds = NDArray[np.float64]


@njit(cache=True)
def _before(due: Seconds, a: int, b: int) -> bool:
    return bool(due[a] < due[b] or (due[a] == due[b] and a < b))


@njit(cache=True)
def sift_down(heap: Numbers, size: int, due: Seconds) -> None:
    """Bring the first of the heap to where it belongs."""
    at, moved = 0, heap[0]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(due, heap[child + 1], heap[child]):
            child += 1
        if not _before(due, heap[child], moved):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = moved


@njit(cache=True)
def push(heap: Numbers, size: int, due: Seconds, rank: int) -> None:
    """Put a link into a heap of so many."""
    at = size
    while at and _before(due, rank, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = rank


@njit(cache=True)
def next_due(heap: Numbers, size: int, due: Seconds, at: float) -> int:
    """Let the first of the heap be due at `at`; inf: not any more. Return how many there are."""
    if at < np.inf:
        due[heap[0]] = at
    else:
        size -= 1
        heap[0] = heap[size]
    if size:
        sift_down(heap, size, due)
    return size


@njit(cache=True)
def follow(
    heap: Numbers,
    size: int,
    due: Seconds,
    first: Numbers,
    last: Numbers,
    following: Numbers,
    link: int,
    message: int,
    arrival: float,
) -> int:
    """Put a message behind those under way on a link; return how many links are in the heap."""
    following[message] = -1
    if last[link] < 0:
        first[link] = message
        due[link] = arrival
        push(heap, size, due, link)
        size += 1
    else:
        following[last[link]] = message
    last[link] = message
    return size

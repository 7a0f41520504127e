"""Messages under way on links, for compiled event loops: what is due at one time comes in the
order of the links' ranks, as in the simulator's kernel.

A heap has the links by when the first message on each is due; what is behind it on its link waits
in a list. The array `now` of a loop begins with what this module keeps there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit
from reefcast.simulation.world import CLIENT_RANK

Numbers = NDArray[np.int64]
Seconds = NDArray[np.float64]

CLIENT = CLIENT_RANK
"""The rank of what is published next, in place of a link's."""
HEAP, FREE, SPARE = range(3)
"""What is in the array `now`: how many links are in the heap; the first unused message, and how
many are."""
KEPT = SPARE + 1
"""How many numbers that is."""


class UnderWay(NamedTuple):
    """`heap`: of ranks. By rank: `due`, when the first message arrives; `first` and `last` of
    them, -1 for none. By message: `arrival`; `next`, the one behind it on its link, or in the list
    of what is unused; -1 for none."""

    heap: Numbers
    due: Seconds
    first: Numbers
    last: Numbers
    arrival: Seconds
    next: Numbers


@njit(cache=True)
def _before(due: Seconds, a: int, b: int) -> bool:
    return bool(due[a] < due[b] or (due[a] == due[b] and a < b))


@njit(cache=True)
def _sift_down(heap: Numbers, size: int, due: Seconds) -> None:
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
def _push(heap: Numbers, size: int, due: Seconds, rank: int) -> None:
    """Put a link into a heap of so many."""
    at = size
    while at and _before(due, rank, heap[(at - 1) // 2]):
        heap[at] = heap[(at - 1) // 2]
        at = (at - 1) // 2
    heap[at] = rank


@njit(cache=True)
def next_due(way: UnderWay, now: Numbers, at: float) -> None:
    """Let the first of the heap be due at `at`; inf: not any more."""
    if at < np.inf:
        way.due[way.heap[0]] = at
    else:
        now[HEAP] -= 1
        way.heap[0] = way.heap[now[HEAP]]
    if now[HEAP]:
        _sift_down(way.heap, now[HEAP], way.due)


@njit(cache=True)
def take(way: UnderWay, now: Numbers) -> int:
    """Take the message that arrives next, by the first link of the heap (for a client's
    publication, see `next_due`); return its number, which is unused from now on."""
    top = way.heap[0]
    one = way.first[top]
    after = way.next[one]
    way.next[one] = now[FREE]
    now[FREE] = one
    now[SPARE] += 1
    way.first[top] = after
    if after < 0:
        way.last[top] = -1
    next_due(way, now, way.arrival[after] if after >= 0 else np.inf)
    return int(one)


@njit(cache=True)
def put(way: UnderWay, now: Numbers, link: int, arrival: float) -> int:
    """Put an unused message, of which there must be one, behind those under way on a link; return
    its number."""
    one = now[FREE]
    now[FREE] = way.next[one]
    now[SPARE] -= 1
    way.arrival[one], way.next[one] = arrival, -1
    if way.last[link] < 0:
        way.first[link] = one
        way.due[link] = arrival
        _push(way.heap, now[HEAP], way.due, link)
        now[HEAP] += 1
    else:
        way.next[way.last[link]] = one
    way.last[link] = one
    return int(one)


# --- for those who call a loop --------------------------------------------------------------------


def nothing_under_way(ranks: int, messages: int, now: Numbers) -> UnderWay:
    """Make room for so many messages on links with ranks below this."""
    now[HEAP], now[FREE], now[SPARE] = 0, 0, messages
    return UnderWay(
        heap=np.zeros(ranks, np.int64),
        due=np.zeros(ranks),
        first=np.full(ranks, -1, np.int64),
        last=np.full(ranks, -1, np.int64),
        arrival=np.zeros(messages),
        next=free_list(0, messages, -1),
    )


def begin(way: UnderWay, now: Numbers, at_s: float) -> None:
    """Let the first publication be due, where no other is."""
    way.due[CLIENT] = at_s
    _push(way.heap, now[HEAP], way.due, CLIENT)
    now[HEAP] += 1


def longer_way(way: UnderWay, now: Numbers) -> UnderWay:
    """Make room for twice as many messages, which `now` counts as unused from now on; columns of
    the loop's own must grow with it."""
    size = len(way.next)
    more = free_list(size, 2 * size, int(now[FREE]))
    now[FREE] = size
    now[SPARE] += size
    return way._replace(arrival=twice(way.arrival), next=np.concatenate((way.next, more)))


def twice(array: Any) -> Any:
    """Return an array with as many zeros behind it."""
    return np.concatenate((array, np.zeros_like(array)))


def free_list(first: int, end: int, after: int) -> Numbers:
    """Return the successors in a list of these numbers, all unused, with `after` behind the
    last."""
    following = np.arange(first + 1, end + 1, dtype=np.int64)
    following[-1] = after
    return following

"""The simulator's event loop for publications between two control messages, compiled.

It does what `simulation.kernel` does with publications on a tree without faults, timers and jitter,
operation by operation, so that every time is the same number. What a broker does with one depends
on its kind (`kinds`) and on how many rows want that kind: the caller keeps these numbers, and stops
the loop before each control message.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit
from reefcast_lab.experiments.under_way import (
    CLIENT,
    HEAP,
    KEPT,
    SPARE,
    Numbers,
    Seconds,
    UnderWay,
    next_due,
    put,
    take,
)

Rows = NDArray[np.int32]

NEXT, DELIVERIES, SENT, UNWANTED = range(KEPT, KEPT + 4)
NOW = UNWANTED + 1
"""What is in the array `now` behind what `under_way` keeps there: the next publication;
deliveries; messages put on links; publications that nobody wanted where they were published."""


class Brokers(NamedTuple):
    """`first_link`: the links of broker i are those from its number to the next one's. `wanted`: by
    broker and kind, subscriptions of its own clients. `rows`: of its PRT. `spent_s`: of CPU for
    publications. `useless`: publications of neighbours that nobody here or beyond wanted.
    `watched`: its row of `Samples.change`; -1 for none."""

    busy_until: Seconds
    first_link: Numbers
    wanted: Rows
    rows: Numbers
    spent_s: Seconds
    useless: Numbers
    watched: Numbers


class Links(NamedTuple):
    """By rank. `target`: the broker where it leads. `back`: the rank of the link the other way.
    `wanted`: by rank and kind, rows that lead there."""

    target: Numbers
    back: Numbers
    bytes_per_s: Seconds
    latency_s: Seconds
    free_at: Seconds
    wanted: Rows


class Publications(NamedTuple):
    """In the order in which they are published. `stamp_s`: when, as it stands in them."""

    at_s: Seconds
    stamp_s: Seconds
    size: Numbers
    kind: Numbers
    broker: Numbers


class Room(NamedTuple):
    """`pub`: of messages under way. The rest is of deliveries."""

    pub: Numbers
    at_s: Seconds
    delay_s: Seconds
    width: Numbers


class Samples(NamedTuple):
    """When samples are taken, and by how much each broker's inputs are more than at the one
    before."""

    at_s: Seconds
    change: Numbers


class Costs(NamedTuple):
    """Prices of a publication (`simulation.costs.CostModel`); `watched_from_s`: see
    `CoverKernel`."""

    publication_s: float
    matched_row_s: float
    table_row_s: float
    copy_s: float
    watched_from_s: float


@njit(cache=True)
def _send(
    links: Links, room: Room, way: UnderWay, now: Numbers, link: int, pub: int, size: int, at: float
) -> None:
    """Put a copy on a link (`Kernel._leave_now`)."""
    end = max(links.free_at[link], at) + size / links.bytes_per_s[link]
    links.free_at[link] = end
    one = put(way, now, link, end + links.latency_s[link])
    room.pub[one] = pub
    now[SENT] += 1


@njit(cache=True)
def _take(publications: Publications, room: Room, way: UnderWay, now: Numbers) -> int:
    """Take the next publication that arrives anywhere; return its number."""
    if way.heap[0] == CLIENT:
        pub = now[NEXT]
        now[NEXT] += 1
        more = now[NEXT] < len(publications.at_s)
        next_due(way, now, publications.at_s[now[NEXT]] if more else np.inf)
    else:
        pub = room.pub[take(way, now)]
    return int(pub)


@njit(cache=True)
def run(
    brokers: Brokers,
    links: Links,
    publications: Publications,
    room: Room,
    samples: Samples,
    way: UnderWay,
    now: Numbers,
    costs: Costs,
    due: float,
    rank: int,
) -> bool:
    """Serve the publications that arrive before what is `due` on the link of this `rank`. Return
    False where there is no room for the next one."""
    most = len(links.target)
    while now[HEAP]:
        top = way.heap[0]
        arrival = way.due[top]
        if arrival > due or (arrival == due and top >= rank):
            return True
        if now[SPARE] < most or now[DELIVERIES] == len(room.at_s):
            return False
        pub = _take(publications, room, way, now)
        broker = publications.broker[pub] if top == CLIENT else links.target[top]
        back = -1 if top == CLIENT else links.back[top]
        kind = publications.kind[pub]
        width = brokers.wanted[broker, kind]
        matched = copies = width
        for link in range(brokers.first_link[broker], brokers.first_link[broker + 1]):
            rows = links.wanted[link, kind]
            matched += rows
            copies += rows > 0 and link != back
        if not copies and top == CLIENT:
            copies = 1  # it is discarded, which counts as one
            now[UNWANTED] += 1
        start = max(arrival, brokers.busy_until[broker])
        matching_s = costs.matched_row_s * matched + costs.table_row_s * brokers.rows[broker]
        at = start + (costs.publication_s + matching_s + costs.copy_s * copies)
        brokers.busy_until[broker] = at
        if start >= costs.watched_from_s:
            brokers.spent_s[broker] += at - start
        brokers.useless[broker] += copies == 0
        if brokers.watched[broker] >= 0:
            note(samples, brokers.watched[broker], arrival, at)
        for link in range(brokers.first_link[broker], brokers.first_link[broker + 1]):
            if links.wanted[link, kind] > 0 and link != back:
                _send(links, room, way, now, link, pub, publications.size[pub], at)
        if width:
            row = now[DELIVERIES]
            room.at_s[row], room.width[row] = at, width
            room.delay_s[row] = at - publications.stamp_s[pub]
            now[DELIVERIES] += 1
    return True


@njit(cache=True)
def note(samples: Samples, broker: int, arrival: float, end: float) -> None:
    """Note that an input came to a broker, and when its service ended."""
    samples.change[broker, np.searchsorted(samples.at_s, arrival, side="right")] += 1
    samples.change[broker, np.searchsorted(samples.at_s, end)] -= 1

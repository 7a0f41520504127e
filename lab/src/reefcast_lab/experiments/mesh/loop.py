"""The simulator's event loop for publications in a mesh between two control messages, compiled.

It does what `simulation.kernel` and the brokers' cores do with publications where nothing costs
anything but the time for each, operation by operation, so that every time is the same number. What
a broker decides follows from the anchors of the subscriptions that match, its maps (`routing.mesh`:
`maps`, `strategies`), and the rate at which it sends (SH). Maps, and what timers do, are the
caller's: it stops the loop before each control message, and the loop stops where a broker's timer
comes first.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from reefcast.matching.kernel_cache import njit
from reefcast.routing.links import WINDOW_S
from reefcast.routing.mesh.overlay import RATE_S
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

Flags = NDArray[np.bool_]
Places = NDArray[np.int16]

WAITS, FULL, TIMER = range(3)
"""Why the loop stopped: a control message is due, or nothing is under way; there is no room for
another publication; a timer comes first, that of the broker `WHERE`."""
NEXT, DELIVERIES, SENT, WHERE = range(KEPT, KEPT + 4)
NOW = WHERE + 1
"""What is in the array `now` besides: the next publication, deliveries, messages put on links."""
MOST = 62
"""The most neighbours of a broker: a bit for each, in an int64."""
HERE, NONE = -1, -2
"""In place of an anchor: the subscriber is at this broker; the broker has no such row."""


class Brokers(NamedTuple):
    """`timer_due`: of the next timer. `window_s`, `in_window`, `in_period`, `direct`: of the rate
    that SH depends on, and the strategy that follows (`MeshOverlay._sent`). `sent`: by strategy
    (S1, S2), broker and neighbour or candidate, publications that it would carry (`mesh.traffic`).
    `to`, `out`: publications that each was sent, and sent."""

    busy_until: Seconds
    free_at: Seconds
    timer_due: Seconds
    window_s: Seconds
    in_window: Numbers
    in_period: Numbers
    direct: Flags
    sent: NDArray[np.int64]
    to: Numbers
    out: Numbers


class Maps(NamedTuple):
    """The WOMs (`routing.mesh.maps`), by broker. `neighbours`: how many; `neighbour`: the numbers
    of their brokers; `counted`: which of them to count. `place`: by broker."""

    neighbours: Numbers
    neighbour: NDArray[np.int32]
    counted: Flags
    place: Places
    between: NDArray[np.int64]
    beyond: NDArray[np.int64]
    behind: NDArray[np.int64]


class Links(NamedTuple):
    """`rank`: by the two brokers. By rank: `source`, `target`; and by rank of a primary link, the
    copies put on it in `window`, and in the one before."""

    rank: NDArray[np.int32]
    source: Numbers
    target: Numbers
    window: Numbers
    in_window: Numbers
    before: Numbers


class Network(NamedTuple):
    """`real`, `tried`: the maps of links, and of these and candidates. `anchors`: by subscription
    and broker."""

    brokers: Brokers
    real: Maps
    tried: Maps
    anchors: Places
    links: Links


class Publications(NamedTuple):
    """In the order in which they are published. `stamp_s`: when, as it stands in them. Each matches
    subscriptions `matched` from its place in `first` to the next one's."""

    at_s: Seconds
    stamp_s: Seconds
    size: Numbers
    broker: Numbers
    first: Numbers
    matched: NDArray[np.int32]


class Room(NamedTuple):
    """`pub`, `hops` (links crossed), `end` (of transmission): of messages under way. `crossed`
    (links), `delay_s`: of deliveries. `over_time`: messages sent, by intervals of `Limits.curve_s`;
    the last has all later ones."""

    pub: Numbers
    hops: Numbers
    end: Seconds
    crossed: Numbers
    delay_s: Seconds
    over_time: Numbers


class Limits(NamedTuple):
    """`publication_s`: for each publication that comes. `capacity_per_s`, `threshold`: of SH
    (`hybrid`). `until_s`: nothing begins then or later, and what is not over by then has no
    effect."""

    publication_s: float
    bytes_per_s: float
    latency_s: float
    capacity_per_s: float
    threshold: float
    hybrid: bool
    until_s: float
    curve_s: float


@njit(cache=True)
def _s1(maps: Maps, broker: int, anchors: int) -> int:
    """Return the neighbours that get copies (`strategies.s1`)."""
    shared, most = 0, maps.neighbours[broker]
    for i in range(most):
        if anchors >> i & 1:
            between = maps.between[broker, i]
            if shared & between:
                shared &= between | maps.behind[broker, i]
            else:
                shared |= between
    forward = 0
    for i in range(most - 1, -1, -1):
        if shared >> i & 1 and anchors & maps.beyond[broker, i]:
            forward |= 1 << i
            anchors &= ~maps.beyond[broker, i]
    return forward


@njit(cache=True)
def _s2(maps: Maps, broker: int, anchors: int) -> int:
    """Return the neighbours that get copies (`strategies.s2`)."""
    forward = 0
    for i in range(maps.neighbours[broker]):
        if anchors >> i & 1:
            forward |= 1 << i
            anchors &= ~maps.beyond[broker, i]
    return forward


@njit(cache=True)
def _count(brokers: Brokers, maps: Maps, broker: int, direct: bool, anchors: int) -> int:
    """Count a publication for the links that it takes with one strategy; return them."""
    forward = _s2(maps, broker, anchors) if direct else _s1(maps, broker, anchors)
    mode = 1 if direct else 0
    for i in range(maps.neighbours[broker]):
        if forward >> i & 1 and maps.counted[broker, i]:
            brokers.sent[mode, broker, maps.neighbour[broker, i]] += 1
    return forward


@njit(cache=True)
def _found(
    maps: Maps, broker: int, anchors: Places, publications: Publications, pub: int, source: int
) -> tuple[int, bool]:
    """Return the neighbours that lead to anchors of what a publication matches, without those in
    the branch that it came from; and whether anybody wants it here."""
    left, here = 0, False
    for k in range(publications.first[pub], publications.first[pub + 1]):
        anchor = anchors[publications.matched[k], broker]
        if anchor >= 0:
            left |= 1 << maps.place[broker, anchor]
        elif anchor == HERE:
            here = True
    if source >= 0:
        left &= maps.behind[broker, maps.place[broker, source]]
    return left, here


@njit(cache=True)
def _rate(brokers: Brokers, broker: int, copies: int, start: float, limits: Limits) -> None:
    """Count copies for the rate that SH depends on (`MeshOverlay._sent`)."""
    over_s = start - brokers.window_s[broker]
    if over_s >= RATE_S:
        if limits.hybrid:
            load = 0.0
            if limits.capacity_per_s > 0:
                load = brokers.in_window[broker] / over_s / limits.capacity_per_s
            brokers.direct[broker] = load <= limits.threshold
        brokers.window_s[broker] = start
        brokers.in_window[broker] = 0
    brokers.in_window[broker] += copies
    brokers.in_period[broker] += copies


@njit(cache=True)
def count_copy(links: Links, rank: int, start: float) -> None:
    """Count a copy for the rate of a primary link (`routing.links.Links`)."""
    window = int(start / WINDOW_S)
    if links.window[rank] != window:
        follows = links.window[rank] == window - 1
        links.before[rank] = links.in_window[rank] if follows else 0
        links.in_window[rank] = 0
        links.window[rank] = window
    links.in_window[rank] += 1


def copies_in(links: Links, rank: int, window: int) -> int:
    """Return the copies put on a primary link in a window, the present one or the one before."""
    if links.window[rank] == window:
        return int(links.in_window[rank])
    return int(links.before[rank]) if links.window[rank] == window + 1 else 0


@njit(cache=True)
def _send(
    brokers: Brokers,
    links: Links,
    way: UnderWay,
    room: Room,
    now: Numbers,
    limits: Limits,
    broker: int,
    to: int,
    pub: int,
    size: int,
    hops: int,
    at: float,
) -> None:
    """Put a copy on a link (`Kernel._leave_now`)."""
    end = max(brokers.free_at[broker], at) + size / limits.bytes_per_s
    brokers.free_at[broker] = end
    one = put(way, now, links.rank[broker, to], end + limits.latency_s)
    room.pub[one], room.hops[one], room.end[one] = pub, hops, end
    brokers.out[broker] += 1
    brokers.to[to] += 1
    room.over_time[min(int(at / limits.curve_s), len(room.over_time) - 1)] += 1
    now[SENT] += 1


@njit(cache=True)
def _serve(
    network: Network,
    publications: Publications,
    way: UnderWay,
    room: Room,
    now: Numbers,
    limits: Limits,
    broker: int,
    source: int,
    pub: int,
    hops: int,
    start: float,
) -> None:
    """Serve a publication that came from the broker `source`, -1 for a client."""
    brokers, real, tried, anchors, links = network
    at = start + limits.publication_s
    brokers.busy_until[broker] = at
    left, here = _found(real, broker, anchors, publications, pub, source)
    in_time = at <= limits.until_s
    if left:
        direct = brokers.direct[broker]
        forward = _count(brokers, real, broker, direct, left)
        if limits.hybrid:
            _count(brokers, real, broker, not direct, left)
        if tried.neighbours[broker]:
            left, _ = _found(tried, broker, anchors, publications, pub, source)
            _count(brokers, tried, broker, direct, left)
            if limits.hybrid:
                _count(brokers, tried, broker, not direct, left)
        copies = 0
        for i in range(real.neighbours[broker]):
            if forward >> i & 1:
                copies += 1
                to = real.neighbour[broker, i]
                rank = links.rank[broker, to]
                if rank < len(links.window):
                    count_copy(links, rank, start)
                if in_time:
                    size = publications.size[pub]
                    _send(
                        brokers, links, way, room, now, limits, broker, to, pub, size, hops + 1, at
                    )
        _rate(brokers, broker, copies, start, limits)
    if here and hops and in_time:
        row = now[DELIVERIES]
        room.crossed[row], room.delay_s[row] = hops, at - publications.stamp_s[pub]
        now[DELIVERIES] += 1


@njit(cache=True)
def run(
    network: Network,
    publications: Publications,
    way: UnderWay,
    room: Room,
    now: Numbers,
    limits: Limits,
    due: float,
    rank: int,
) -> int:
    """Serve the publications that arrive before what is `due` on the link of this `rank`; return
    why that ended."""
    brokers, links = network.brokers, network.links
    while now[HEAP]:
        top = way.heap[0]
        arrival = way.due[top]
        if arrival > due or (arrival == due and top >= rank):
            return WAITS
        if now[SPARE] < MOST or now[DELIVERIES] == len(room.delay_s):
            return FULL
        client = top == CLIENT
        pub = now[NEXT]
        broker = publications.broker[pub] if client else links.target[top]
        start = max(arrival, brokers.busy_until[broker])
        if start >= brokers.timer_due[broker]:
            now[WHERE] = broker
            return TIMER
        source, hops = -1, 0
        if client:
            now[NEXT] += 1
            more = now[NEXT] < len(publications.at_s)
            next_due(way, now, publications.at_s[now[NEXT]] if more else np.inf)
        else:
            source = links.source[top]
            one = take(way, now)
            pub, hops = room.pub[one], room.hops[one]
        if start < limits.until_s:
            _serve(network, publications, way, room, now, limits, broker, source, pub, hops, start)
    return WAITS


@njit(cache=True)
def ends_of(way: UnderWay, room: Room, rank: int, ends: Seconds) -> int:
    """Write when each message under way on a link was or will be transmitted into `ends`, as far
    as there is room; return how many there are."""
    found, one = 0, way.first[rank]
    while one >= 0:
        if found < len(ends):
            ends[found] = room.end[one]
        found += 1
        one = way.next[one]
    return found

"""The simulator's event loop for publications alone, compiled.

It does what `simulation.kernel` does with publications in a network that is at rest otherwise (no
control messages, no timers, no faults), operation by operation, so that every time is the same
number. What a broker decides is no part of it: the loop knows *places* (a kind of publication, at
a broker, that came by some link with some header) and the decisions that routers made there. It
returns where it needs to know more:

- `DECIDE`: nobody has decided at this place, or the decision depends on the queues of the moment.
  At a `QUIET` place it does only if a link that a copy would take is overloaded, or if clients had
  the publication before;
- `ROOM`: an array is full, or the jitter that was drawn for a link is used up.

The caller provides, and calls again. Links have their ranks as numbers, and so does the next
publication of a client (`CLIENT_RANK`), as in the kernel's heap.
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

Flags = NDArray[np.bool_]

DONE, DECIDE, ROOM = 0, 1, 2
FRESH, ANSWERED = 0, 1
ASK, FOR_EVER, QUIET = 0, 1, 2
"""How long the decision at a place holds."""
NOTHING, UNWANTED, DUPLICATE = 0, 1, 2
"""What is discarded."""
STATE, NEXT, QUEUE_FREE = range(KEPT, KEPT + 3)
PUB, PLACE, ANSWER, DELIVERIES, SENT, LACKING, DISCARDED = range(KEPT + 3, KEPT + 10)
NOW = DISCARDED + 3
"""What is in the array `now` behind what `under_way` keeps there, and how much in all; `DISCARDED`
is the first of a count for each kind."""
NO_LINK = -1
"""`LACKING`: it is not jitter that lacks."""


class Links(NamedTuple):
    """By rank. `sender`: the number of what transmits. `queue_first`, `queue_last`: ends of
    transmission of those not known to be over; -1 for none. `ratio`, `entered`, `entered_before`,
    `len_before`: of the LST (`routing.links`). `jitter`: drawn, used up to `drawn`. The rest is
    what `MeasuringKernel` counts."""

    broker: Numbers
    sender: Numbers
    bytes_per_s: Seconds
    latency_s: Seconds
    last_arrival: Seconds
    queue_first: Numbers
    queue_last: Numbers
    queue_len: Numbers
    ratio: Seconds
    entered: Numbers
    entered_before: Numbers
    len_before: Numbers
    jitter: Seconds
    drawn: Numbers
    before: Numbers
    put: Numbers
    total: Numbers
    longest: Numbers
    crowded: Numbers
    crowded_s: Seconds


class Brokers(NamedTuple):
    """`first_link`: the links of broker i are those from its number to the next one's. `free_at`:
    of senders. `window`: of the LST."""

    busy_until: Seconds
    first_link: Numbers
    free_at: Seconds
    window: Numbers


class Places(NamedTuple):
    """`holds`: `ASK` and so on. Copies are `hops` from `first` on; `width`: subscriptions that get
    it there; `discarded`: `NOTHING` and so on. Of a hop: the link, the place where it leads, and
    the bytes of its header."""

    broker: Numbers
    holds: Numbers
    cost_s: Seconds
    width: Numbers
    discarded: Numbers
    first: Numbers
    hops: Numbers
    hop_link: Numbers
    hop_place: Numbers
    hop_bytes: Numbers


class Publications(NamedTuple):
    """In the order in which they are published. `stamp_s`: when, as it stands in them. `had`: at
    which brokers clients had one whose place there is `QUIET`, or about which a router was asked.
    """

    at_s: Seconds
    stamp_s: Seconds
    size: Numbers
    place: Numbers
    had: Flags


class Room(NamedTuple):
    """`pub`, `place`: of messages under way. `queue_end`, `queue_next`: of ends of transmission, of
    which `QUEUE_FREE` begins the list of what is unused. The rest is of deliveries."""

    pub: Numbers
    place: Numbers
    queue_end: Seconds
    queue_next: Numbers
    at_s: Seconds
    delay_s: Seconds
    width: Numbers


class Limits(NamedTuple):
    """`tau`, `window_s`: of the LST; `watched_from_s`: see `MeasuringKernel`; `jitters`: whether
    links do."""

    tau: float
    window_s: float
    watched_from_s: float
    jitters: bool


@njit(cache=True)
def _drain(links: Links, room: Room, now: Numbers, link: int, at: float) -> None:
    """Forget what is transmitted by now (`Link.queue_len`)."""
    one = links.queue_first[link]
    while one >= 0 and room.queue_end[one] <= at:
        after = room.queue_next[one]
        room.queue_next[one] = now[QUEUE_FREE]
        now[QUEUE_FREE] = one
        links.queue_len[link] -= 1
        one = after
    links.queue_first[link] = one
    if one < 0:
        links.queue_last[link] = -1


@njit(cache=True)
def _close_windows(
    brokers: Brokers,
    links: Links,
    room: Room,
    now: Numbers,
    broker: int,
    start: float,
    limits: Limits,
) -> None:
    """Close the windows of a broker's LST that are over (`LinkStatusTable`)."""
    window = int(start / limits.window_s)
    windows = window - brokers.window[broker]
    if not windows:
        return
    brokers.window[broker] = window
    for link in range(brokers.first_link[broker], brokers.first_link[broker + 1]):
        entered = links.entered[link] - links.entered_before[link]
        waited = links.len_before[link]
        links.entered_before[link] = links.entered[link]
        links.ratio[link], links.len_before[link] = 1.0, 0
        if entered or waited:
            _drain(links, room, now, link, start)
            length = links.queue_len[link]
            left = max(waited + entered - length, 0) / windows
            links.ratio[link] = (1 + (entered if windows == 1 else 0)) / (1 + left)
            links.len_before[link] = length


@njit(cache=True)
def _next_input(
    brokers: Brokers,
    links: Links,
    places: Places,
    publications: Publications,
    room: Room,
    way: UnderWay,
    now: Numbers,
    start: Seconds,
    limits: Limits,
) -> None:
    """Take the next input, and note where it is served, and when."""
    top = way.heap[0]
    arrival = way.due[top]
    if top == CLIENT:
        pub = now[NEXT]
        place = publications.place[pub]
        now[NEXT] += 1
        more = now[NEXT] < len(publications.at_s)
        next_due(way, now, publications.at_s[now[NEXT]] if more else np.inf)
    else:
        one = take(way, now)
        pub, place = room.pub[one], room.place[one]
    broker = places.broker[place]
    start[0] = max(arrival, brokers.busy_until[broker])
    _close_windows(brokers, links, room, now, broker, start[0], limits)
    now[PUB], now[PLACE], now[ANSWER] = pub, place, place


@njit(cache=True)
def _is_quiet(
    links: Links, places: Places, had: Flags, room: Room, now: Numbers, start: float, tau: float
) -> bool:
    place = now[PLACE]
    if places.width[place] and had[now[PUB], places.broker[place]]:
        return False
    for i in range(places.first[place], places.first[place] + places.hops[place]):
        link = places.hop_link[i]
        _drain(links, room, now, link, start)
        if links.queue_len[link] * links.ratio[link] > tau:
            return False
    return True


@njit(cache=True)
def _is_decided(
    brokers: Brokers,
    links: Links,
    places: Places,
    had: Flags,
    room: Room,
    now: Numbers,
    start: float,
    tau: float,
) -> bool:
    """Return whether it is known what is to be done with the present input. If not, the queues of
    its broker are brought up to date."""
    place = now[PLACE]
    holds, broker = places.holds[place], places.broker[place]
    if holds == QUIET and _is_quiet(links, places, had, room, now, start, tau):
        had[now[PUB], broker] |= places.width[place] > 0
        return True
    if holds == FOR_EVER:
        return True
    for link in range(brokers.first_link[broker], brokers.first_link[broker + 1]):
        _drain(links, room, now, link, start)
    return False


@njit(cache=True)
def _has_room(links: Links, places: Places, room: Room, now: Numbers, limits: Limits) -> bool:
    answer = now[ANSWER]
    now[LACKING] = NO_LINK
    if now[DELIVERIES] == len(room.at_s) or now[SPARE] < places.hops[answer]:
        return False
    end = now[QUEUE_FREE]
    for i in range(places.first[answer], places.first[answer] + places.hops[answer]):
        if end < 0:
            return False
        end = room.queue_next[end]
        link = places.hop_link[i]
        if limits.jitters and links.drawn[link] == links.jitter.shape[1]:
            now[LACKING] = link
            return False
    return True


@njit(cache=True)
def _send(
    brokers: Brokers,
    links: Links,
    room: Room,
    way: UnderWay,
    now: Numbers,
    limits: Limits,
    link: int,
    size: int,
    place: int,
    at: float,
) -> None:
    """Put a copy on a link (`Kernel._leave_now`, `MeasuringKernel._queued`)."""
    sender = links.sender[link]
    free_at = brokers.free_at[sender]
    end = max(free_at, at) + size / links.bytes_per_s[link]
    brokers.free_at[sender] = end
    _drain(links, room, now, link, at)
    one = now[QUEUE_FREE]
    now[QUEUE_FREE] = room.queue_next[one]
    room.queue_end[one], room.queue_next[one] = end, -1
    if links.queue_last[link] < 0:
        links.queue_first[link] = one
    else:
        room.queue_next[links.queue_last[link]] = one
    links.queue_last[link] = one
    links.queue_len[link] += 1
    links.entered[link] += 1
    _count(links, link, links.queue_len[link], end, at, limits)
    arrival = end + links.latency_s[link]
    if limits.jitters:
        arrival -= links.jitter[link, links.drawn[link]]
        links.drawn[link] += 1
        arrival = max(arrival, links.last_arrival[link])
        links.last_arrival[link] = arrival
    one = put(way, now, link, arrival)
    room.pub[one], room.place[one] = now[PUB], place
    now[SENT] += 1


@njit(cache=True)
def _count(links: Links, link: int, length: int, end: float, at: float, limits: Limits) -> None:
    if at < limits.watched_from_s:
        links.before[link] += 1
        return
    links.put[link] += 1
    links.total[link] += length
    links.longest[link] = max(length, links.longest[link])
    if length > limits.tau:
        links.crowded[link] += 1
        links.crowded_s[link] += end - at


@njit(cache=True)
def run(
    brokers: Brokers,
    links: Links,
    places: Places,
    publications: Publications,
    room: Room,
    way: UnderWay,
    now: Numbers,
    start: Seconds,
    limits: Limits,
) -> int:
    """Run until all has arrived (`DONE`), or something lacks. `now`: see `STATE` and so on;
    `start`: when the present input is served."""
    while True:
        if now[STATE] == FRESH:
            if not now[HEAP]:
                return DONE
            _next_input(brokers, links, places, publications, room, way, now, start, limits)
            now[STATE] = ANSWERED
            if not _is_decided(
                brokers, links, places, publications.had, room, now, start[0], limits.tau
            ):
                return DECIDE
        if not _has_room(links, places, room, now, limits):
            return ROOM
        answer, pub = now[ANSWER], now[PUB]
        at = start[0] + places.cost_s[answer]
        brokers.busy_until[places.broker[now[PLACE]]] = at
        for i in range(places.first[answer], places.first[answer] + places.hops[answer]):
            size = publications.size[pub] + places.hop_bytes[i]
            link, place = places.hop_link[i], places.hop_place[i]
            _send(brokers, links, room, way, now, limits, link, size, place, at)
        if places.width[answer]:
            row = now[DELIVERIES]
            room.at_s[row], room.width[row] = at, places.width[answer]
            room.delay_s[row] = at - publications.stamp_s[pub]
            now[DELIVERIES] += 1
        now[DISCARDED + places.discarded[answer]] += 1
        now[STATE] = FRESH

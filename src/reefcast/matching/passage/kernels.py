"""The kernels that Python calls; see the package's docstring, and `layout` for the words."""

from __future__ import annotations

from reefcast.matching.events import read_event, read_topic
from reefcast.matching.machine import (
    Int,
    compare_bytes,
    compile_units,
    get1,
    get8,
    kernel,
    part,
    put8,
)
from reefcast.matching.packed import read_string
from reefcast.matching.passage.deliveries import enter_found, judge_found
from reefcast.matching.passage.frames import frame_end, header_slot, read_frame
from reefcast.matching.passage.layout import (
    C_ROWS,
    F_BODY,
    F_CHOICE,
    F_EVENT,
    F_HEADER,
    F_SEQ,
    F_TOPIC,
    F_TOPICS,
    F_WORDS,
    K_CALL,
    K_ENTRY_COUNT,
    K_FOUND,
    K_FRAME_BYTES,
    K_LAST,
    K_NOWHERE,
    K_ODD,
    K_OUT,
    K_OUT_ROOM,
    K_PASSED,
    K_RUN,
    K_RUN_ROOM,
    K_STAMP,
    K_STOPPED,
    K_TOPIC,
    K_TOUCHED_COUNT,
    K_WANTED_BELOW,
    NO_OUT,
    NOT_PLAIN,
    S_USES,
    UNKNOWN,
    UNMATCHED,
    WHOLE,
)
from reefcast.matching.passage.samples import mark_wanted
from reefcast.matching.passage.writing import write_all
from reefcast.matching.search import search
from reefcast.model import filters

__all__ = ["count_choices", "cut", "find_header", "pass_on"]

TOPIC = len(filters.TOPIC)
"""How long the name of the attribute `topic` is."""
DOLLAR = ord("$")
ODD_COURSE = 1
"""In the place of the address of a course: Python decides."""


@kernel
def cut(desk: Int, data: Int, end: Int, most_hops: Int) -> Int:
    """Find the consecutive PUBLISH frames from address `data` on, and write what the kernels need
    of each; return how many there are, or -1 if there is no room for them."""
    count = odd = 0
    while True:
        stop = frame_end(data, end)
        if stop == 0:
            break
        if count == get8(desk, K_RUN_ROOM):
            return -1
        publication = get8(desk, K_RUN) + 8 * F_WORDS * count
        read_frame(desk, data, stop, most_hops, publication)
        if get8(desk, K_WANTED_BELOW) != 0:
            mark_wanted(desk, publication)
        odd += 1 if get8(publication, F_EVENT) == 0 else 0
        count += 1
        data = stop
    put8(desk, K_ODD, odd)
    return count


@kernel
def find_header(desk: Int, head: Int, size: Int) -> Int:
    """Return the address of the slot of a header; see `header_slot`."""
    return header_slot(desk, head, size)


@part
def _is_of(publication: Int, name: Int, size: Int) -> bool:
    """Return whether the publication's publisher has this name."""
    start, length = read_string(get8(publication, F_BODY) + 1)
    return bool(length == size and compare_bytes(start, name, size) == 0)


@part
def _match(desk: Int, state: Int, publication: Int) -> Int:
    """Return how many rows of an index it matches, whose handles are then in K_OUT; or -1:
    K_STOPPED says why not."""
    put8(desk, K_STOPPED, NOT_PLAIN)
    end = read_event(state, get8(publication, F_EVENT))
    if end == 0:
        return -1
    if get8(publication, F_TOPICS) == 1 and read_topic(state, end, get8(desk, K_TOPIC), TOPIC) == 0:
        return -1
    put8(desk, K_STOPPED, NO_OUT)
    return search(state, get8(desk, K_OUT), 0, get8(desk, K_OUT_ROOM))


@part
def _is_within(desk: Int, own: Int, publication: Int) -> bool:
    """Return whether it certainly lies within its publisher's advertisements, all of which are in
    the index `own`."""
    found = _match(desk, own, publication)
    if found >= 0:
        put8(desk, K_STOPPED, NOT_PLAIN)
    for i in range(found):
        if get8(get8(desk, K_OUT), i) >= 0:
            return True
    return False


@kernel
def pass_on(
    desk: Int,
    first: Int,
    count: Int,
    state: Int,
    leads: Int,
    destinations: Int,
    source: Int,
    own: Int,
    topical: Int,
    name: Int,
    size: Int,
    courses: Int,
) -> Int:
    """Write the frames that come of the publications from number `first` of the run on, below
    `count`; return the number of the first one that is left. K_STOPPED says why.

    `state` is that of the index, `leads` and `destinations` say where its rows lead; `source` is
    the destination that they came from, or -1. From a client: `name`, of `size` bytes, is its own,
    `own` the state of an index of its advertisements, 0 if all lies within them; what has a number
    not above K_LAST is passed over. From a neighbour: `size` is 0. `topical`: whether topics make
    a difference. `courses`: their addresses, by the number of the header; 0 for one that is not
    known.
    """
    stamp = get8(desk, K_STAMP) + 1
    put8(desk, K_STAMP, stamp)
    put8(desk, K_CALL, stamp)
    put8(desk, K_ENTRY_COUNT, 1)
    put8(desk, K_FRAME_BYTES, 0)
    put8(desk, K_TOUCHED_COUNT, 0)
    passed = nowhere = 0
    last, stopped, at = get8(desk, K_LAST), WHOLE, first
    while at < count:
        publication = get8(desk, K_RUN) + 8 * F_WORDS * at
        seq = get8(publication, F_SEQ)
        if get8(publication, F_EVENT) == 0:
            stopped = NOT_PLAIN
            break
        if size == 0 or seq > last:
            stopped = _stop(publication, topical, name, size)
            if stopped == WHOLE and own != 0 and not _is_within(desk, own, publication):
                stopped = get8(desk, K_STOPPED)
            if stopped != WHOLE:
                break
            course = get8(courses, get8(publication, F_HEADER))
            if course <= ODD_COURSE:
                stopped = NOT_PLAIN if course == ODD_COURSE else UNKNOWN
                put8(desk, K_FOUND, -1)
                break
            matches = get8(course, C_ROWS) != UNMATCHED
            found = _match(desk, state, publication) if matches else 0
            if found < 0:
                stopped = get8(desk, K_STOPPED)
                break
            stopped = judge_found(desk, leads, destinations, course, found, publication)
            if stopped != WHOLE:
                break
            frames = enter_found(desk, leads, destinations, course, found, at, source)
            nowhere += 1 if frames == 0 else 0
            passed += 1
            last = seq
        at += 1
    put8(desk, K_LAST, last)
    put8(desk, K_PASSED, passed)
    put8(desk, K_NOWHERE, nowhere)
    put8(desk, K_STOPPED, stopped)
    write_all(desk, destinations)
    return at


@kernel
def count_choices(desk: Int, first: Int, end: Int) -> None:
    """Count the choices that were made for the publications from number `first` of the run on,
    before `end`, which have been passed on."""
    for at in range(first, end):
        choice = get8(get8(desk, K_RUN) + 8 * F_WORDS * at, F_CHOICE)
        if choice != 0:
            put8(choice, S_USES, get8(choice, S_USES) + 1)


@part
def _is_special(publication: Int) -> bool:
    """Return whether the only topic begins with a dollar sign."""
    start, length = read_string(get8(publication, F_TOPIC))
    return bool(length > 0 and get1(start, 0) == DOLLAR)


@part
def _stop(publication: Int, topical: Int, name: Int, size: Int) -> Int:
    """Return NOT_PLAIN if it is not the client's own, or has several topics, or one of a broker's,
    and that makes a difference."""
    if size != 0 and not _is_of(publication, name, size):
        return NOT_PLAIN
    topics = get8(publication, F_TOPICS)
    if topical != 0 and (topics > 1 or (topics == 1 and _is_special(publication))):
        return NOT_PLAIN
    return WHOLE


compile_units()

"""The destinations of the rows that a publication matches: entries, chained for each
destination."""

from __future__ import annotations

from reefcast.matching.chains import mixed
from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.passage.frames import HOPS_BYTES, MOST_NUMBER_BYTES, PARTS_BYTES
from reefcast.matching.passage.layout import (
    CLIENT,
    D_CALL,
    D_CLOSED,
    D_FIRST,
    D_FRAMES,
    D_HASH,
    D_KIND,
    D_LAST,
    D_SEEN,
    D_STAMP,
    D_WORDS,
    E_MORE,
    E_NEXT,
    E_NUMBER,
    E_PUBLICATION,
    E_WORDS,
    F_BODY,
    F_END,
    G_TO,
    G_WORDS,
    K_CALL,
    K_ENTRIES,
    K_ENTRY_COUNT,
    K_ENTRY_ROOM,
    K_FRAME_BYTES,
    K_FRAME_ROOM,
    K_OUT,
    K_STAMP,
    K_TOUCHED,
    K_TOUCHED_COUNT,
    K_TOUCHED_ROOM,
    L_NUMBER,
    L_TO,
    L_WORDS,
    MOST_NUMBERS,
    NO_ROOM,
    NOT_PLAIN,
    WHOLE,
)

FRAME_BYTES = PARTS_BYTES + 3 + HOPS_BYTES
"""The most bytes of a frame without its body and the numbers of subscriptions."""


@part
def entry_at(desk: Int, entry: Int) -> Int:
    return get8(desk, K_ENTRIES) + 8 * E_WORDS * entry


@part
def destination_at(destinations: Int, to: Int) -> Int:
    return destinations + 8 * D_WORDS * to


# --- whether it may pass --------------------------------------------------------------------------


@part
def _count_row(desk: Int, destination: Int) -> Int:
    """Count one more row that leads to the destination; return how many do."""
    stamp = get8(desk, K_STAMP)
    rows = get8(destination, D_SEEN) + 1 if get8(destination, D_STAMP) == stamp else 1
    put8(destination, D_STAMP, stamp)
    put8(destination, D_SEEN, rows)
    return rows


@unit
def judge_found(desk: Int, leads: Int, destinations: Int, count: Int, size: Int) -> Int:
    """Return whether a publication of `size` bytes may pass for which the index found `count` rows:
    WHOLE, NOT_PLAIN, or NO_ROOM for it behind those that did."""
    out, frames = get8(desk, K_OUT), 0
    put8(desk, K_STAMP, get8(desk, K_STAMP) + 1)
    for i in range(count):
        handle = get8(out, i)
        if handle < 0:
            return NOT_PLAIN  # Python decides
        lead = leads + 8 * L_WORDS * handle
        destination = destination_at(destinations, get8(lead, L_TO))
        if get8(destination, D_CLOSED) != 0:
            return NOT_PLAIN
        rows = _count_row(desk, destination)
        one_more = get8(lead, L_NUMBER) > 0 and rows <= MOST_NUMBERS
        if get8(destination, D_KIND) == CLIENT and not one_more:
            return NOT_PLAIN
        frames += 1 if rows == 1 else 0
    room = frames * (FRAME_BYTES + size) + MOST_NUMBER_BYTES * count
    if (
        get8(desk, K_ENTRY_COUNT) + count > get8(desk, K_ENTRY_ROOM)
        or get8(desk, K_TOUCHED_COUNT) + frames > get8(desk, K_TOUCHED_ROOM)
        or get8(desk, K_FRAME_BYTES) + room > get8(desk, K_FRAME_ROOM)
    ):
        return NO_ROOM if get8(desk, K_ENTRY_COUNT) > 1 else NOT_PLAIN
    put8(desk, K_FRAME_BYTES, get8(desk, K_FRAME_BYTES) + room)
    return WHOLE


# --- entries --------------------------------------------------------------------------------------


@part
def _new_entry(desk: Int, publication: Int, number: Int) -> Int:
    entry = get8(desk, K_ENTRY_COUNT)
    put8(desk, K_ENTRY_COUNT, entry + 1)
    at = entry_at(desk, entry)
    put8(at, E_NEXT, 0)
    put8(at, E_PUBLICATION, publication)
    put8(at, E_NUMBER, number)
    put8(at, E_MORE, 0)
    return entry


@part
def _touch(desk: Int, destination: Int, to: Int) -> None:
    """Start the entries of a destination, the first time that the call has something for it."""
    put8(destination, D_CALL, get8(desk, K_CALL))
    put8(destination, D_FIRST, 0)
    put8(destination, D_LAST, 0)
    put8(destination, D_FRAMES, 0)
    put8(destination, D_HASH, get8(destination, D_KIND))
    count = get8(desk, K_TOUCHED_COUNT)
    put8(get8(desk, K_TOUCHED) + 8 * G_WORDS * count, G_TO, to)
    put8(desk, K_TOUCHED_COUNT, count + 1)


@part
def _append(desk: Int, destination: Int, publication: Int, number: Int) -> None:
    """Append the first row of a publication that leads to the destination."""
    entry, last = _new_entry(desk, publication, number), get8(destination, D_LAST)
    if last == 0:
        put8(destination, D_FIRST, entry)
    else:
        put8(entry_at(desk, last), E_NEXT, entry)
    put8(destination, D_LAST, entry)
    put8(destination, D_FRAMES, get8(destination, D_FRAMES) + 1)


@part
def _insert(desk: Int, destination: Int, publication: Int, number: Int) -> None:
    """Insert another row of the publication, so that the numbers stay in ascending order. The entry
    that others refer to keeps its place; only numbers change theirs."""
    at = entry_at(desk, get8(destination, D_LAST))
    while get8(at, E_NUMBER) < number and get8(at, E_MORE) != 0:
        at = entry_at(desk, get8(at, E_MORE))
    entry = _new_entry(desk, publication, number)
    new = entry_at(desk, entry)
    if get8(at, E_NUMBER) > number:
        put8(new, E_NUMBER, get8(at, E_NUMBER))
        put8(at, E_NUMBER, number)
    put8(new, E_MORE, get8(at, E_MORE))
    put8(at, E_MORE, entry)


@unit
def enter_found(
    desk: Int, leads: Int, destinations: Int, count: Int, publication: Int, source: Int
) -> Int:
    """Make the entries of a publication that may pass, but none for `source`, the destination that
    it came from; return how many destinations it has."""
    out, frames = get8(desk, K_OUT), 0
    put8(desk, K_STAMP, get8(desk, K_STAMP) + 1)
    stamp, call = get8(desk, K_STAMP), get8(desk, K_CALL)
    for i in range(count):
        lead = leads + 8 * L_WORDS * get8(out, i)
        to, number = get8(lead, L_TO), get8(lead, L_NUMBER)
        destination = destination_at(destinations, to)
        if to != source:
            if get8(destination, D_CALL) != call:
                _touch(desk, destination, to)
            if get8(destination, D_STAMP) != stamp:
                put8(destination, D_STAMP, stamp)
                _append(desk, destination, publication, number)
                frames += 1
            elif get8(destination, D_KIND) == CLIENT:
                _insert(desk, destination, publication, number)
    return frames


@part
def hash_of_entries(desk: Int, destination: Int) -> Int:
    """Return a hash of the publications that the destination gets, and of the numbers for which."""
    hashed, entry = get8(destination, D_KIND), get8(destination, D_FIRST)
    while entry != 0:
        at = entry_at(desk, entry)
        hashed = mixed(hashed ^ get8(at, E_PUBLICATION))
        more = at
        while more != 0:
            hashed = mixed(hashed ^ get8(more, E_NUMBER))
            more = entry_at(desk, get8(more, E_MORE)) if get8(more, E_MORE) != 0 else 0
        entry = get8(at, E_NEXT)
    return hashed


@part
def body_bytes(publication: Int) -> Int:
    return get8(publication, F_END) - get8(publication, F_BODY)

"""The destinations of the rows that a publication matches: entries, chained for each
destination."""

from __future__ import annotations

from reefcast.matching.chains import mixed
from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.passage.frames import MOST_HEADER_BYTES, MOST_NUMBER_BYTES, PARTS_BYTES
from reefcast.matching.passage.layout import (
    A_HEADER,
    A_TO,
    A_WORDS,
    BOUND,
    C_COUNT,
    C_MASK,
    C_ONWARD,
    C_ROWS,
    C_TABLE,
    C_WORDS,
    CHOSEN,
    CLIENT,
    D_CALL,
    D_CLOSED,
    D_FIRST,
    D_FRAMES,
    D_HASH,
    D_KIND,
    D_LAST,
    D_MOST,
    D_SEEN,
    D_STAMP,
    D_WORDS,
    E_MORE,
    E_NEXT,
    E_NUMBER,
    E_PUBLICATION,
    E_WORDS,
    F_BODY,
    F_CHOICE,
    F_END,
    F_WORDS,
    G_TO,
    G_WORDS,
    K_CALL,
    K_ENTRIES,
    K_ENTRY_COUNT,
    K_ENTRY_ROOM,
    K_FOUND,
    K_FRAME_BYTES,
    K_FRAME_ROOM,
    K_OUT,
    K_RUN,
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
    S_COUNT,
    S_HASH,
    S_HOPS,
    S_WORDS,
    UNKNOWN,
    WHOLE,
)

FRAME_BYTES = PARTS_BYTES + 3 + MOST_HEADER_BYTES
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


@part
def _where(leads: Int, destinations: Int, course: Int, handle: Int) -> Int:
    """Return the number of the destination where a row leads; -1 if by this course it has none."""
    to = get8(leads + 8 * L_WORDS * handle, L_TO)
    if get8(course, C_ROWS) == BOUND and get8(destination_at(destinations, to), D_KIND) != CLIENT:
        to = get8(get8(course, C_TABLE), handle) - 1
    return to


@part
def _is_for(desk: Int, destinations: Int, choice: Int, hops: Int, hashed: Int) -> bool:
    """Return whether a choice is for the next hops of the present publication."""
    if get8(choice, S_HASH) != hashed or get8(choice, S_HOPS) != hops:
        return False
    for i in range(hops):
        destination = destination_at(destinations, get8(choice, S_WORDS + i))
        if get8(destination, D_STAMP) != get8(desk, K_STAMP):
            return False
    return True


@part
def _choice(desk: Int, destinations: Int, course: Int, hops: Int, hashed: Int) -> Int:
    """Return the choice among the next hops of the present publication; 0 if there is none yet."""
    table, slot = get8(course, C_TABLE), hashed & get8(course, C_MASK)
    while True:
        choice = get8(table, slot)
        if choice == 0 or _is_for(desk, destinations, choice, hops, hashed):
            return choice
        slot = (slot + 1) & get8(course, C_MASK)


@part
def _may_go(desk: Int, destinations: Int, copies: Int, count: Int) -> bool:
    """Return whether these copies may go out by compiled calls."""
    for i in range(count):
        destination = destination_at(destinations, get8(copies, A_WORDS * i + A_TO))
        started = get8(destination, D_CALL) == get8(desk, K_CALL)
        frames = get8(destination, D_FRAMES) if started else 0
        if get8(destination, D_CLOSED) != 0 or frames > get8(destination, D_MOST):
            return False
    return True


@part
def _copies_of(choice: Int) -> Int:
    """Return the address of the A_* of a choice."""
    return choice + 8 * (S_WORDS + get8(choice, S_HOPS))


@unit
def judge_found(
    desk: Int, leads: Int, destinations: Int, course: Int, count: Int, publication: Int
) -> Int:
    """Return whether a publication may pass for which the index found `count` rows: WHOLE,
    NOT_PLAIN, UNKNOWN, or NO_ROOM for it behind those that did. Writes its F_CHOICE."""
    out, frames, hops, hashed = get8(desk, K_OUT), 0, 0, 0
    put8(desk, K_STAMP, get8(desk, K_STAMP) + 1)
    put8(publication, F_CHOICE, 0)
    for i in range(count):
        handle = get8(out, i)
        if handle < 0:
            return NOT_PLAIN  # Python decides
        to = _where(leads, destinations, course, handle)
        if to >= 0:
            destination = destination_at(destinations, to)
            if get8(destination, D_CLOSED) != 0:
                return NOT_PLAIN
            rows = _count_row(desk, destination)
            if get8(destination, D_KIND) == CLIENT:
                if get8(leads + 8 * L_WORDS * handle, L_NUMBER) <= 0 or rows > MOST_NUMBERS:
                    return NOT_PLAIN
                frames += 1 if rows == 1 else 0
            elif rows == 1:
                hops += 1
                hashed += mixed(to + 1)
    if get8(course, C_ROWS) != CHOSEN:
        frames += hops
    elif hops != 0:
        choice = _choice(desk, destinations, course, hops, hashed)
        if choice == 0:
            put8(desk, K_FOUND, count)
            return UNKNOWN
        copies = get8(choice, S_COUNT)
        if copies < 0 or not _may_go(desk, destinations, _copies_of(choice), copies):
            return NOT_PLAIN
        put8(publication, F_CHOICE, choice)
        frames += copies
    if not _may_go(desk, destinations, course + 8 * C_WORDS, get8(course, C_COUNT)):
        return NOT_PLAIN
    return _make_room(desk, frames + get8(course, C_COUNT), count, _body_bytes(publication))


@part
def _body_bytes(publication: Int) -> Int:
    return get8(publication, F_END) - get8(publication, F_BODY)


@part
def _make_room(desk: Int, frames: Int, count: Int, size: Int) -> Int:
    """Take room for so many frames more with a body of this size, for `count` rows."""
    room = frames * (FRAME_BYTES + size) + MOST_NUMBER_BYTES * count
    if (
        get8(desk, K_ENTRY_COUNT) + count + frames > get8(desk, K_ENTRY_ROOM)
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
def _add_number(desk: Int, destination: Int, publication: Int, number: Int) -> None:
    """Add another row of the publication behind the first one; see `_sort_numbers`."""
    first = entry_at(desk, get8(destination, D_LAST))
    entry = _new_entry(desk, publication, number)
    put8(entry_at(desk, entry), E_MORE, get8(first, E_MORE))
    put8(first, E_MORE, entry)
    put8(destination, D_SEEN, get8(destination, D_SEEN) + 1)


@unit
def sorted_entries(entries: Int, first: Int) -> Int:
    """Sort a chain of entries by their numbers, ascending, and return the new first one: runs are
    merged that are twice as long each time."""
    width = 1
    while True:
        left, last, first, merges = first, 0, 0, 0
        while left != 0:
            merges += 1
            right, lefts, rights = left, 0, width
            while lefts < width and right != 0:
                lefts += 1
                right = get8(entries + 8 * E_WORDS * right, E_MORE)
            while lefts != 0 or (rights != 0 and right != 0):
                from_left = lefts != 0
                if from_left and rights != 0 and right != 0:
                    number = get8(entries + 8 * E_WORDS * right, E_NUMBER)
                    from_left = get8(entries + 8 * E_WORDS * left, E_NUMBER) <= number
                if from_left:
                    entry, lefts = left, lefts - 1
                    left = get8(entries + 8 * E_WORDS * left, E_MORE)
                else:
                    entry, rights = right, rights - 1
                    right = get8(entries + 8 * E_WORDS * right, E_MORE)
                if last == 0:
                    first = entry
                else:
                    put8(entries + 8 * E_WORDS * last, E_MORE, entry)
                last = entry
            left = right
        put8(entries + 8 * E_WORDS * last, E_MORE, 0)
        if merges < 2:
            return first
        width *= 2


@part
def _sort_numbers(desk: Int, destination: Int) -> None:
    """Bring the numbers of the publication's rows into ascending order. The entry that others refer
    to keeps its place; its number goes to where it belongs."""
    at = entry_at(desk, get8(destination, D_LAST))
    put8(at, E_MORE, sorted_entries(get8(desk, K_ENTRIES), get8(at, E_MORE)))
    put8(destination, D_SEEN, 1)
    while get8(at, E_MORE) != 0:
        behind, number = entry_at(desk, get8(at, E_MORE)), get8(at, E_NUMBER)
        if get8(behind, E_NUMBER) >= number:
            return
        put8(at, E_NUMBER, get8(behind, E_NUMBER))
        put8(behind, E_NUMBER, number)
        at = behind


@part
def _sort_all(desk: Int, leads: Int, destinations: Int, course: Int, count: Int) -> None:
    """Sort the numbers wherever several rows of the publication lead."""
    out = get8(desk, K_OUT)
    for i in range(count):
        to = _where(leads, destinations, course, get8(out, i))
        destination = destination_at(destinations, to)
        if to >= 0 and get8(destination, D_KIND) == CLIENT and get8(destination, D_SEEN) > 1:
            _sort_numbers(desk, destination)


@part
def _give(desk: Int, destinations: Int, to: Int, publication: Int, number: Int) -> Int:
    """Give the publication to a destination; return 1 if it did not have it yet, else 0."""
    destination = destination_at(destinations, to)
    if get8(destination, D_CALL) != get8(desk, K_CALL):
        _touch(desk, destination, to)
    if get8(destination, D_STAMP) != get8(desk, K_STAMP):
        put8(destination, D_STAMP, get8(desk, K_STAMP))
        put8(destination, D_SEEN, 1)
        _append(desk, destination, publication, number)
        return 1
    if get8(destination, D_KIND) == CLIENT:
        _add_number(desk, destination, publication, number)
    return 0


@part
def _give_copies(desk: Int, destinations: Int, copies: Int, count: Int, publication: Int) -> Int:
    """Give the publication to those that a course or a choice names; return how many are new."""
    frames = 0
    for i in range(count):
        copy = copies + 8 * A_WORDS * i
        frames += _give(desk, destinations, get8(copy, A_TO), publication, get8(copy, A_HEADER))
    return frames


@unit
def enter_found(
    desk: Int, leads: Int, destinations: Int, course: Int, count: Int, publication: Int, source: Int
) -> Int:
    """Make the entries of a publication that may pass, but none for `source`, the destination that
    it came from, because a row leads there; return how many destinations it has."""
    out, frames, several = get8(desk, K_OUT), 0, 0
    put8(desk, K_STAMP, get8(desk, K_STAMP) + 1)
    choice = get8(get8(desk, K_RUN) + 8 * F_WORDS * publication, F_CHOICE)
    for i in range(count):
        to = _where(leads, destinations, course, get8(out, i))
        if to >= 0 and get8(destination_at(destinations, to), D_KIND) == CLIENT:
            number = get8(leads + 8 * L_WORDS * get8(out, i), L_NUMBER)
            fresh = _give(desk, destinations, to, publication, number)
            frames += fresh
            several += 1 - fresh
        elif to >= 0 and to != source and get8(course, C_ROWS) != CHOSEN:
            frames += _give(desk, destinations, to, publication, get8(course, C_ONWARD))
    if several != 0:
        _sort_all(desk, leads, destinations, course, count)
    if choice != 0:
        copies, more = _copies_of(choice), get8(choice, S_COUNT)
        frames += _give_copies(desk, destinations, copies, more, publication)
    copies, more = course + 8 * C_WORDS, get8(course, C_COUNT)
    return frames + _give_copies(desk, destinations, copies, more, publication)


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

"""The frames of each destination, one after the other; destinations that get the same frames share
them."""

from __future__ import annotations

from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.passage.deliveries import destination_at, entry_at, hash_of_entries
from reefcast.matching.passage.frames import (
    DELIVER,
    PARTS_BYTES,
    finish_frame,
    write_array_head,
    write_number,
    write_publish,
)
from reefcast.matching.passage.layout import (
    CLIENT,
    D_FIRST,
    D_FRAMES,
    D_HASH,
    D_KIND,
    E_MORE,
    E_NEXT,
    E_NUMBER,
    E_PUBLICATION,
    F_WORDS,
    G_AT,
    G_FRAMES,
    G_SIZE,
    G_TO,
    G_WORDS,
    K_CALL,
    K_FRAMES,
    K_RUN,
    K_SHARES,
    K_TOUCHED,
    K_TOUCHED_COUNT,
)

# --- frames ---------------------------------------------------------------------------------------


@part
def _more(desk: Int, at: Int) -> Int:
    """Return the entry of the next number, 0 if there is none."""
    entry = get8(at, E_MORE)
    return entry_at(desk, entry) if entry != 0 else 0


@part
def _write_deliver(desk: Int, frame: Int, first: Int, publication: Int) -> Int:
    """Write the delivery of which `first` is the first entry; return where it ends."""
    count, at = 0, first
    while at != 0:
        count += 1
        at = _more(desk, at)
    head, at = write_array_head(frame + PARTS_BYTES, count), first
    while at != 0:
        head = write_number(head, get8(at, E_NUMBER))
        at = _more(desk, at)
    return finish_frame(frame, DELIVER, head, publication)


@unit
def write_frames(desk: Int, destination: Int, start: Int) -> Int:
    """Write everything that a destination gets, from `start` on, and return where it ends."""
    kind, entry = get8(destination, D_KIND), get8(destination, D_FIRST)
    while entry != 0:
        at = entry_at(desk, entry)
        publication = get8(desk, K_RUN) + 8 * F_WORDS * get8(at, E_PUBLICATION)
        if kind == CLIENT:
            start = _write_deliver(desk, start, at, publication)
        else:
            start = write_publish(start, get8(at, E_NUMBER), publication)
        entry = get8(at, E_NEXT)
    return start


# --- sharing --------------------------------------------------------------------------------------


@part
def _same_numbers(desk: Int, one: Int, other: Int) -> bool:
    while one != 0 and other != 0 and get8(one, E_NUMBER) == get8(other, E_NUMBER):
        one, other = _more(desk, one), _more(desk, other)
    return bool(one == 0 and other == 0)


@part
def _get_the_same(desk: Int, one: Int, other: Int) -> bool:
    """Return whether two destinations get the same frames."""
    if get8(one, D_KIND) != get8(other, D_KIND) or get8(one, D_FRAMES) != get8(other, D_FRAMES):
        return False
    left, right = get8(one, D_FIRST), get8(other, D_FIRST)
    while left != 0:
        a, b = entry_at(desk, left), entry_at(desk, right)
        if get8(a, E_PUBLICATION) != get8(b, E_PUBLICATION) or not _same_numbers(desk, a, b):
            return False
        left, right = get8(a, E_NEXT), get8(b, E_NEXT)
    return True


@part
def _sharer(desk: Int, destinations: Int, destination: Int, touched: Int, mask: Int) -> Int:
    """Return the touched destination that gets the same and was written before, or `touched`
    itself."""
    shares, call = get8(desk, K_SHARES), get8(desk, K_CALL)
    slot = get8(destination, D_HASH) & mask
    while get8(shares, 2 * slot) == call:
        other = get8(shares, 2 * slot + 1)
        candidate = destination_at(destinations, get8(other, G_TO))
        if get8(candidate, D_HASH) == get8(destination, D_HASH) and _get_the_same(
            desk, destination, candidate
        ):
            return other
        slot = (slot + 1) & mask
    put8(shares, 2 * slot, call)
    put8(shares, 2 * slot + 1, touched)
    return touched


@unit
def write_all(desk: Int, destinations: Int) -> None:
    """Write what each destination gets, and the G_* words that say where."""
    frames = start = get8(desk, K_FRAMES)
    room = 2
    while room < 2 * get8(desk, K_TOUCHED_COUNT):
        room *= 2
    for i in range(get8(desk, K_TOUCHED_COUNT)):
        touched = get8(desk, K_TOUCHED) + 8 * G_WORDS * i
        destination = destination_at(destinations, get8(touched, G_TO))
        put8(destination, D_HASH, hash_of_entries(desk, destination))
        put8(touched, G_FRAMES, get8(destination, D_FRAMES))
        other = _sharer(desk, destinations, destination, touched, room - 1)
        if other == touched:
            end = write_frames(desk, destination, start)
            put8(touched, G_AT, start - frames)
            put8(touched, G_SIZE, end - start)
            start = end
        else:
            put8(touched, G_AT, get8(other, G_AT))
            put8(touched, G_SIZE, get8(other, G_SIZE))

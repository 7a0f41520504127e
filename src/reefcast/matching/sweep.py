"""Sweeping: many events against one block after the other, instead of one event against all blocks.

A block's bitmaps fit into the second-level cache of a processor; those of all blocks do not. So a
batch searches the default partition block by block, for a tile of events at a time. The results of
each block go to a list, and are collected event by event (`gather`). A row that must be checked is
on the list as its negated address, because the check needs the event's values."""

from __future__ import annotations

from reefcast.matching.cuts import SLOT_BYTES, event_slots
from reefcast.matching.events import read_row_of
from reefcast.matching.machine import (
    Int,
    allocate,
    allocate_zeroed,
    get8,
    part,
    put8,
    release,
    unit,
)
from reefcast.matching.search import (
    SPARE,
    TOO_SHORT,
    X_CHECKS,
    X_SWEEPING,
    check_all,
    check_later,
    search_block,
)
from reefcast.matching.state import (
    B_CAPACITY,
    B_CUTS,
    P_BLOCKS,
    P_COUNT,
    P_LIST,
    S_DEFAULT,
    S_FOUND_ROOM,
    S_OTHER_COUNT,
    S_SCALED_COUNT,
    S_SCRATCH,
    S_SLOT_ROOM,
    S_SLOTS,
    S_TILE,
)

TILE = 256
FEWEST_EVENTS, FEWEST_BLOCKS = 16, 3
FIRST_FOUND, MOST_FOUND = 1 << 15, 1 << 21
"""Words of the list of results; if the longest list is too short, tiles become smaller."""

W_TILE, W_BLOCKS, W_FOUND, W_ENDS, W_SLOTS, W_STRIDE, W_WORDS = range(7)


@unit
def sweep(state: Int, table: Int, attributes: Int, columns: Int, first: Int, events: Int) -> Int:
    """Search the default partition for a tile of rows of columns, at most `events`; return the
    results, for `gather` and `leave_sweep`, or 0 if a sweep is not worth it."""
    made = 0
    while made == 0:
        tile = min(events, get8(state, S_TILE))
        if not is_worth_it(state, tile):
            return 0
        made = _sweep_tile(state, table, attributes, columns, first, tile)
        if made == 0:
            put8(state, S_TILE, max(FEWEST_EVENTS, tile // 2))
            if tile < 2 * FEWEST_EVENTS:
                return 0
    return made


@part
def is_worth_it(state: Int, events: Int) -> bool:
    default = get8(state, S_DEFAULT)
    many = get8(default, P_BLOCKS) and get8(default, P_COUNT) >= FEWEST_BLOCKS
    return bool(many and events >= FEWEST_EVENTS)


@part
def _sweep_tile(
    state: Int, table: Int, attributes: Int, columns: Int, first: Int, events: Int
) -> Int:
    """Search for one tile; return 0 if there were too many results."""
    blocks = get8(get8(state, S_DEFAULT), P_COUNT)
    stride = SLOT_BYTES * get8(state, S_SLOT_ROOM) + 16
    made = allocate(8 * W_WORDS)
    put8(made, W_TILE, events)
    put8(made, W_BLOCKS, blocks)
    put8(made, W_STRIDE, stride)
    put8(made, W_ENDS, allocate(8 * (blocks * events + 1)))
    put8(made, W_SLOTS, allocate_zeroed(events, stride))
    own, done = get8(state, S_SLOTS), False
    put8(get8(state, S_SCRATCH), X_SWEEPING, 1)
    room = max(get8(state, S_FOUND_ROOM), FIRST_FOUND)
    while not done and room <= MOST_FOUND:
        put8(made, W_FOUND, allocate(8 * room))
        done = _search_all(state, made, table, attributes, columns, first, room)
        if not done:
            release(get8(made, W_FOUND))
            put8(made, W_FOUND, 0)
            room *= 2
    put8(state, S_FOUND_ROOM, min(room, MOST_FOUND))
    full = done and events == get8(state, S_TILE)
    if full and 4 * get8(get8(made, W_ENDS), blocks * events) < MOST_FOUND:
        put8(state, S_TILE, min(TILE, 2 * events))
    put8(get8(state, S_SCRATCH), X_SWEEPING, 0)
    put8(state, S_SLOTS, own)
    if done:
        return made
    leave_sweep(made)
    return 0


@part
def leave_sweep(made: Int) -> None:
    if made != 0:
        for word in (W_FOUND, W_ENDS, W_SLOTS):
            release(get8(made, word))
        release(made)


@part
def _take_slots(state: Int, made: Int, event: Int) -> Int:
    """Replace the slots at hand by the event's own; return where its counts are."""
    slots = get8(made, W_SLOTS) + get8(made, W_STRIDE) * event
    put8(state, S_SLOTS, slots)
    return slots + get8(made, W_STRIDE) - 16


@part
def _find_slots(
    state: Int, made: Int, cuts: Int, table: Int, attributes: Int, columns: Int, first: Int
) -> None:
    for event in range(get8(made, W_TILE)):
        counts = _take_slots(state, made, event)
        read_row_of(state, table, attributes, columns, first + event)
        event_slots(state, cuts)
        put8(counts, 0, get8(state, S_SCALED_COUNT))
        put8(counts, 1, get8(state, S_OTHER_COUNT))


@part
def _search_all(
    state: Int, made: Int, table: Int, attributes: Int, columns: Int, first: Int, room: Int
) -> bool:
    """Search all blocks for the tile; return whether there was room for the results."""
    items, ends, found = (
        get8(get8(state, S_DEFAULT), P_LIST),
        get8(made, W_ENDS),
        get8(made, W_FOUND),
    )
    scratch = get8(state, S_SCRATCH)
    cuts = end = place = 0
    put8(ends, 0, 0)
    for b in range(get8(made, W_BLOCKS)):
        block = get8(items, b)
        if get8(block, B_CUTS) != cuts:
            cuts = get8(block, B_CUTS)
            _find_slots(state, made, cuts, table, attributes, columns, first)
        for event in range(get8(made, W_TILE)):
            if end + get8(block, B_CAPACITY) + SPARE > room:
                return False
            counts = _take_slots(state, made, event)
            put8(state, S_SCALED_COUNT, get8(counts, 0))
            put8(state, S_OTHER_COUNT, get8(counts, 1))
            end = search_block(state, block, scratch, found, end, room)
            place += 1
            put8(ends, place, end)
    return True


@unit
def gather(state: Int, made: Int, event: Int, out: Int, start: Int, room: Int) -> Int:
    """Write the results for an event of the tile, whose values are at hand; return where they end,
    or TOO_SHORT."""
    ends, found, end = get8(made, W_ENDS), get8(made, W_FOUND), start
    tile, scratch = get8(made, W_TILE), get8(state, S_SCRATCH)
    for b in range(get8(made, W_BLOCKS)):
        first, last = get8(ends, b * tile + event), get8(ends, b * tile + event + 1)
        if end + get8(scratch, X_CHECKS) + last - first + SPARE > room:
            put8(scratch, X_CHECKS, 0)
            return TOO_SHORT
        for i in range(first, last):
            handle = get8(found, i)
            if handle >= 0:
                put8(out, end, handle)
                end += 1
            else:
                end = check_later(state, -handle, scratch, out, end)
    return check_all(state, scratch, out, end)

"""The kernels that Python calls. `state` is the address of a state (see `state`).

A filter has a *handle*, a small number from Python; kernels write handles. Their order depends only
on the sequence of additions and removals."""

from __future__ import annotations

from reefcast.matching.attributes import attribute_at
from reefcast.matching.chains import I_NEXT, SHARDS, first_at, leave_table, new_table
from reefcast.matching.cuts import SLOT_BYTES
from reefcast.matching.events import PACKED, read_event, read_row_of
from reefcast.matching.grams import leave_grams
from reefcast.matching.machine import (
    Int,
    allocate,
    compile_units,
    get8,
    kernel,
    part,
    put8,
    release,
    unit,
)
from reefcast.matching.packed import read_array
from reefcast.matching.partitions import NO_ATTRIBUTE, leave_partition, new_partition
from reefcast.matching.placing import add_row, remove_row
from reefcast.matching.programs import leave_programs
from reefcast.matching.rows import (
    MULTI,
    PROGRAM,
    flags_of,
    leave_row,
    next_row,
    read_row,
    set_next_row,
)
from reefcast.matching.search import SCRATCH_BYTES, TOO_SHORT, search, search_splits
from reefcast.matching.state import (
    A_PIECES,
    A_WORDS,
    L_WORDS,
    LAYOUT,
    S_ATTRIBUTE_COUNT,
    S_ATTRIBUTE_ROOM,
    S_ATTRIBUTES,
    S_BLOCK_COUNT,
    S_BLOCK_ROOM,
    S_BLOCKS,
    S_DEFAULT,
    S_END,
    S_FIRST,
    S_HANDLE_ROOM,
    S_LAYOUT,
    S_MULTI,
    S_PARTITIONS,
    S_PROGRAMMED,
    S_ROWS,
    S_SCRATCH,
    S_SEEN,
    S_SLOT_ROOM,
    S_SLOTS,
    S_SPLITS,
    S_TEXTS,
    S_TILE,
    S_VALUE,
    S_VALUES,
    T_ATTRIBUTE,
    V_WORDS,
    lengthened,
    new_zeroed,
)
from reefcast.matching.sweep import TILE, W_TILE, gather, is_worth_it, leave_sweep, sweep
from reefcast.matching.texts import find_text

__all__ = [
    "NO_VALUE",
    "TOO_SHORT",
    "add_filter",
    "attribute_number",
    "finish",
    "match_columns",
    "match_events",
    "remove_filter",
    "start",
]

NO_VALUE = -2
"""The result of matching an event with an unsupported value; `TOO_SHORT` if `out` is too short."""

FIRST_ROOM = 16
HANDLE_STEP = 1 << 16
"""The most handles that room is made for at once: a larger step would be a long pause."""


@kernel
def start(state: Int) -> None:
    """Build an empty index in a state of zeros."""
    put8(state, S_TEXTS, new_table(state))
    put8(state, S_PARTITIONS, new_table(state))
    put8(state, S_ATTRIBUTES, new_zeroed(state, 8 * A_WORDS * FIRST_ROOM))
    put8(state, S_VALUES, new_zeroed(state, 8 * V_WORDS * FIRST_ROOM))
    put8(state, S_ATTRIBUTE_ROOM, FIRST_ROOM)
    put8(state, S_SPLITS, new_zeroed(state, 8 * FIRST_ROOM))
    put8(state, S_BLOCKS, new_zeroed(state, 8 * FIRST_ROOM))
    put8(state, S_BLOCK_ROOM, FIRST_ROOM)
    put8(state, S_BLOCK_COUNT, 1)
    put8(state, S_FIRST, new_zeroed(state, 8 * FIRST_ROOM))
    put8(state, S_HANDLE_ROOM, FIRST_ROOM)
    put8(state, S_SLOTS, new_zeroed(state, SLOT_BYTES * FIRST_ROOM))
    put8(state, S_SLOT_ROOM, FIRST_ROOM)
    put8(state, S_VALUE, new_zeroed(state, 8 * V_WORDS))
    put8(state, S_SCRATCH, new_zeroed(state, SCRATCH_BYTES))
    put8(state, S_LAYOUT, new_zeroed(state, 8 * L_WORDS * LAYOUT))
    put8(state, S_TILE, TILE)
    put8(state, S_DEFAULT, new_partition(state, NO_ATTRIBUTE, 0, 0))


# --- filters in and out ---------------------------------------------------------------------------


@part
def _make_room(state: Int, handle: Int) -> None:
    room = get8(state, S_HANDLE_ROOM)
    if handle >= room:
        more = room + min(room, HANDLE_STEP)
        put8(state, S_FIRST, lengthened(state, get8(state, S_FIRST), 8 * room, 8 * more))
        if get8(state, S_SEEN) != 0:
            put8(state, S_SEEN, lengthened(state, get8(state, S_SEEN), 8 * room, 8 * more))
        put8(state, S_HANDLE_ROOM, more)


@kernel
def add_filter(state: Int, handle: Int, data: Int) -> None:
    """Add a filter. `data`: a packed list of its conjunctions; each is a list of whether Python
    must decide about it, and its map from attributes to constraints."""
    _make_room(state, handle)
    count, at = read_array(data)
    first = get8(state, S_FIRST) + 8 * handle
    put8(first, 0, 0)
    if count > 1:
        put8(state, S_MULTI, get8(state, S_MULTI) + 1)
        if get8(state, S_SEEN) == 0:
            put8(state, S_SEEN, new_zeroed(state, 8 * get8(state, S_HANDLE_ROOM)))
    put8(state, S_ROWS, get8(state, S_ROWS) + count)
    for _ in range(count):
        row = read_row(state, at, handle, MULTI if count > 1 else 0)
        at = get8(state, S_END)
        put8(state, S_PROGRAMMED, get8(state, S_PROGRAMMED) + (flags_of(row) & PROGRAM))
        if count > 1:
            set_next_row(row, get8(first, 0))
        put8(first, 0, row)
        add_row(state, row)


@kernel
def remove_filter(state: Int, handle: Int) -> None:
    row = get8(get8(state, S_FIRST), handle)
    if row != 0 and flags_of(row) & MULTI:
        put8(state, S_MULTI, get8(state, S_MULTI) - 1)
    while row != 0:
        following = next_row(row)
        put8(state, S_ROWS, get8(state, S_ROWS) - 1)
        put8(state, S_PROGRAMMED, get8(state, S_PROGRAMMED) - (flags_of(row) & PROGRAM))
        remove_row(state, row)
        leave_row(state, row)
        row = following
    put8(get8(state, S_FIRST), handle, 0)


# --- matching -------------------------------------------------------------------------------------


@unit
def _match_batch(
    state: Int, table: Int, attributes: Int, columns: Int, rows: Int, out: Int, room: Int
) -> Int:
    """Match the rows of a batch, see `events.read_row_of`; the rest as for `match_events`."""
    first = end = rows + 1
    event = tile = swept = 0
    for row in range(rows):
        if event == tile:
            leave_sweep(swept)
            swept = sweep(state, table, attributes, columns, row, rows - row)
            tile = get8(swept, W_TILE) if swept != 0 else min(TILE, rows - row)
            event = 0
        read_row_of(state, table, attributes, columns, row)
        if swept != 0:
            found = gather(state, swept, event, out, end, room)
            end = search_splits(state, out, end, found, room)
        else:
            end = search(state, out, end, room)
        if end < 0:
            break
        put8(out, row + 1, end - first)
        event += 1
    leave_sweep(swept)
    return end


@part
def _match_swept(state: Int, at: Int, events: Int, out: Int, room: Int) -> Int:
    """Match packed events, the first of which is at `at`, block by block."""
    addresses = allocate(8 * events)
    end = 0
    for event in range(events):
        put8(addresses, event, at)
        if end == 0:
            at = read_event(state, at)
            end = NO_VALUE if at == 0 else 0
    if end == 0:
        end = _match_batch(state, addresses, 0, PACKED, events, out, room)
    release(addresses)
    return end


@kernel
def match_events(state: Int, data: Int, out: Int, room: Int) -> Int:
    """Match a packed list of events (maps); return how many words of `out` are used.

    `out` starts with events + 1 offsets, counted from behind them: where the handles of each event
    start and end."""
    events, at = read_array(data)
    if room < events + 1:
        return TOO_SHORT
    first = end = events + 1
    put8(out, 0, 0)
    if is_worth_it(state, events):
        return _match_swept(state, at, events, out, room)
    for event in range(events):
        at = read_event(state, at)
        end = NO_VALUE if at == 0 else search(state, out, end, room)
        if end < 0:
            break
        put8(out, event + 1, end - first)
    return end


@kernel
def match_columns(
    state: Int, table: Int, attributes: Int, columns: Int, rows: Int, out: Int, room: Int
) -> Int:
    """Match the rows of columns; `attributes` has the number of each column, see
    `attribute_number`."""
    if room < rows + 1:
        return TOO_SHORT
    put8(out, 0, 0)
    return _match_batch(state, table, attributes, columns, rows, out, room)


@kernel
def attribute_number(state: Int, name: Int, size: Int) -> Int:
    """Return the number of the attribute, -1 if no filter names it."""
    text = find_text(state, name, size)
    return get8(text, T_ATTRIBUTE) - 1 if text != 0 else -1


# --- the end --------------------------------------------------------------------------------------


@part
def _leave_items(table: Int, state: Int) -> None:
    """Free the items of a table of partitions, or, without a state, of texts."""
    for shard in range(SHARDS):
        chain = 0
        item = first_at(table, shard, chain)
        while item >= 0:
            while item != 0:
                following = get8(item, I_NEXT)
                if state != 0:
                    leave_partition(state, item)
                else:
                    release(item)
                item = following
            chain += 1
            item = first_at(table, shard, chain)
    leave_table(table)


@kernel
def finish(state: Int) -> None:
    """Free all memory; the state cannot be used any more."""
    for handle in range(get8(state, S_HANDLE_ROOM)):
        row = get8(get8(state, S_FIRST), handle)
        while row != 0:
            following = next_row(row)
            leave_row(state, row)
            row = following
    _leave_items(get8(state, S_PARTITIONS), state)
    leave_partition(state, get8(state, S_DEFAULT))
    leave_programs(state)
    leave_grams(state)
    for number in range(get8(state, S_ATTRIBUTE_COUNT)):
        release(get8(attribute_at(state, number), A_PIECES))
    _leave_items(get8(state, S_TEXTS), 0)
    for word in (S_ATTRIBUTES, S_VALUES, S_SPLITS, S_BLOCKS, S_FIRST, S_SEEN, S_SLOTS):
        release(get8(state, word))
    for word in (S_VALUE, S_SCRATCH, S_LAYOUT):
        release(get8(state, word))


compile_units()

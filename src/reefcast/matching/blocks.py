"""Blocks: up to 4096 rows with bitmaps over them.

For each slot of its cuts a block has two bitmaps, with a bit for each row: *excluded*, the row
cannot hold if the attribute's value is in this slot; *unsure*, an end of the row's interval lies
within the slot, so only a look at the row itself can tell. A row that does not constrain an
attribute has no bit there. To match an event, take the slots of its values: rows without a bit in
any excluded bitmap are the survivors; survivors without a bit in any unsure bitmap hold for
certain, and the few others are checked one by one.

A block grows by doubling. Its rows never move within it: a removed row leaves a hole until the
block is rebuilt."""

from __future__ import annotations

from reefcast.matching.cuts import (
    LANE_BYTES,
    lane_groups,
    leave_cuts,
)
from reefcast.matching.machine import (
    Int,
    copy_bytes,
    get8,
    ones,
    part,
    put4,
    put8,
    unit,
)
from reefcast.matching.marks import DOUBTED, UNSCALED, mark, scale
from reefcast.matching.rows import (
    handle_of,
    set_place,
)
from reefcast.matching.state import (
    B_ALIVE,
    B_BYTES,
    B_CAPACITY,
    B_CUTS,
    B_DEAD,
    B_DOUBTED,
    B_EXCLUDED,
    B_HANDLES,
    B_NUMBER,
    B_PARTITION,
    B_ROWS,
    B_SCALED,
    B_SHIFT,
    B_UNSCALED,
    B_UNSURE,
    B_USED,
    B_WORDS,
    C_SLOTS,
    C_USERS,
    S_BLOCK_COUNT,
    S_BLOCK_ROOM,
    S_BLOCKS,
    S_FREE_BLOCK,
    give_back,
    longer,
    new_zeroed,
)
from reefcast.matching.vectors import GROUP_BYTES

MOST_ROWS = 4096


# --- a block's memory -----------------------------------------------------------------------------


@part
def _number_block(state: Int, block: Int) -> Int:
    """Return a new number for the block; 0 stands for none."""
    free = get8(state, S_FREE_BLOCK)
    if free != 0:
        number = free - 1
        put8(state, S_FREE_BLOCK, get8(get8(state, S_BLOCKS), number))
    else:
        number, room = get8(state, S_BLOCK_COUNT), get8(state, S_BLOCK_ROOM)
        if number == room:
            put8(state, S_BLOCKS, longer(state, get8(state, S_BLOCKS), 8 * room, 16 * room))
            put8(state, S_BLOCK_ROOM, 2 * room)
        put8(state, S_BLOCK_COUNT, number + 1)
    put8(get8(state, S_BLOCKS), number, block)
    return number


@unit
def new_block(state: Int, partition: Int, capacity: Int, cuts: Int) -> Int:
    """Return an empty block of the partition, with one more user of the cuts.

    Bitmaps are read in groups of 512 rows, so memory behind the last one must be readable; the bits
    read there are masked by `B_DEAD`, which has whole groups."""
    shift = 3
    while (8 << shift) < capacity:
        shift += 1
    table = get8(cuts, C_SLOTS) << shift
    mask = max(1 << shift, GROUP_BYTES)
    scaled_size = LANE_BYTES * lane_groups(cuts) * capacity
    size = 8 * B_WORDS + 2 * table + 3 * mask + 3 * GROUP_BYTES + 12 * capacity + scaled_size
    block = new_zeroed(state, size)
    excluded = (block + 8 * B_WORDS + GROUP_BYTES - 1) & -GROUP_BYTES
    dead = excluded + 2 * table
    put8(block, B_PARTITION, partition)
    put8(block, B_NUMBER, _number_block(state, block))
    put8(block, B_SHIFT, shift)
    put8(block, B_CAPACITY, capacity)
    put8(block, B_CUTS, cuts)
    put8(cuts, C_USERS, get8(cuts, C_USERS) + 1)
    put8(block, B_EXCLUDED, excluded)
    put8(block, B_UNSURE, excluded + table)
    put8(block, B_DEAD, dead)
    put8(block, B_DOUBTED, dead + mask)
    put8(block, B_UNSCALED, dead + 2 * mask)
    rows = dead + 3 * mask + GROUP_BYTES
    put8(block, B_ROWS, rows)
    put8(block, B_HANDLES, rows + 8 * capacity)
    put8(block, B_SCALED, rows + 12 * capacity)
    put8(block, B_BYTES, size)
    for i in range(mask >> 3):
        put8(dead, i, -1)
    return block


@unit
def leave_block(state: Int, block: Int) -> None:
    """Free the block, not its rows."""
    number = get8(block, B_NUMBER)
    put8(get8(state, S_BLOCKS), number, get8(state, S_FREE_BLOCK))
    put8(state, S_FREE_BLOCK, number + 1)
    leave_cuts(state, get8(block, B_CUTS))
    give_back(state, block, get8(block, B_BYTES))


# --- rows in and out ------------------------------------------------------------------------------


@part
def _set_bit(bitmap: Int, word: Int, bit: Int) -> None:
    put8(bitmap, word, get8(bitmap, word) | bit)


@part
def _settle(block: Int, place: Int, row: Int, checks: Int) -> None:
    """Put a row at its place in the block, except for the bitmaps of slots."""
    word, bit = place >> 6, 1 << (place & 63)
    dead = get8(block, B_DEAD)
    put8(dead, word, get8(dead, word) & ~bit)
    if checks & DOUBTED:
        _set_bit(get8(block, B_DOUBTED), word, bit)
    if checks & UNSCALED:
        _set_bit(get8(block, B_UNSCALED), word, bit)
    cuts = get8(block, B_CUTS)
    scale(cuts, row, get8(block, B_SCALED) + LANE_BYTES * lane_groups(cuts) * place)
    put8(get8(block, B_ROWS), place, row)
    put4(get8(block, B_HANDLES), place, handle_of(row))
    set_place(row, get8(block, B_NUMBER), place)
    put8(block, B_USED, place + 1)
    put8(block, B_ALIVE, get8(block, B_ALIVE) + 1)


@unit
def enter(block: Int, row: Int) -> None:
    """Enter a row into a block, which must have room."""
    place, shift = get8(block, B_USED), get8(block, B_SHIFT)
    column = 8 * (place >> 6)
    excluded, unsure = get8(block, B_EXCLUDED) + column, get8(block, B_UNSURE) + column
    checks = mark(get8(block, B_CUTS), row, excluded, unsure, shift, 1 << (place & 63))
    _settle(block, place, row, checks)


@unit
def fill(state: Int, block: Int, rows: Int, count: Int) -> None:
    """Enter `count` rows into an empty block.

    Bits are set for 64 rows at a time, in a column of adjacent words: the words of the bitmaps lie
    far apart."""
    cuts, shift = get8(block, B_CUTS), get8(block, B_SHIFT)
    slots = get8(cuts, C_SLOTS)
    size = 16 * slots
    columns = new_zeroed(state, size)
    for start in range(0, count, 64):
        for place in range(start, min(start + 64, count)):
            row = get8(rows, place)
            bit = 1 << (place & 63)
            _settle(block, place, row, mark(cuts, row, columns, columns + 8 * slots, 3, bit))
        excluded = get8(block, B_EXCLUDED) + (start >> 3)
        for slot in range(2 * slots):
            put8(excluded + (slot << shift), 0, get8(columns, slot))
            put8(columns, slot, 0)
    give_back(state, columns, size)


@part
def take_out(block: Int, place: Int) -> None:
    word, bit = place >> 6, 1 << (place & 63)
    dead = get8(block, B_DEAD)
    put8(dead, word, get8(dead, word) | bit)
    put8(get8(block, B_ROWS), place, 0)
    put8(block, B_ALIVE, get8(block, B_ALIVE) - 1)


@unit
def list_rows(block: Int, out: Int) -> Int:
    """Write the addresses of the rows in the order in which they were entered; return how many
    there are."""
    rows, count = get8(block, B_ROWS), 0
    for place in range(get8(block, B_USED)):
        row = get8(rows, place)
        if row != 0:
            put8(out, count, row)
            count += 1
    return count


@unit
def grow(state: Int, block: Int) -> Int:
    """Return a block with the same rows and cuts and twice the room; free the old block."""
    cuts = get8(block, B_CUTS)
    larger = new_block(state, get8(block, B_PARTITION), 2 * get8(block, B_CAPACITY), cuts)
    size = 1 << get8(block, B_SHIFT)
    for slot in range(2 * get8(cuts, C_SLOTS)):
        copy_bytes(
            get8(larger, B_EXCLUDED) + (slot << get8(larger, B_SHIFT)),
            get8(block, B_EXCLUDED) + slot * size,
            size,
        )
    for word in (B_DEAD, B_DOUBTED, B_UNSCALED):
        copy_bytes(get8(larger, word), get8(block, word), size)
    capacity, number = get8(block, B_CAPACITY), get8(larger, B_NUMBER)
    copy_bytes(get8(larger, B_ROWS), get8(block, B_ROWS), 8 * capacity)
    copy_bytes(get8(larger, B_HANDLES), get8(block, B_HANDLES), 4 * capacity)
    scaled_size = LANE_BYTES * lane_groups(cuts) * capacity
    copy_bytes(get8(larger, B_SCALED), get8(block, B_SCALED), scaled_size)
    for place in range(capacity):
        row = get8(get8(larger, B_ROWS), place)
        if row != 0:
            set_place(row, number, place)
    put8(larger, B_USED, get8(block, B_USED))
    put8(larger, B_ALIVE, get8(block, B_ALIVE))
    leave_block(state, block)
    return larger


@unit
def unsure_pairs(block: Int) -> Int:
    """Return how many pairs of rows are unsure in the same slot, over all slots: a measure of how
    badly the cuts fit the rows. The number of unsure rows would not do: all rows that came after a
    drift may share one slot, and every event in that slot has to check them."""
    table, words = get8(block, B_UNSURE), 1 << get8(block, B_SHIFT) >> 3
    pairs = 0
    for slot in range(get8(get8(block, B_CUTS), C_SLOTS)):
        count = 0
        for i in range(slot * words, (slot + 1) * words):
            count += ones(get8(table, i))
        pairs += count * (count - 1)
    return pairs

"""Finding the rows that hold for the event at hand: the inner loops."""

from __future__ import annotations

from reefcast.matching.cuts import event_slots
from reefcast.matching.machine import (
    GROUP_BYTES,
    GROUP_WORDS,
    Int,
    get4,
    get8,
    part,
    prefetch,
    put8,
    trailing_zeros,
    union_of,
    unit,
)
from reefcast.matching.partitions import ANY_KIND, find_partition
from reefcast.matching.rows import CHECKED, attribute_at, flags_of, handle_of, row_holds, value_at
from reefcast.matching.state import (
    A_SPLIT,
    B_CUTS,
    B_DEAD,
    B_DOUBTED,
    B_EXCLUDED,
    B_HANDLES,
    B_ROWS,
    B_SHIFT,
    B_UNSURE,
    BY_PRESENCE,
    BY_VALUE,
    NUMBER,
    P_BLOCKS,
    P_COUNT,
    P_LIST,
    S_DEFAULT,
    S_MULTI,
    S_SEEN,
    S_SLOTS,
    S_SPLIT_COUNT,
    S_SPLITS,
    S_STAMP,
    STRING,
    V_KEY,
    V_KIND,
)

TOO_SHORT = -1
"""In place of the end of what was found: `out` has no room for all of it."""

X_COUNT = 2 * GROUP_WORDS
X_ROWS = X_COUNT + 1
PUT_OFF = 1024
SCRATCH_BYTES = 8 * (X_ROWS + PUT_OFF)
"""Two unions, and rows whose check is put off until their memory has come: how many, and which."""

LINES_OF_A_ROW = 3


@unit
def _check(state: Int, row: Int, out: Int, end: Int) -> Int:
    """Appends the row's handle if it holds, as -1 - handle if Python decides; the new end."""
    if not row_holds(state, row):
        return end
    handle = handle_of(row)
    put8(out, end, -1 - handle if flags_of(row) & CHECKED else handle)
    return end + 1


@part
def _check_all(state: Int, scratch: Int, out: Int, end: Int) -> Int:
    """Checks the rows that were put off."""
    for i in range(get8(scratch, X_COUNT)):
        end = _check(state, get8(scratch, X_ROWS + i), out, end)
    put8(scratch, X_COUNT, 0)
    return end


@part
def _search_word(
    block: Int, word: Int, certain: Int, unsure: Int, scratch: Int, out: Int, end: Int
) -> Int:
    """The rows of 64: those with a bit in `certain` hold, those in `unsure` are put off."""
    handles, rows = get8(block, B_HANDLES) + 256 * word, get8(block, B_ROWS) + 512 * word
    while certain != 0:
        put8(out, end, get4(handles, trailing_zeros(certain)))
        end += 1
        certain &= certain - 1
    count = get8(scratch, X_COUNT)
    while unsure != 0:
        row = get8(rows, trailing_zeros(unsure))
        for line in range(0, LINES_OF_A_ROW):
            prefetch(row + GROUP_BYTES * line)
        put8(scratch, X_ROWS + count, row)
        count += 1
        unsure &= unsure - 1
    put8(scratch, X_COUNT, count)
    return end


@part
def _search_block(
    state: Int, block: Int, slots: Int, count: Int, scratch: Int, out: Int, end: Int, room: Int
) -> Int:
    """`slots`: of the event, under the block's cuts."""
    shift = get8(block, B_SHIFT)
    excluded, unsure = get8(block, B_EXCLUDED), get8(block, B_UNSURE)
    dead, doubted = get8(block, B_DEAD), get8(block, B_DOUBTED)
    others = scratch + GROUP_BYTES
    for at in range(0, 1 << shift, GROUP_BYTES):
        if not union_of(dead + at, excluded + at, slots, count, shift, scratch):
            continue
        union_of(doubted + at, unsure + at, slots, count, shift, others)
        waiting = get8(scratch, X_COUNT)
        if end + waiting + 64 * GROUP_WORDS > room:
            return TOO_SHORT
        if waiting > PUT_OFF - 64 * GROUP_WORDS:
            end = _check_all(state, scratch, out, end)
        for i in range(GROUP_WORDS):
            survivors = ~get8(scratch, i)
            if survivors != 0:
                unsure_rows = survivors & get8(others, i)
                certain = survivors ^ unsure_rows
                end = _search_word(block, (at >> 3) + i, certain, unsure_rows, scratch, out, end)
    return end


@part
def _search_partition(
    state: Int, partition: Int, scratch: Int, out: Int, end: Int, room: Int
) -> Int:
    items, count = get8(partition, P_LIST), get8(partition, P_COUNT)
    if not get8(partition, P_BLOCKS):
        if end + count > room:
            return TOO_SHORT
        for i in range(count):
            end = _check(state, get8(items, i), out, end)
        return end
    slots, slot_count, cuts = get8(state, S_SLOTS), 0, 0
    for i in range(count):
        block = get8(items, i)
        if get8(block, B_CUTS) != cuts:
            cuts = get8(block, B_CUTS)
            slot_count = event_slots(state, cuts)
        end = _search_block(state, block, slots, slot_count, scratch, out, end, room)
        if end < 0:
            put8(scratch, X_COUNT, 0)
            return TOO_SHORT
    return _check_all(state, scratch, out, end)


@part
def _search_split(state: Int, attribute: Int, scratch: Int, out: Int, end: Int, room: Int) -> Int:
    """The partitions that the event's value of the attribute leads to."""
    split = get8(attribute_at(state, attribute), A_SPLIT)
    value = value_at(state, attribute)
    kind, key = get8(value, V_KIND), get8(value, V_KEY)
    if split & BY_VALUE and (kind == NUMBER or (kind == STRING and key != 0)):
        partition = find_partition(state, attribute, kind, key)
        if partition != 0:
            end = _search_partition(state, partition, scratch, out, end, room)
    if split & BY_PRESENCE and end >= 0:
        partition = find_partition(state, attribute, ANY_KIND, 0)
        if partition != 0:
            end = _search_partition(state, partition, scratch, out, end, room)
    return end


@part
def _drop_repeated(state: Int, out: Int, start: Int, end: Int) -> Int:
    """Leaves each filter once: one of several rows is found by each of them that holds.

    A filter that Python decides about may be there both ways; Python sees to that.
    """
    seen, stamp, kept = get8(state, S_SEEN), get8(state, S_STAMP), start
    for i in range(start, end):
        found = get8(out, i)
        if found < 0 or get8(seen, found) != stamp:
            if found >= 0:
                put8(seen, found, stamp)
            put8(out, kept, found)
            kept += 1
    return kept


@unit
def search(state: Int, scratch: Int, out: Int, start: Int, room: Int) -> Int:
    """Writes what holds for the event at hand to `out` from word `start` on; where it ends, or
    `TOO_SHORT`. `scratch`: SCRATCH_BYTES, of which word X_COUNT is 0."""
    end = _search_partition(state, get8(state, S_DEFAULT), scratch, out, start, room)
    for i in range(get8(state, S_SPLIT_COUNT)):
        if end >= 0:
            attribute = get8(get8(state, S_SPLITS), i)
            end = _search_split(state, attribute, scratch, out, end, room)
    if get8(state, S_MULTI) > 0 and end >= 0:
        end = _drop_repeated(state, out, start, end)
    return end

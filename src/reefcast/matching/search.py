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


@part
def _check(state: Int, row: Int, out: Int, end: Int) -> Int:
    """Appends the row's handle if it holds, as -1 - handle if Python decides; the new end."""
    if not row_holds(state, row):
        return end
    handle = handle_of(row)
    put8(out, end, -1 - handle if flags_of(row) & CHECKED else handle)
    return end + 1


@part
def _search_word(
    state: Int, block: Int, word: Int, certain: Int, unsure: Int, out: Int, end: Int
) -> Int:
    """The rows of 64: those with a bit in `certain`, and those in `unsure` that hold."""
    handles, rows = get8(block, B_HANDLES) + 256 * word, get8(block, B_ROWS) + 512 * word
    while certain != 0:
        put8(out, end, get4(handles, trailing_zeros(certain)))
        end += 1
        certain &= certain - 1
    while unsure != 0:
        end = _check(state, get8(rows, trailing_zeros(unsure)), out, end)
        unsure &= unsure - 1
    return end


@part
def _search_block(
    state: Int, block: Int, slots: Int, count: Int, unions: Int, out: Int, end: Int, room: Int
) -> Int:
    """`slots`: of the event, under the block's cuts; `unions`: room for 16 words."""
    shift = get8(block, B_SHIFT)
    size = 1 << shift
    excluded, unsure = get8(block, B_EXCLUDED), get8(block, B_UNSURE)
    dead, doubted = get8(block, B_DEAD), get8(block, B_DOUBTED)
    others = unions + GROUP_BYTES
    for at in range(0, size, GROUP_BYTES):
        if not union_of(dead + at, excluded + at, slots, count, shift, unions):
            continue
        union_of(doubted + at, unsure + at, slots, count, shift, others)
        if end + 64 * GROUP_WORDS > room:
            return TOO_SHORT
        for i in range(GROUP_WORDS):
            survivors = ~get8(unions, i)
            if survivors != 0:
                unsure_rows = survivors & get8(others, i)
                word = (at >> 3) + i
                end = _search_word(
                    state, block, word, survivors ^ unsure_rows, unsure_rows, out, end
                )
    return end


@part
def _search_partition(
    state: Int, partition: Int, unions: Int, out: Int, end: Int, room: Int
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
        end = _search_block(state, block, slots, slot_count, unions, out, end, room)
        if end < 0:
            return TOO_SHORT
    return end


@part
def _search_split(
    state: Int, attribute: Int, unions: Int, out: Int, end: Int, room: Int
) -> Int:
    """The partitions that the event's value of the attribute leads to."""
    split = get8(attribute_at(state, attribute), A_SPLIT)
    value = value_at(state, attribute)
    kind, key = get8(value, V_KIND), get8(value, V_KEY)
    if split & BY_VALUE and (kind == NUMBER or (kind == STRING and key != 0)):
        partition = find_partition(state, attribute, kind, key)
        if partition != 0:
            end = _search_partition(state, partition, unions, out, end, room)
    if split & BY_PRESENCE and end >= 0:
        partition = find_partition(state, attribute, ANY_KIND, 0)
        if partition != 0:
            end = _search_partition(state, partition, unions, out, end, room)
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
def search(state: Int, unions: Int, out: Int, start: Int, room: Int) -> Int:
    """Writes what holds for the event at hand to `out` from word `start` on; where it ends, or
    `TOO_SHORT`. Short by less than 512 words of room is short, too."""
    end = _search_partition(state, get8(state, S_DEFAULT), unions, out, start, room)
    for i in range(get8(state, S_SPLIT_COUNT)):
        if end >= 0:
            attribute = get8(get8(state, S_SPLITS), i)
            end = _search_split(state, attribute, unions, out, end, room)
    if get8(state, S_MULTI) > 0 and end >= 0:
        end = _drop_repeated(state, out, start, end)
    return end

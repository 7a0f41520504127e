"""Finding the rows that hold for the event at hand: the inner loops."""

from __future__ import annotations

from reefcast.matching.blocks import MOST_ROWS
from reefcast.matching.cuts import NO_SCALE, entry_at, event_slots
from reefcast.matching.machine import (
    GROUP_BYTES,
    GROUP_WORDS,
    Int,
    common_of,
    get4,
    get8,
    part,
    prefetch,
    put8,
    survivors_of,
    trailing_zeros,
    unit,
)
from reefcast.matching.partitions import ANY_KIND, find_partition
from reefcast.matching.rows import CHECKED, attribute_at, flags_of, handle_of, row_holds, value_at
from reefcast.matching.state import (
    A_SPLIT,
    B_CAPACITY,
    B_CUTS,
    B_DEAD,
    B_DOUBTED,
    B_EXCLUDED,
    B_HANDLES,
    B_ROWS,
    B_SCALED,
    B_SHIFT,
    B_UNSURE,
    BY_PRESENCE,
    BY_VALUE,
    CA_SCALE,
    NUMBER,
    P_BLOCKS,
    P_COUNT,
    P_LIST,
    S_DEFAULT,
    S_MULTI,
    S_SEEN,
    S_SLOT_ROOM,
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

# Words of the scratch memory: bits of 512 rows, then bits of a block's rows, then lists.
X_SURVIVORS, X_COMMON, X_UNSURE = 0, GROUP_WORDS, 2 * GROUP_WORDS
X_FAILED = X_UNSURE + MOST_ROWS // 64
X_DOUBTS = X_FAILED + MOST_ROWS // 64
X_LOOKS = X_DOUBTS + MOST_ROWS // 64
MOST_LOOKS = 1024
X_COUNT = X_LOOKS + 1 + 2 * MOST_LOOKS
PUT_OFF = 1024
SCRATCH_BYTES = 8 * (X_COUNT + 1 + PUT_OFF)
"""How many scaled bounds must be looked at, and for each its address, the row's place and the
event's scaled key; how many rows must be checked, and their addresses. Both are put off until their
memory has come: to wait for each would take ten times as long."""

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
        end = _check(state, get8(scratch, X_COUNT + 1 + i), out, end)
    put8(scratch, X_COUNT, 0)
    return end


@part
def _put_off(block: Int, word: Int, doubted: Int, scratch: Int) -> None:
    """The rows of 64 that must be checked."""
    rows, count = get8(block, B_ROWS) + 512 * word, get8(scratch, X_COUNT)
    while doubted != 0:
        row = get8(rows, trailing_zeros(doubted))
        for line in range(LINES_OF_A_ROW):
            prefetch(row + GROUP_BYTES * line)
        count += 1
        put8(scratch, X_COUNT + count, row)
        doubted &= doubted - 1
    put8(scratch, X_COUNT, count)


@part
def _write(block: Int, word: Int, certain: Int, out: Int, end: Int) -> Int:
    """The handles of the rows of 64 that hold; the new end."""
    handles = get8(block, B_HANDLES) + 256 * word
    while certain != 0:
        put8(out, end, get4(handles, trailing_zeros(certain)))
        end += 1
        certain &= certain - 1
    return end


@part
def _plan_looks(column: Int, word: Int, common: Int, key: Int, scratch: Int) -> Int:
    """Notes the scaled bounds that must be looked at; the rows for which there is no room."""
    count = get8(scratch, X_LOOKS)
    while common != 0 and count < MOST_LOOKS:
        place = (word << 6) + trailing_zeros(common)
        prefetch(column + 4 * place)
        put8(scratch, X_LOOKS + 1 + 2 * count, column + 4 * place)
        put8(scratch, X_LOOKS + 2 + 2 * count, key << 12 | place)
        count += 1
        common &= common - 1
    put8(scratch, X_LOOKS, count)
    return common


@part
def _find_unsure(block: Int, at: Int, slots: Int, places: Int, count: Int, scratch: Int) -> None:
    """Of the survivors of a group, notes those for which the event's value lies in a slot with an
    end of their interval."""
    shift, unsure, first = get8(block, B_SHIFT), get8(block, B_UNSURE) + at, at >> 3
    cuts, capacity = get8(block, B_CUTS), get8(block, B_CAPACITY)
    for i in range(GROUP_WORDS):
        doubted = get8(get8(block, B_DOUBTED) + at, i) & get8(scratch, X_SURVIVORS + i)
        put8(scratch, X_UNSURE + first + i, doubted)
        put8(scratch, X_DOUBTS + first + i, doubted)
        put8(scratch, X_FAILED + first + i, 0)
    for a in range(count):
        if not common_of(scratch, unsure + (get8(slots, a) << shift), scratch + 8 * X_COMMON):
            continue
        key = get8(places, a)
        column = get8(block, B_SCALED) + 4 * capacity * get8(entry_at(cuts, a), CA_SCALE)
        for word in range(first, first + GROUP_WORDS):
            common = get8(scratch, X_COMMON + word - first)
            if common != 0:
                put8(scratch, X_UNSURE + word, get8(scratch, X_UNSURE + word) | common)
                if key != NO_SCALE:
                    common = _plan_looks(column, word, common, key, scratch)
                put8(scratch, X_DOUBTS + word, get8(scratch, X_DOUBTS + word) | common)


@part
def _look(scratch: Int) -> None:
    """Looks at the scaled bounds that were noted: some rows do not hold, some stay in doubt."""
    for i in range(get8(scratch, X_LOOKS)):
        bounds = get4(get8(scratch, X_LOOKS + 1 + 2 * i), 0)
        noted = get8(scratch, X_LOOKS + 2 + 2 * i)
        low, high, key = bounds & 0xFFFF, bounds >> 16, noted >> 12
        word, bit = (noted & 0xFFF) >> 6, 1 << (noted & 63)
        doubt = key == low or key == high or low > high
        failed = key < low or key > high
        put8(scratch, X_DOUBTS + word, get8(scratch, X_DOUBTS + word) | (bit if doubt else 0))
        put8(
            scratch,
            X_FAILED + word,
            get8(scratch, X_FAILED + word) | (bit if failed and not doubt else 0),
        )
    put8(scratch, X_LOOKS, 0)


@part
def _settle_unsure(
    state: Int, block: Int, groups: Int, scratch: Int, out: Int, end: Int, room: Int
) -> Int:
    """Writes the unsure rows that hold after all; those still in doubt are put off. `groups`: a bit
    for each group that had survivors."""
    _look(scratch)
    while groups != 0:
        first = trailing_zeros(groups) * GROUP_WORDS
        groups &= groups - 1
        waiting = get8(scratch, X_COUNT)
        if end + waiting + 64 * GROUP_WORDS > room:
            return TOO_SHORT
        if waiting > PUT_OFF - 64 * GROUP_WORDS:
            end = _check_all(state, scratch, out, end)
        for word in range(first, first + GROUP_WORDS):
            left = get8(scratch, X_UNSURE + word) & ~get8(scratch, X_FAILED + word)
            if left != 0:
                doubted = left & get8(scratch, X_DOUBTS + word)
                end = _write(block, word, left ^ doubted, out, end)
                _put_off(block, word, doubted, scratch)
    return end


@part
def _search_block(
    state: Int,
    block: Int,
    slots: Int,
    places: Int,
    count: Int,
    scratch: Int,
    out: Int,
    end: Int,
    room: Int,
) -> Int:
    """`slots`, `places`: of the event, under the block's cuts."""
    shift, excluded, dead = get8(block, B_SHIFT), get8(block, B_EXCLUDED), get8(block, B_DEAD)
    groups = 0
    for at in range(0, 1 << shift, GROUP_BYTES):
        if not survivors_of(dead + at, excluded + at, slots, count, shift, scratch):
            continue
        groups |= 1 << (at >> 6)
        _find_unsure(block, at, slots, places, count, scratch)
        if end + 64 * GROUP_WORDS > room:
            put8(scratch, X_LOOKS, 0)
            return TOO_SHORT
        for word in range(at >> 3, (at >> 3) + GROUP_WORDS):
            survivors = get8(scratch, word - (at >> 3))
            if survivors != 0:
                certain = survivors & ~get8(scratch, X_UNSURE + word)
                end = _write(block, word, certain, out, end)
    return _settle_unsure(state, block, groups, scratch, out, end, room) if groups else end


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
    places = slots + 8 * get8(state, S_SLOT_ROOM)
    for i in range(count):
        block = get8(items, i)
        if get8(block, B_CUTS) != cuts:
            cuts = get8(block, B_CUTS)
            slot_count = event_slots(state, cuts, slots, places)
        end = _search_block(state, block, slots, places, slot_count, scratch, out, end, room)
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
    `TOO_SHORT`. `scratch`: SCRATCH_BYTES, zeros at first."""
    end = _search_partition(state, get8(state, S_DEFAULT), scratch, out, start, room)
    for i in range(get8(state, S_SPLIT_COUNT)):
        if end >= 0:
            attribute = get8(get8(state, S_SPLITS), i)
            end = _search_split(state, attribute, scratch, out, end, room)
    if get8(state, S_MULTI) > 0 and end >= 0:
        end = _drop_repeated(state, out, start, end)
    return end

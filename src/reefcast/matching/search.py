"""Finding the rows that match the event at hand: the inner loops."""

from __future__ import annotations

from reefcast.matching.attributes import attribute_at, value_at
from reefcast.matching.blocks import MOST_ROWS
from reefcast.matching.cuts import LANE_BYTES, event_slots, lane_groups
from reefcast.matching.machine import (
    Int,
    get4,
    get8,
    ones,
    part,
    put8,
    trailing_zeros,
    unit,
)
from reefcast.matching.partitions import ANY_KIND, find_partition
from reefcast.matching.pieces import LENGTHS, PIECE, may_have, piece_at
from reefcast.matching.rows import (
    handle_of,
    row_holds,
)
from reefcast.matching.state import (
    A_PIECES,
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
    B_UNSCALED,
    B_UNSURE,
    BY_PIECE,
    BY_PRESENCE,
    BY_VALUE,
    C_ATTRIBUTES,
    NUMBER,
    P_BLOCKS,
    P_COUNT,
    P_LIST,
    P_STAMP,
    S_DEFAULT,
    S_MULTI,
    S_OTHER_COUNT,
    S_SCALED_COUNT,
    S_SCRATCH,
    S_SEEN,
    S_SLOT_ROOM,
    S_SLOTS,
    S_SPLIT_COUNT,
    S_SPLITS,
    S_STAMP,
    STRING,
    V_KEY,
    V_KIND,
    V_SIZE,
    V_START,
)
from reefcast.matching.vectors import (
    GROUP_BYTES,
    GROUP_WORDS,
    common_of,
    compare_lanes,
    filled_words,
    prefetch,
    survivors_of,
)

TOO_SHORT = -1
"""Instead of the end of the results: `out` is too short for them."""

SPARE = 8
"""Words behind the results that may be overwritten."""

# Words of the scratch memory: bits of 512 rows, and lists of rows that are put off until their
# memory is in the cache; waiting for each would take ten times as long.
X_SURVIVORS, X_SCALED, X_OTHER = 0, GROUP_WORDS, 2 * GROUP_WORDS
X_SWEEPING = 3 * GROUP_WORDS
X_LOOKS = X_SWEEPING + 1
X_CHECKS = X_LOOKS + 2 + MOST_ROWS
MOST_CHECKS = 1024
SCRATCH_BYTES = 8 * (X_CHECKS + 1 + MOST_CHECKS)
"""The words are: whether rows to be checked are written as they are (see `sweep`); how many rows of
a block have scaled bounds to compare, and their places; how many rows must be checked, and their
addresses."""

LINES_OF_A_ROW = 3
DOUBTFUL = 2
"""The result of `compare_lanes` for a row that must be checked; 0 for a row that matches."""


@unit
def _check(state: Int, row: Int, out: Int, end: Int) -> Int:
    """Append the row's handle if it matches; return the new end."""
    if not row_holds(state, row):
        return end
    put8(out, end, handle_of(row))
    return end + 1


@part
def check_all(state: Int, scratch: Int, out: Int, end: Int) -> Int:
    """Check the rows that were put off."""
    for i in range(get8(scratch, X_CHECKS)):
        end = _check(state, get8(scratch, X_CHECKS + 1 + i), out, end)
    put8(scratch, X_CHECKS, 0)
    return end


@part
def check_later(state: Int, row: Int, scratch: Int, out: Int, end: Int) -> Int:
    """Put the check of a row off, and return the new end."""
    if get8(scratch, X_SWEEPING):
        put8(out, end, -row)
        return end + 1
    if get8(scratch, X_CHECKS) == MOST_CHECKS:
        end = check_all(state, scratch, out, end)
    for line in range(LINES_OF_A_ROW):
        prefetch(row + GROUP_BYTES * line)
    count = get8(scratch, X_CHECKS) + 1
    put8(scratch, X_CHECKS + count, row)
    put8(scratch, X_CHECKS, count)
    return end


@part
def _write(handles: Int, certain: Int, out: Int, end: Int) -> Int:
    """Write the handles of the matching rows of 64; return the new end.

    Write two at a time, whether there are two or not, because most often there are at most two: a
    mispredicted end of a loop takes longer than writing too much. Behind `out` and `handles` there
    is room for it."""
    left = certain
    start = end
    while True:
        for i in range(2):
            put8(out, start + i, get4(handles, trailing_zeros(left)))
            left &= left - 1
        start += 2
        if left == 0:
            return end + ones(certain)


@part
def _note_looks(first: Int, places: Int, bounds: Int, size: Int, scratch: Int) -> None:
    """Note the rows of 64 whose scaled bounds, of `size` bytes each, must be compared. At least one
    is written, for the same reason; it does not count if there is none."""
    count = get8(scratch, X_LOOKS)
    left = places
    while True:
        place = first + trailing_zeros(left)
        put8(scratch, X_LOOKS + 1 + count, place)
        prefetch(bounds + size * place)
        count += 1
        left &= left - 1
        if left == 0:
            break
    put8(scratch, X_LOOKS, count if places != 0 else count - 1)


@part
def _look(state: Int, block: Int, keys: Int, lanes: Int, scratch: Int, out: Int, end: Int) -> Int:
    """Compare the scaled bounds of the noted rows: most rows match, or do not."""
    bounds, size = get8(block, B_SCALED), LANE_BYTES * lanes
    handles = get8(block, B_HANDLES)
    for i in range(get8(scratch, X_LOOKS)):
        place = get8(scratch, X_LOOKS + 1 + i)
        outcome = compare_lanes(bounds + size * place, keys, lanes)
        put8(out, end, get4(handles, place))
        end += 1 if outcome == 0 else 0
        if outcome == DOUBTFUL:
            row = get8(get8(block, B_ROWS), place)
            end = check_later(state, row, scratch, out, end)
    put8(scratch, X_LOOKS, 0)
    return end


@part
def _search_group(
    state: Int, block: Int, at: Int, slots: Int, scratch: Int, out: Int, end: Int
) -> Int:
    """Handle the survivors of 512 rows: write those that match for certain, and note the others."""
    room, shift = get8(state, S_SLOT_ROOM), get8(block, B_SHIFT)
    unsure, lanes = get8(block, B_UNSURE) + at, lane_groups(get8(block, B_CUTS))
    scaled_slots, other_slots = slots + 8 * room, slots + 16 * room
    scaled_at, other_at = scratch + 8 * X_SCALED, scratch + 8 * X_OTHER
    common_of(scratch, unsure, scaled_slots, get8(state, S_SCALED_COUNT), shift, scaled_at)
    common_of(scratch, unsure, other_slots, get8(state, S_OTHER_COUNT), shift, other_at)
    filled = filled_words(scratch)
    while filled != 0:
        i = trailing_zeros(filled)
        filled &= filled - 1
        survivors = get8(scratch, X_SURVIVORS + i)
        word = (at >> 3) + i
        doubted = get8(other_at, i) | (survivors & get8(get8(block, B_DOUBTED), word))
        doubted |= get8(scaled_at, i) & get8(get8(block, B_UNSCALED), word)
        looks = get8(scaled_at, i) & ~doubted
        certain = survivors & ~(doubted | looks)
        end = _write(get8(block, B_HANDLES) + 256 * word, certain, out, end)
        _note_looks(word << 6, looks, get8(block, B_SCALED), LANE_BYTES * lanes, scratch)
        while doubted != 0:
            row = get8(get8(block, B_ROWS), (word << 6) + trailing_zeros(doubted))
            doubted &= doubted - 1
            end = check_later(state, row, scratch, out, end)
    return end


@unit
def search_block(state: Int, block: Int, scratch: Int, out: Int, end: Int, room: Int) -> Int:
    """Search a block; the event's slots are those under the block's cuts."""
    shift, excluded, dead = get8(block, B_SHIFT), get8(block, B_EXCLUDED), get8(block, B_DEAD)
    slots, cuts = get8(state, S_SLOTS), get8(block, B_CUTS)
    count = get8(cuts, C_ATTRIBUTES)
    if end + get8(scratch, X_CHECKS) + get8(block, B_CAPACITY) + SPARE > room:
        return TOO_SHORT
    for at in range(0, 1 << shift, GROUP_BYTES):
        if survivors_of(dead + at, excluded + at, slots, count, shift, scratch):
            end = _search_group(state, block, at, slots, scratch, out, end)
    if get8(scratch, X_LOOKS) > 0:
        keys = slots + 24 * get8(state, S_SLOT_ROOM)
        end = _look(state, block, keys, lane_groups(cuts), scratch, out, end)
    return end


@unit
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
    cuts = 0
    for i in range(count):
        block = get8(items, i)
        if get8(block, B_CUTS) != cuts:
            cuts = get8(block, B_CUTS)
            event_slots(state, cuts)
        end = search_block(state, block, scratch, out, end, room)
        if end < 0:
            put8(scratch, X_CHECKS, 0)
            return TOO_SHORT
    return check_all(state, scratch, out, end)


@part
def _search_split(state: Int, attribute: Int, scratch: Int, out: Int, end: Int, room: Int) -> Int:
    """Search the partitions of the event's value of the attribute."""
    split = get8(attribute_at(state, attribute), A_SPLIT)
    value = value_at(state, attribute)
    kind, key = get8(value, V_KIND), get8(value, V_KEY)
    if split & BY_VALUE and (kind == NUMBER or (kind == STRING and key != 0)):
        partition = find_partition(state, attribute, kind, key)
        if partition != 0:
            end = _search_partition(state, partition, scratch, out, end, room)
    if split & BY_PIECE and kind == STRING and end >= 0:
        end = _search_pieces(state, attribute, value, scratch, out, end, room)
    if split & BY_PRESENCE and end >= 0:
        partition = find_partition(state, attribute, ANY_KIND, 0)
        if partition != 0:
            end = _search_partition(state, partition, scratch, out, end, room)
    return end


@part
def _search_pieces(
    state: Int, attribute: Int, value: Int, scratch: Int, out: Int, end: Int, room: Int
) -> Int:
    """Search the partitions of the pieces that the string contains, each once."""
    table, stamp = get8(attribute_at(state, attribute), A_PIECES), get8(state, S_STAMP)
    start, size = get8(value, V_START), get8(value, V_SIZE)
    for form in range(LENGTHS):
        places = size - (1 << form) + 1 if get8(table, form) > 0 else 0
        for i in range(places):
            key = piece_at(start + i, form, size - i)
            if may_have(table, key):
                partition = find_partition(state, attribute, PIECE - form, key)
                if partition != 0 and get8(partition, P_STAMP) != stamp:
                    put8(partition, P_STAMP, stamp)
                    end = _search_partition(state, partition, scratch, out, end, room)
                    if end < 0:
                        return TOO_SHORT
    return end


@part
def _drop_repeated(state: Int, out: Int, start: Int, end: Int) -> Int:
    """Leave each filter once: if it has several rows, each of them that matches has found it."""
    seen, stamp, kept = get8(state, S_SEEN), get8(state, S_STAMP), start
    for i in range(start, end):
        found = get8(out, i)
        if get8(seen, found) != stamp:
            put8(seen, found, stamp)
            put8(out, kept, found)
            kept += 1
    return kept


@unit
def search_splits(state: Int, out: Int, start: Int, found: Int, room: Int) -> Int:
    """Do the rest of `search`, when the results of the default partition are there up to
    `found`."""
    end, scratch = found, get8(state, S_SCRATCH)
    for i in range(get8(state, S_SPLIT_COUNT)):
        if end >= 0:
            attribute = get8(get8(state, S_SPLITS), i)
            end = _search_split(state, attribute, scratch, out, end, room)
    if get8(state, S_MULTI) > 0 and end >= 0:
        end = _drop_repeated(state, out, start, end)
    return end


@unit
def search(state: Int, out: Int, start: Int, room: Int) -> Int:
    """Write the matches of the event at hand to `out` from word `start` on; return where they end,
    or `TOO_SHORT`."""
    scratch = get8(state, S_SCRATCH)
    end = _search_partition(state, get8(state, S_DEFAULT), scratch, out, start, room)
    return search_splits(state, out, start, end, room)

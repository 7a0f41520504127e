"""Partitions: which rows an event is compared with at all (`placing` chooses the partition of a
row).

A row that requires `attribute = value`, where the attribute has many values, is in the partition of
that value, and costs nothing to events with another one. A row with a pattern is in the partition
of something that the string must contain (`pieces`). A row that constrains an attribute that few
rows constrain is in the partition of all rows that need this attribute. All other rows are in the
default partition.

A partition with few rows is a list of them, checked one by one. One with many is a list of blocks,
the last of which accepts rows. Its cuts serve the next block too, as long as they fit."""

from __future__ import annotations

from reefcast.matching.attributes import attribute_at
from reefcast.matching.blocks import (
    MOST_ROWS,
    enter,
    fill,
    grow,
    leave_block,
    list_rows,
    new_block,
    unsure_pairs,
)
from reefcast.matching.chains import first_of, mixed, take_item
from reefcast.matching.cuts import leave_cuts
from reefcast.matching.cutting import make_cuts
from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.pieces import PIECE, count_piece
from reefcast.matching.rows import (
    set_place,
)
from reefcast.matching.state import (
    A_VALUES,
    B_ALIVE,
    B_CAPACITY,
    B_CUTS,
    B_USED,
    C_UNSURE,
    P_ATTRIBUTE,
    P_BLOCKS,
    P_COUNT,
    P_CUTS,
    P_HASH,
    P_KEY,
    P_KIND,
    P_LIST,
    P_NEXT,
    P_ROOM,
    P_ROWS,
    P_WORDS,
    S_PARTITION_COUNT,
    S_PARTITIONS,
    S_SEED,
    give_back,
    longer,
    new,
    new_zeroed,
)

ANY_KIND = -1
"""P_KIND of a partition of all rows that need the attribute."""

NO_ATTRIBUTE = -1
LONGEST_LIST = 24
SHORTEST_BLOCKS = 8
FIRST_CAPACITY = 64


# --- the table of partitions ----------------------------------------------------------------------


@part
def _hash(state: Int, attribute: Int, kind: Int, key: Int) -> Int:
    return mixed(mixed(get8(state, S_SEED) ^ (attribute * 8 + kind)) ^ key)


@unit
def find_partition(state: Int, attribute: Int, kind: Int, key: Int) -> Int:
    """Return the partition, or 0."""
    partition = first_of(get8(state, S_PARTITIONS), _hash(state, attribute, kind, key))
    while partition != 0 and (
        get8(partition, P_KEY) != key
        or get8(partition, P_ATTRIBUTE) != attribute
        or get8(partition, P_KIND) != kind
    ):
        partition = get8(partition, P_NEXT)
    return partition


@part
def new_partition(state: Int, attribute: Int, kind: Int, key: Int) -> Int:
    partition = new_zeroed(state, 8 * P_WORDS)
    put8(partition, P_ATTRIBUTE, attribute)
    put8(partition, P_KIND, kind)
    put8(partition, P_KEY, key)
    put8(partition, P_HASH, _hash(state, attribute, kind, key))
    put8(partition, P_ROOM, 1)
    put8(partition, P_LIST, new(state, 8))
    return partition


@part
def count_partition(state: Int, partition: Int, change: Int) -> None:
    put8(state, S_PARTITION_COUNT, get8(state, S_PARTITION_COUNT) + change)
    at = attribute_at(state, get8(partition, P_ATTRIBUTE))
    put8(at, A_VALUES, get8(at, A_VALUES) + change)
    form = PIECE - get8(partition, P_KIND)
    if form >= 0:
        count_piece(state, at, form, get8(partition, P_KEY), change)


@part
def drop_partition(state: Int, partition: Int) -> None:
    """Drop a partition without rows."""
    take_item(get8(state, S_PARTITIONS), partition)
    count_partition(state, partition, -1)
    leave_partition(state, partition)


@unit
def leave_partition(state: Int, partition: Int) -> None:
    """Free the partition's memory, not its rows."""
    if get8(partition, P_BLOCKS):
        for i in range(get8(partition, P_COUNT)):
            leave_block(state, get8(get8(partition, P_LIST), i))
    leave_cuts(state, get8(partition, P_CUTS))
    give_back(state, get8(partition, P_LIST), 8 * get8(partition, P_ROOM))
    give_back(state, partition, 8 * P_WORDS)


# --- a partition's list ---------------------------------------------------------------------------


@part
def _append(state: Int, partition: Int, item: Int) -> None:
    count, room = get8(partition, P_COUNT), get8(partition, P_ROOM)
    if count == room:
        put8(partition, P_LIST, longer(state, get8(partition, P_LIST), 8 * room, 16 * room))
        put8(partition, P_ROOM, 2 * room)
    put8(get8(partition, P_LIST), count, item)
    put8(partition, P_COUNT, count + 1)


@part
def _index_of(partition: Int, item: Int) -> Int:
    i = 0
    while get8(get8(partition, P_LIST), i) != item:
        i += 1
    return i


@part
def _drop_item(partition: Int, i: Int) -> None:
    """Remove one item; the remaining items keep their order."""
    items, count = get8(partition, P_LIST), get8(partition, P_COUNT) - 1
    for k in range(i, count):
        put8(items, k, get8(items, k + 1))
    put8(partition, P_COUNT, count)


@part
def last_block(partition: Int) -> Int:
    return get8(get8(partition, P_LIST), get8(partition, P_COUNT) - 1)


# --- blocks of a partition ------------------------------------------------------------------------


@part
def _use_cuts(state: Int, partition: Int, cuts: Int) -> None:
    """Use these cuts for the partition's new blocks from now on."""
    leave_cuts(state, get8(partition, P_CUTS))
    put8(partition, P_CUTS, cuts)


@part
def _at_full_size(pairs: Int, rows: Int) -> Int:
    """Return the number of unsure pairs that `MOST_ROWS` rows would have, if `rows` have
    `pairs`."""
    rows = max(1, rows)
    return pairs * MOST_ROWS // rows * MOST_ROWS // rows


@part
def _is_misfit(block: Int) -> bool:
    """Return whether rows that came after the cuts make new cuts worthwhile."""
    pairs = _at_full_size(unsure_pairs(block), get8(block, B_USED))
    return bool(2 * pairs > 3 * get8(get8(block, B_CUTS), C_UNSURE))


@part
def _block_of(state: Int, partition: Int, rows: Int, count: Int, capacity: Int) -> Int:
    """Return a block with these rows, and cuts made for them."""
    cuts = make_cuts(state, rows, count)
    block = new_block(state, partition, capacity, cuts)
    fill(state, block, rows, count)
    put8(cuts, C_UNSURE, _at_full_size(unsure_pairs(block), count))
    _use_cuts(state, partition, cuts)
    return block


@part
def _to_blocks(state: Int, partition: Int) -> None:
    """Convert the partition from a list of rows to blocks."""
    rows, count = get8(partition, P_LIST), get8(partition, P_COUNT)
    block = _block_of(state, partition, rows, count, FIRST_CAPACITY)
    put8(rows, 0, block)
    put8(partition, P_COUNT, 1)
    put8(partition, P_BLOCKS, 1)


@part
def _to_list(state: Int, partition: Int) -> None:
    """Convert the partition from one block with few rows to a list."""
    block = last_block(partition)
    room = get8(partition, P_ROOM)
    rows = new(state, 8 * LONGEST_LIST)
    count = list_rows(block, rows)
    give_back(state, get8(partition, P_LIST), 8 * room)
    leave_block(state, block)
    _use_cuts(state, partition, 0)
    put8(partition, P_LIST, rows)
    put8(partition, P_COUNT, count)
    put8(partition, P_ROOM, LONGEST_LIST)
    put8(partition, P_BLOCKS, 0)
    for place in range(count):
        set_place(get8(rows, place), 0, place)


@part
def _remake(state: Int, partition: Int, i: Int, capacity: Int) -> None:
    """Rebuild block i without holes and with new cuts."""
    block = get8(get8(partition, P_LIST), i)
    size = 8 * get8(block, B_USED)
    rows = new(state, size)
    count = list_rows(block, rows)
    made = _block_of(state, partition, rows, count, capacity)
    put8(get8(partition, P_LIST), i, made)
    leave_block(state, block)
    give_back(state, rows, size)


@part
def _make_room(state: Int, partition: Int) -> None:
    """Make room for a row when the last block is full."""
    last = get8(partition, P_COUNT) - 1
    block = last_block(partition)
    capacity, alive = get8(block, B_CAPACITY), get8(block, B_ALIVE)
    if 4 * alive <= 3 * get8(block, B_USED):
        while capacity > FIRST_CAPACITY and 4 * alive < capacity:
            capacity //= 2
        _remake(state, partition, last, capacity)
    elif capacity < MOST_ROWS:
        if last == 0 or _is_misfit(block):
            _remake(state, partition, last, 2 * capacity)
        else:
            put8(get8(partition, P_LIST), last, grow(state, block))
    else:
        if _is_misfit(block):
            _remake(state, partition, last, capacity)
        cuts = get8(partition, P_CUTS)
        _append(state, partition, new_block(state, partition, MOST_ROWS // 8, cuts))


@unit
def put_row(state: Int, partition: Int, row: Int) -> None:
    put8(partition, P_ROWS, get8(partition, P_ROWS) + 1)
    if not get8(partition, P_BLOCKS):
        if get8(partition, P_COUNT) < LONGEST_LIST:
            set_place(row, 0, get8(partition, P_COUNT))
            _append(state, partition, row)
            return
        _to_blocks(state, partition)
    block = last_block(partition)
    if get8(block, B_USED) == get8(block, B_CAPACITY):
        _make_room(state, partition)
        block = last_block(partition)
    enter(block, row)


# --- after a row has left -------------------------------------------------------------------------


@part
def tidy(state: Int, partition: Int, block: Int) -> None:
    """Shrink the block that a row has left, or its partition, if that is due."""
    alive, count = get8(block, B_ALIVE), get8(partition, P_COUNT)
    if count == 1:
        if get8(partition, P_ROWS) <= SHORTEST_BLOCKS:
            _to_list(state, partition)
        elif 4 * alive < get8(block, B_CAPACITY) and get8(block, B_CAPACITY) > FIRST_CAPACITY:
            _remake(state, partition, 0, get8(block, B_CAPACITY) // 2)
        return
    if block != last_block(partition) and 4 * alive < get8(block, B_USED):
        _drop_item(partition, _index_of(partition, block))
        size = 8 * MOST_ROWS
        rows = new(state, size)
        moved = list_rows(block, rows)
        put8(partition, P_ROWS, get8(partition, P_ROWS) - moved)
        for r in range(moved):
            put_row(state, partition, get8(rows, r))
        give_back(state, rows, size)
        leave_block(state, block)

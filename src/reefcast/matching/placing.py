"""Placing: which partition a row goes to, and what partitions are learned.

Which attributes partition is learned: when a block of the default partition is full, its rows are
looked at (`_learn`), and those that can go to a partition of their own do. From then on, rows with
such a predicate go there at once.
"""

from __future__ import annotations

from reefcast.matching.blocks import (
    list_rows,
    take_out,
)
from reefcast.matching.chains import enter_item
from reefcast.matching.cuts import entry_at
from reefcast.matching.learning import is_equality, learn_rare, learn_values
from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.partitions import (
    ANY_KIND,
    NO_ATTRIBUTE,
    count_partition,
    drop_partition,
    find_partition,
    last_block,
    new_partition,
    put_row,
    tidy,
)
from reefcast.matching.predicates import IS_TEXT
from reefcast.matching.rows import (
    PRESENT_ONLY,
    VALUED,
    attribute_at,
    attribute_of,
    block_of,
    bounds_of,
    bring_to_front,
    count_of,
    flags_of,
    how_of,
    kinds_of,
    place_of,
    set_flags,
    set_place,
    tag_of,
)
from reefcast.matching.state import (
    A_SPLIT,
    A_VALUES,
    B_CAPACITY,
    B_CUTS,
    B_PARTITION,
    B_USED,
    BY_PRESENCE,
    BY_VALUE,
    C_ATTRIBUTES,
    CA_ATTRIBUTE,
    MISSING,
    NUMBER,
    P_ATTRIBUTE,
    P_BLOCKS,
    P_COUNT,
    P_LIST,
    P_ROWS,
    S_BLOCKS,
    S_DEFAULT,
    S_PARTITIONS,
    STRING,
    give_back,
    new,
)

LEARNING = 1024
"""Rows of a block from which on the default partition learns, at each growth."""


@part
def _choose(state: Int, row: Int) -> tuple[Int, Int]:
    """(the predicate whose attribute the row is partitioned by, or -1; BY_VALUE or BY_PRESENCE)."""
    best = by = most = -1
    for i in range(count_of(row)):
        tag = tag_of(row, i)
        at = attribute_at(state, attribute_of(tag))
        split = get8(at, A_SPLIT)
        if split & BY_VALUE and get8(at, A_VALUES) > most and is_equality(row, i):
            best, by, most = i, BY_VALUE, get8(at, A_VALUES)
    if best >= 0:
        return best, by
    for i in range(count_of(row)):
        tag = tag_of(row, i)
        split = get8(attribute_at(state, attribute_of(tag)), A_SPLIT)
        if split & BY_PRESENCE and not (kinds_of(tag) >> MISSING) & 1:
            return i, BY_PRESENCE
    return -1, 0


@part
def _key_of(row: Int) -> tuple[Int, Int, Int]:
    """(attribute, kind, key) of the partition that the row is in, by its first predicate."""
    tag, how = tag_of(row, 0), how_of(tag_of(row, 0))
    if flags_of(row) & PRESENT_ONLY:
        return attribute_of(tag), ANY_KIND, 0
    kind = STRING if how == IS_TEXT else NUMBER
    return attribute_of(tag), kind, get8(row, bounds_of(count_of(row)))


@unit
def place_row(state: Int, row: Int) -> Int:
    """Puts the row into the partition that is its own; 0, and nothing, if it has none."""
    i, by = _choose(state, row)
    if i < 0:
        return 0
    if i > 0:
        bring_to_front(row, i)
    set_flags(row, flags_of(row) | (VALUED if by == BY_VALUE else PRESENT_ONLY))
    attribute, kind, key = _key_of(row)
    partition = find_partition(state, attribute, kind, key)
    if partition == 0:
        partition = new_partition(state, attribute, kind, key)
        enter_item(state, get8(state, S_PARTITIONS), partition)
        count_partition(state, partition, 1)
    put_row(state, partition, row)
    return 1


@unit
def add_row(state: Int, row: Int) -> None:
    if place_row(state, row):
        return
    default = get8(state, S_DEFAULT)
    if get8(default, P_BLOCKS):
        block = last_block(default)
        used = get8(block, B_USED)
        if used == get8(block, B_CAPACITY) and used >= LEARNING:
            _learn(state, default, block)
            if place_row(state, row):
                return
    put_row(state, default, row)


@part
def _learn(state: Int, default: Int, block: Int) -> None:
    """Looks at a full block of the default partition; moves what can have a partition."""
    size = 8 * get8(block, B_USED)
    rows, values = new(state, size), new(state, size)
    count = list_rows(block, rows)
    cuts = get8(block, B_CUTS)
    learned = False
    for i in range(get8(cuts, C_ATTRIBUTES)):
        attribute = get8(entry_at(cuts, i), CA_ATTRIBUTE)
        learned |= learn_values(state, attribute, rows, count, values)
    learned |= learn_rare(state, rows, count)
    if learned:
        for r in range(count):
            _move(state, default, block, get8(rows, r))
    give_back(state, rows, size)
    give_back(state, values, size)


@part
def _move(state: Int, default: Int, block: Int, row: Int) -> None:
    place = place_of(row)
    if place_row(state, row):
        take_out(block, place)
        put8(default, P_ROWS, get8(default, P_ROWS) - 1)


@unit
def remove_row(state: Int, row: Int) -> None:
    """Remove the row from its partition; the row itself stays as it is."""
    number, place = block_of(row), place_of(row)
    if number != 0:
        block = get8(get8(state, S_BLOCKS), number)
        partition = get8(block, B_PARTITION)
        take_out(block, place)
        put8(partition, P_ROWS, get8(partition, P_ROWS) - 1)
        tidy(state, partition, block)
    else:
        partition = get8(state, S_DEFAULT)
        if flags_of(row) & (VALUED | PRESENT_ONLY):
            attribute, kind, key = _key_of(row)
            partition = find_partition(state, attribute, kind, key)
        items, last = get8(partition, P_LIST), get8(partition, P_COUNT) - 1
        put8(items, place, get8(items, last))
        set_place(get8(items, place), 0, place)
        put8(partition, P_COUNT, last)
        put8(partition, P_ROWS, get8(partition, P_ROWS) - 1)
    if get8(partition, P_ROWS) == 0 and get8(partition, P_ATTRIBUTE) != NO_ATTRIBUTE:
        drop_partition(state, partition)

"""Placing: which partition a row goes to, and which partitions are learned.

When a block of the default partition is full, its rows are examined (`_learn`) to find attributes
that partition them, and rows that fit a partition are moved there. From then on, new rows with such
a predicate go there at once."""

from __future__ import annotations

from reefcast.matching.attributes import attribute_at
from reefcast.matching.blocks import (
    list_rows,
    take_out,
)
from reefcast.matching.chains import enter_item
from reefcast.matching.cuts import entry_at
from reefcast.matching.learning import count_equalities, is_equality, learn_rare, learn_values
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
from reefcast.matching.pieces import PIECE, longest_form, piece_of, run_end
from reefcast.matching.predicates import (
    AMONG_TEXTS,
    IS_TEXT,
    X_COUNT,
    X_MEMBERS,
    X_PATTERNS,
    attribute_of,
    how_of,
    kinds_of,
)
from reefcast.matching.rows import (
    FORM_SHIFT,
    PIECED,
    PRESENT_ONLY,
    VALUED,
    block_of,
    bounds_of,
    bring_to_front,
    count_of,
    flags_of,
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
    HIGHEST,
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
from reefcast.matching.wildcards import W_COUNT, W_NEGATED

MOST_PIECES = 32
"""How many pieces of a pattern are compared to choose one."""

LEARNING = 1024
"""From this many rows of a block on, the default partition learns at each growth."""


@part
def _choose(state: Int, row: Int) -> tuple[Int, Int, Int, Int]:
    """Choose the partition of a row; return a predicate or -1, its flags, and the partition's kind
    and key. Of a value and a piece, take the one with fewer rows so far."""
    best = how = kind = key = -1
    most, fewest = -1, HIGHEST
    bounds = bounds_of(count_of(row))
    for i in range(count_of(row)):
        tag = tag_of(row, i)
        at = attribute_at(state, attribute_of(tag))
        if get8(at, A_SPLIT) & BY_VALUE and get8(at, A_VALUES) > most and is_equality(row, i):
            best, how, most = i, VALUED, get8(at, A_VALUES)
    if best >= 0:
        kind = STRING if how_of(tag_of(row, best)) == IS_TEXT else NUMBER
        key = get8(row, bounds + 2 * best)
        fewest = _rows_of(state, attribute_of(tag_of(row, best)), kind, key)
    for i in range(count_of(row)):
        tag = tag_of(row, i)
        if how_of(tag) == AMONG_TEXTS:
            apart = get8(row, bounds + 2 * i)
            for p in range(get8(apart, X_PATTERNS)):
                pattern = get8(apart, X_MEMBERS + get8(apart, X_COUNT) + p)
                form, piece, rows = _best_piece(state, attribute_of(tag), pattern)
                if form >= 0 and rows < fewest:
                    best, how, fewest = i, PIECED | form << FORM_SHIFT, rows
                    kind, key = PIECE - form, piece
    if best >= 0:
        return best, how, kind, key
    for i in range(count_of(row)):
        tag = tag_of(row, i)
        split = get8(attribute_at(state, attribute_of(tag)), A_SPLIT)
        if split & BY_PRESENCE and not (kinds_of(tag) >> MISSING) & 1:
            return i, PRESENT_ONLY, ANY_KIND, 0
    return -1, 0, 0, 0


@part
def _rows_of(state: Int, attribute: Int, kind: Int, key: Int) -> Int:
    """Return how many rows the partition has."""
    partition = find_partition(state, attribute, kind, key)
    return get8(partition, P_ROWS) if partition != 0 else 0


@part
def _best_piece(state: Int, attribute: Int, pattern: Int) -> tuple[Int, Int, Int]:
    """Return (form or -1, piece, rows) of the piece, among the first ones, whose partition has the
    fewest rows."""
    form = -1 if get8(pattern, W_NEGATED) else longest_form(pattern)
    if form < 0:
        return -1, 0, 0
    best, fewest, looked, at = 0, HIGHEST, 0, 0
    while at < get8(pattern, W_COUNT):
        end = run_end(pattern, at)
        while at + (1 << form) <= end and looked < MOST_PIECES and fewest > 0:
            piece = piece_of(pattern, at, form)
            rows = _rows_of(state, attribute, PIECE - form, piece)
            if rows < fewest:
                best, fewest = piece, rows
            looked += 1
            at += 1
        at = end + 1
    return form, best, fewest


@part
def _key_of(row: Int) -> tuple[Int, Int, Int]:
    """Return (attribute, kind, key) of the row's partition, by the row's first predicate."""
    tag, how, flags = tag_of(row, 0), how_of(tag_of(row, 0)), flags_of(row)
    bounds = bounds_of(count_of(row))
    if flags & PRESENT_ONLY:
        return attribute_of(tag), ANY_KIND, 0
    if flags & PIECED:
        return attribute_of(tag), PIECE - (flags >> FORM_SHIFT), get8(row, bounds + 1)
    return attribute_of(tag), STRING if how == IS_TEXT else NUMBER, get8(row, bounds)


@unit
def place_row(state: Int, row: Int) -> Int:
    """Put the row into its own partition; return 0, and put it nowhere, if it has none."""
    i, how, kind, key = _choose(state, row)
    if i < 0:
        return 0
    if i > 0:
        bring_to_front(row, i)
    if how & PIECED:
        put8(row, bounds_of(count_of(row)) + 1, key)
    set_flags(row, flags_of(row) | how)
    attribute = attribute_of(tag_of(row, 0))
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
    """Look through a full block of the default partition, and move the rows that fit another
    partition."""
    size = 8 * get8(block, B_USED)
    rows, values = new(state, size), new(state, size)
    count = list_rows(block, rows)
    cuts = get8(block, B_CUTS)
    learned = False
    count_equalities(state, rows, count, 1)
    for i in range(get8(cuts, C_ATTRIBUTES)):
        attribute = get8(entry_at(cuts, i), CA_ATTRIBUTE)
        learned |= learn_values(state, attribute, rows, count, values)
    count_equalities(state, rows, count, -1)
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
        if flags_of(row) & (VALUED | PRESENT_ONLY | PIECED):
            attribute, kind, key = _key_of(row)
            partition = find_partition(state, attribute, kind, key)
        items, last = get8(partition, P_LIST), get8(partition, P_COUNT) - 1
        put8(items, place, get8(items, last))
        set_place(get8(items, place), 0, place)
        put8(partition, P_COUNT, last)
        put8(partition, P_ROWS, get8(partition, P_ROWS) - 1)
    if get8(partition, P_ROWS) == 0 and get8(partition, P_ATTRIBUTE) != NO_ATTRIBUTE:
        drop_partition(state, partition)

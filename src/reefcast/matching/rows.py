"""Rows: conjunctions of filters, as the kernels read them.

A row is one piece of memory:

    word 0     handle of its filter (32 bits) | number of its block (20) | place there (12)
    4 bytes    number of predicates | flags << 16
    4 bytes    a tag for each predicate: attribute (23 bits) | kinds (5) | how to check it (4)
    2 words    for each predicate: its bounds
    word       the program of its residual conditions, if there are any (flag PROGRAM)
    word       the next row of the same filter, if there are several (flag MULTI)

A predicate is the condition of a row on one attribute. `IN_RANGE`: a number whose key is between
the bounds; `IS_TEXT`: the string whose text is the first bound; `OF_KIND`: any value of its kinds.
All others store their bounds elsewhere, at the address that is the first bound: see `predicates`.

Block number 0 stands for none: the row is in a partition's list, at that place (see
`partitions`)."""

from __future__ import annotations

from reefcast.matching.attributes import leave_attribute, use_attribute, value_at
from reefcast.matching.machine import Int, get4, get8, part, put4, put8, unit
from reefcast.matching.packed import is_nil, read_array, read_map, read_string
from reefcast.matching.predicates import (
    R_HIGH,
    R_HOW,
    R_KINDS,
    R_LOW,
    attribute_of,
    how_of,
    is_satisfied,
    kinds_of,
    leave_bounds,
    read_constraint,
    tag_with,
)
from reefcast.matching.programs import leave_program, program_holds, read_program
from reefcast.matching.state import (
    MISSING,
    S_END,
    S_READ,
    S_STAMP,
    V_KIND,
    V_STAMP,
    give_back,
    new,
)

PROGRAM, MULTI, VALUED, PRESENT_ONLY, PIECED = 1, 2, 4, 8, 16
"""Flags of a row: it has residual conditions; its filter has several rows; it is in the partition
of its first predicate's value, of its attribute alone, or of a piece of its pattern."""

FORM_SHIFT = 5
"""The form of that piece is above the flags; the piece is the predicate's second bound."""

HANDLE_MASK, BLOCK_MASK, PLACE_MASK = 0xFFFFFFFF, 0xFFFFF, 0xFFF


# --- layout ---------------------------------------------------------------------------------------


@part
def bounds_of(count: Int) -> Int:
    """Return the word where the bounds of this many predicates start."""
    return 1 + ((count + 2) >> 1)


@part
def row_bytes(count: Int, flags: Int) -> Int:
    more = (1 if flags & PROGRAM else 0) + (1 if flags & MULTI else 0)
    return 8 * (bounds_of(count) + 2 * count + more)


@part
def count_of(row: Int) -> Int:
    return get4(row, 2) & 0xFFFF


@part
def flags_of(row: Int) -> Int:
    return get4(row, 2) >> 16


@part
def set_flags(row: Int, flags: Int) -> None:
    put4(row, 2, count_of(row) | flags << 16)


@part
def handle_of(row: Int) -> Int:
    return get8(row, 0) & HANDLE_MASK


@part
def block_of(row: Int) -> Int:
    return (get8(row, 0) >> 32) & BLOCK_MASK


@part
def place_of(row: Int) -> Int:
    return (get8(row, 0) >> 52) & PLACE_MASK


@part
def set_place(row: Int, block: Int, place: Int) -> None:
    put8(row, 0, handle_of(row) | block << 32 | place << 52)


@part
def tag_of(row: Int, i: Int) -> Int:
    return get4(row, 3 + i)


@part
def _behind_bounds(row: Int) -> Int:
    count = count_of(row)
    return row + 8 * (bounds_of(count) + 2 * count)


@part
def program_of(row: Int) -> Int:
    """Return the program of the row's residual conditions, or 0."""
    return get8(_behind_bounds(row), 0) if flags_of(row) & PROGRAM else 0


@part
def next_row(row: Int) -> Int:
    flags = flags_of(row)
    return get8(_behind_bounds(row), flags & PROGRAM) if flags & MULTI else 0


@part
def set_next_row(row: Int, following: Int) -> None:
    put8(_behind_bounds(row), flags_of(row) & PROGRAM, following)


# --- making and dropping rows ---------------------------------------------------------------------


@unit
def read_row(state: Int, at: Int, handle: Int, flags: Int) -> Int:
    """Make the row of a packed map from attributes to constraints; S_END is where the map ends."""
    _, at = read_array(at)
    program = 0
    if is_nil(at):
        at += 1
    else:
        program, flags = read_program(state, at), flags | PROGRAM
        at = get8(state, S_END)
    count, at = read_map(at)
    row = new(state, row_bytes(count, flags))
    put8(row, 0, handle)
    put4(row, 2, count | flags << 16)
    bounds = bounds_of(count)
    for i in range(count):
        name, size = read_string(at)
        attribute = use_attribute(state, name, size)
        at = read_constraint(state, name + size)
        read = state + 8 * S_READ
        put4(row, 3 + i, tag_with(attribute, get8(read, R_KINDS), get8(read, R_HOW)))
        put8(row, bounds + 2 * i, get8(read, R_LOW))
        put8(row, bounds + 2 * i + 1, get8(read, R_HIGH))
    if program != 0:
        put8(_behind_bounds(row), 0, program)
    put8(state, S_END, at)
    return row


@unit
def leave_row(state: Int, row: Int) -> None:
    count = count_of(row)
    bounds = bounds_of(count)
    for i in range(count):
        tag = tag_of(row, i)
        leave_bounds(state, how_of(tag), get8(row, bounds + 2 * i))
        leave_attribute(state, attribute_of(tag))
    if flags_of(row) & PROGRAM:
        leave_program(state, program_of(row))
    give_back(state, row, row_bytes(count, flags_of(row)))


@part
def bring_to_front(row: Int, i: Int) -> None:
    """Exchange predicate i and the first one."""
    bounds = bounds_of(count_of(row))
    tag = tag_of(row, 0)
    put4(row, 3, tag_of(row, i))
    put4(row, 3 + i, tag)
    for side in range(2):
        bound = get8(row, bounds + side)
        put8(row, bounds + side, get8(row, bounds + 2 * i + side))
        put8(row, bounds + 2 * i + side, bound)


# --- checking -------------------------------------------------------------------------------------


@part
def row_holds(state: Int, row: Int) -> Int:
    """Return 1 if the row matches the event at hand, exactly (except for what Python decides)."""
    count, stamp = count_of(row), get8(state, S_STAMP)
    bounds = bounds_of(count)
    for i in range(count):
        tag = tag_of(row, i)
        value = value_at(state, attribute_of(tag))
        kind = get8(value, V_KIND) if get8(value, V_STAMP) == stamp else MISSING
        if not (kinds_of(tag) >> kind) & 1:
            return 0
        if not is_satisfied(state, how_of(tag), row + 8 * (bounds + 2 * i), value):
            return 0
    return program_holds(state, program_of(row)) if flags_of(row) & PROGRAM else 1

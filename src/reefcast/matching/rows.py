"""Rows: conjunctions of filters, as the kernels read them.

A row is one piece of memory:

    word 0     handle of its filter (32 bits) | number of its block (20) | place there (12)
    4 bytes    number of predicates | flags << 16
    4 bytes    a tag for each predicate: attribute (23 bits) | kinds (5) | how to check it (4)
    2 words    for each predicate: its bounds
    word       the next row of the same filter, if there are several (flag MULTI)

A predicate is what the row demands of one attribute. `IN_RANGE`: a number whose key is between the
bounds; `IS_TEXT`: the string whose text is the first bound; `OF_KIND`: nothing but its kinds. All
else has its bounds apart, at the address that is its first bound: see `predicates`.

Block number 0 stands for none: the row is in a partition's list, at that place (see `partitions`).
"""

from __future__ import annotations

from reefcast.matching.machine import Int, get4, get8, part, put4, put8, unit
from reefcast.matching.packed import read_map, read_string
from reefcast.matching.predicates import (
    IN_RANGE,
    IS_TEXT,
    OF_KIND,
    R_HIGH,
    R_HOW,
    R_KINDS,
    R_LOW,
    leave_bounds,
    read_constraint,
    value_holds,
)
from reefcast.matching.state import (
    A_COUNT,
    A_NAME,
    A_SPLIT,
    A_USERS,
    A_VALUES,
    A_WORDS,
    MISSING,
    S_ATTRIBUTE_COUNT,
    S_ATTRIBUTE_ROOM,
    S_ATTRIBUTES,
    S_END,
    S_FREE_ATTRIBUTE,
    S_READ,
    S_SPLITS,
    S_STAMP,
    S_VALUES,
    T_ATTRIBUTE,
    V_KEY,
    V_KIND,
    V_STAMP,
    V_WORDS,
    give_back,
    longer,
    new,
)
from reefcast.matching.texts import find_text, leave_text, use_text

CHECKED, MULTI, VALUED, PRESENT_ONLY = 1, 2, 4, 8
"""Flags of a row: Python decides about it; its filter has several rows; it is in the partition of
its first predicate's value, or of its attribute alone."""

ATTRIBUTE_BITS, KIND_BITS = 23, 5
HANDLE_MASK, BLOCK_MASK, PLACE_MASK = 0xFFFFFFFF, 0xFFFFF, 0xFFF


# --- layout ---------------------------------------------------------------------------------------


@part
def bounds_of(count: Int) -> Int:
    """Return the word where the bounds of so many predicates start."""
    return 1 + ((count + 2) >> 1)


@part
def row_bytes(count: Int, flags: Int) -> Int:
    return 8 * (bounds_of(count) + 2 * count + (1 if flags & MULTI else 0))


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
def attribute_of(tag: Int) -> Int:
    return tag & ((1 << ATTRIBUTE_BITS) - 1)


@part
def kinds_of(tag: Int) -> Int:
    return (tag >> ATTRIBUTE_BITS) & ((1 << KIND_BITS) - 1)


@part
def how_of(tag: Int) -> Int:
    return tag >> (ATTRIBUTE_BITS + KIND_BITS)


@part
def next_row(row: Int) -> Int:
    count = count_of(row)
    return get8(row, bounds_of(count) + 2 * count) if flags_of(row) & MULTI else 0


@part
def set_next_row(row: Int, following: Int) -> None:
    count = count_of(row)
    put8(row, bounds_of(count) + 2 * count, following)


# --- attributes -----------------------------------------------------------------------------------


@part
def attribute_at(state: Int, number: Int) -> Int:
    return get8(state, S_ATTRIBUTES) + 8 * A_WORDS * number


@part
def value_at(state: Int, attribute: Int) -> Int:
    """What the event at hand has for the attribute, if its stamp is the event's."""
    return get8(state, S_VALUES) + 8 * V_WORDS * attribute


@part
def _new_attribute(state: Int) -> Int:
    free = get8(state, S_FREE_ATTRIBUTE)
    if free != 0:
        put8(state, S_FREE_ATTRIBUTE, get8(attribute_at(state, free - 1), A_NAME))
        return free - 1
    number, room = get8(state, S_ATTRIBUTE_COUNT), get8(state, S_ATTRIBUTE_ROOM)
    if number == room:
        for word, words in ((S_ATTRIBUTES, A_WORDS), (S_VALUES, V_WORDS), (S_SPLITS, 1)):
            put8(state, word, longer(state, get8(state, word), 8 * words * room, 16 * words * room))
        put8(state, S_ATTRIBUTE_ROOM, 2 * room)
    put8(state, S_ATTRIBUTE_COUNT, number + 1)
    return number


@unit
def use_attribute(state: Int, name: Int, size: Int) -> Int:
    """The number of the attribute with this name, which gets one user more."""
    text = find_text(state, name, size)
    if text == 0 or get8(text, T_ATTRIBUTE) == 0:
        text = use_text(state, name, size)
        number = _new_attribute(state)
        put8(text, T_ATTRIBUTE, number + 1)
        attribute = attribute_at(state, number)
        put8(attribute, A_NAME, text)
        put8(attribute, A_USERS, 0)
        put8(attribute, A_SPLIT, 0)
        put8(attribute, A_VALUES, 0)
        put8(attribute, A_COUNT, 0)
        put8(value_at(state, number), V_STAMP, 0)
    number = get8(text, T_ATTRIBUTE) - 1
    attribute = attribute_at(state, number)
    put8(attribute, A_USERS, get8(attribute, A_USERS) + 1)
    return number


@unit
def leave_attribute(state: Int, number: Int) -> None:
    attribute = attribute_at(state, number)
    put8(attribute, A_USERS, get8(attribute, A_USERS) - 1)
    if get8(attribute, A_USERS) == 0:
        text = get8(attribute, A_NAME)
        put8(text, T_ATTRIBUTE, 0)
        leave_text(state, text)
        put8(attribute, A_NAME, get8(state, S_FREE_ATTRIBUTE))
        put8(state, S_FREE_ATTRIBUTE, number + 1)


# --- making and dropping rows ---------------------------------------------------------------------


@unit
def read_row(state: Int, at: Int, handle: Int, flags: Int) -> Int:
    """The row of a packed map from attributes to constraints; S_END is where that ends."""
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
        kinds, how = get8(read, R_KINDS), get8(read, R_HOW)
        put4(row, 3 + i, attribute | kinds << ATTRIBUTE_BITS | how << (ATTRIBUTE_BITS + KIND_BITS))
        put8(row, bounds + 2 * i, get8(read, R_LOW))
        put8(row, bounds + 2 * i + 1, get8(read, R_HIGH))
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
    give_back(state, row, row_bytes(count, flags_of(row)))


@part
def bring_to_front(row: Int, i: Int) -> None:
    """Exchange predicate i and the first."""
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
    """1 if the row holds for the event at hand, exactly (but for what Python decides)."""
    count, stamp = count_of(row), get8(state, S_STAMP)
    bounds = bounds_of(count)
    for i in range(count):
        tag = tag_of(row, i)
        value = value_at(state, attribute_of(tag))
        kind = get8(value, V_KIND) if get8(value, V_STAMP) == stamp else MISSING
        if not (kinds_of(tag) >> kind) & 1:
            return 0
        how = how_of(tag)
        if how == IN_RANGE:
            key = get8(value, V_KEY)
            if key < get8(row, bounds + 2 * i) or key > get8(row, bounds + 2 * i + 1):
                return 0
        elif how == IS_TEXT:
            if get8(value, V_KEY) != get8(row, bounds + 2 * i):
                return 0
        elif how != OF_KIND and not value_holds(how, get8(row, bounds + 2 * i), value):
            return 0
    return 1

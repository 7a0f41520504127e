"""Cuts: how the values of each attribute are cut into *slots*, for the bitmaps of a block.

The slots of an attribute, in this order: missing, false, true; intervals of numbers between
*boundaries* (a slot holds boundary <= key < next boundary); and for strings, in turn, what lies
between two boundaries and the boundary itself, so that a string that many filters ask for has a
slot of its own.

Within its slot, a number has a finer place still: its *scaled* key, of 16 bits, 1024 to a slot,
none 0. Scaled keys keep the order of keys, so those of a row's bounds decide nearly always whether
the row holds for an event whose number lies in the same slot (`search`). An attribute that many
rows constrain has a *lane* for them.

Cuts never change once they are made (`cutting`). Blocks share them (`C_USERS`) as long as they fit
new rows."""

from __future__ import annotations

from reefcast.matching.attributes import leave_attribute, value_at
from reefcast.matching.machine import (
    Int,
    get8,
    part,
    put2,
    put8,
    shifted_right,
    unit,
)
from reefcast.matching.state import (
    C_ATTRIBUTES,
    C_BYTES,
    C_FIRST,
    C_LANES,
    C_SERIAL,
    C_USERS,
    CA_ATTRIBUTE,
    CA_LANE,
    CA_NUMBER_AT,
    CA_NUMBERS,
    CA_SCALE_AT,
    CA_SLOT,
    CA_TEXT_AT,
    CA_TEXTS,
    CA_WORDS,
    LOWEST,
    MISSING,
    NUMBER,
    S_OTHER_COUNT,
    S_SCALED_COUNT,
    S_SLOT_ROOM,
    S_SLOTS,
    S_STAMP,
    STRING,
    T_BYTES,
    T_MEMO,
    T_RANK,
    T_SIZE,
    V_KEY,
    V_KIND,
    V_SIZE,
    V_STAMP,
    V_START,
    give_back,
)
from reefcast.matching.texts import compare_text, leave_text
from reefcast.matching.vectors import GROUP_WORDS, count_up_to

FIRST_NUMBERS = 3
"""Slots of an attribute before those of numbers."""

SCALE_BITS = 10
LANES = 8
"""Lanes that are compared at once."""

LANE_BYTES = 4 * LANES
"""Bytes of a row's scaled bounds: 8 lower ones, then 8 upper ones."""

NO_LANE = -1

SLOT_BYTES = 8 * 4
"""Bytes at S_SLOTS for each attribute."""


@part
def entry_at(cuts: Int, i: Int) -> Int:
    return cuts + 8 * (C_FIRST + CA_WORDS * i)


@part
def entry_of(cuts: Int, attribute: Int) -> Int:
    """Return the attribute's entry, or 0."""
    low, high = 0, get8(cuts, C_ATTRIBUTES)
    while low < high:
        middle = (low + high) >> 1
        if get8(entry_at(cuts, middle), CA_ATTRIBUTE) < attribute:
            low = middle + 1
        else:
            high = middle
    if low < get8(cuts, C_ATTRIBUTES) and get8(entry_at(cuts, low), CA_ATTRIBUTE) == attribute:
        return entry_at(cuts, low)
    return 0


@part
def number_rank(boundaries: Int, count: Int, key: Int) -> Int:
    """Return how many of the boundaries are at or below the key. They are padded with HIGHEST to a
    whole group."""
    return min(count, count_up_to(boundaries, (count + GROUP_WORDS - 1) >> 3, key))


@part
def scaled(cuts: Int, entry: Int, rank: Int, key: Int) -> Int:
    """Return the scaled key of a key with this rank."""
    start = get8(cuts, get8(entry, CA_NUMBER_AT) + rank - 1) if rank > 0 else LOWEST
    shift = get8(cuts, get8(entry, CA_SCALE_AT) + rank)
    return 1 + (rank << SCALE_BITS | shifted_right(key - start, shift))


@part
def text_rank(boundaries: Int, count: Int, start: Int, size: Int) -> Int:
    """Return 2 i + 1 for a text that equals boundary i, 2 i for one before it."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        order = compare_text(start, size, get8(boundaries, middle))
        if order == 0:
            return 2 * middle + 1
        if order > 0:
            low = middle + 1
        else:
            high = middle
    return 2 * low


@unit
def rank_of_text(cuts: Int, entry: Int, text: Int) -> Int:
    """Return the `text_rank` of a text; remember the last answer."""
    memo = (get8(cuts, C_SERIAL) << 24) + get8(entry, CA_SLOT)
    if get8(text, T_MEMO) != memo:
        boundaries = cuts + 8 * get8(entry, CA_TEXT_AT)
        put8(
            text,
            T_RANK,
            text_rank(boundaries, get8(entry, CA_TEXTS), text + 8 * T_BYTES, get8(text, T_SIZE)),
        )
        put8(text, T_MEMO, memo)
    return get8(text, T_RANK)


@part
def _string_slot(cuts: Int, entry: Int, value: Int) -> Int:
    texts, rank = get8(entry, CA_TEXTS), 0
    if texts > 0 and get8(value, V_KEY) != 0:
        rank = rank_of_text(cuts, entry, get8(value, V_KEY))
    elif texts > 0:
        boundaries = cuts + 8 * get8(entry, CA_TEXT_AT)
        rank = text_rank(boundaries, texts, get8(value, V_START), get8(value, V_SIZE))
    return FIRST_NUMBERS + get8(entry, CA_NUMBERS) + 1 + rank


@part
def lane_groups(cuts: Int) -> Int:
    return (get8(cuts, C_LANES) + LANES - 1) // LANES


@unit
def event_slots(state: Int, cuts: Int) -> None:
    """Write for the event at hand to S_SLOTS, S_SLOT_ROOM words each: the slot of each attribute;
    those of S_SCALED_COUNT attributes with a number and a lane; those of S_OTHER_COUNT others in
    which rows may be unsure; and the scaled keys of all lanes, 0 for none."""
    stamp, room = get8(state, S_STAMP), get8(state, S_SLOT_ROOM)
    slots = get8(state, S_SLOTS)
    scaled_slots, other_slots = slots + 8 * room, slots + 16 * room
    keys = slots + 24 * room
    for group in range(2 * lane_groups(cuts)):
        put8(keys, group, 0)
    scaled_count = other_count = 0
    for i in range(get8(cuts, C_ATTRIBUTES)):
        entry = entry_at(cuts, i)
        value = value_at(state, get8(entry, CA_ATTRIBUTE))
        slot, kind = get8(entry, CA_SLOT), MISSING
        if get8(value, V_STAMP) == stamp:
            kind = get8(value, V_KIND)
        if kind == NUMBER:
            key, lane = get8(value, V_KEY), get8(entry, CA_LANE)
            boundaries = cuts + 8 * get8(entry, CA_NUMBER_AT)
            rank = number_rank(boundaries, get8(entry, CA_NUMBERS), key)
            slot += FIRST_NUMBERS + rank
            if lane != NO_LANE:
                put2(keys, lane, scaled(cuts, entry, rank, key))
                put8(scaled_slots, scaled_count, slot)
                scaled_count += 1
            else:
                put8(other_slots, other_count, slot)
                other_count += 1
        elif kind == STRING:
            slot += _string_slot(cuts, entry, value)
            put8(other_slots, other_count, slot)
            other_count += 1
        else:
            slot += kind
        put8(slots, i, slot)
    put8(state, S_SCALED_COUNT, scaled_count)
    put8(state, S_OTHER_COUNT, other_count)


@unit
def leave_cuts(state: Int, cuts: Int) -> None:
    """Count one user less; the last one frees the cuts."""
    if cuts == 0:
        return
    put8(cuts, C_USERS, get8(cuts, C_USERS) - 1)
    if get8(cuts, C_USERS) > 0:
        return
    for i in range(get8(cuts, C_ATTRIBUTES)):
        entry = entry_at(cuts, i)
        for t in range(get8(entry, CA_TEXTS)):
            leave_text(state, get8(cuts, get8(entry, CA_TEXT_AT) + t))
        leave_attribute(state, get8(entry, CA_ATTRIBUTE))
    give_back(state, cuts, get8(cuts, C_BYTES))

"""Grams: which four bytes in a row a long string of the event at hand has.

To look for `%abcdef%` in 10 000 characters takes over a microsecond, and with NOT LIKE every filter
may have to. So from the `MANY`th search of a string on, a bit for the hash of each gram of it says
which needles it lacks: one that has a gram whose bit is 0. This costs as much as some ten searches,
and a search that it saves takes a hundredth. It is kept for a few strings of the event, each in the
slot that its address leads to."""

from __future__ import annotations

from reefcast.matching.chains import MIX
from reefcast.matching.machine import (
    Int,
    get1,
    get8,
    part,
    put8,
    release,
    shifted_right,
    unit,
)
from reefcast.matching.state import S_GRAMS, S_STAMP, give_back, new_zeroed

GRAM_BYTES = 4
LONG = 512
"""Bytes of a string from which on grams are worth it."""
MANY = 8
SLOTS = 4
FEWEST_BITS, MOST_BITS = 13, 23
"""As powers of two. A string has about eight bits for each byte, as long as these suffice."""

GRAM_STAMP, GRAM_START, GRAM_SIZE, GRAM_SEARCHES, GRAM_BITS, GRAM_ROOM, GRAM_TABLE = range(7)
GRAM_WORDS = 8
"""Words of a slot: the event's stamp, the address of the string and its bytes, how often it was
searched; how many bits are used and how many there are, as powers of two; where they are."""


@part
def _slot_of(state: Int, start: Int) -> Int:
    if get8(state, S_GRAMS) == 0:
        put8(state, S_GRAMS, new_zeroed(state, 8 * GRAM_WORDS * SLOTS))
    return get8(state, S_GRAMS) + 8 * GRAM_WORDS * ((start >> 4) & (SLOTS - 1))


@part
def _with_byte(gram: Int, byte: Int) -> Int:
    """Return the gram that ends with this byte, if `gram` ended before it."""
    return ((gram << 8) | byte) & 0xFFFFFFFF


@part
def _bit_of(slot: Int, gram: Int) -> Int:
    return shifted_right(gram * MIX, 64 - get8(slot, GRAM_BITS))


@part
def _make_room(state: Int, slot: Int, size: Int) -> None:
    """Make a table of zeros for a string of this size."""
    bits = FEWEST_BITS
    while bits < MOST_BITS and 1 << bits < 8 * size:
        bits += 1
    if get8(slot, GRAM_TABLE) != 0 and get8(slot, GRAM_ROOM) < bits:
        give_back(state, get8(slot, GRAM_TABLE), (1 << get8(slot, GRAM_ROOM)) >> 3)
        put8(slot, GRAM_TABLE, 0)
    if get8(slot, GRAM_TABLE) == 0:
        put8(slot, GRAM_TABLE, new_zeroed(state, (1 << bits) >> 3))
        put8(slot, GRAM_ROOM, bits)
    else:
        for word in range((1 << bits) >> 6):
            put8(get8(slot, GRAM_TABLE), word, 0)
    put8(slot, GRAM_BITS, bits)


@unit
def _fill(state: Int, slot: Int) -> None:
    """Set the bit of each gram of the slot's string."""
    start, size = get8(slot, GRAM_START), get8(slot, GRAM_SIZE)
    _make_room(state, slot, size)
    table, gram = get8(slot, GRAM_TABLE), 0
    for i in range(size):
        gram = _with_byte(gram, get1(start, i))
        if i >= GRAM_BYTES - 1:
            bit = _bit_of(slot, gram)
            put8(table, bit >> 6, get8(table, bit >> 6) | 1 << (bit & 63))


@part
def _has_all(slot: Int, needle: Int, width: Int) -> Int:
    """Return 1 if each gram of the needle has its bit, else 0."""
    table, gram = get8(slot, GRAM_TABLE), 0
    for i in range(width):
        gram = _with_byte(gram, get1(needle, i))
        if i >= GRAM_BYTES - 1:
            bit = _bit_of(slot, gram)
            if not (get8(table, bit >> 6) >> (bit & 63)) & 1:
                return 0
    return 1


@unit
def lacks(state: Int, start: Int, size: Int, needle: Int, width: Int) -> Int:
    """Return 1 if a string of the event at hand, of at least `LONG` bytes, is known not to contain
    the needle, of at least `GRAM_BYTES`; 0 if it must be searched."""
    slot = _slot_of(state, start)
    stamp = get8(state, S_STAMP)
    if (
        get8(slot, GRAM_STAMP) != stamp
        or get8(slot, GRAM_START) != start
        or get8(slot, GRAM_SIZE) != size
    ):
        put8(slot, GRAM_STAMP, stamp)
        put8(slot, GRAM_START, start)
        put8(slot, GRAM_SIZE, size)
        put8(slot, GRAM_SEARCHES, 0)
    searches = get8(slot, GRAM_SEARCHES) + 1
    put8(slot, GRAM_SEARCHES, searches)
    if searches < MANY:
        return 0
    if searches == MANY:
        _fill(state, slot)
    return 1 - _has_all(slot, needle, width)


@part
def leave_grams(state: Int) -> None:
    """Free all slots; the state cannot be used any more."""
    slots = get8(state, S_GRAMS)
    if slots != 0:
        for i in range(SLOTS):
            release(get8(slots, GRAM_WORDS * i + GRAM_TABLE))
        release(slots)

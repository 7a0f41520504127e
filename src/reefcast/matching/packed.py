"""Reading msgpack: the values of events, and the constraints of filters.

Encoding a whole dict or filter is several times faster than passing its parts one by one."""

from __future__ import annotations

from reefcast.matching.machine import (
    Int,
    get1,
    get8_anywhere,
    part,
    put8,
    swapped,
    unit,
)
from reefcast.matching.numbers import key_of_bits, key_of_int
from reefcast.matching.state import (
    FALSE,
    MISSING,
    NUMBER,
    STRING,
    V_BITS,
    V_KEY,
    V_KIND,
    V_REST,
    V_SIZE,
    V_START,
    V_WHOLE,
)

STRANGE = -1
"""The kind of an unsupported value: bytes, a list, an integer beyond int64."""

NIL, NO, YES, FLOAT = 0xC0, 0xC2, 0xC3, 0xCB
UINT8, INT8, INT64, FIXED_STRING, STRING8 = 0xCC, 0xD0, 0xD3, 0xA0, 0xD9
FIXED_ARRAY, ARRAY16, FIXED_MAP, MAP16, NEGATIVE = 0x90, 0xDC, 0x80, 0xDE, 0xE0


@part
def big_endian(at: Int, size: Int) -> Int:
    value = 0
    for i in range(size):
        value = (value << 8) | get1(at, i)
    return value


@part
def read_float_bits(at: Int) -> Int:
    return swapped(get8_anywhere(at, 0))


@part
def _read_count(at: Int, fixed: Int, wide: Int) -> tuple[Int, Int]:
    """Return (length, where the first item is) of an array or a map."""
    tag = get1(at, 0)
    if tag < FIXED_STRING and tag & ~15 == fixed:
        return tag & 15, at + 1
    if tag == wide:
        return big_endian(at + 1, 2), at + 3
    return big_endian(at + 1, 4), at + 5


@part
def is_map(at: Int) -> bool:
    tag = get1(at, 0)
    return bool(tag & ~15 == FIXED_MAP or tag == MAP16 or tag == MAP16 + 1)


@part
def is_string(at: Int) -> bool:
    tag = get1(at, 0)
    return bool(FIXED_STRING <= tag < NIL or STRING8 <= tag < ARRAY16)


@part
def read_array(at: Int) -> tuple[Int, Int]:
    return _read_count(at, FIXED_ARRAY, ARRAY16)


@part
def read_map(at: Int) -> tuple[Int, Int]:
    return _read_count(at, FIXED_MAP, MAP16)


@part
def read_string(at: Int) -> tuple[Int, Int]:
    """Return (where its characters start, how many bytes they are)."""
    tag = get1(at, 0)
    if tag < NIL:
        return at + 1, tag & 31
    width = 1 << (tag - STRING8)
    return at + 1 + width, big_endian(at + 1, width)


@part
def read_int(at: Int) -> tuple[Int, Int]:
    """Return (number, where it ends) of a small integer or an int64."""
    tag = get1(at, 0)
    if tag < FIXED_MAP:
        return tag, at + 1
    if tag >= NEGATIVE:
        return tag - 256, at + 1
    size = 1 << ((tag - UINT8) & 3)
    number = big_endian(at + 1, size)
    if tag >= INT8:
        unused = 64 - 8 * size
        number = (number << unused) >> unused
    return number, at + 1 + size


@unit
def read_value(at: Int, value: Int) -> Int:
    """Read a value into the V_* words at `value`, except for those that need the table of texts;
    return where it ends. An unsupported value has the kind STRANGE."""
    tag = get1(at, 0)
    kind, key, rest, bits, whole, end = STRANGE, 0, 0, 0, 0, at + 1
    if tag == FLOAT:
        bits = read_float_bits(at + 1)
        kind, key, end = NUMBER, key_of_bits(bits), at + 9
    elif is_string(at):
        start, size = read_string(at)
        put8(value, V_START, start)
        put8(value, V_SIZE, size)
        kind, end = STRING, start + size
    elif tag == NIL:
        kind = MISSING
    elif NO <= tag <= YES:
        kind = FALSE + tag - NO
    elif tag < FIXED_MAP or tag >= NEGATIVE or UINT8 <= tag <= INT64:
        bits, end = read_int(at)
        if tag != UINT8 + 3 or bits >= 0:
            key, rest = key_of_int(bits)
            kind, whole = NUMBER, 1
    put8(value, V_KIND, kind)
    put8(value, V_KEY, key)
    put8(value, V_REST, rest)
    put8(value, V_BITS, bits)
    put8(value, V_WHOLE, whole)
    return end


@part
def is_nil(at: Int) -> bool:
    return bool(get1(at, 0) == NIL)


@part
def read_bool(at: Int) -> Int:
    return get1(at, 0) - NO


@part
def end_of_value(at: Int) -> Int:
    """Return where a value ends, 0 if it is unsupported."""
    tag = get1(at, 0)
    if tag < FIXED_MAP or tag >= NEGATIVE or tag == NIL or NO <= tag <= YES:
        return at + 1
    if tag == FLOAT:
        return at + 9
    if UINT8 <= tag <= INT64:
        beyond = tag == UINT8 + 3 and get1(at, 1) >= FIXED_MAP
        return 0 if beyond else at + 1 + (1 << ((tag - UINT8) & 3))
    if is_string(at):
        start, size = read_string(at)
        return start + size
    return 0

"""Reading events: one value for each attribute that some filter names.

Events come as msgpack maps, one for each, or as columns (`columns.Columns`, whose descriptors are
read here). Attributes that no filter names are skipped."""

from __future__ import annotations

from reefcast.matching import columns
from reefcast.matching.attributes import attribute_at, value_at
from reefcast.matching.machine import (
    Int,
    compare_bytes,
    copy_bytes,
    get1,
    get4,
    get8,
    get8_anywhere,
    part,
    put8,
    unit,
)
from reefcast.matching.numbers import key_of_bits, key_of_int
from reefcast.matching.packed import (
    FIXED_ARRAY,
    STRANGE,
    end_of_value,
    is_map,
    is_string,
    read_map,
    read_string,
    read_value,
)
from reefcast.matching.state import (
    A_SPLIT,
    FALSE,
    L_ATTRIBUTE,
    L_NAME,
    L_SIZE,
    L_WORDS,
    LAYOUT,
    LONGEST_NAME,
    MISSING,
    NUMBER,
    S_LAYOUT,
    S_SPLIT_COUNT,
    S_SPLITS,
    S_STAMP,
    STRING,
    T_ATTRIBUTE,
    V_BITS,
    V_KEY,
    V_KIND,
    V_REST,
    V_SIZE,
    V_STAMP,
    V_START,
    V_WHOLE,
)
from reefcast.matching.texts import find_text

ONE_ITEM = FIXED_ARRAY + 1
"""The head of an array with one item."""


@part
def begin_event(state: Int) -> None:
    put8(state, S_STAMP, get8(state, S_STAMP) + 1)
    put8(state, S_SPLIT_COUNT, 0)


@part
def _note(state: Int, attribute: Int, value: Int) -> None:
    """Note that the event at hand has this value of the attribute; V_KIND and what follows it are
    set."""
    put8(value, V_STAMP, get8(state, S_STAMP))
    if get8(value, V_KIND) == STRING:
        put8(value, V_KEY, find_text(state, get8(value, V_START), get8(value, V_SIZE)))
    if get8(attribute_at(state, attribute), A_SPLIT) != 0:
        count = get8(state, S_SPLIT_COUNT)
        put8(get8(state, S_SPLITS), count, attribute)
        put8(state, S_SPLIT_COUNT, count + 1)


@part
def _attribute_of_name(state: Int, place: Int, name: Int, size: Int) -> Int:
    """Return the number of the attribute with this name, the event's `place`th, or -1. Most events
    have the same names in the same order as the one before: then one comparison suffices."""
    entry = get8(state, S_LAYOUT) + 8 * L_WORDS * place
    if (
        place < LAYOUT
        and get8(entry, L_SIZE) == size + 1
        and compare_bytes(entry + 8 * L_NAME, name, size) == 0
    ):
        return get8(entry, L_ATTRIBUTE) - 1
    text = find_text(state, name, size)
    number = get8(text, T_ATTRIBUTE) if text != 0 else 0
    if place < LAYOUT and size <= LONGEST_NAME:
        put8(entry, L_SIZE, size + 1)
        put8(entry, L_ATTRIBUTE, number)
        copy_bytes(entry + 8 * L_NAME, name, size)
    return number - 1


@unit
def read_event(state: Int, at: Int) -> Int:
    """Read a map from names to values; return where it ends, or 0 if a value is unsupported, if a
    name is no string or comes twice, or if this is no map."""
    begin_event(state)
    if not is_map(at):
        return 0
    count, at = read_map(at)
    for place in range(count):
        if not is_string(at):
            return 0
        name, size = read_string(at)
        attribute = _attribute_of_name(state, place, name, size)
        if attribute < 0:
            at = end_of_value(name + size)
            if at == 0:
                return 0
            continue
        value = value_at(state, attribute)
        at = read_value(name + size, value)
        kind = get8(value, V_KIND)
        if kind == STRANGE:
            return 0
        if kind != MISSING:
            if get8(value, V_STAMP) == get8(state, S_STAMP):
                return 0
            _note(state, attribute, value)
    return at


@unit
def read_topic(state: Int, at: Int, name: Int, size: Int) -> Int:
    """Read an array of one text as the value of the attribute with this name, behind the map of the
    event at hand; return where the text ends, or 0 if this is no such array, or the map has a value
    of the attribute."""
    if get1(at, 0) != ONE_ITEM or not is_string(at + 1):
        return 0
    start, length = read_string(at + 1)
    attribute = _attribute_of_name(state, LAYOUT, name, size)
    if attribute >= 0:
        value = value_at(state, attribute)
        if get8(value, V_STAMP) == get8(state, S_STAMP):
            return 0
        put8(value, V_KIND, STRING)
        put8(value, V_START, start)
        put8(value, V_SIZE, length)
        _note(state, attribute, value)
    return start + length


# --- columns --------------------------------------------------------------------------------------

FLOAT64, INT64, LARGE_STRING = columns.FLOAT64, columns.INT64, columns.LARGE_STRING
BOOL, BOOL8, NULL = columns.BOOL, columns.BOOL8, columns.NULL
COLUMN_BYTES = 8 * columns.TABLE_WIDTH
FORM, VALUES, OFFSETS = columns.TYPE, columns.VALUES, columns.OFFSETS
VALIDITY, FIRST = columns.VALIDITY, columns.FIRST


@part
def _bit(bitmap: Int, i: Int) -> Int:
    return (get1(bitmap, i >> 3) >> (i & 7)) & 1


@part
def _string_at(column: Int, i: Int, wide: Int) -> tuple[Int, Int]:
    offsets = get8(column, OFFSETS)
    if wide:
        start, end = get8_anywhere(offsets + 8 * i, 0), get8_anywhere(offsets + 8 * i + 8, 0)
    else:
        start, end = get4(offsets, i), get4(offsets, i + 1)
    return get8(column, VALUES) + start, end - start


@part
def _read_cell(value: Int, column: Int, form: Int, i: Int) -> None:
    values = get8(column, VALUES)
    kind, key, rest, bits = NUMBER, 0, 0, 0
    if form == FLOAT64:
        bits = get8_anywhere(values + 8 * i, 0)
        key = key_of_bits(bits)
    elif form == INT64:
        bits = get8_anywhere(values + 8 * i, 0)
        key, rest = key_of_int(bits)
    elif form == BOOL:
        kind = FALSE + _bit(values, i)
    elif form == BOOL8:
        kind = FALSE + (1 if get1(values, i) else 0)
    else:
        start, size = _string_at(column, i, 1 if form == LARGE_STRING else 0)
        kind = STRING
        put8(value, V_START, start)
        put8(value, V_SIZE, size)
    put8(value, V_KIND, kind)
    put8(value, V_KEY, key)
    put8(value, V_REST, rest)
    put8(value, V_BITS, bits)
    put8(value, V_WHOLE, 1 if form == INT64 else 0)


@unit
def read_columns(state: Int, table: Int, attributes: Int, count: Int, row: Int) -> None:
    """Read one row of `count` columns; `attributes` has the number of each, or -1."""
    begin_event(state)
    for c in range(count):
        attribute = get8(attributes, c)
        column = table + COLUMN_BYTES * c
        form, i = get8(column, FORM), row + get8(column, FIRST)
        validity = get8(column, VALIDITY)
        if attribute >= 0 and form != NULL and (validity == 0 or _bit(validity, i)):
            value = value_at(state, attribute)
            _read_cell(value, column, form, i)
            _note(state, attribute, value)


PACKED = -1
"""In place of a number of columns: the table has the addresses of packed events."""


@part
def read_row_of(state: Int, table: Int, attributes: Int, columns: Int, row: Int) -> None:
    """Read one event of a batch of columns or of packed events, all of which are valid."""
    if columns == PACKED:
        read_event(state, get8(table, row))
    else:
        read_columns(state, table, attributes, columns, row)

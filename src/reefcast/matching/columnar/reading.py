"""The kernel that reads the bodies of events into columns. `layout` says how both see the memory.

A value that its column does not take is missing there. Of several values of one name, which no
client of ours writes, the last one counts."""

from __future__ import annotations

from reefcast.matching.columnar.layout import (
    BOOLEAN,
    C_KIND,
    C_NAME,
    C_NEXT,
    C_SIZE,
    C_TEXTS,
    C_VALID,
    C_VALUES,
    C_WORDS,
    DOUBLE,
    INTEGER,
    LONG,
    M_COUNT,
    M_ENDS,
    M_FLOAT_AT,
    M_FLOAT_COUNT,
    M_FLOATS,
    M_JSON,
    M_KEYS,
    M_VALUES,
    M_WANTED,
    P_COLUMN,
    P_NAME,
    P_SIZE,
    P_WORDS,
    PLACES,
    STRING,
    T_ALL,
    T_COLUMN_COUNT,
    T_COLUMNS,
    T_PAYLOADS,
    T_PLACES,
    T_PUBLICATION,
    T_PUBLISHERS,
    T_REST,
    T_SEQS,
    T_TIMES,
    T_TOPIC_COUNT,
    T_TOPIC_ENDS,
    T_TOPICS,
    X_OFFSETS,
    X_USED,
)
from reefcast.matching.columnar.texts import (
    append,
    append_byte,
    append_integer,
    append_json,
    end_text,
)
from reefcast.matching.machine import (
    Int,
    bits_of,
    compare_bytes,
    compile_units,
    float_of,
    get1,
    get4,
    get8,
    kernel,
    part,
    put1,
    put4,
    put8,
    unit,
)
from reefcast.matching.packed import (
    FIXED_ARRAY,
    FLOAT,
    NO,
    YES,
    big_endian,
    end_of_value,
    is_string,
    read_array,
    read_bool,
    read_float_bits,
    read_int,
    read_map,
    read_string,
)
from reefcast.matching.passage.bodies import BYTES8, FEWEST_FIELDS, MOST_FIELDS, read_body
from reefcast.matching.passage.layout import F_EVENT

_INT32 = 1 << 31
_INFINITE = 0x7FF0000000000000
_TURN = 2**63 - 1
_MINUS = ord("-")
_TRUE, _FALSE = (int.from_bytes(each, "little") for each in (b"true", b"false"))
_NAN, _INFINITY = (int.from_bytes(each, "little") for each in (b"NaN", b"Infinity"))


@part
def _column(table: Int, number: Int) -> Int:
    return get8(table, T_COLUMNS) + 8 * C_WORDS * number


# --- which column ---------------------------------------------------------------------------------


@unit
def _find_column(table: Int, name: Int, size: Int) -> Int:
    """Return the first column of this name, -1 if there is none."""
    for number in range(get8(table, T_COLUMN_COUNT)):
        column = _column(table, number)
        if get8(column, C_SIZE) == size and compare_bytes(get8(column, C_NAME), name, size) == 0:
            return number
    return -1


@part
def _column_of(table: Int, place: Int, name: Int, size: Int) -> Int:
    """Return the column of the attribute at this place of its event: most events have the names of
    the one before, in their order."""
    entry = table + 8 * (T_PLACES + place * P_WORDS)
    if (
        place < PLACES
        and get8(entry, P_SIZE) == size
        and compare_bytes(get8(entry, P_NAME), name, size) == 0
    ):
        return get8(entry, P_COLUMN)
    found = _find_column(table, name, size)
    if place < PLACES:
        put8(entry, P_NAME, name)
        put8(entry, P_SIZE, size)
        put8(entry, P_COLUMN, found)
    return found


# --- values ---------------------------------------------------------------------------------------


@part
def _put_whole(column: Int, row: Int, number: Int) -> Int:
    if get8(column, C_KIND) == INTEGER:
        if number < -_INT32 or number >= _INT32:
            return 0
        put4(get8(column, C_VALUES), row, number)
    else:
        put8(get8(column, C_VALUES), row, number)
    return 1


@part
def _put_float(column: Int, row: Int, bits: Int) -> Int:
    kind = get8(column, C_KIND)
    if kind == DOUBLE:
        put8(get8(column, C_VALUES), row, bits)
        return 1
    if kind not in (LONG, INTEGER):
        return 0
    number = float_of(bits)
    if not -9223372036854775808.0 <= number < 9223372036854775808.0:
        return 0
    whole = int(number)
    return _put_whole(column, row, whole) if float(whole) == number else 0


@part
def _put_integer(column: Int, row: Int, number: Int) -> Int:
    kind = get8(column, C_KIND)
    if kind == DOUBLE:
        put8(get8(column, C_VALUES), row, bits_of(float(number)))
        return 1
    return _put_whole(column, row, number) if kind in (LONG, INTEGER) else 0


@unit
def _put_value(column: Int, row: Int, at: Int) -> Int:
    """Put the value at `at` into a column; return 1 if the column takes it, else 0."""
    tag = get1(at, 0)
    kind = get8(column, C_KIND)
    texts = column + 8 * C_TEXTS
    if kind == STRING:  # what an earlier value of this name has put there goes
        put8(texts, X_USED, get4(get8(texts, X_OFFSETS), row))
    taken = 0
    if tag == FLOAT:
        taken = _put_float(column, row, read_float_bits(at + 1))
    elif NO <= tag <= YES:
        if kind == BOOLEAN:
            put1(get8(column, C_VALUES), row, read_bool(at))
            taken = 1
    elif is_string(at):
        if kind == STRING:
            start, size = read_string(at)
            append(texts, start, size)
            taken = 1
    else:
        number, _ = read_int(at)
        taken = _put_integer(column, row, number)
    put1(get8(column, C_VALID), row, taken)
    return taken


# --- maps -----------------------------------------------------------------------------------------


@part
def _append_word(texts: Int, word: Int) -> None:
    while word != 0:
        append_byte(texts, word & 0xFF)
        word >>= 8


@part
def _append_float(maps: Int, bits: Int) -> None:
    """Append a float that is not finite, or note it for Arrow, which finds its digits."""
    texts = maps + 8 * M_VALUES
    if bits & _TURN < _INFINITE:
        count = get8(maps, M_FLOAT_COUNT)
        put8(get8(maps, M_FLOATS), count, bits)
        put8(get8(maps, M_FLOAT_AT), count, get8(maps, M_COUNT))
        put8(maps, M_FLOAT_COUNT, count + 1)
    elif bits & _TURN > _INFINITE:
        _append_word(texts, _NAN)
    else:
        if bits < 0:
            append_byte(texts, _MINUS)
        _append_word(texts, _INFINITY)


@unit
def _put_entry(maps: Int, name: Int, size: Int, at: Int) -> None:
    """Append an entry: the name, and the value at `at`."""
    keys, texts = maps + 8 * M_KEYS, maps + 8 * M_VALUES
    json, count = get8(maps, M_JSON), get8(maps, M_COUNT)
    if json != 0:
        append_json(keys, name, size)
    else:
        append(keys, name, size)
    tag = get1(at, 0)
    if tag == FLOAT:
        _append_float(maps, read_float_bits(at + 1))
    elif NO <= tag <= YES:
        _append_word(texts, _TRUE if tag == YES else _FALSE)
    elif is_string(at):
        start, length = read_string(at)
        if json != 0:
            append_json(texts, start, length)
        else:
            append(texts, start, length)
    else:
        number, _ = read_int(at)
        append_integer(texts, number)
    end_text(keys, count)
    end_text(texts, count)
    put8(maps, M_COUNT, count + 1)


@part
def _has_before(first: Int, end: Int, name: Int, size: Int) -> bool:
    """Return whether a map that begins at `first` has this name before `end`."""
    at = first
    while at < end:
        start, length = read_string(at)
        if length == size and compare_bytes(start, name, size) == 0:
            return True
        at = end_of_value(start + length)
    return False


# --- events ---------------------------------------------------------------------------------------


@unit
def _read_attributes(table: Int, row: Int, event: Int) -> Int:
    """Read the map at `event`; return where it ends, 0 if a name comes twice and would be so in a
    map, too."""
    every, rest = table + 8 * T_ALL, table + 8 * T_REST
    wants_all, wants_rest = get8(every, M_WANTED), get8(rest, M_WANTED)
    count, at = read_map(event)
    first = at
    for place in range(count):
        start = at
        name, size = read_string(at)
        at = name + size
        if wants_all + wants_rest != 0 and _has_before(first, start, name, size):
            return 0
        number, taken = _column_of(table, place, name, size), 0
        while number >= 0:
            column = _column(table, number)
            taken |= _put_value(column, row, at)
            number = get8(column, C_NEXT)
        if wants_all != 0:
            _put_entry(every, name, size, at)
        if wants_rest != 0 and taken == 0:
            _put_entry(rest, name, size, at)
        at = end_of_value(at)
    return at


@unit
def _read_topics(table: Int, row: Int, at: Int) -> Int:
    """Read an array of texts; return where it ends. `at` 0: there is none."""
    ends, texts = get8(table, T_TOPIC_ENDS), table + 8 * T_TOPICS
    count, number = 0, get8(table, T_TOPIC_COUNT)
    if at != 0:
        count, at = read_array(at)
    for _ in range(count):
        start, size = read_string(at)
        at = start + size
        if ends != 0:
            append(texts, start, size)
            end_text(texts, number)
            number += 1
    if ends != 0:
        put8(table, T_TOPIC_COUNT, number)
        put4(ends, row + 1, number)
    return at


@part
def _read_payload(table: Int, row: Int, at: Int) -> None:
    texts = get8(table, T_PAYLOADS)
    if texts != 0:
        if at != 0:
            width = 1 << (get1(at, 0) - BYTES8)
            append(texts, at + 1 + width, big_endian(at + 1, width))
        end_text(texts, row)


@part
def _end_row(table: Int, row: Int) -> None:
    for number in range(get8(table, T_COLUMN_COUNT)):
        column = _column(table, number)
        if get8(column, C_KIND) == STRING:
            end_text(column + 8 * C_TEXTS, row)
    for maps in (table + 8 * T_ALL, table + 8 * T_REST):
        if get8(maps, M_WANTED) != 0:
            put4(get8(maps, M_ENDS), row + 1, get8(maps, M_COUNT))


@kernel
def read_bodies(table: Int, data: Int, offsets: Int, count: Int) -> Int:
    """Read bodies, which lie at `data` with these `offsets` (int64, one more than bodies), into a
    new table; return how many were read: fewer than `count` if the next one is not as our clients
    write it."""
    publication = table + 8 * T_PUBLICATION
    for place in range(PLACES):
        put8(table + 8 * (T_PLACES + place * P_WORDS), P_SIZE, -1)
    for row in range(count):
        start = data + get8(offsets, row)
        read_body(start, data + get8(offsets, row + 1), publication)
        event = get8(publication, F_EVENT)
        if event == 0:
            return row
        fields = get1(start, 0) - FIXED_ARRAY
        name, size = read_string(start + 1)
        seq, at = read_int(name + size)
        time, at = read_int(at)
        if get8(table, T_SEQS) != 0:
            put8(get8(table, T_SEQS), row, seq)
        if get8(table, T_TIMES) != 0:
            put8(get8(table, T_TIMES), row, time)
        if get8(table, T_PUBLISHERS) != 0:
            append(get8(table, T_PUBLISHERS), name, size)
            end_text(get8(table, T_PUBLISHERS), row)
        at = _read_attributes(table, row, event)
        if at == 0:
            return row
        at = _read_topics(table, row, at if fields > FEWEST_FIELDS else 0)
        _read_payload(table, row, at if fields == MOST_FIELDS else 0)
        _end_row(table, row)
    return count


compile_units()

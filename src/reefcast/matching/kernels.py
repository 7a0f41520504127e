"""The compiled part of the bitmap index: its tables, and the loops over them.

Theory of operation
-------------------
A *row* is a conjunction of a filter. For each attribute that a row constrains, the row has one
*predicate*. The values an attribute may have are cut into *slots*: missing, false, true, intervals
of numbers, intervals of strings (of their codes, see below). Each slot has a bitmap over the rows
with a bit for each row that *cannot* hold when the value is in the slot. A row that does not
constrain an attribute has no bit there, so it costs nothing. To match an event:

1. find the slot of each attribute's value, and OR the bitmaps of these slots;
2. rows alive without a bit are the survivors; check their predicates exactly;
3. rows whose constraints or residual expressions cannot be decided here (patterns that are more
   than a prefix, arithmetic) are handed out marked, for Python to decide.

Numbers. An int64 compares exactly with a float64. A number is a pair (float64 nearest to it, twice
the remainder); the lexicographic order of the pairs is the order of the numbers, since rounding is
monotone. NaN is (inf, 2): above all. Twice the remainder, so that an open bound is a closed one at
the odd number beside it, and every comparison here is closed.

Strings are numbers too: a constant of a filter has a code (`strings.Strings`), a string that is no
constant has the code -1. So `=`, `<>` and IN are decided without looking at characters. Ranges do
look: the order of the bytes of UTF-8 is that of the code points.

Events come as one msgpack array with a value for each pair of event and attribute in use, nil for
missing: encoding a list is several times faster than storing its values one by one from Python.

Every kernel and all that it is made of stands in this file, for numba's cache on disk compares the
time and size of the file where a kernel stands, and of no other: a record type that changed
elsewhere would leave old kernels reading new tables.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba.np.numpy_support import carray

from reefcast.matching.old_machine import (
    Array,
    Int,
    Records,
    compiled,
    inlined,
    pointer,
    trailing_zeros,
)

# Kinds of a value; the numbers are the bits of `PREDICATE.kinds`, the first three are slots too.
MISSING, FALSE, TRUE, NUMBER, STRING = range(5)
FIRST_BUCKET = 3

PREDICATE = np.dtype(
    [
        ("low", np.float64),  # the pair (low, low_rest) is the lower bound, closed
        ("high", np.float64),
        ("low_rest", np.int64),
        ("high_rest", np.int64),
        ("attribute", np.int32),
        ("kinds", np.int32),  # bit k: values of kind k may satisfy the predicate
        ("members", np.int32),  # where its members start
        ("count", np.int32),  # members that the value must be among; -n: n that it must not
        ("from_text", np.int32),  # codes of the bounds of a range of strings, -1: no bound;
        ("to_text", np.int32),  # the rests say, as with numbers, whether a bound is inside
    ],
    align=True,
)
"""What one row demands of one attribute; 56 bytes."""

MEMBER = np.dtype([("value", np.float64), ("rest", np.int64)], align=True)

ROW = np.dtype([("start", "i4"), ("end", "i4"), ("first", "i4"), ("checked", "i4")], align=True)
"""Its predicates; the first row of the same filter; 1 if Python decides about survivors."""

ATTRIBUTE = np.dtype(
    [
        ("slot", np.int32),  # its first slot: missing, false, true, numbers, strings
        ("numbers", np.int32),  # where its boundaries between numbers start, and how many
        ("number_count", np.int32),
        ("strings", np.int32),
        ("string_count", np.int32),
    ],
    align=True,
)

STRING_ENTRY = np.dtype([("hash", np.uint64), ("start", np.int64), ("size", np.int64)], align=True)

VALUE = np.dtype(
    [("value", "f8"), ("rest", "i8"), ("kind", "i8"), ("start", "i8"), ("end", "i8")], align=True
)
"""What an event has for one attribute; `start` and `end` say where it lies in the data."""


class Tables(NamedTuple):
    """All that the kernels read and write; shapes: see `tables.Store` and `strings.Strings`.

    A kernel takes them as one array of addresses and sizes (`addresses_of`): to hand it twelve
    arrays would cost more than a match, and inside it each use of one would count references.
    The arrays must be C-contiguous and be kept alive by the caller.
    """

    excluded: Array  # uint64 (slots, words): the bitmaps
    occupied: Array  # uint8 (slots,): 1 where a bitmap has a bit
    alive: Array  # uint64 (words,)
    rows: Records  # ROW
    predicates: Records  # PREDICATE
    members: Records  # MEMBER
    attributes: Records  # ATTRIBUTE
    boundaries: Array  # float64; a bucket holds boundary <= value < next boundary
    entries: Records  # STRING_ENTRY per code
    buckets: Array  # int32, a power of two: code or -1, open addressing
    characters: Array  # uint8: UTF-8 of all constants
    event: Records  # VALUE per attribute: room for the event at hand


WORDS, ROW_COUNT, ATTRIBUTE_COUNT = 24, 25, 26
"""Places in what `addresses_of` returns; before them address and length of each table."""


def addresses_of(tables: Tables) -> Array:
    """What kernels take in place of the tables. The counts of rows and attributes are 0 at first;
    whoever adds some changes them in place."""
    pairs = [number for table in tables for number in (table.ctypes.data, len(table))]
    return np.array([*pairs, tables.excluded.shape[1], 0, 0], np.int64)


@inlined
def _tables(at: Array) -> Tables:
    return Tables(
        carray(pointer(at[0]), (at[1], at[WORDS]), np.uint64),
        carray(pointer(at[2]), (at[3],), np.uint8),
        carray(pointer(at[4]), (at[5],), np.uint64),
        carray(pointer(at[6]), (at[7],), ROW),
        carray(pointer(at[8]), (at[9],), PREDICATE),
        carray(pointer(at[10]), (at[11],), MEMBER),
        carray(pointer(at[12]), (at[13],), ATTRIBUTE),
        carray(pointer(at[14]), (at[15],), np.float64),
        carray(pointer(at[16]), (at[17],), STRING_ENTRY),
        carray(pointer(at[18]), (at[19],), np.int32),
        carray(pointer(at[20]), (at[21],), np.uint8),
        carray(pointer(at[22]), (at[23],), VALUE),
    )


@compiled
def hash_bytes(data: Array, start: Int, size: Int) -> Int:
    """FNV-1a."""
    value = np.uint64(14695981039346656037)
    for i in range(start, start + size):
        value = (value ^ np.uint64(data[i])) * np.uint64(1099511628211)
    return value ^ (value >> np.uint64(29))


@compiled
def fill_buckets(entries: Records, buckets: Array, first: Int, end: Int) -> None:
    """Enters the codes from `first` to `end` into the hash table."""
    mask = np.uint64(len(buckets) - 1)
    for code in range(first, end):
        place = entries[code].hash & mask
        while buckets[place] >= 0:
            place = (place + np.uint64(1)) & mask
        buckets[place] = code


@inlined
def _code_of(t: Tables, data: Array, start: Int, size: Int) -> Int:
    value = hash_bytes(data, start, size)
    mask = np.uint64(len(t.buckets) - 1)
    place = value & mask
    while t.buckets[place] >= 0:
        code = t.buckets[place]
        entry = t.entries[code]
        if entry.hash == value and entry.size == size:
            i = 0
            while i < size and t.characters[entry.start + i] == data[start + i]:
                i += 1
            if i == size:
                return code
        place = (place + np.uint64(1)) & mask
    return -1


@inlined
def _boundaries_up_to(boundaries: Array, start: Int, count: Int, value: float) -> Int:
    """How many of the boundaries are at or below `value`."""
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        if boundaries[middle] <= value:
            low = middle + 1
        else:
            high = middle
    return low - start


@inlined
def _buckets(attribute: Any, kind: Int) -> tuple[Int, Int]:
    """The buckets of one kind of value of an attribute: first and end."""
    middle = FIRST_BUCKET + attribute.number_count + 1
    if kind == NUMBER:
        return FIRST_BUCKET, middle
    return middle, middle + attribute.string_count + 1


@inlined
def _bucket_of(t: Tables, attribute: Any, kind: Int, value: float) -> Int:
    first, end = _buckets(attribute, kind)
    start = attribute.numbers if kind == NUMBER else attribute.strings
    return first + _boundaries_up_to(t.boundaries, start, end - first - 1, value)


# --- adding rows ---------------------------------------------------------------------------------


@inlined
def _exclude_kind(t: Tables, column: Array, bit: Int, p: Any, kind: Int) -> None:
    """Sets the bit in the buckets of numbers or strings where the predicate cannot hold."""
    attribute = t.attributes[p.attribute]
    first, end = _buckets(attribute, kind)
    column = column[attribute.slot : attribute.slot + end]
    if not (p.kinds >> kind) & 1:
        column[first:] |= bit
    elif p.count > 0:
        column[first:] |= bit
        for m in range(p.members, p.members + p.count):
            column[_bucket_of(t, attribute, kind, t.members[m].value)] &= ~bit
    else:
        column[first : _bucket_of(t, attribute, kind, p.low)] |= bit
        column[_bucket_of(t, attribute, kind, p.high) + 1 :] |= bit


@inlined
def _exclude(t: Tables, column: Array, bit: Int, p: Any) -> None:
    """Sets the bit in all slots of one attribute where the predicate cannot hold."""
    for kind in range(NUMBER):
        if not (p.kinds >> kind) & 1:
            column[t.attributes[p.attribute].slot + kind] |= bit
    _exclude_kind(t, column, bit, p, NUMBER)
    _exclude_kind(t, column, bit, p, STRING)


@compiled
def enter_rows(addresses: Array, start: Int, end: Int) -> None:
    """Fills the bitmaps for the rows from `start` to `end`, whose bits are 0 there.

    64 rows at a time, for the words of one column of the bitmaps lie far apart in memory.
    """
    t = _tables(addresses)
    column = np.empty(len(t.occupied), np.uint64)
    for word in range(start >> 6, (end + 63) >> 6):
        column[:] = 0
        for row in range(max(start, word << 6), min(end, (word + 1) << 6)):
            bit = np.uint64(1) << np.uint64(row & 63)
            for i in range(t.rows[row].start, t.rows[row].end):
                _exclude(t, column, bit, t.predicates[i])
        for slot in range(len(column)):
            if column[slot]:
                t.excluded[slot, word] |= column[slot]
                t.occupied[slot] = 1


# --- reading events ------------------------------------------------------------------------------


@inlined
def _big_endian(data: Array, start: Int, size: Int) -> Int:
    value = np.uint64(0)
    for i in range(start, start + size):
        value = (value << np.uint64(8)) | np.uint64(data[i])
    return value


@inlined
def _rest(number: Int, nearest: float) -> Int:
    """Twice the remainder; 2^63 itself is no int64."""
    if nearest == 9223372036854775808.0:
        return 2 * (number - 9223372036854775807 - 1)
    return 2 * (number - np.int64(nearest))


@inlined
def _signed(data: Array, start: Int, size: Int) -> Int:
    shift = np.uint64(64 - 8 * size)
    return np.int64(_big_endian(data, start, size) << shift) >> np.int64(shift)


@inlined
def _read_string(t: Tables, data: Array, at: Int, tag: Int) -> tuple[Int, float, Int, Int]:
    if tag < 0xC0:
        start, size = at + 1, tag & 31
    else:
        width = 1 << (tag - 0xD9)
        start, size = at + 1 + width, np.int64(_big_endian(data, at + 1, width))
    return STRING, np.float64(_code_of(t, data, start, size)), 0, start + size


@inlined
def _read_value(t: Tables, data: Array, at: Int) -> tuple[Int, float, Int, Int]:
    """(kind, value, rest, where the next value starts)."""
    tag = np.int64(data[at])
    if tag == 0xCB:
        value = np.uint64(_big_endian(data, at + 1, 8)).view(np.float64)
        if np.isnan(value):
            return NUMBER, np.inf, 2, at + 9
        return NUMBER, value, 0, at + 9
    if tag == 0xC0:
        return MISSING, 0.0, 0, at + 1
    if tag < 0x80:
        return NUMBER, np.float64(tag), 0, at + 1
    if tag >= 0xE0:
        return NUMBER, np.float64(tag - 256), 0, at + 1
    if tag < 0xC0 or 0xD9 <= tag <= 0xDB:
        return _read_string(t, data, at, tag)
    if 0xC2 <= tag <= 0xC3:
        return FALSE + (tag - 0xC2), 0.0, 0, at + 1
    size = 1 << ((tag - 0xCC) & 3)  # CC to CF: unsigned, D0 to D3: signed; 1, 2, 4 or 8 bytes
    if tag >= 0xD0:
        number = _signed(data, at + 1, size)
    else:
        number = np.int64(_big_endian(data, at + 1, size))
    nearest = np.float64(number)
    return NUMBER, nearest, _rest(number, nearest), at + 1 + size


@inlined
def _skip_array_head(data: Array) -> Int:
    return 1 if data[0] < 0xA0 else 3 if data[0] == 0xDC else 5


@inlined
def _slot(t: Tables, a: Int, kind: Int, value: float) -> Int:
    attribute = t.attributes[a]
    if kind < NUMBER:
        return attribute.slot + kind
    return attribute.slot + _bucket_of(t, attribute, kind, value)


# --- matching ------------------------------------------------------------------------------------


@inlined
def _is_member(members: Records, start: Int, count: Int, value: float, rest: Int) -> Any:
    low, high = start, start + count
    while low < high:
        middle = (low + high) >> 1
        m = members[middle]
        if m.value < value or (m.value == value and m.rest < rest):
            low = middle + 1
        else:
            high = middle
    return low < start + count and members[low].value == value and members[low].rest == rest


@inlined
def _compare_text(t: Tables, data: Array, start: Int, end: Int, code: Int) -> Int:
    """Below, at or above 0, as the string that lies there in `data` is to that with the code."""
    entry = t.entries[code]
    size = end - start
    for i in range(min(size, entry.size)):
        difference = np.int64(data[start + i]) - np.int64(t.characters[entry.start + i])
        if difference != 0:
            return difference
    return size - entry.size


@compiled
def _in_text_range(addresses: Array, data: Array, start: Int, end: Int, p: Any) -> Any:
    t = _tables(addresses)
    tag = data[start]
    start += 1 if tag < 0xC0 else 1 + (1 << (tag - 0xD9))
    if p.from_text >= 0:
        order = _compare_text(t, data, start, end, p.from_text)
        if order < 0 or (order == 0 and p.low_rest > 0):
            return False
    if p.to_text >= 0:
        order = _compare_text(t, data, start, end, p.to_text)
        if order > 0 or (order == 0 and p.high_rest < 0):
            return False
    return True


@inlined
def _row_holds(t: Tables, row: Int, addresses: Array, data: Array) -> Any:
    for i in range(t.rows[row].start, t.rows[row].end):
        p = t.predicates[i]
        v = t.event[p.attribute]
        value, rest = v.value, v.rest
        if (
            not (p.kinds >> v.kind) & 1
            or value < p.low
            or value > p.high
            or (value == p.low and rest < p.low_rest)
            or (value == p.high and rest > p.high_rest)
        ):
            return False
        if p.count != 0 and v.kind >= NUMBER:
            found = _is_member(t.members, p.members, abs(p.count), value, rest)
            if found != (p.count > 0):
                return False
        if (p.from_text >= 0 or p.to_text >= 0) and not _in_text_range(
            addresses, data, v.start, v.end, p
        ):
            return False
    return True


@compiled
def _or_into(out: Array, one: Array, two: Array, three: Array, four: Array) -> None:
    """Not inlined: only among bare arguments does the compiler see that it may use vectors."""
    for w in range(len(out)):
        out[w] |= one[w] | two[w] | three[w] | four[w]


@compiled
def _and_not(out: Array, alive: Array) -> None:
    for w in range(len(out)):
        out[w] = alive[w] & ~out[w]


@compiled
def _next_word(words: Array, start: Int) -> Int:
    """The first place from `start` on where a word is not 0."""
    for w in range(start, len(words)):
        if words[w]:
            return w
    return len(words)


@inlined
def _survivors(t: Tables, slots: Array, count: Int, out: Array) -> None:
    """Sets the bits of the rows that are alive and in none of the slots' bitmaps.

    ORs four bitmaps at a time, for the loop is bound by loads and stores.
    """
    out[:] = 0
    for i in range(0, count, 4):
        last = count - 1  # ORing the last one again changes nothing
        _or_into(
            out,
            t.excluded[slots[i]],
            t.excluded[slots[min(i + 1, last)]],
            t.excluded[slots[min(i + 2, last)]],
            t.excluded[slots[min(i + 3, last)]],
        )
    _and_not(out, t.alive)


@compiled
def match_events(addresses: Array, data: Array, events: Int, out: Array) -> Int:
    """Writes the rows found into `out`, and returns how many; -1 if `out` is too short.

    `data` holds events x attributes values. `out` starts with events + 1 offsets: where the rows of
    each event start and end, counted from behind the offsets. A row written is the first row of its
    filter, each once for an event; or -1 - row, if Python must decide about this row. Rows ascend.
    """
    t = _tables(addresses)
    words, attributes = (addresses[ROW_COUNT] + 63) >> 6, addresses[ATTRIBUTE_COUNT]
    slots = np.empty(attributes, np.int64)
    survivors = np.empty(words, np.uint64)
    at = _skip_array_head(data)
    start = place = events + 1
    out[0] = 0
    for event in range(events):
        count = 0
        for a in range(attributes):
            v = t.event[a]
            v.start = at
            v.kind, v.value, v.rest, at = _read_value(t, data, at)
            v.end = at
            slot = _slot(t, a, v.kind, v.value)
            if t.occupied[slot]:
                slots[count] = slot
                count += 1
        _survivors(t, slots, count, survivors)
        last = -1
        w = _next_word(survivors, 0)
        while w < words:
            if place + 64 > len(out):
                return -1
            word = survivors[w]
            while word:
                row = (w << 6) + trailing_zeros(word)
                word &= word - np.uint64(1)
                first = t.rows[row].first
                if first != last and _row_holds(t, row, addresses, data):
                    if t.rows[row].checked:
                        out[place] = -1 - row
                    else:
                        out[place] = last = first
                    place += 1
            w = _next_word(survivors, w + 1)
        out[event + 1] = place - start
    return place - start

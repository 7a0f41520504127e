"""The kernel that writes rows as PUBLISH frames: the very bytes that encoding each row gives
(`client.encoding`)."""

from __future__ import annotations

from reefcast.matching.columnar.layout import (
    A_BYTES,
    A_KEY,
    A_KEY_SIZE,
    A_KIND,
    A_VALID,
    A_VALUES,
    A_WORDS,
    BOOLEAN,
    DOUBLE,
    LONG,
    W_COLUMN_COUNT,
    W_COLUMNS,
    W_COUNTED,
    W_ENDS,
    W_FIRST,
    W_HEAD,
    W_HEAD_SIZE,
    W_OUT,
    W_PAYLOAD_BYTES,
    W_PAYLOADS,
    W_PUBLISHER,
    W_PUBLISHER_SIZE,
    W_ROWS,
    W_TIMES,
    W_TOPIC_BYTES,
    W_TOPIC_ENDS,
    W_TOPIC_TEXTS,
)
from reefcast.matching.machine import (
    Int,
    compile_units,
    copy_bytes,
    get1,
    get4,
    get8,
    kernel,
    part,
    put1,
    put8,
    unit,
)
from reefcast.matching.packed import (
    ARRAY16,
    FIXED_ARRAY,
    FIXED_MAP,
    FIXED_STRING,
    FLOAT,
    INT8,
    MAP16,
    NO,
    STRING8,
    UINT8,
)
from reefcast.matching.passage.bodies import BYTES8, MOST_FIELDS

_LENGTH_BYTES = 4


@part
def _put_big(at: Int, value: Int, size: Int) -> Int:
    """Write a number, the highest byte first, and return where it ends."""
    for i in range(size):
        put1(at, i, value >> (8 * (size - 1 - i)))
    return at + size


@part
def _put_tagged(at: Int, tag: Int, value: Int, size: Int) -> Int:
    put1(at, 0, tag)
    return _put_big(at + 1, value, size)


@unit
def put_integer(at: Int, number: Int) -> Int:
    """Write an int64 in as few bytes as may be; return where it ends."""
    if -32 <= number < 128:
        put1(at, 0, number)
        return at + 1
    width, wide = 1, 0
    if number >= 0:
        while width < 8 and number >> (8 * width) != 0:
            width, wide = 2 * width, wide + 1
        return _put_tagged(at, UINT8 + wide, number, width)
    while width < 8 and number < -(1 << (8 * width - 1)):
        width, wide = 2 * width, wide + 1
    return _put_tagged(at, INT8 + wide, number, width)


@unit
def put_count(at: Int, count: Int, fixed: Int, wide: Int) -> Int:
    """Write the head of an array or a map."""
    if count < 16:
        put1(at, 0, fixed | count)
        return at + 1
    if count < 1 << 16:
        return _put_tagged(at, wide, count, 2)
    return _put_tagged(at, wide + 1, count, 4)


@part
def _put_sized(at: Int, narrow: Int, start: Int, size: Int) -> Int:
    """Write a text or bytes whose size needs a tag: `narrow`, or one of the next two."""
    if size < 1 << 8:
        at = _put_tagged(at, narrow, size, 1)
    elif size < 1 << 16:
        at = _put_tagged(at, narrow + 1, size, 2)
    else:
        at = _put_tagged(at, narrow + 2, size, 4)
    copy_bytes(at, start, size)
    return at + size


@unit
def _put_text(at: Int, start: Int, size: Int) -> Int:
    if size < 32:
        put1(at, 0, FIXED_STRING | size)
        copy_bytes(at + 1, start, size)
        return at + 1 + size
    return _put_sized(at, STRING8, start, size)


@part
def _put_text_of(at: Int, data: Int, ends: Int, i: Int) -> Int:
    start = get4(ends, i)
    return _put_text(at, data + start, get4(ends, i + 1) - start)


@unit
def _put_value(at: Int, column: Int, row: Int) -> Int:
    kind, values = get8(column, A_KIND), get8(column, A_VALUES)
    if kind == LONG:
        return put_integer(at, get8(values, row))
    if kind == DOUBLE:
        return _put_tagged(at, FLOAT, get8(values, row), 8)
    if kind == BOOLEAN:
        put1(at, 0, NO + get1(values, row))
        return at + 1
    return _put_text_of(at, get8(column, A_BYTES), values, row)


@part
def _is_there(column: Int, row: Int) -> bool:
    valid = get8(column, A_VALID)
    return bool(valid == 0 or get1(valid, row) != 0)


@unit
def _put_attributes(words: Int, at: Int, row: Int) -> Int:
    columns, count = get8(words, W_COLUMNS), 0
    for i in range(get8(words, W_COLUMN_COUNT)):
        if _is_there(columns + 8 * A_WORDS * i, row):
            count += 1
    at = put_count(at, count, FIXED_MAP, MAP16)
    for i in range(get8(words, W_COLUMN_COUNT)):
        column = columns + 8 * A_WORDS * i
        if _is_there(column, row):
            size = get8(column, A_KEY_SIZE)
            copy_bytes(at, get8(column, A_KEY), size)
            at = _put_value(at + size, column, row)
    return at


@unit
def _put_topics(words: Int, at: Int, row: Int) -> Int:
    ends = get8(words, W_TOPIC_ENDS)
    first = get4(ends, row) if ends != 0 else 0
    end = get4(ends, row + 1) if ends != 0 else 0
    at = put_count(at, end - first, FIXED_ARRAY, ARRAY16)
    for i in range(first, end):
        at = _put_text_of(at, get8(words, W_TOPIC_BYTES), get8(words, W_TOPIC_TEXTS), i)
    return at


@part
def _put_payload(words: Int, at: Int, row: Int) -> Int:
    ends = get8(words, W_PAYLOADS)
    if ends == 0:
        return _put_sized(at, BYTES8, 0, 0)
    start = get4(ends, row)
    return _put_sized(at, BYTES8, get8(words, W_PAYLOAD_BYTES) + start, get4(ends, row + 1) - start)


@kernel
def write_frames(words: Int) -> None:
    """Write all rows."""
    out = get8(words, W_OUT)
    at = out
    for row in range(get8(words, W_ROWS)):
        start = at
        head = start + _LENGTH_BYTES
        copy_bytes(head, get8(words, W_HEAD), get8(words, W_HEAD_SIZE))
        body = head + get8(words, W_HEAD_SIZE)
        put1(body, 0, FIXED_ARRAY | MOST_FIELDS)
        copy_bytes(body + 1, get8(words, W_PUBLISHER), get8(words, W_PUBLISHER_SIZE))
        at = body + 1 + get8(words, W_PUBLISHER_SIZE)
        at = put_integer(at, get8(words, W_FIRST) + row)
        at = put_integer(at, get8(get8(words, W_TIMES), row))
        at = _put_attributes(words, at, row)
        at = _put_topics(words, at, row)
        at = _put_payload(words, at, row)
        _put_big(start, get8(words, W_COUNTED) + at - body, _LENGTH_BYTES)
        put8(get8(words, W_ENDS), row, at - out)


compile_units()

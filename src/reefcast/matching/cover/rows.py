"""Adding rows to blocks and removing them; for the words of a block see `cover.layout`."""

from __future__ import annotations

import reefcast.matching.engine  # noqa: F401  # makes its batch before ours
from reefcast.matching.chains import MIX
from reefcast.matching.cover.ends import attribute_of, buckets, prepare, read_box
from reefcast.matching.cover.layout import (
    BLOCK_WORDS,
    BUCKETS,
    CLASS_MAPS,
    CLASS_WORDS,
    CLASSES,
    D_BITS,
    D_CLASSES,
    D_CONJUNCTIONS,
    D_KEYS,
    D_LIVE,
    D_MARKED,
    D_PRESENT,
    D_ROW_SHAPES,
    D_SHAPE_WORDS,
    D_SHAPES,
    D_SHARED,
    D_STARTS,
    D_STRIDE,
    D_USED,
    DOUBT_MAP,
    F_ATTRIBUTE_USERS,
    F_BLOCKS,
    F_BOX,
    F_OUT,
    F_PLACES,
    F_TEXT_USERS,
    HALF,
    LIVE_MAP,
    MARKED_MAP,
    MEETING_DOUBT_MAP,
    ROW_BITS,
    S_ATTRIBUTE,
    S_COUNT,
    S_HIGH,
    S_LOW,
    SHAPE_COUNT,
    SHAPE_HEADS,
    SHAPE_NEXT,
    SHAPE_TAGS,
    STRING,
)
from reefcast.matching.machine import Int, compile_units, get4, get8, kernel, part, put4, put8, unit


@part
def _block(frame: Int, number: Int) -> Int:
    return get8(frame, F_BLOCKS) + 8 * BLOCK_WORDS * number


@part
def _bit(row: Int) -> Int:
    return 1 << (row & 63)


@part
def _word(block: Int, bitmap: Int, row: Int) -> Int:
    """Return the address of the word with the row's bit."""
    return get8(block, D_BITS) + bitmap * get8(block, D_STRIDE) + 8 * (row >> 6)


@part
def _set(word: Int, bit: Int) -> None:
    put8(word, 0, get8(word, 0) | bit)


@part
def _count(counters: Int, place: Int, change: Int) -> Int:
    value = get8(counters, place) + change
    put8(counters, place, value)
    return value


@part
def _enter_cut(
    frame: Int, block: Int, slot: Int, ends: Int, tags: Int, row: Int, cumulate: Int
) -> None:
    """Set the bits of one interval; without `cumulate` only where its two ends lie."""
    stride, count = get8(block, D_STRIDE), get8(slot, S_COUNT)
    column = get8(block, D_BITS) + 8 * (row >> 6)
    both = buckets(frame, block, slot, ends, tags)
    i, j = both & HALF, both >> 32
    lows, highs = column + get8(slot, S_LOW) * stride, column + get8(slot, S_HIGH) * stride
    bit = _bit(row)
    if cumulate:
        for k in range(i + 1):
            _set(lows + k * stride, bit)
        for k in range(j, count):
            _set(highs + k * stride, bit)
    else:
        _set(lows + i * stride, bit)
        if j < count:
            _set(highs + j * stride, bit)


@unit
def _enter(frame: Int, block: Int, row: Int, cumulate: Int) -> None:
    """Set the bits of an existing row."""
    ends = get8(block, D_KEYS) + 16 * get4(get8(block, D_STARTS), row)
    shape = get8(block, D_SHAPES) + 8 * get4(get8(block, D_ROW_SHAPES), row)
    for k in range(get8(shape, SHAPE_COUNT)):
        tags = shape + 8 * SHAPE_TAGS + 16 * k
        attribute = attribute_of(tags)
        c = attribute & (CLASSES - 1)
        _set(_word(block, CLASS_MAPS + c, row), _bit(row))
        put8(block, D_PRESENT, get8(block, D_PRESENT) | 1 << c)
        slot = get8(block, D_CLASSES) + 8 * CLASS_WORDS * c
        if get8(slot, S_ATTRIBUTE) == attribute:
            _enter_cut(frame, block, slot, ends + 16 * k, tags, row, cumulate)
        else:
            put8(block, D_SHARED, get8(block, D_SHARED) | 1 << c)


@part
def _has_shape(shape: Int, box: Int, count: Int) -> bool:
    if get8(shape, SHAPE_COUNT) != count:
        return False
    for k in range(count):
        for word in range(2):
            if get8(shape, SHAPE_TAGS + 2 * k + word) != get8(box, 4 * k + 2 + word):
                return False
    return True


@part
def _shape_of(block: Int, box: Int, count: Int) -> Int:
    """Return the place of the box's shape, in words; make the shape if needed, for which there must
    be room."""
    shapes, hashed = get8(block, D_SHAPES), count
    for k in range(count):
        for word in range(2):
            hashed = (hashed ^ get8(box, 4 * k + 2 + word)) * MIX
    head = (hashed >> 40) & (SHAPE_HEADS - 1)
    at = get8(shapes, head)
    while at != 0:
        if _has_shape(shapes + 8 * at, box, count):
            return at
        at = get8(shapes, at + SHAPE_NEXT)
    at = get8(block, D_SHAPE_WORDS)
    put8(shapes, at + SHAPE_NEXT, get8(shapes, head))
    put8(shapes, at + SHAPE_COUNT, count)
    for k in range(count):
        for word in range(2):
            put8(shapes, at + SHAPE_TAGS + 2 * k + word, get8(box, 4 * k + 2 + word))
    put8(shapes, head, at)
    put8(block, D_SHAPE_WORDS, at + SHAPE_TAGS + 2 * count)
    return at


@unit
def _append(frame: Int, block: Int, box: Int, size: Int, conjunction: Int) -> Int:
    """Append a row and return its number; its bits in the bitmaps of classes and buckets are not
    set yet."""
    row = get8(block, D_USED)
    starts = get8(block, D_STARTS)
    start = get4(starts, row)
    for k in range(size):
        put8(get8(block, D_KEYS), 2 * (start + k), get8(box, 4 * k))
        put8(get8(block, D_KEYS), 2 * (start + k) + 1, get8(box, 4 * k + 1))
    put4(starts, row + 1, start + size)
    put4(get8(block, D_ROW_SHAPES), row, _shape_of(block, box, size))
    put4(get8(block, D_CONJUNCTIONS), row, conjunction)
    number = (block - get8(frame, F_BLOCKS)) // (8 * BLOCK_WORDS)
    put8(get8(frame, F_PLACES), conjunction, number << ROW_BITS | row)
    _set(_word(block, LIVE_MAP, row), _bit(row))
    put8(block, D_USED, row + 1)
    _count(block, D_LIVE, 1)
    return row


@unit
def _count_users(frame: Int, box: Int, size: Int, change: Int) -> Int:
    """Count users of a box's attributes and texts. Write those that lost their last user to `F_OUT`
    (twice an attribute's number, or twice a text's code plus 1), and return how many words this
    takes."""
    out, lost = get8(frame, F_OUT), 0
    for k in range(size):
        record = box + 32 * k
        attribute = get4(record, 6)
        if _count(get8(frame, F_ATTRIBUTE_USERS), attribute, change) == 0:
            put8(out, lost, 2 * attribute)
            lost += 1
        kinds = get4(record, 7)
        if kinds == STRING | STRING << 4:
            for end in range(2):
                code = get4(record, 4 + end) >> 2
                if code > 0 and _count(get8(frame, F_TEXT_USERS), code, change) == 0:
                    put8(out, lost, 2 * code + 1)
                    lost += 1
    return lost


@kernel
def add_row(frame: Int, number: Int, count: Int, conjunction: Int, doubts: Int) -> None:
    """Add the box of `count` records at `F_BOX` to a block, which must have room. In `doubts`, bit
    0 is for `DOUBT_MAP` and bit 1 for `MEETING_DOUBT_MAP`."""
    block, box = _block(frame, number), get8(frame, F_BOX)
    prepare(box, count)
    _count_users(frame, box, count, 1)
    row = _append(frame, block, box, count, conjunction)
    if doubts & 1:
        _set(_word(block, DOUBT_MAP, row), _bit(row))
    if doubts & 2:
        _set(_word(block, MEETING_DOUBT_MAP, row), _bit(row))
    _enter(frame, block, row, 1)


@kernel
def remove_row(frame: Int, conjunction: Int) -> Int:
    """Remove a row; return the result of `_count_users`."""
    place = get8(get8(frame, F_PLACES), conjunction)
    block, row = _block(frame, place >> ROW_BITS), place & ((1 << ROW_BITS) - 1)
    for bitmap, counter in ((LIVE_MAP, D_LIVE), (MARKED_MAP, D_MARKED)):
        word, bit = _word(block, bitmap, row), _bit(row)
        if get8(word, 0) & bit:
            put8(word, 0, get8(word, 0) & ~bit)
            _count(block, counter, -1)
    box = get8(frame, F_BOX)
    return _count_users(frame, box, read_box(block, row, box), -1)


@kernel
def mark_row(frame: Int, conjunction: Int, mark: Int) -> None:
    """Mark the row, or remove the mark."""
    place = get8(get8(frame, F_PLACES), conjunction)
    block, row = _block(frame, place >> ROW_BITS), place & ((1 << ROW_BITS) - 1)
    word, bit = _word(block, MARKED_MAP, row), _bit(row)
    if ((get8(word, 0) & bit) != 0) != (mark != 0):
        put8(word, 0, get8(word, 0) ^ bit)
        _count(block, D_MARKED, 1 if mark else -1)


@kernel
def copy_rows(frame: Int, source: Int, target: Int, rows: Int, count: Int) -> None:
    """Copy this many rows, whose numbers are at `rows`, to the end of a block that has room and no
    cuts yet."""
    old, new = _block(frame, source), _block(frame, target)
    box = get8(frame, F_BOX)
    for k in range(count):
        row = get8(rows, k)
        size = read_box(old, row, box)
        conjunction = get4(get8(old, D_CONJUNCTIONS), row)
        copy = _append(frame, new, box, size, conjunction)
        for bitmap in (MARKED_MAP, DOUBT_MAP, MEETING_DOUBT_MAP):
            if get8(_word(old, bitmap, row), 0) & _bit(row):
                _set(_word(new, bitmap, copy), _bit(copy))
    put8(new, D_MARKED, get8(new, D_MARKED) + get8(old, D_MARKED))


@kernel
def write_records(frame: Int, number: Int, out: Int) -> None:
    """Write the records of all rows to `out`, one after the other."""
    block = _block(frame, number)
    for row in range(get8(block, D_USED)):
        out += 32 * read_box(block, row, out)


@kernel
def count_ends(frame: Int, number: Int, records: Int, count: Int, out: Int) -> Int:
    """Count how many ends of these records lie in each bucket of a block's cuts: add 1 to the words
    2 * BUCKETS * class + bucket for low ends, and BUCKETS further on for high ends. Return the
    number of records whose attribute is not cut."""
    block, uncut = _block(frame, number), 0
    for k in range(count):
        record = records + 32 * k
        attribute = attribute_of(record + 16)
        c = attribute & (CLASSES - 1)
        slot = get8(block, D_CLASSES) + 8 * CLASS_WORDS * c
        if get8(slot, S_ATTRIBUTE) == attribute:
            both = buckets(frame, block, slot, record, record + 16)
            i, j = both & HALF, both >> 32
            _count(out, 2 * BUCKETS * c + i, 1)
            _count(out, 2 * BUCKETS * c + BUCKETS + j, 1)
        else:
            uncut += 1
    return uncut


@kernel
def enter_rows(frame: Int, number: Int) -> None:
    """Set the bits of all rows of a block that has just been cut."""
    block = _block(frame, number)
    for row in range(get8(block, D_USED)):
        _enter(frame, block, row, 0)
    words, stride = (get8(block, D_USED) + 63) >> 6, get8(block, D_STRIDE)
    for c in range(CLASSES):
        slot = get8(block, D_CLASSES) + 8 * CLASS_WORDS * c
        lows = get8(block, D_BITS) + get8(slot, S_LOW) * stride
        highs = get8(block, D_BITS) + get8(slot, S_HIGH) * stride
        for k in range(get8(slot, S_COUNT) - 1, -1, -1):
            for word in range(words):
                _set(lows + k * stride + 8 * word, get8(lows + (k + 1) * stride, word))
        for k in range(1, get8(slot, S_COUNT)):
            for word in range(words):
                _set(highs + k * stride + 8 * word, get8(highs + (k - 1) * stride, word))


compile_units()

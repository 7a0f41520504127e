"""Comparing ends, intervals and boxes; for definitions see `cover.coding` and `cover.layout`."""

from __future__ import annotations

import reefcast.matching.engine  # noqa: F401  # makes its batch before ours
from reefcast.matching.cover.layout import (
    COVERED,
    COVERING,
    D_BOUNDARIES,
    D_BOUNDARY_RESTS,
    D_KEYS,
    D_ROW_SHAPES,
    D_SHAPES,
    D_STARTS,
    EQUAL,
    F_TEXT_ADDRESSES,
    F_TEXT_SIZES,
    HALF,
    MEETING,
    NUMBER,
    S_BOUNDARIES,
    S_COUNT,
    S_PLAIN_KIND,
    SHAPE_COUNT,
    SHAPE_TAGS,
    STRING,
)
from reefcast.matching.machine import (
    Int,
    compare_bytes,
    compile_units,
    get4,
    get8,
    part,
    put8,
    unit,
)
from reefcast.matching.numbers import key_of_bits
from reefcast.matching.vectors import count_up_to_both


@part
def _compare_long(frame: Int, left: Int, right: Int) -> Int:
    """Compare two texts with the same first 8 bytes, by their codes; 0 is a short text."""
    if left == 0 or right == 0:
        return left - right
    sizes, addresses = get8(frame, F_TEXT_SIZES), get8(frame, F_TEXT_ADDRESSES)
    left_size, right_size = get8(sizes, left), get8(sizes, right)
    size = min(left_size, right_size)
    order = compare_bytes(get8(addresses, left), get8(addresses, right), size)
    if order != 0:
        return int(order)
    return left_size - right_size


@part
def _up_to(
    frame: Int, kind: Int, key: Int, rest: Int, other_kind: Int, other_key: Int, other_rest: Int
) -> bool:
    """Return whether the first end is at or below the other one."""
    if kind != other_kind:
        return bool(kind < other_kind)
    if key != other_key:
        return bool(key < other_key)
    if kind == STRING and (rest >> 2) != (other_rest >> 2):
        return bool(_compare_long(frame, rest >> 2, other_rest >> 2) < 0)
    return bool(rest <= other_rest)


@part
def attribute_of(tags: Int) -> Int:
    return get4(tags, 2)


@part
def _low_kind(tags: Int) -> Int:
    return get4(tags, 3) & 15


@part
def _high_kind(tags: Int) -> Int:
    return get4(tags, 3) >> 4


@part
def _bucket(frame: Int, keys: Int, others: Int, count: Int, kind: Int, key: Int, rest: Int) -> Int:
    """Return how many of the boundaries are at or below the end."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        rest_there, kind_there = get4(others, 2 * middle), get4(others, 2 * middle + 1)
        if _up_to(frame, kind_there, get8(keys, middle), rest_there, kind, key, rest):
            low = middle + 1
        else:
            high = middle
    return low


@part
def _without_later(keys: Int, others: Int, bucket: Int, key: Int, rest: Int) -> Int:
    """Return the bucket by key, minus the boundaries with the same key and a later rest."""
    while bucket > 0 and get8(keys, bucket - 1) == key and get4(others, 2 * bucket - 2) > rest:
        bucket -= 1
    return bucket


@unit
def buckets(frame: Int, block: Int, slot: Int, ends: Int, tags: Int) -> Int:
    """Return the buckets of an interval's low and high end, for the attribute that is cut there:
    low + 2^32 * high."""
    count, first = get8(slot, S_COUNT), get8(slot, S_BOUNDARIES)
    keys = get8(block, D_BOUNDARIES) + 8 * first
    others = get8(block, D_BOUNDARY_RESTS) + 8 * first
    low, high = get8(ends, 0), get8(ends, 1)
    low_rest, high_rest = get4(tags, 0), get4(tags, 1)
    low_kind, high_kind = _low_kind(tags), _high_kind(tags)
    plain = get8(slot, S_PLAIN_KIND)
    if low_kind == plain and high_kind == plain:
        both = count_up_to_both(keys, (count + 7) >> 3, low, high)
        i, j = min(both & HALF, count), min(both >> 32, count)
        i = _without_later(keys, others, i, low, low_rest)
        return i | _without_later(keys, others, j, high, high_rest) << 32
    i = _bucket(frame, keys, others, count, low_kind, low, low_rest)
    return i | _bucket(frame, keys, others, count, high_kind, high, high_rest) << 32


@part
def _is_inside(frame: Int, ends: Int, tags: Int, outer_ends: Int, outer_tags: Int) -> bool:
    """Return whether the first interval lies within the other one."""
    low, outer_low = get8(ends, 0), get8(outer_ends, 0)
    kind, outer_kind = _low_kind(tags), _low_kind(outer_tags)
    if not _up_to(frame, outer_kind, outer_low, get4(outer_tags, 0), kind, low, get4(tags, 0)):
        return False
    high, outer_high = get8(ends, 1), get8(outer_ends, 1)
    kind, outer_kind = _high_kind(tags), _high_kind(outer_tags)
    return _up_to(frame, kind, high, get4(tags, 1), outer_kind, outer_high, get4(outer_tags, 1))


@part
def _starts_in_time(frame: Int, ends: Int, tags: Int, other_ends: Int, other_tags: Int) -> bool:
    """Return whether the first interval starts before the other one ends."""
    low, high = get8(ends, 0), get8(other_ends, 1)
    kind, other_kind = _low_kind(tags), _high_kind(other_tags)
    return _up_to(frame, kind, low, get4(tags, 0), other_kind, high, get4(other_tags, 1))


@part
def _answers(frame: Int, mode: Int, ends: Int, tags: Int, record: Int) -> bool:
    """Return whether one attribute of a row answers for the same attribute of the query."""
    asked = record + 16
    if mode == COVERING:
        return _is_inside(frame, record, asked, ends, tags)
    if mode == COVERED:
        return _is_inside(frame, ends, tags, record, asked)
    if mode == MEETING:
        return _starts_in_time(frame, ends, tags, record, asked) and _starts_in_time(
            frame, record, asked, ends, tags
        )
    same_ends = get8(ends, 0) == get8(record, 0) and get8(ends, 1) == get8(record, 1)
    return bool(same_ends and get8(tags, 0) == get8(asked, 0) and get8(tags, 1) == get8(asked, 1))


@unit
def is_answer(frame: Int, mode: Int, block: Int, row: Int, box: Int, count: Int) -> Int:
    """Return 1 if a row answers for a box, else 0, by comparing ends; rows and boxes are in the
    order of the attributes' numbers."""
    ends = get8(block, D_KEYS) + 16 * get4(get8(block, D_STARTS), row)
    shape = get8(block, D_SHAPES) + 8 * get4(get8(block, D_ROW_SHAPES), row)
    row_count, tags = get8(shape, SHAPE_COUNT), shape + 8 * SHAPE_TAGS
    i = j = 0
    while i < row_count and j < count:
        attribute, other = attribute_of(tags + 16 * i), attribute_of(box + 32 * j + 16)
        if attribute < other:
            if mode in (COVERING, EQUAL):
                return 0
            i += 1
        elif attribute > other:
            if mode in (COVERED, EQUAL):
                return 0
            j += 1
        else:
            if not _answers(frame, mode, ends + 16 * i, tags + 16 * i, box + 32 * j):
                return 0
            i += 1
            j += 1
    if i < row_count and mode in (COVERING, EQUAL):
        return 0
    return 1 if j == count or mode not in (COVERED, EQUAL) else 0


@unit
def prepare(box: Int, count: Int) -> None:
    """Convert the bits of float64 to keys, and sort the records by attribute."""
    for i in range(count):
        record = box + 32 * i
        if get4(record, 7) == NUMBER | NUMBER << 4:
            put8(record, 0, key_of_bits(get8(record, 0)))
            put8(record, 1, key_of_bits(get8(record, 1)))
        j = i
        while j > 0 and attribute_of(box + 32 * j + 16) < attribute_of(box + 32 * j - 16):
            for word in range(4 * j, 4 * j + 4):
                moved = get8(box, word)
                put8(box, word, get8(box, word - 4))
                put8(box, word - 4, moved)
            j -= 1


@unit
def read_box(block: Int, row: Int, box: Int) -> Int:
    """Write the box of a row to `box`, and return its number of records."""
    ends = get8(block, D_KEYS) + 16 * get4(get8(block, D_STARTS), row)
    shape = get8(block, D_SHAPES) + 8 * get4(get8(block, D_ROW_SHAPES), row)
    count = get8(shape, SHAPE_COUNT)
    for i in range(count):
        for word in range(2):
            put8(box, 4 * i + word, get8(ends, 2 * i + word))
            put8(box, 4 * i + 2 + word, get8(shape, SHAPE_TAGS + 2 * i + word))
    return count


compile_units()

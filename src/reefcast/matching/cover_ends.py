"""Comparing ends, intervals and boxes; what these are: see `cover_coding` and `cover_layout`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from reefcast.matching.cover_layout import (
    BOX_WORDS,
    COVERED,
    COVERING,
    D_KEYS,
    D_RESTS,
    EQUAL,
    F_TEXT_ADDRESSES,
    F_TEXT_SIZES,
    HALF,
    MEETING,
    NUMBER,
    S_BOUNDARIES,
    S_COUNT,
    S_PLAIN_KIND,
    STRING,
)
from reefcast.matching.machine import (
    GROUP,
    GROUP_WORDS,
    WORD,
    Int,
    built_in,
    compare_bytes,
    get4,
    get8,
    part,
    put8,
)
from reefcast.matching.numbers import key_of_bits


@built_in
def count_up_to(_context: Any, _keys: Any, _groups: Any, _low: Any, _high: Any) -> Any:
    """count_up_to(keys, groups, low, high): how many of the 8 * groups words at `keys` are at or
    below `low`, and 2^32 times how many are at or below `high`. Without branches, and in vectors:
    faster than cutting ascending keys in halves."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        keys, groups, *ends = arguments
        zero = ir.Constant(WORD, 0)
        none, where = (
            ir.Constant(GROUP, [0] * 8),
            ir.Constant(ir.VectorType(ir.IntType(32), 8), None),
        )
        splats = [
            builder.shuffle_vector(
                builder.insert_element(none, end, ir.IntType(32)(0)), none, where
            )
            for end in ends
        ]
        entry = builder.block
        loop, done = builder.append_basic_block("count"), builder.append_basic_block("done")
        builder.cbranch(builder.icmp_signed(">", groups, zero), loop, done)
        builder.position_at_end(loop)
        i, sums = builder.phi(WORD), [builder.phi(GROUP) for _ in ends]
        place = builder.add(keys, builder.shl(i, ir.Constant(WORD, 6)))
        group = builder.load(builder.inttoptr(place, GROUP.as_pointer()), align=8)
        larger = [
            builder.add(total, builder.zext(builder.icmp_signed("<=", group, splat), GROUP))
            for total, splat in zip(sums, splats, strict=True)
        ]
        following = builder.add(i, ir.Constant(WORD, 1))
        for phi, later in ((i, following), *zip(sums, larger, strict=True)):
            phi.add_incoming(zero if phi is i else none, entry)
            phi.add_incoming(later, loop)
        builder.cbranch(builder.icmp_signed("<", following, groups), loop, done)
        builder.position_at_end(done)
        totals = [builder.phi(GROUP) for _ in ends]
        for total, later in zip(totals, larger, strict=True):
            total.add_incoming(none, entry)
            total.add_incoming(later, loop)
        counts = [_sum(builder, total) for total in totals]
        return builder.or_(counts[0], builder.shl(counts[1], ir.Constant(WORD, 32)))

    return types.int64(*[types.int64] * 4), generate


def _sum(builder: Any, group: Any) -> Any:
    words = [builder.extract_element(group, ir.IntType(32)(i)) for i in range(GROUP_WORDS)]
    while len(words) > 1:
        words = [builder.add(a, b) for a, b in zip(words[::2], words[1::2], strict=True)]
    return words[0]


# --- ends and intervals ---------------------------------------------------------------------------


@part
def _compare_long(frame: Int, left: Int, right: Int) -> Int:
    """Two texts with the same first 8 bytes, by their codes; 0 is a short one."""
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
    """Whether the first end is at or below the other one."""
    if kind != other_kind:
        return bool(kind < other_kind)
    if key != other_key:
        return bool(key < other_key)
    if kind == STRING and (rest >> 2) != (other_rest >> 2):
        return bool(_compare_long(frame, rest >> 2, other_rest >> 2) < 0)
    return bool(rest <= other_rest)


@part
def _low_kind(record: Int) -> Int:
    return get4(record, 7) & 15


@part
def _high_kind(record: Int) -> Int:
    return get4(record, 7) >> 4


@part
def _bucket(frame: Int, keys: Int, others: Int, count: Int, kind: Int, key: Int, rest: Int) -> Int:
    """How many of the boundaries are at or below the end."""
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
def buckets(frame: Int, block: Int, slot: Int, record: Int) -> tuple[Int, Int]:
    """The buckets of the low and the high end of a record of the attribute that is cut there."""
    count, first = get8(slot, S_COUNT), get8(slot, S_BOUNDARIES)
    keys = get8(block, D_KEYS) + 8 * first
    low, high = get8(record, 0), get8(record, 1)
    low_kind, high_kind = _low_kind(record), _high_kind(record)
    plain = get8(slot, S_PLAIN_KIND)
    if low_kind == plain and high_kind == plain:
        both = count_up_to(keys, (count + 7) >> 3, low, high)
        return min(both & HALF, count), min(both >> 32, count)
    others = get8(block, D_RESTS) + 8 * first
    i = _bucket(frame, keys, others, count, low_kind, low, get4(record, 4))
    return i, _bucket(frame, keys, others, count, high_kind, high, get4(record, 5))


@part
def _is_inside(frame: Int, inner: Int, outer: Int) -> bool:
    """Whether the interval of one record lies within that of the other."""
    if get8(inner, 3) == get8(outer, 3) and _low_kind(inner) == NUMBER:
        inner_low, outer_low = get8(inner, 0), get8(outer, 0)
        inner_high, outer_high = get8(inner, 1), get8(outer, 1)
        if inner_low != outer_low and inner_high != outer_high:
            return bool(inner_low > outer_low and inner_high < outer_high)
    return bool(
        _up_to(
            frame,
            _low_kind(outer),
            get8(outer, 0),
            get4(outer, 4),
            _low_kind(inner),
            get8(inner, 0),
            get4(inner, 4),
        )
        and _up_to(
            frame,
            _high_kind(inner),
            get8(inner, 1),
            get4(inner, 5),
            _high_kind(outer),
            get8(outer, 1),
            get4(outer, 5),
        )
    )


@part
def _starts_in_time(frame: Int, record: Int, other: Int) -> bool:
    """Whether the first interval starts before the other one ends."""
    return bool(
        _up_to(
            frame,
            _low_kind(record),
            get8(record, 0),
            get4(record, 4),
            _high_kind(other),
            get8(other, 1),
            get4(other, 5),
        )
    )


@part
def _answers(frame: Int, mode: Int, stored: Int, asked: Int) -> bool:
    """For two records of the same attribute."""
    if mode == COVERING:
        return _is_inside(frame, asked, stored)
    if mode == COVERED:
        return _is_inside(frame, stored, asked)
    if mode == MEETING:
        return _starts_in_time(frame, stored, asked) and _starts_in_time(frame, asked, stored)
    same = True
    for word in range(BOX_WORDS):
        same = same and get8(stored, word) == get8(asked, word)
    return same


@part
def is_answer(frame: Int, mode: Int, row: Int, row_count: Int, box: Int, count: Int) -> bool:
    """Looks at the ends; both boxes are in the order of the attributes' numbers."""
    i = j = 0
    while i < row_count and j < count:
        stored, asked = row + 32 * i, box + 32 * j
        attribute, other = get4(stored, 6), get4(asked, 6)
        if attribute < other:
            if mode in (COVERING, EQUAL):
                return False
            i += 1
        elif attribute > other:
            if mode in (COVERED, EQUAL):
                return False
            j += 1
        else:
            if not _answers(frame, mode, stored, asked):
                return False
            i += 1
            j += 1
    if i < row_count and mode in (COVERING, EQUAL):
        return False
    return bool(j == count or mode not in (COVERED, EQUAL))


@part
def prepare(box: Int, count: Int) -> None:
    """Turns the bits of float64 into keys, and sorts the records by attribute."""
    for i in range(count):
        record = box + 32 * i
        if _low_kind(record) == NUMBER and _high_kind(record) == NUMBER:
            put8(record, 0, key_of_bits(get8(record, 0)))
            put8(record, 1, key_of_bits(get8(record, 1)))
        j = i
        while j > 0 and get4(box + 32 * j, 6) < get4(box + 32 * (j - 1), 6):
            for word in range(4 * j, 4 * j + 4):
                moved = get8(box, word)
                put8(box, word, get8(box, word - 4))
                put8(box, word - 4, moved)
            j -= 1

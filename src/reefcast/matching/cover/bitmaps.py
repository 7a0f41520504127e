"""Choosing the bitmaps of a block that a search for a box must read; see the table in
`cover.layout`."""

from __future__ import annotations

import reefcast.matching.engine  # noqa: F401  # makes its batch before ours
from reefcast.matching.cover.ends import attribute_of, buckets
from reefcast.matching.cover.layout import (
    BUCKETS,
    CLASS_MAPS,
    CLASS_WORDS,
    CLASSES,
    COVERED,
    COVERING,
    D_CLASSES,
    D_PRESENT,
    D_SHARED,
    D_STRIDE,
    EQUAL,
    F_BOX,
    F_LISTS,
    HALF,
    LIST,
    MEETING,
    S_ATTRIBUTE,
    S_COUNT,
    S_HIGH,
    S_LOW,
    S_POINTS,
    ZERO_MAP,
)
from reefcast.matching.machine import (
    Int,
    compile_units,
    get8,
    part,
    put8,
    trailing_zeros,
    unit,
)


@part
def _low_map(slot: Int, k: Int, stride: Int) -> Int:
    """Return the offset of LOW[k]."""
    return (get8(slot, S_LOW) + k) * stride if k <= get8(slot, S_COUNT) else ZERO_MAP


@part
def _high_map(slot: Int, k: Int, stride: Int) -> Int:
    """Return the offset of HIGH[k]. All rows with the attribute end below the bucket behind the
    last one: its bitmap is LOW[0]."""
    if k == 0:
        return ZERO_MAP
    if k > get8(slot, S_COUNT):
        return get8(slot, S_LOW) * stride
    return (get8(slot, S_HIGH) + k - 1) * stride


@part
def _is_point(slot: Int, bucket: Int) -> Int:
    return (get8(slot, S_POINTS + (bucket >> 6)) >> (bucket & 63)) & 1


@part
def _list_class(block: Int, mode: Int, c: Int, lists: Int, counts: Int) -> Int:
    """Enter the bitmaps for an attribute of the query that is not cut here: all rows are unsure."""
    offset = (CLASS_MAPS + c) * get8(block, D_STRIDE)
    outs, ins, unsure = counts & 0xFFFF, (counts >> 16) & 0xFFFF, (counts >> 32) & 0xFFFF
    if mode in (COVERED, EQUAL):
        put8(lists + 8 * LIST, ins, offset)
        ins += 1
    put8(lists + 16 * LIST, unsure, offset)
    unsure += 1
    return outs | ins << 16 | unsure << 32 | (counts >> 48) << 48


@part
def _list_cut(
    block: Int, mode: Int, c: Int, slot: Int, i: Int, j: Int, lists: Int, counts: Int
) -> Int:
    """Enter the bitmaps for an attribute that is cut here; see the table in `cover.layout`."""
    stride = get8(block, D_STRIDE)
    outs, ins = counts & 0xFFFF, (counts >> 16) & 0xFFFF
    unsure, sure = (counts >> 32) & 0xFFFF, (counts >> 48) & 0xFFFF
    if mode == MEETING:
        i, j = j, i
    point_i, point_j = _is_point(slot, i), _is_point(slot, j)
    if mode in (COVERED, EQUAL):
        must = lists + 8 * LIST
        put8(must, ins, _low_map(slot, i, stride))
        put8(must, ins + 1, _high_map(slot, j + 1, stride))
        ins += 2
        certain = lists + 24 * LIST
        if not point_i:
            put8(certain, sure, _low_map(slot, i + 1, stride))
            sure += 1
        if not point_j:
            put8(certain, sure, _high_map(slot, j, stride))
            sure += 1
    if mode != COVERED:
        put8(lists, outs, _low_map(slot, i + 1, stride))
        put8(lists, outs + 1, _high_map(slot, j, stride))
        outs += 2
    if mode in (COVERING, MEETING):
        doubtful = lists + 16 * LIST
        if not point_i:
            put8(doubtful, unsure, _low_map(slot, i, stride))
            unsure += 1
        if not point_j:
            put8(doubtful, unsure, _high_map(slot, j + 1, stride))
            unsure += 1
        if mode == COVERING and (get8(block, D_SHARED) >> c) & 1:
            put8(doubtful, unsure, (CLASS_MAPS + c) * stride)
            unsure += 1
    return outs | ins << 16 | unsure << 32 | sure << 48


@part
def _share(mode: Int, slot: Int, i: Int, j: Int) -> Int:
    """Return a guess at the share of rows that the attribute leaves, in buckets."""
    if i == j and _is_point(slot, i):
        return -1
    if mode == COVERING:
        return min(i, get8(slot, S_COUNT) - j)
    return j - i


@part
def _bring_forward(list_at: Int, place: Int) -> None:
    """Exchange the pair at that place with the first one."""
    for k in range(2):
        first = get8(list_at, k)
        put8(list_at, k, get8(list_at, place + k))
        put8(list_at, place + k, first)


@unit
def list_bitmaps(frame: Int, block: Int, mode: Int, count: Int) -> Int:
    """Fill the four lists (out of, in all, unsure, sure), and return their lengths, 16 bits each.

    The attribute that leaves the fewest rows comes first: a group with no row left is finished."""
    lists, box = get8(frame, F_LISTS), get8(frame, F_BOX)
    counts = asked = uncut = before = 0
    least = BUCKETS
    for k in range(count):
        record = box + 32 * k
        attribute = attribute_of(record + 16)
        c = attribute & (CLASSES - 1)
        asked |= 1 << c
        slot = get8(block, D_CLASSES) + 8 * CLASS_WORDS * c
        if get8(slot, S_ATTRIBUTE) == attribute:
            both = buckets(frame, block, slot, record, record + 16)
            i, j = both & HALF, both >> 32
            share = _share(mode, slot, i, j)
            if share < least:
                least, before = share, counts
            counts = _list_cut(block, mode, c, slot, i, j, lists, counts)
        elif not (uncut >> c) & 1:
            uncut |= 1 << c
            counts = _list_class(block, mode, c, lists, counts)
    if least < BUCKETS and mode != COVERED:
        _bring_forward(lists, before & 0xFFFF)
    if least < BUCKETS and mode in (COVERED, EQUAL):
        _bring_forward(lists + 8 * LIST, (before >> 16) & 0xFFFF)
    if mode in (COVERING, EQUAL):
        others = get8(block, D_PRESENT) & ~asked
        while others != 0:
            c = trailing_zeros(others)
            others &= others - 1
            put8(lists, counts & 0xFFFF, (CLASS_MAPS + c) * get8(block, D_STRIDE))
            counts += 1
    return counts


compile_units()

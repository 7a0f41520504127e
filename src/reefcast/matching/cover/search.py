"""Searching the blocks; how: see `cover.layout`."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types

from reefcast.matching.cover.ends import attribute_of, buckets, is_answer, prepare, read_box
from reefcast.matching.cover.layout import (
    BLOCK_WORDS,
    BUCKETS,
    CLASS_MAPS,
    CLASS_WORDS,
    CLASSES,
    COVERED,
    COVERING,
    D_BITS,
    D_CLASSES,
    D_KEYS,
    D_LIVE,
    D_MARKED,
    D_OWNERS,
    D_PRESENT,
    D_SHARED,
    D_STARTS,
    D_STRIDE,
    D_USED,
    DOMINATING,
    DOUBT_MAP,
    EQUAL,
    F_AGES,
    F_BLOCK_COUNT,
    F_BLOCKS,
    F_BOX,
    F_DEPTHS,
    F_FILTERS,
    F_LISTS,
    F_OUT,
    F_PLACES,
    F_ROOM,
    HALF,
    LIST,
    LISTS,
    LIVE_MAP,
    MEETING,
    MEETING_DOUBT_MAP,
    ROW_BITS,
    S_ATTRIBUTE,
    S_COUNT,
    S_HIGH,
    S_LOW,
    S_POINTS,
    ZERO_MAP,
)
from reefcast.matching.machine import (
    GROUP,
    GROUP_WORDS,
    WORD,
    Int,
    built_in,
    compile_units,
    get4,
    get8,
    kernel,
    part,
    put8,
    trailing_zeros,
    unit,
)


@built_in
def prefetch(_context: Any, _address: Any) -> Any:
    """Begins to load the line of the cache with this address."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        load = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        place = builder.inttoptr(arguments[0], byte)
        builder.call(load, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@built_in
def select_rows(
    _c: Any, _base: Any, _out_of: Any, _outs: Any, _in_all: Any, _ins: Any, _start: Any, _out: Any
) -> Any:
    """select_rows(base, out_of, outs, in_all, ins, start, out): out[0:8] = start[0:8] without the
    bits in any of the bitmaps whose offsets from `base` are the `outs` words at `out_of`, and only
    with those in each of the `ins` bitmaps at `in_all`. 1 if any bit is left."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        base, out_of, outs, in_all, ins, start, out = arguments
        vector = GROUP.as_pointer()
        rows = builder.load(builder.inttoptr(start, vector), align=8)
        rows = _fold(builder, rows, base, out_of, outs, without=True)
        rows = _fold(builder, rows, base, in_all, ins, without=False)
        builder.store(rows, builder.inttoptr(out, vector), align=8)
        return builder.zext(_any_bit(builder, rows), WORD)

    return types.int64(*[types.int64] * 7), generate


def _any_bit(builder: Any, rows: Any) -> Any:
    whole = ir.IntType(64 * GROUP_WORDS)
    return builder.icmp_unsigned("!=", builder.bitcast(rows, whole), ir.Constant(whole, 0))


def _fold(builder: Any, rows: Any, base: Any, offsets: Any, count: Any, *, without: bool) -> Any:
    """A loop over the bitmaps, as long as any bit is left: `rows` without them, or only what is in
    all of them."""
    zero = ir.Constant(WORD, 0)
    entry = builder.block
    loop, done = builder.append_basic_block("fold"), builder.append_basic_block("done")
    builder.cbranch(builder.icmp_signed(">", count, zero), loop, done)
    builder.position_at_end(loop)
    i, left = builder.phi(WORD), builder.phi(GROUP)
    place = builder.add(offsets, builder.shl(i, ir.Constant(WORD, 3)))
    offset = builder.load(builder.inttoptr(place, WORD.as_pointer()), align=8)
    at = builder.inttoptr(builder.add(base, offset), GROUP.as_pointer())
    bitmap = builder.load(at, align=8)
    fewer = builder.and_(left, builder.not_(bitmap) if without else bitmap)
    following = builder.add(i, ir.Constant(WORD, 1))
    for phi, at_first, later in ((i, zero, following), (left, rows, fewer)):
        phi.add_incoming(at_first, entry)
        phi.add_incoming(later, loop)
    more = builder.and_(builder.icmp_signed("<", following, count), _any_bit(builder, fewer))
    builder.cbranch(more, loop, done)
    builder.position_at_end(done)
    result = builder.phi(GROUP)
    result.add_incoming(rows, entry)
    result.add_incoming(fewer, loop)
    return result


@part
def _low_map(slot: Int, k: Int, stride: Int) -> Int:
    """Offset of LOW[k]."""
    return (get8(slot, S_LOW) + k) * stride if k <= get8(slot, S_COUNT) else ZERO_MAP


@part
def _high_map(slot: Int, k: Int, stride: Int) -> Int:
    """Offset of HIGH[k]. Below the bucket behind the last one end all rows that have the
    attribute: LOW[0]."""
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
    """An attribute of the query that is not cut here: all is unsure."""
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
    """See the table in `cover.layout`."""
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
    """A guess at which share of the rows the attribute leaves, in buckets."""
    if i == j and _is_point(slot, i):
        return -1
    if mode == COVERING:
        return min(i, get8(slot, S_COUNT) - j)
    return j - i


@part
def _bring_forward(list_at: Int, place: Int) -> None:
    """The pair at that place changes places with the first one."""
    for k in range(2):
        first = get8(list_at, k)
        put8(list_at, k, get8(list_at, place + k))
        put8(list_at, place + k, first)


@unit
def _list_bitmaps(frame: Int, block: Int, mode: Int, count: Int) -> Int:
    """Fills the four lists: out of, in all, unsure, sure. How long they are, 16 bits each.

    The attribute that leaves the fewest rows comes first: groups without any are done with."""
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


@part
def _collect(
    frame: Int, block: Int, mode: Int, count: Int, first: Int, word: Int, sure: Int, doubt: Int
) -> Int:
    """Writes the owners of the rows in one word, from `first` on: answers upward from the start of
    the room, those in doubt downward from its end. How many, as `search` returns it."""
    out, room = get8(frame, F_OUT), get8(frame, F_ROOM)
    owners, box = get8(block, D_OWNERS), get8(frame, F_BOX)
    found, doubted = 0, 0
    while word != 0:
        bit = trailing_zeros(word)
        one = word & -word
        word &= word - 1
        row = first + bit
        if (sure & one) == 0 and is_answer(frame, mode, block, row, box, count) == 0:
            continue
        if (doubt & one) == 0:
            put8(out, found, get4(owners, row))
            found += 1
        else:
            doubted += 1
            put8(out, room - doubted, get4(owners, row))
    put8(frame, F_OUT, out + 8 * found)
    put8(frame, F_ROOM, room - found - doubted)
    return found | doubted << 32


@part
def _fetch(block: Int, first: Int, words: Int, certain: Int) -> None:
    """Begins to load the ends of the rows of a group that are unsure."""
    keys, starts = get8(block, D_KEYS), get8(block, D_STARTS)
    for w in range(GROUP_WORDS):
        word = get8(words, w) & ~get8(certain, w)
        while word != 0:
            start = get4(starts, first + 64 * w + trailing_zeros(word))
            prefetch(keys + 16 * start)
            prefetch(keys + 16 * start + 64)
            word &= word - 1


@unit
def _select(block: Int, mode: Int, lists: Int, counts: Int, base_map: Int) -> Int:
    """Writes the survivors of each group of rows behind the lists, and which of them are certain.
    Bit g: some row of group g survived."""
    outs, ins = counts & 0xFFFF, (counts >> 16) & 0xFFFF
    unsure, sure = (counts >> 32) & 0xFFFF, (counts >> 48) & 0xFFFF
    in_all, doubtful, definite = lists + 8 * LIST, lists + 16 * LIST, lists + 24 * LIST
    all_unsure = mode == EQUAL or (mode == COVERED and unsure > 0)
    bits, groups = get8(block, D_BITS), 0
    for g in range((get8(block, D_USED) + 511) >> 9):
        base, survivors = bits + 64 * g, lists + 8 * LISTS * LIST + 128 * g
        start, certain = base + base_map * get8(block, D_STRIDE), survivors + 64
        if select_rows(base, lists, outs, in_all, ins, start, survivors):
            groups |= 1 << g
            if all_unsure:
                for w in range(GROUP_WORDS):
                    put8(certain, w, 0)
            else:
                select_rows(base, doubtful, unsure, definite, sure, survivors, certain)
            _fetch(block, 512 * g, survivors, certain)
    return groups


@part
def _is_cut_alike(block: Int, other: Int) -> bool:
    """Whether the same bitmaps are to be looked at in both."""
    return bool(
        get8(block, D_CLASSES) == get8(other, D_CLASSES)
        and get8(block, D_PRESENT) == get8(other, D_PRESENT)
        and get8(block, D_SHARED) == get8(other, D_SHARED)
        and get8(block, D_STRIDE) == get8(other, D_STRIDE)
    )


@unit
def _search_block(frame: Int, block: Int, mode: Int, count: Int, base_map: Int, counts: Int) -> Int:
    """-1: out of room."""
    lists = get8(frame, F_LISTS)
    groups = _select(block, mode, lists, counts, base_map)
    doubt_map = MEETING_DOUBT_MAP if mode == MEETING else DOUBT_MAP
    doubts = get8(block, D_BITS) + doubt_map * get8(block, D_STRIDE)
    found = 0
    while groups != 0:
        g = trailing_zeros(groups)
        groups &= groups - 1
        if get8(frame, F_ROOM) < 512:
            return -1
        survivors = lists + 8 * LISTS * LIST + 128 * g
        for w in range(GROUP_WORDS):
            word = get8(survivors, w)
            if word != 0:
                doubt, sure = get8(doubts + 64 * g, w), get8(survivors + 64, w)
                found += _collect(frame, block, mode, count, 512 * g + 64 * w, word, sure, doubt)
    return found


@unit
def _search_blocks(frame: Int, mode: Int, count: Int, base_map: Int, enough: Int) -> Int:
    """As `search`, for a box that is prepared."""
    counter = D_LIVE if base_map == LIVE_MAP else D_MARKED
    out, room = get8(frame, F_OUT), get8(frame, F_ROOM)
    found = last = counts = 0
    for b in range(get8(frame, F_BLOCK_COUNT)):
        block = get8(frame, F_BLOCKS) + 8 * BLOCK_WORDS * b
        if get8(block, counter) > 0:
            if last == 0 or not _is_cut_alike(block, last):
                counts = _list_bitmaps(frame, block, mode, count)
                last = block
            more = _search_block(frame, block, mode, count, base_map, counts)
            if more < 0:
                found = -1
                break
            found += more
            if (found & HALF) >= enough:
                break
    put8(frame, F_OUT, out)
    put8(frame, F_ROOM, room)
    return found


# --- dominators -----------------------------------------------------------------------------------

NO_DOMINATOR, UNDECIDED = -1, -2


@part
def _block_of(frame: Int, conjunction: Int) -> Int:
    place = get8(get8(frame, F_PLACES), conjunction)
    return get8(frame, F_BLOCKS) + 8 * BLOCK_WORDS * (place >> ROW_BITS)


@part
def _row_of(frame: Int, conjunction: Int) -> Int:
    return get8(get8(frame, F_PLACES), conjunction) & ((1 << ROW_BITS) - 1)


@unit
def _dominator(frame: Int, filter: Int, count: Int, found: Int, enough: Int) -> Int:
    """The deepest of the filter's dominators among the `found` ones that cover its box, which is at
    `F_BOX`."""
    ages, depths, out = get8(frame, F_AGES), get8(frame, F_DEPTHS), get8(frame, F_OUT)
    undecided, best = found >> 32, NO_DOMINATOR
    for k in range(found & HALF):
        other = get8(out, k)
        if other == filter:
            continue
        if get8(ages, other) > get8(ages, filter):
            block, row = _block_of(frame, other), _row_of(frame, other)
            if is_answer(frame, EQUAL, block, row, get8(frame, F_BOX), count) != 0:
                undecided = 1  # equal as boxes; if as filters, then the elder dominates
                continue
        if best < 0 or get8(depths, other) > get8(depths, best):
            best = other
    if best < 0 and (undecided or (found & HALF) >= enough):
        return UNDECIDED
    return best


@kernel
def search(frame: Int, mode: Int, count: Int, base_map: Int, enough: Int) -> Int:
    """Writes the owners of the rows that answer for the box of `count` records into the room at
    `F_OUT`: those that do, and from its end backward those in doubt. Returns how many:
    answers + 2^32 * doubts; -1 if there is too little room.

    `base_map` says among which rows: `LIVE_MAP` or `MARKED_MAP`. No further block is searched when
    there are `enough` answers.

    With the mode `DOMINATING`, of each of the `count` filters (of one conjunction each) at
    `F_FILTERS`: puts in its place the deepest of its dominators, of those found until there were
    enough, or `NO_DOMINATOR` or `UNDECIDED`. Returns how many it has done before it ran out of
    room. This is the same kernel, for the search in it takes long to compile.
    """
    box = get8(frame, F_BOX)
    if mode != DOMINATING:
        prepare(box, count)
    found = done = 0
    while done < (count if mode == DOMINATING else 1):
        filter, asked, records = 0, mode, count
        if mode == DOMINATING:
            filter, asked = get8(get8(frame, F_FILTERS), done), COVERING
            records = read_box(_block_of(frame, filter), _row_of(frame, filter), box)
        found = _search_blocks(frame, asked, records, base_map, enough)
        if mode == DOMINATING:
            if found < 0:
                break
            best = _dominator(frame, filter, records, found, enough)
            put8(get8(frame, F_FILTERS), done, best)
        done += 1
    return done if mode == DOMINATING else found


compile_units()

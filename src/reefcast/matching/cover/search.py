"""Searching the blocks; see `cover.layout` for how."""

from __future__ import annotations

import reefcast.matching.engine  # noqa: F401  # makes its batch before ours
from reefcast.matching.cover.bitmaps import list_bitmaps
from reefcast.matching.cover.ends import is_answer, prepare, read_box
from reefcast.matching.cover.layout import (
    BLOCK_WORDS,
    COVERED,
    COVERING,
    D_BITS,
    D_CLASSES,
    D_CONJUNCTIONS,
    D_KEYS,
    D_LIVE,
    D_MARKED,
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
)
from reefcast.matching.machine import (
    Int,
    compile_units,
    get4,
    get8,
    kernel,
    part,
    put8,
    trailing_zeros,
    unit,
)
from reefcast.matching.vectors import GROUP_WORDS, prefetch, select_rows


@part
def _collect(
    frame: Int, block: Int, mode: Int, count: Int, first: Int, word: Int, sure: Int, doubt: Int
) -> Int:
    """Write the conjunctions of one word's rows, from `first` on: answers upward from the start of
    the room, doubtful ones downward from its end. Return how many, as `search` does."""
    out, room = get8(frame, F_OUT), get8(frame, F_ROOM)
    numbers, box = get8(block, D_CONJUNCTIONS), get8(frame, F_BOX)
    found, doubted = 0, 0
    while word != 0:
        bit = trailing_zeros(word)
        one = word & -word
        word &= word - 1
        row = first + bit
        if (sure & one) == 0 and is_answer(frame, mode, block, row, box, count) == 0:
            continue
        if (doubt & one) == 0:
            put8(out, found, get4(numbers, row))
            found += 1
        else:
            doubted += 1
            put8(out, room - doubted, get4(numbers, row))
    put8(frame, F_OUT, out + 8 * found)
    put8(frame, F_ROOM, room - found - doubted)
    return found | doubted << 32


@part
def _fetch(block: Int, first: Int, words: Int, certain: Int) -> None:
    """Request the ends of the rows of a group that are unsure, which will be read soon."""
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
    """Write the survivors of each group of rows behind the lists, and which of them are certain. In
    the result, bit g says that some row of group g survived."""
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
    """Return whether the same bitmaps must be read in both blocks."""
    return bool(
        get8(block, D_CLASSES) == get8(other, D_CLASSES)
        and get8(block, D_PRESENT) == get8(other, D_PRESENT)
        and get8(block, D_SHARED) == get8(other, D_SHARED)
        and get8(block, D_STRIDE) == get8(other, D_STRIDE)
    )


@unit
def _search_block(frame: Int, block: Int, mode: Int, count: Int, base_map: Int, counts: Int) -> Int:
    """Search one block; return -1 if there is no room left."""
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
    """Do what `search` does, for a box that is prepared."""
    counter = D_LIVE if base_map == LIVE_MAP else D_MARKED
    out, room = get8(frame, F_OUT), get8(frame, F_ROOM)
    found = last = counts = 0
    for b in range(get8(frame, F_BLOCK_COUNT)):
        block = get8(frame, F_BLOCKS) + 8 * BLOCK_WORDS * b
        if get8(block, counter) > 0:
            if last == 0 or not _is_cut_alike(block, last):
                counts = list_bitmaps(frame, block, mode, count)
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
    """Return the deepest of the filter's dominators among the `found` filters that cover its box,
    which is at `F_BOX`."""
    ages, depths, out = get8(frame, F_AGES), get8(frame, F_DEPTHS), get8(frame, F_OUT)
    undecided, best = found >> 32, NO_DOMINATOR
    for k in range(found & HALF):
        other = get8(out, k)
        if other == filter:
            continue
        if get8(ages, other) > get8(ages, filter):
            block, row = _block_of(frame, other), _row_of(frame, other)
            if is_answer(frame, EQUAL, block, row, get8(frame, F_BOX), count) != 0:
                undecided = 1  # equal as boxes; if they are equal as filters, the elder dominates
                continue
        if best < 0 or get8(depths, other) > get8(depths, best):
            best = other
    if best < 0 and (undecided or (found & HALF) >= enough):
        return UNDECIDED
    return best


@kernel
def search(frame: Int, mode: Int, count: Int, base_map: Int, enough: Int) -> Int:
    """Write the conjunctions that answer for the box of `count` records into the room at `F_OUT`:
    answers from its start, doubtful ones backward from its end. Return answers + 2^32 *
    doubts; -1 if there is too little room.

    `base_map` selects the rows: `LIVE_MAP` or `MARKED_MAP`. When there are `enough` answers, no
    further block is searched.

    With the mode `DOMINATING`, replace each of the `count` filters (of one conjunction each) at
    `F_FILTERS` by the deepest of its dominators among those found until there were enough, or by
    `NO_DOMINATOR` or `UNDECIDED`. Return how many filters were done before the room ran out. This
    is the same kernel, because the search in it takes long to compile."""
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

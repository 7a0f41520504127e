"""Marks: the bits of a row in the bitmaps of a block, and its scaled bounds; see `blocks`."""

from __future__ import annotations

from reefcast.matching.cuts import (
    FIRST_NUMBERS,
    LANE_BYTES,
    LANES,
    NO_LANE,
    entry_of,
    lane_groups,
    number_rank,
    rank_of_text,
    scaled,
)
from reefcast.matching.machine import (
    Int,
    get8,
    part,
    put2,
    put8,
    unit,
)
from reefcast.matching.number_sets import (
    N_COUNT,
    N_HIGH,
    N_HIGH_REST,
    N_LOW,
    N_LOW_REST,
    N_MODE,
    member_key,
)
from reefcast.matching.predicates import (
    AMONG_NUMBERS,
    AMONG_TEXTS,
    IN_RANGE,
    IS_TEXT,
    X_COUNT,
    X_HIGH,
    X_HIGH_OPEN,
    X_LOW,
    X_LOW_OPEN,
    X_MEMBERS,
    X_MODE,
    X_PATTERNS,
    attribute_of,
    how_of,
    in_reach,
    kinds_of,
)
from reefcast.matching.rows import (
    PROGRAM,
    bounds_of,
    count_of,
    flags_of,
    tag_of,
)
from reefcast.matching.state import (
    CA_LANE,
    CA_NUMBER_AT,
    CA_NUMBERS,
    CA_SLOT,
    CA_TEXTS,
    HIGHEST,
    LOWEST,
    NUMBER,
    STRING,
)

DOUBTED, UNSCALED = 1, 2
"""How a row must be checked, see `mark`."""

MOST_MEMBERS = 64
"""Up to this many members of a list, their slots are looked up. With more, the row is unsure
everywhere: looking a value up in the list takes no longer than using a slot, and marking all slots
takes long."""


@part
def _set(table: Int, shift: Int, first: Int, end: Int, bit: Int) -> None:
    for slot in range(first, end):
        at = table + (slot << shift)
        put8(at, 0, get8(at, 0) | bit)


@part
def _set_outside(table: Int, shift: Int, first: Int, last: Int, slots: Int, bit: Int) -> None:
    """Set the bit in those of the first `slots` slots that lie outside of `first` to `last`."""
    _set(table, shift, 0, first, bit)
    _set(table, shift, last + 1, slots, bit)


@part
def _allow(excluded: Int, unsure: Int, shift: Int, slot: Int, is_sure: Int, bit: Int) -> None:
    """Allow the row in this slot: it may match there, or, if `is_sure`, it does."""
    at = excluded + (slot << shift)
    put8(at, 0, get8(at, 0) & ~bit)
    if not is_sure:
        _set(unsure, shift, slot, slot + 1, bit)


@part
def _begin(boundaries: Int, slot: Int) -> Int:
    """Return the lowest key of the slot of numbers."""
    return get8(boundaries, slot - 1) if slot > 0 else LOWEST


@part
def _end(boundaries: Int, count: Int, slot: Int) -> Int:
    """Return the highest key of the slot of numbers."""
    return get8(boundaries, slot) - 1 if slot < count else HIGHEST


@unit
def _mark_range(
    cuts: Int, entry: Int, low: Int, high: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    """Mark numbers with keys from `low` to `high`; the tables begin at the slots of numbers."""
    boundaries, count = cuts + 8 * get8(entry, CA_NUMBER_AT), get8(entry, CA_NUMBERS)
    first, last = number_rank(boundaries, count, low), number_rank(boundaries, count, high)
    _set_outside(excluded, shift, first, last, count + 1, bit)
    if low != _begin(boundaries, first):
        _set(unsure, shift, first, first + 1, bit)
    if high != _end(boundaries, count, last):
        _set(unsure, shift, last, last + 1, bit)


@part
def _mark_ends(
    boundaries: Int, count: Int, apart: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    low, high = get8(apart, N_LOW), get8(apart, N_HIGH)
    first, last = number_rank(boundaries, count, low), number_rank(boundaries, count, high)
    _set_outside(excluded, shift, first, last, count + 1, bit)
    if low != _begin(boundaries, first) or get8(apart, N_LOW_REST) != 0 or not in_reach(low):
        _set(unsure, shift, first, first + 1, bit)
    if high != _end(boundaries, count, last) or get8(apart, N_HIGH_REST) != 0 or not in_reach(high):
        _set(unsure, shift, last, last + 1, bit)


@part
def _mark_unsure(
    boundaries: Int, count: Int, apart: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    """Mark all slots from the lowest key to the highest as unsure."""
    first = number_rank(boundaries, count, get8(apart, N_LOW))
    last = number_rank(boundaries, count, get8(apart, N_HIGH))
    _set_outside(excluded, shift, first, last, count + 1, bit)
    _set(unsure, shift, first, last + 1, bit)


@unit
def _mark_numbers(
    cuts: Int, entry: Int, apart: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    """Mark a predicate `AMONG_NUMBERS`."""
    boundaries, count = cuts + 8 * get8(entry, CA_NUMBER_AT), get8(entry, CA_NUMBERS)
    mode, members = get8(apart, N_MODE), get8(apart, N_COUNT)
    if members > MOST_MEMBERS:
        _mark_unsure(boundaries, count, apart, excluded, unsure, shift, bit)
        return
    if mode > 0:
        _set(excluded, shift, 0, count + 1, bit)
    else:
        _mark_ends(boundaries, count, apart, excluded, unsure, shift, bit)
    for m in range(members):
        key = member_key(apart, m)
        slot = number_rank(boundaries, count, key)
        alone = _begin(boundaries, slot) == _end(boundaries, count, slot) and in_reach(key)
        if mode > 0:
            _allow(excluded, unsure, shift, slot, alone, bit)
        else:
            _set(excluded if alone else unsure, shift, slot, slot + 1, bit)


@unit
def _mark_strings(
    cuts: Int, entry: Int, apart: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    """Mark a predicate `AMONG_TEXTS`; the tables begin at the slots of strings."""
    slots = 2 * get8(entry, CA_TEXTS) + 1
    mode, members = get8(apart, X_MODE), get8(apart, X_COUNT)
    if members > MOST_MEMBERS:
        _set(unsure, shift, 0, slots, bit)
        return
    if mode > 0:
        _set(excluded, shift, 0, slots, bit)
    else:
        _mark_text_range(cuts, entry, apart, excluded, unsure, shift, bit)
    for m in range(members):
        slot = rank_of_text(cuts, entry, get8(apart, X_MEMBERS + m))
        if mode > 0:
            _allow(excluded, unsure, shift, slot, slot & 1, bit)
        elif slot & 1:
            _set(excluded, shift, slot, slot + 1, bit)
        else:
            _set(unsure, shift, slot, slot + 1, bit)


@part
def _mark_text_range(
    cuts: Int, entry: Int, apart: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    slots = 2 * get8(entry, CA_TEXTS) + 1
    low, high = get8(apart, X_LOW), get8(apart, X_HIGH)
    first, last = 0, slots - 1
    if low != 0:
        first = rank_of_text(cuts, entry, low)
        if first & 1:
            first += get8(apart, X_LOW_OPEN)
        else:
            _set(unsure, shift, first, first + 1, bit)
    if high != 0:
        last = rank_of_text(cuts, entry, high)
        if last & 1:
            last -= get8(apart, X_HIGH_OPEN)
        else:
            _set(unsure, shift, last, last + 1, bit)
    _set_outside(excluded, shift, first, last, slots, bit)
    if get8(apart, X_PATTERNS):
        _set(unsure, shift, first, last + 1, bit)


@part
def _mark_predicate(
    cuts: Int, entry: Int, tag: Int, bounds: Int, excluded: Int, unsure: Int, shift: Int, bit: Int
) -> None:
    kinds, how = kinds_of(tag), how_of(tag)
    slot = get8(entry, CA_SLOT)
    for kind in range(FIRST_NUMBERS):
        if not (kinds >> kind) & 1:
            _set(excluded, shift, slot + kind, slot + kind + 1, bit)
    slot += FIRST_NUMBERS
    numbers, strings = get8(entry, CA_NUMBERS) + 1, 2 * get8(entry, CA_TEXTS) + 1
    at, unsure_at = excluded + (slot << shift), unsure + (slot << shift)
    if not (kinds >> NUMBER) & 1:
        _set(at, shift, 0, numbers, bit)
    elif how == IN_RANGE:
        low, high = get8(bounds, 0), get8(bounds, 1)
        _mark_range(cuts, entry, low, high, at, unsure_at, shift, bit)
    elif how == AMONG_NUMBERS:
        _mark_numbers(cuts, entry, get8(bounds, 0), at, unsure_at, shift, bit)
    at, unsure_at = at + (numbers << shift), unsure_at + (numbers << shift)
    if not (kinds >> STRING) & 1:
        _set(at, shift, 0, strings, bit)
    elif how == IS_TEXT:
        rank = rank_of_text(cuts, entry, get8(bounds, 0))
        _set(at, shift, 0, strings, bit)
        _allow(at, unsure_at, shift, rank, rank & 1, bit)
    elif how == AMONG_TEXTS:
        _mark_strings(cuts, entry, get8(bounds, 0), at, unsure_at, shift, bit)


@unit
def scale(cuts: Int, row: Int, bounds_at: Int) -> None:
    """Write the row's scaled bounds; in a lane that it does not constrain, they include all
    keys."""
    for group in range(lane_groups(cuts)):
        for word in range(2):
            put8(bounds_at, 4 * group + word, 0)
            put8(bounds_at, 4 * group + word + 2, -1)
    count = count_of(row)
    bounds = bounds_of(count)
    for i in range(count):
        tag = tag_of(row, i)
        entry = entry_of(cuts, attribute_of(tag))
        if entry != 0 and get8(entry, CA_LANE) != NO_LANE and how_of(tag) == IN_RANGE:
            boundaries, numbers = cuts + 8 * get8(entry, CA_NUMBER_AT), get8(entry, CA_NUMBERS)
            lane = get8(entry, CA_LANE)
            at = bounds_at + LANE_BYTES * (lane // LANES)
            for side in range(2):
                key = get8(row, bounds + 2 * i + side)
                rank = number_rank(boundaries, numbers, key)
                put2(at, lane % LANES + LANES * side, scaled(cuts, entry, rank, key))


@unit
def mark(cuts: Int, row: Int, excluded: Int, unsure: Int, shift: Int, bit: Int) -> Int:
    """Set the row's bit where it belongs, in words `1 << shift` bytes apart. Return 1 if the row
    must be checked wherever it survives: it has an attribute that is not cut, or Python decides."""
    count = count_of(row)
    bounds = bounds_of(count)
    found = DOUBTED if flags_of(row) & PROGRAM else 0
    for i in range(count):
        tag = tag_of(row, i)
        entry = entry_of(cuts, attribute_of(tag))
        if entry == 0:
            found |= DOUBTED
        else:
            if how_of(tag) == AMONG_NUMBERS and get8(entry, CA_LANE) != NO_LANE:
                found |= UNSCALED
            at = row + 8 * (bounds + 2 * i)
            _mark_predicate(cuts, entry, tag, at, excluded, unsure, shift, bit)
    return found

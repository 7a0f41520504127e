"""Making cuts (`cuts`) for the rows of a block.

Boundaries are quantiles of the bounds that a sample of the rows has: where bounds are dense, slots
are narrow. An attribute gets slots by its share of the predicates. What few rows demand gets none;
such rows are checked wherever they survive otherwise (`blocks`).
"""

from __future__ import annotations

from reefcast.matching.cuts import FIRST_NUMBERS, NO_LANE, SCALE_BITS, SLOT_BYTES, entry_at
from reefcast.matching.machine import (
    Int,
    copy_bytes,
    get8,
    part,
    put8,
    shifted_right,
    unit,
)
from reefcast.matching.predicates import (
    AMONG_NUMBERS,
    AMONG_TEXTS,
    IN_RANGE,
    IS_TEXT,
    N_COUNT,
    N_HIGH,
    N_LOW,
    N_MEMBERS,
    N_MODE,
    X_COUNT,
    X_HIGH,
    X_LOW,
    X_MEMBERS,
)
from reefcast.matching.rows import (
    attribute_at,
    attribute_of,
    bounds_of,
    count_of,
    how_of,
    tag_of,
)
from reefcast.matching.sorting import quantiles, sort_words
from reefcast.matching.state import (
    A_COUNT,
    A_USERS,
    C_ATTRIBUTES,
    C_BYTES,
    C_FIRST,
    C_LANES,
    C_SERIAL,
    C_SLOTS,
    C_USERS,
    CA_ATTRIBUTE,
    CA_LANE,
    CA_NUMBER_AT,
    CA_NUMBERS,
    CA_SCALE_AT,
    CA_SLOT,
    CA_TEXT_AT,
    CA_TEXTS,
    CA_WORDS,
    HIGHEST,
    LOWEST,
    S_SERIAL,
    S_SLOT_ROOM,
    S_SLOTS,
    T_USERS,
    give_back,
    longer,
    new,
)
from reefcast.matching.vectors import GROUP_WORDS

SAMPLE = 1024
"""Rows, and values of one attribute, that are looked at."""

NUMBERS, TEXTS = 40, 48
"""Most boundaries of an attribute; of numbers, 63 would be the most that scaled keys have bits for.
"""

SCALED = 4
"""An attribute that 1 in so many rows or more know has a lane."""

SLOTS = 960
"""Boundaries that all attributes share, by their share of the predicates, two for a text."""

FEWEST_BOUNDARIES = 6
RARE = 64
"""An attribute with less than 1 in so many of the rows gets no slots."""

MOST_ATTRIBUTES = 256
"""With slots: making cuts takes the attributes times the predicates, blocks have memory for each.
"""


@part
def predicate_on(row: Int, attribute: Int) -> Int:
    """Return the number of the row's predicate on the attribute, or -1."""
    for i in range(count_of(row)):
        if attribute_of(tag_of(row, i)) == attribute:
            return i
    return -1


@part
def _count_attributes(state: Int, rows: Int, count: Int, step: Int, out: Int) -> Int:
    """Writes the attributes of a sample of rows; how many they are. Counts in A_COUNT."""
    found = 0
    for r in range(0, count, step):
        row = get8(rows, r)
        for i in range(count_of(row)):
            attribute = attribute_of(tag_of(row, i))
            at = attribute_at(state, attribute)
            if get8(at, A_COUNT) == 0:
                put8(out, found, attribute)
                found += 1
            put8(at, A_COUNT, get8(at, A_COUNT) + 1)
    return found


@part
def _add_numbers(row: Int, i: Int, out: Int, found: Int) -> Int:
    """Writes the keys at which a slot should begin; how many there are then."""
    bounds = bounds_of(count_of(row)) + 2 * i
    how = how_of(tag_of(row, i))
    if how != IN_RANGE and how != AMONG_NUMBERS:
        return found
    low, high = get8(row, bounds), get8(row, bounds + 1)
    if how == AMONG_NUMBERS:
        apart = low
        low, high = get8(apart, N_LOW), get8(apart, N_HIGH)
        if get8(apart, N_MODE) != 0:
            for m in range(min(get8(apart, N_COUNT), SAMPLE)):
                put8(out, found, get8(apart, N_MEMBERS + 2 * m))
                put8(out, found + 1, get8(apart, N_MEMBERS + 2 * m) + 1)
                found += 2
    if low != LOWEST:
        put8(out, found, low)
        found += 1
    if high != HIGHEST:
        put8(out, found, high + 1)
        found += 1
    return found


@part
def _add_texts(row: Int, i: Int, out: Int, found: Int) -> Int:
    bounds = bounds_of(count_of(row)) + 2 * i
    how = how_of(tag_of(row, i))
    if how == IS_TEXT:
        put8(out, found, get8(row, bounds))
        return found + 1
    if how != AMONG_TEXTS:
        return found
    apart = get8(row, bounds)
    for word in (X_LOW, X_HIGH):
        if get8(apart, word) != 0:
            put8(out, found, get8(apart, word))
            found += 1
    members = get8(apart, X_COUNT)
    if members <= SAMPLE:  # which of more are first depends on their addresses
        for m in range(members):
            put8(out, found + m, get8(apart, X_MEMBERS + m))
        found += members
    return found


@unit
def _boundaries(
    rows: Int, count: Int, step: Int, attribute: Int, limit: Int, as_texts: Int, out: Int
) -> Int:
    """Writes the boundaries of one attribute to `out`, room for 4 * SAMPLE words or more."""
    found = 0
    for r in range(0, count, step):
        row = get8(rows, r)
        i = predicate_on(row, attribute)
        if i >= 0 and found < 2 * SAMPLE:
            if as_texts:
                found = _add_texts(row, i, out, found)
            else:
                found = _add_numbers(row, i, out, found)
    return quantiles(out, found, limit, as_texts)


@part
def _add_scale(cuts: Int, entry: Int, at: Int) -> None:
    """Writes to word `at` on how far keys of each slot are shifted, and pads the boundaries."""
    first, count = get8(entry, CA_NUMBER_AT), get8(entry, CA_NUMBERS)
    put8(entry, CA_SCALE_AT, at)
    for rank in range(count + 1):
        width = get8(cuts, first + rank) - get8(cuts, first + rank - 1) - 1
        shift = 0 if 0 < rank < count and width >= 0 else 1  # a width from 2^63 on looks negative
        while shifted_right(width, shift) >= 1 << SCALE_BITS:
            shift += 1
        put8(cuts, at + rank, shift if 0 < rank < count else 64 - SCALE_BITS)


@part
def _as_frequent(state: Int, attributes: Int, found: Int, least: Int) -> Int:
    """How many of the attributes are in so many rows of the sample."""
    count = 0
    for i in range(found):
        if get8(attribute_at(state, get8(attributes, i)), A_COUNT) >= least:
            count += 1
    return count


@part
def _chosen(state: Int, attributes: Int, found: Int, sampled: Int) -> tuple[Int, Int]:
    """(how many attributes get slots: those, ascending, stay at `attributes`; their predicates)."""
    least = (sampled + RARE - 1) // RARE
    while _as_frequent(state, attributes, found, 2 * least) >= MOST_ATTRIBUTES:
        least *= 2
    kept = predicates = 0
    for i in range(found):
        attribute = get8(attributes, i)
        count = get8(attribute_at(state, attribute), A_COUNT)
        if count >= least and kept < MOST_ATTRIBUTES:
            put8(attributes, kept, attribute)
            kept += 1
            predicates += count
        else:
            put8(attribute_at(state, attribute), A_COUNT, 0)
    sort_words(attributes, kept, 0)
    return kept, predicates


@part
def _padded(cuts: Int, word: Int, numbers: Int) -> Int:
    """Fills up the boundaries of numbers that begin at `word`; the word behind them."""
    end = word + numbers
    while (end - word) & (GROUP_WORDS - 1) != 0:
        put8(cuts, end, HIGHEST)
        end += 1
    return end


@part
def _use_texts(cuts: Int, word: Int, count: Int) -> None:
    for t in range(count):
        text = get8(cuts, word + t)
        put8(text, T_USERS, get8(text, T_USERS) + 1)


@part
def _add_lane(cuts: Int, entry: Int, word: Int) -> Int:
    """Gives the attribute the next lane; the word behind what it needs."""
    lanes = get8(cuts, C_LANES)
    put8(entry, CA_LANE, lanes)
    put8(cuts, C_LANES, lanes + 1)
    _add_scale(cuts, entry, word)
    return word + get8(entry, CA_NUMBERS) + 1


@part
def _cut(
    rows: Int, count: Int, step: Int, cuts: Int, entry: Int, word: Int, limit: Int, has_lane: bool
) -> Int:
    """The slots of one attribute, with up to `limit` boundaries of each kind from `word` on; the
    word behind them."""
    slot = get8(cuts, C_SLOTS)
    put8(entry, CA_SLOT, slot)
    attribute, most = get8(entry, CA_ATTRIBUTE), min(NUMBERS, limit)
    numbers = _boundaries(rows, count, step, attribute, most, 0, cuts + 8 * word)
    put8(entry, CA_NUMBERS, numbers)
    put8(entry, CA_NUMBER_AT, word)
    word = _padded(cuts, word, numbers)
    if has_lane:
        word = _add_lane(cuts, entry, word)
    else:
        put8(entry, CA_LANE, NO_LANE)
    most = min(TEXTS, limit)
    texts = _boundaries(rows, count, step, attribute, most, 1, cuts + 8 * word)
    put8(entry, CA_TEXTS, texts)
    put8(entry, CA_TEXT_AT, word)
    _use_texts(cuts, word, texts)
    put8(cuts, C_SLOTS, slot + FIRST_NUMBERS + numbers + 1 + 2 * texts + 1)
    return word + texts


@part
def _head(state: Int, cuts: Int, attributes: Int) -> None:
    """What cuts begin with; one user."""
    put8(state, S_SERIAL, get8(state, S_SERIAL) + 1)
    put8(cuts, C_SERIAL, get8(state, S_SERIAL))
    put8(cuts, C_ATTRIBUTES, attributes)
    put8(cuts, C_SLOTS, 0)
    put8(cuts, C_LANES, 0)
    put8(cuts, C_USERS, 1)


@unit
def make_cuts(state: Int, rows: Int, count: Int) -> Int:
    """Return cuts for the rows whose addresses are at `rows`, with one user."""
    step = 1 + (count - 1) // SAMPLE if count > 0 else 1
    sampled = (count + step - 1) // step
    predicates = 0
    for r in range(0, count, step):
        predicates += count_of(get8(rows, r))
    attributes_size = 8 * (predicates + 1)
    attributes = new(state, attributes_size)
    found = _count_attributes(state, rows, count, step, attributes)
    kept, predicates = _chosen(state, attributes, found, sampled)
    size = 8 * (C_FIRST + kept * (CA_WORDS + 2 * NUMBERS + 2 * GROUP_WORDS + TEXTS) + 8 * SAMPLE)
    cuts = new(state, size)
    _head(state, cuts, kept)
    word = C_FIRST + CA_WORDS * kept
    for i in range(kept):
        at, entry = attribute_at(state, get8(attributes, i)), entry_at(cuts, i)
        put8(entry, CA_ATTRIBUTE, get8(attributes, i))
        known = get8(at, A_COUNT)
        put8(at, A_COUNT, 0)
        put8(at, A_USERS, get8(at, A_USERS) + 1)
        share = SLOTS * known // predicates
        limit = max(FEWEST_BOUNDARIES, min(share, count * known // sampled // 8))
        has_lane = known * SCALED >= sampled
        word = _cut(rows, count, step, cuts, entry, word, limit, has_lane)
    give_back(state, attributes, attributes_size)
    _make_room_for_slots(state, kept)
    return _fitted(state, cuts, size, 8 * word)


@part
def _fitted(state: Int, cuts: Int, size: Int, used: Int) -> Int:
    """The same cuts in no more room than they use."""
    fitted = new(state, used)
    copy_bytes(fitted, cuts, used)
    give_back(state, cuts, size)
    put8(fitted, C_BYTES, used)
    return fitted


@part
def _make_room_for_slots(state: Int, attributes: Int) -> None:
    room = get8(state, S_SLOT_ROOM)
    if attributes > room:
        put8(
            state,
            S_SLOTS,
            longer(state, get8(state, S_SLOTS), SLOT_BYTES * room, 2 * SLOT_BYTES * attributes),
        )
        put8(state, S_SLOT_ROOM, 2 * attributes)

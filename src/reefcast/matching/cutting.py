"""Making cuts (`cuts`) for the rows of a block.

Boundaries are quantiles of the bounds of a sample of the rows: where bounds are dense, slots are
narrow. An attribute gets slots in proportion to its share of the predicates. An attribute that few
rows constrain gets none; such rows are checked wherever they survive otherwise (`blocks`)."""

from __future__ import annotations

from reefcast.matching.attributes import attribute_at
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
from reefcast.matching.number_sets import (
    N_COUNT,
    N_HIGH,
    N_LOW,
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
    X_LOW,
    X_MEMBERS,
    attribute_of,
    how_of,
)
from reefcast.matching.rows import (
    bounds_of,
    count_of,
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
"""Rows, and values of one attribute, that are sampled."""

NUMBERS, TEXTS = 40, 48
"""The most boundaries of an attribute; for numbers, scaled keys have bits for 63."""

SCALED = 4
"""An attribute that at least 1 in this many rows constrains has a lane."""

SLOTS = 960
"""Boundaries of all attributes together, by their share of the predicates; a text needs two."""

FEWEST_BOUNDARIES = 6
RARE = 64
"""An attribute that less than 1 in this many rows constrains gets no slots."""

MOST_ATTRIBUTES = 256
"""The most attributes with slots: making cuts takes the product of attributes and predicates, and
blocks have memory for each."""


@part
def _count_attributes(state: Int, rows: Int, count: Int, step: Int, out: Int) -> Int:
    """Write the attributes of a sample of rows, count them in A_COUNT, and return how many there
    are."""
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
    """Write the keys at which a slot should begin; return how many there are then."""
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
                put8(out, found, member_key(apart, m))
                put8(out, found + 1, member_key(apart, m) + 1)
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
    if members <= SAMPLE:  # if there are more, their addresses decide which are first
        for m in range(members):
            put8(out, found + m, get8(apart, X_MEMBERS + m))
        found += members
    return found


@part
def _step(count: Int) -> Int:
    """Return the sampling step for this many rows."""
    return 1 + (count - 1) // SAMPLE if count > 0 else 1


@part
def _sort_predicates(
    state: Int, attributes: Int, kept: Int, rows: Int, count: Int, out: Int
) -> None:
    """Write row and number of each predicate on one of the attributes, grouped by attribute.
    Replace the A_COUNT of each by 1 + where its predicates end."""
    first = 0
    for i in range(kept):
        at = attribute_at(state, get8(attributes, i))
        known = get8(at, A_COUNT)
        put8(at, A_COUNT, first + 1)
        first += known
    step = _step(count)
    for r in range(0, count, step):
        row = get8(rows, r)
        for i in range(count_of(row)):
            at = attribute_at(state, attribute_of(tag_of(row, i)))
            place = get8(at, A_COUNT) - 1
            if place >= 0:
                put8(out, 2 * place, row)
                put8(out, 2 * place + 1, i)
                put8(at, A_COUNT, place + 2)


@unit
def _boundaries(predicates: Int, count: Int, limit: Int, as_texts: Int, out: Int) -> Int:
    """Write the boundaries of one attribute to `out`, which has room for 4 * SAMPLE words or
    more."""
    found = 0
    for p in range(count):
        row, i = get8(predicates, 2 * p), get8(predicates, 2 * p + 1)
        if found < 2 * SAMPLE:
            if as_texts:
                found = _add_texts(row, i, out, found)
            else:
                found = _add_numbers(row, i, out, found)
    return quantiles(out, found, limit, as_texts)


@part
def _add_scale(cuts: Int, entry: Int, at: Int) -> None:
    """Write, from word `at` on, how far the keys of each slot are shifted, and pad the
    boundaries."""
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
    """Return how many of the attributes are in at least this many rows of the sample."""
    count = 0
    for i in range(found):
        if get8(attribute_at(state, get8(attributes, i)), A_COUNT) >= least:
            count += 1
    return count


@part
def _chosen(state: Int, attributes: Int, found: Int, sampled: Int) -> tuple[Int, Int]:
    """Return how many attributes get slots (those stay at `attributes`, ascending), and their
    predicates."""
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
    """Fill up the boundaries of numbers that begin at `word`; return the word behind them."""
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
    """Give the attribute the next lane; return the word behind what it needs."""
    lanes = get8(cuts, C_LANES)
    put8(entry, CA_LANE, lanes)
    put8(cuts, C_LANES, lanes + 1)
    _add_scale(cuts, entry, word)
    return word + get8(entry, CA_NUMBERS) + 1


@part
def _cut(
    predicates: Int, count: Int, cuts: Int, entry: Int, word: Int, limit: Int, has_lane: bool
) -> Int:
    """Write the slots of one attribute, with up to `limit` boundaries of each kind, from `word` on;
    return the word behind them."""
    slot = get8(cuts, C_SLOTS)
    put8(entry, CA_SLOT, slot)
    numbers = _boundaries(predicates, count, min(NUMBERS, limit), 0, cuts + 8 * word)
    put8(entry, CA_NUMBERS, numbers)
    put8(entry, CA_NUMBER_AT, word)
    word = _padded(cuts, word, numbers)
    if has_lane:
        word = _add_lane(cuts, entry, word)
    else:
        put8(entry, CA_LANE, NO_LANE)
    texts = _boundaries(predicates, count, min(TEXTS, limit), 1, cuts + 8 * word)
    put8(entry, CA_TEXTS, texts)
    put8(entry, CA_TEXT_AT, word)
    _use_texts(cuts, word, texts)
    put8(cuts, C_SLOTS, slot + FIRST_NUMBERS + numbers + 1 + 2 * texts + 1)
    return word + texts


@part
def _head(state: Int, cuts: Int, attributes: Int) -> None:
    """Make the head of new cuts, with one user."""
    put8(state, S_SERIAL, get8(state, S_SERIAL) + 1)
    put8(cuts, C_SERIAL, get8(state, S_SERIAL))
    put8(cuts, C_ATTRIBUTES, attributes)
    put8(cuts, C_SLOTS, 0)
    put8(cuts, C_LANES, 0)
    put8(cuts, C_USERS, 1)


@unit
def make_cuts(state: Int, rows: Int, count: Int) -> Int:
    """Return cuts for the rows whose addresses are at `rows`, with one user."""
    step = _step(count)
    sampled = (count + step - 1) // step
    predicates = 0
    for r in range(0, count, step):
        predicates += count_of(get8(rows, r))
    scratch_size = 24 * (predicates + 1)
    attributes = new(state, scratch_size)
    sorted_at = attributes + 8 * (predicates + 1)
    found = _count_attributes(state, rows, count, step, attributes)
    kept, predicates = _chosen(state, attributes, found, sampled)
    _sort_predicates(state, attributes, kept, rows, count, sorted_at)
    size = 8 * (C_FIRST + kept * (CA_WORDS + 2 * NUMBERS + 2 * GROUP_WORDS + TEXTS) + 8 * SAMPLE)
    cuts = new(state, size)
    _head(state, cuts, kept)
    word = C_FIRST + CA_WORDS * kept
    first = 0
    for i in range(kept):
        at, entry = attribute_at(state, get8(attributes, i)), entry_at(cuts, i)
        put8(entry, CA_ATTRIBUTE, get8(attributes, i))
        known = get8(at, A_COUNT) - 1 - first
        put8(at, A_COUNT, 0)
        put8(at, A_USERS, get8(at, A_USERS) + 1)
        share = SLOTS * known // predicates
        limit = max(FEWEST_BOUNDARIES, min(share, count * known // sampled // 8))
        has_lane = known * SCALED >= sampled
        word = _cut(sorted_at + 16 * first, known, cuts, entry, word, limit, has_lane)
        first += known
    give_back(state, attributes, scratch_size)
    _make_room_for_slots(state, kept)
    return _fitted(state, cuts, size, 8 * word)


@part
def _fitted(state: Int, cuts: Int, size: Int, used: Int) -> Int:
    """Return the same cuts in the memory that they use."""
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

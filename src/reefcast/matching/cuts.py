"""Cuts: how the values of each attribute are cut into *slots*, for the bitmaps of a block.

The slots of an attribute, in this order: missing, false, true; intervals of numbers between
*boundaries* (a slot holds boundary <= key < next boundary); and for strings, in turn, what lies
between two boundaries and the boundary itself, so that a string which many filters ask for has a
slot of its own.

Boundaries are quantiles of the bounds that a sample of the block's rows has: where bounds are
dense, slots are narrow. An attribute gets slots by its share of the predicates. What few rows
demand gets none; such rows are checked wherever they survive otherwise (`blocks`).

Within its slot, a number has a finer place still: its *scaled* key, of 16 bits, 1024 to a slot,
none 0. Scaled keys keep the order of keys, so those of a row's bounds decide nearly always whether
the row holds for an event whose number lies in the same slot (`search`). An attribute that many
rows know has a *lane* for them.

Cuts never change. Blocks share them (`C_USERS`) as long as they fit what comes.
"""

from __future__ import annotations

from reefcast.matching.machine import (
    GROUP_WORDS,
    Int,
    copy_bytes,
    count_up_to,
    get8,
    part,
    put2,
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
    leave_attribute,
    tag_of,
    value_at,
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
    MISSING,
    NUMBER,
    S_OTHER_COUNT,
    S_SCALED_COUNT,
    S_SERIAL,
    S_SLOT_ROOM,
    S_SLOTS,
    S_STAMP,
    STRING,
    T_BYTES,
    T_MEMO,
    T_RANK,
    T_SIZE,
    T_USERS,
    V_KEY,
    V_KIND,
    V_SIZE,
    V_STAMP,
    V_START,
    give_back,
    longer,
    new,
)
from reefcast.matching.texts import compare_text, leave_text

FIRST_NUMBERS = 3
"""Slots of an attribute before those of numbers."""

SAMPLE = 1024
"""Rows, and values of one attribute, that are looked at."""

NUMBERS, TEXTS = 40, 48
"""Most boundaries of an attribute; of numbers, 63 would be the most that scaled keys have bits for.
"""

SCALE_BITS = 10
LANES = 8
"""Lanes that are compared at once."""

SCALED = 4
"""An attribute that 1 in so many rows or more know has a lane."""

NO_LANE = -1

SLOTS = 960
"""Boundaries that all attributes share, by their share of the predicates, two for a text."""

SLOT_BYTES = 8 * 4
"""Bytes at S_SLOTS for each attribute."""

FEWEST_BOUNDARIES = 6
RARE = 64
"""An attribute with less than 1 in so many of the rows gets no slots."""

MOST_ATTRIBUTES = 256
"""With slots: making cuts takes the attributes times the predicates, blocks have memory for each.
"""


# --- looking up -----------------------------------------------------------------------------------


@part
def entry_at(cuts: Int, i: Int) -> Int:
    return cuts + 8 * (C_FIRST + CA_WORDS * i)


@part
def entry_of(cuts: Int, attribute: Int) -> Int:
    """The attribute's entry, or 0."""
    low, high = 0, get8(cuts, C_ATTRIBUTES)
    while low < high:
        middle = (low + high) >> 1
        if get8(entry_at(cuts, middle), CA_ATTRIBUTE) < attribute:
            low = middle + 1
        else:
            high = middle
    if low < get8(cuts, C_ATTRIBUTES) and get8(entry_at(cuts, low), CA_ATTRIBUTE) == attribute:
        return entry_at(cuts, low)
    return 0


@part
def number_rank(boundaries: Int, count: Int, key: Int) -> Int:
    """How many of the boundaries are at or below the key. Behind them there are HIGHEST, up to a
    whole group."""
    return min(count, count_up_to(boundaries, (count + GROUP_WORDS - 1) >> 3, key))


@part
def scaled(cuts: Int, entry: Int, rank: Int, key: Int) -> Int:
    """The scaled key of a key with this rank."""
    start = get8(cuts, get8(entry, CA_NUMBER_AT) + rank - 1) if rank > 0 else LOWEST
    shift = get8(cuts, get8(entry, CA_SCALE_AT) + rank)
    return 1 + (rank << SCALE_BITS | shifted_right(key - start, shift))


@part
def text_rank(boundaries: Int, count: Int, start: Int, size: Int) -> Int:
    """2 i + 1 for what equals boundary i, 2 i for what lies before it."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        order = compare_text(start, size, get8(boundaries, middle))
        if order == 0:
            return 2 * middle + 1
        if order > 0:
            low = middle + 1
        else:
            high = middle
    return 2 * low


@unit
def rank_of_text(cuts: Int, entry: Int, text: Int) -> Int:
    """`text_rank` of a text, which remembers the last answer."""
    memo = (get8(cuts, C_SERIAL) << 24) + get8(entry, CA_SLOT)
    if get8(text, T_MEMO) != memo:
        boundaries = cuts + 8 * get8(entry, CA_TEXT_AT)
        put8(
            text,
            T_RANK,
            text_rank(boundaries, get8(entry, CA_TEXTS), text + 8 * T_BYTES, get8(text, T_SIZE)),
        )
        put8(text, T_MEMO, memo)
    return get8(text, T_RANK)


@part
def _string_slot(cuts: Int, entry: Int, value: Int) -> Int:
    texts, rank = get8(entry, CA_TEXTS), 0
    if texts > 0 and get8(value, V_KEY) != 0:
        rank = rank_of_text(cuts, entry, get8(value, V_KEY))
    elif texts > 0:
        boundaries = cuts + 8 * get8(entry, CA_TEXT_AT)
        rank = text_rank(boundaries, texts, get8(value, V_START), get8(value, V_SIZE))
    return FIRST_NUMBERS + get8(entry, CA_NUMBERS) + 1 + rank


@part
def lane_groups(cuts: Int) -> Int:
    return (get8(cuts, C_LANES) + LANES - 1) // LANES


@unit
def event_slots(state: Int, cuts: Int) -> None:
    """Writes for the event at hand to S_SLOTS, S_SLOT_ROOM words each: the slot of each attribute;
    those of S_SCALED_COUNT attributes with a number and a lane; those of S_OTHER_COUNT others in
    which rows may be unsure; and the scaled keys of all lanes, 0 for none."""
    stamp, room = get8(state, S_STAMP), get8(state, S_SLOT_ROOM)
    slots = get8(state, S_SLOTS)
    scaled_slots, other_slots = slots + 8 * room, slots + 16 * room
    keys = slots + 24 * room
    for group in range(2 * lane_groups(cuts)):
        put8(keys, group, 0)
    scaled_count = other_count = 0
    for i in range(get8(cuts, C_ATTRIBUTES)):
        entry = entry_at(cuts, i)
        value = value_at(state, get8(entry, CA_ATTRIBUTE))
        slot, kind = get8(entry, CA_SLOT), MISSING
        if get8(value, V_STAMP) == stamp:
            kind = get8(value, V_KIND)
        if kind == NUMBER:
            key, lane = get8(value, V_KEY), get8(entry, CA_LANE)
            boundaries = cuts + 8 * get8(entry, CA_NUMBER_AT)
            rank = number_rank(boundaries, get8(entry, CA_NUMBERS), key)
            slot += FIRST_NUMBERS + rank
            if lane != NO_LANE:
                put2(keys, lane, scaled(cuts, entry, rank, key))
                put8(scaled_slots, scaled_count, slot)
                scaled_count += 1
            else:
                put8(other_slots, other_count, slot)
                other_count += 1
        elif kind == STRING:
            slot += _string_slot(cuts, entry, value)
            put8(other_slots, other_count, slot)
            other_count += 1
        else:
            slot += kind
        put8(slots, i, slot)
    put8(state, S_SCALED_COUNT, scaled_count)
    put8(state, S_OTHER_COUNT, other_count)


# --- making ---------------------------------------------------------------------------------------


@part
def predicate_on(row: Int, attribute: Int) -> Int:
    """The number of the row's predicate on the attribute, or -1."""
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


@unit
def make_cuts(state: Int, rows: Int, count: Int) -> Int:
    """Cuts for the rows whose addresses are at `rows`; one user."""
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
    word = C_FIRST + CA_WORDS * kept
    slot = lanes = 0
    for i in range(kept):
        attribute = get8(attributes, i)
        at, entry = attribute_at(state, attribute), entry_at(cuts, i)
        share = SLOTS * get8(at, A_COUNT) // predicates
        is_scaled = get8(at, A_COUNT) * SCALED >= sampled
        enough = max(FEWEST_BOUNDARIES, min(share, count * get8(at, A_COUNT) // sampled // 8))
        put8(at, A_COUNT, 0)
        put8(at, A_USERS, get8(at, A_USERS) + 1)
        numbers = _boundaries(
            rows, count, step, attribute, min(NUMBERS, enough), 0, cuts + 8 * word
        )
        put8(entry, CA_ATTRIBUTE, attribute)
        put8(entry, CA_SLOT, slot)
        put8(entry, CA_NUMBERS, numbers)
        put8(entry, CA_NUMBER_AT, word)
        while numbers & (GROUP_WORDS - 1) != 0:
            put8(cuts, word + numbers, HIGHEST)
            numbers += 1
        word += numbers
        put8(entry, CA_LANE, lanes if is_scaled else NO_LANE)
        if is_scaled:
            _add_scale(cuts, entry, word)
            word += get8(entry, CA_NUMBERS) + 1
            lanes += 1
        texts = _boundaries(rows, count, step, attribute, min(TEXTS, enough), 1, cuts + 8 * word)
        put8(entry, CA_TEXTS, texts)
        put8(entry, CA_TEXT_AT, word)
        for t in range(texts):
            text = get8(cuts, word + t)
            put8(text, T_USERS, get8(text, T_USERS) + 1)
        word += texts
        slot += FIRST_NUMBERS + get8(entry, CA_NUMBERS) + 1 + 2 * texts + 1
    give_back(state, attributes, attributes_size)
    put8(cuts, C_ATTRIBUTES, kept)
    put8(cuts, C_SLOTS, slot)
    put8(cuts, C_LANES, lanes)
    put8(cuts, C_USERS, 1)
    put8(state, S_SERIAL, get8(state, S_SERIAL) + 1)
    put8(cuts, C_SERIAL, get8(state, S_SERIAL))
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


@unit
def leave_cuts(state: Int, cuts: Int) -> None:
    """One user less; the last one takes the cuts along."""
    if cuts == 0:
        return
    put8(cuts, C_USERS, get8(cuts, C_USERS) - 1)
    if get8(cuts, C_USERS) > 0:
        return
    for i in range(get8(cuts, C_ATTRIBUTES)):
        entry = entry_at(cuts, i)
        for t in range(get8(entry, CA_TEXTS)):
            leave_text(state, get8(cuts, get8(entry, CA_TEXT_AT) + t))
        leave_attribute(state, get8(entry, CA_ATTRIBUTE))
    give_back(state, cuts, get8(cuts, C_BYTES))

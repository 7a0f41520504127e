"""Sets of numbers: the bounds of a predicate `AMONG_NUMBERS` (see `predicates`).

Words: bytes; lowest key and rest; highest key and rest; mode (1: the value must be a member, -1: it
must not, 0: there are no members); number of members; their form; bits of a hash; the members,
ascending. `SMALL` members are integers of 4 bytes each; `KEYS` are keys; `PAIRS` are key and rest.
A large set also has a bit for each hash: 1 if some member has it."""

from __future__ import annotations

from reefcast.matching.chains import MIX
from reefcast.matching.machine import Int, get4, get8, part, put4, put8, shifted_right
from reefcast.matching.numbers import key_of_int
from reefcast.matching.packed import read_value
from reefcast.matching.state import (
    S_VALUE,
    V_BITS,
    V_KEY,
    V_REST,
    V_WHOLE,
    new_zeroed,
)

(
    N_BYTES,
    N_LOW,
    N_LOW_REST,
    N_HIGH,
    N_HIGH_REST,
    N_MODE,
    N_COUNT,
    N_FORM,
    N_HASH_BITS,
    N_MEMBERS,
) = range(10)
SMALL, KEYS, PAIRS = range(3)
FEWEST_HASHED = 32


SMALLEST = 1 << 31
"""Below 0: the least integer that is small."""


@part
def member_key(bounds: Int, m: Int) -> Int:
    """Return the key of a member of `AMONG_NUMBERS`."""
    form = get8(bounds, N_FORM)
    if form == SMALL:
        key, _ = key_of_int(get4(bounds + 8 * N_MEMBERS, m) - SMALLEST)
        return key
    return get8(bounds, N_MEMBERS + (m if form == KEYS else 2 * m))


@part
def member_rest(bounds: Int, m: Int) -> Int:
    return get8(bounds, N_MEMBERS + 2 * m + 1) if get8(bounds, N_FORM) == PAIRS else 0


@part
def _hash_words(bounds: Int) -> Int:
    """Return the address of the bits for hashes."""
    words = (get8(bounds, N_COUNT) + 1) >> 1
    if get8(bounds, N_FORM) != SMALL:
        words = get8(bounds, N_COUNT) * get8(bounds, N_FORM)
    return bounds + 8 * (N_MEMBERS + words)


@part
def _hash(bounds: Int, key: Int) -> Int:
    return shifted_right(key * MIX, 64 - get8(bounds, N_HASH_BITS))


@part
def form_of(state: Int, at: Int, count: Int) -> Int:
    """Return the form for this many members."""
    value, form = get8(state, S_VALUE), SMALL
    for _ in range(count):
        at = read_value(at, value)
        if get8(value, V_REST) != 0:
            return PAIRS
        number = get8(value, V_BITS) + SMALLEST
        if not get8(value, V_WHOLE) or number < 0 or number >= 2 * SMALLEST:
            form = KEYS
    return form


@part
def read_members(state: Int, bounds: Int, at: Int) -> Int:
    """Read the members into their places, and return where they end."""
    value, form = get8(state, S_VALUE), get8(bounds, N_FORM)
    hashes = _hash_words(bounds)
    for m in range(get8(bounds, N_COUNT)):
        at = read_value(at, value)
        key = get8(value, V_KEY)
        if form == SMALL:
            put4(bounds + 8 * N_MEMBERS, m, get8(value, V_BITS) + SMALLEST)
        elif form == KEYS:
            put8(bounds, N_MEMBERS + m, key)
        else:
            put8(bounds, N_MEMBERS + 2 * m, key)
            put8(bounds, N_MEMBERS + 2 * m + 1, get8(value, V_REST))
        if get8(bounds, N_HASH_BITS) != 0:
            bit = _hash(bounds, key)
            put8(hashes, bit >> 6, get8(hashes, bit >> 6) | 1 << (bit & 63))
    return at


@part
def new_set(
    state: Int, low: Int, low_rest: Int, high: Int, high_rest: Int, mode: Int, count: Int, form: Int
) -> Int:
    hash_bits = 0
    if count >= FEWEST_HASHED:
        while 1 << hash_bits < 8 * count:
            hash_bits += 1
    words = (count + 1) >> 1 if form == SMALL else count * form
    size = 8 * (N_MEMBERS + words) + ((1 << hash_bits) >> 3)
    bounds = new_zeroed(state, size)
    put8(bounds, N_BYTES, size)
    put8(bounds, N_LOW, low)
    put8(bounds, N_LOW_REST, low_rest)
    put8(bounds, N_HIGH, high)
    put8(bounds, N_HIGH_REST, high_rest)
    put8(bounds, N_MODE, mode)
    put8(bounds, N_COUNT, count)
    put8(bounds, N_FORM, form)
    put8(bounds, N_HASH_BITS, hash_bits)
    return bounds


@part
def number_holds(bounds: Int, key: Int, rest: Int) -> bool:
    low, high = get8(bounds, N_LOW), get8(bounds, N_HIGH)
    if key < low or (key == low and rest < get8(bounds, N_LOW_REST)):
        return False
    if key > high or (key == high and rest > get8(bounds, N_HIGH_REST)):
        return False
    mode = get8(bounds, N_MODE)
    return bool(mode == 0 or _is_member(bounds, key, rest) == (mode > 0))


@part
def _is_member(bounds: Int, key: Int, rest: Int) -> bool:
    if get8(bounds, N_HASH_BITS) != 0:
        bit = _hash(bounds, key)
        if not (get8(_hash_words(bounds), bit >> 6) >> (bit & 63)) & 1:
            return False
    first, last = 0, get8(bounds, N_COUNT)
    while first < last:
        middle = (first + last) >> 1
        member, its_rest = member_key(bounds, middle), member_rest(bounds, middle)
        if member == key and its_rest == rest:
            return True
        if member < key or (member == key and its_rest < rest):
            first = middle + 1
        else:
            last = middle
    return False

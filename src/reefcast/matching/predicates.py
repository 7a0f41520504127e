"""Predicates: constraints of the normal form as the kernels check them.

Two kinds of predicates store their bounds elsewhere:

- `AMONG_NUMBERS`: numbers with several members or exclusions, or with bounds from 2^53 on; see
  `number_sets`.
- `AMONG_TEXTS`: strings. Words: bytes; lowest text or 0, and 1 if it is not inside; the same for
  the highest; mode; how many members; how many patterns; the members in the order of their
  addresses; the patterns."""

from __future__ import annotations

from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.number_sets import (
    KEYS,
    N_BYTES,
    N_LOW,
    N_LOW_REST,
    form_of,
    member_key,
    member_rest,
    new_set,
    number_holds,
    read_members,
)
from reefcast.matching.numbers import EXACT, INFINITY, key_of_float
from reefcast.matching.packed import (
    STRANGE,
    is_nil,
    read_array,
    read_bool,
    read_int,
    read_string,
    read_value,
)
from reefcast.matching.sorting import is_among, sort_words
from reefcast.matching.state import (
    FALSE,
    HIGHEST,
    LOWEST,
    MISSING,
    NUMBER,
    S_READ,
    S_VALUE,
    STRING,
    TRUE,
    V_KEY,
    V_KIND,
    V_REST,
    V_SIZE,
    V_START,
    give_back,
    new,
)
from reefcast.matching.texts import compare_text, leave_text, use_text
from reefcast.matching.wildcards import leave_pattern, pattern_holds, read_pattern

IN_RANGE, IS_TEXT, OF_KIND, AMONG_NUMBERS, AMONG_TEXTS = range(5)

X_BYTES, X_LOW, X_LOW_OPEN, X_HIGH, X_HIGH_OPEN, X_MODE, X_COUNT, X_PATTERNS, X_MEMBERS = range(9)

PRESENT = 1 << FALSE | 1 << TRUE | 1 << NUMBER | 1 << STRING
OF_NUMBERS, OF_STRINGS = 0, 1
"""`model.values.Kind`."""

R_KINDS, R_HOW, R_LOW, R_HIGH = range(4)
"""The words at S_READ into which a predicate is read."""


# --- tags -----------------------------------------------------------------------------------------

ATTRIBUTE_BITS, KIND_BITS = 23, 5
"""The parts of a tag, in this order: attribute, kinds, how to check it."""


@part
def tag_with(attribute: Int, kinds: Int, how: Int) -> Int:
    return attribute | kinds << ATTRIBUTE_BITS | how << (ATTRIBUTE_BITS + KIND_BITS)


@part
def attribute_of(tag: Int) -> Int:
    return tag & ((1 << ATTRIBUTE_BITS) - 1)


@part
def kinds_of(tag: Int) -> Int:
    return (tag >> ATTRIBUTE_BITS) & ((1 << KIND_BITS) - 1)


@part
def how_of(tag: Int) -> Int:
    return tag >> (ATTRIBUTE_BITS + KIND_BITS)


# --- reading --------------------------------------------------------------------------------------


@part
def _found(out: Int, kinds: Int, how: Int, low: Int, high: Int, end: Int) -> Int:
    put8(out, R_KINDS, kinds)
    put8(out, R_HOW, how)
    put8(out, R_LOW, low)
    put8(out, R_HIGH, high)
    return end


@unit
def skip(state: Int, at: Int, count: Int) -> Int:
    """Return where this many values end, lists of values among them."""
    value, left = get8(state, S_VALUE), count
    while left > 0:
        left -= 1
        end = read_value(at, value)
        if get8(value, V_KIND) == STRANGE:
            inner, end = read_array(at)
            left += inner
        at = end
    return at


@part
def _read_booleans(state: Int, at: Int, out: Int) -> Int:
    at = skip(state, at, 4)
    kinds = 1 << FALSE | 1 << TRUE
    if is_nil(at):
        at += 1
    else:
        count, at = read_array(at)
        kinds = 0
        for _ in range(count):
            kinds |= 1 << (FALSE + read_bool(at))
            at += 1
    return _found(out, kinds, OF_KIND, 0, 0, skip(state, at, 2))


# --- numbers --------------------------------------------------------------------------------------


@part
def in_reach(key: Int) -> bool:
    """Return whether a number with a rest may have a key this close."""
    size = key if key >= 0 else -1 - key
    return bool(size < key_of_float(float(EXACT)) or size >= INFINITY)


@part
def _key_at(state: Int, at: Int, none: Int) -> tuple[Int, Int, Int]:
    """Return (key, rest, where it ends) of a number, or `none` for nil."""
    value = get8(state, S_VALUE)
    end = read_value(at, value)
    if get8(value, V_KIND) == MISSING:
        return none, 0, end
    return get8(value, V_KEY), get8(value, V_REST), end


@unit
def _read_numbers(state: Int, at: Int, out: Int) -> Int:
    low, low_rest, at = _key_at(state, at, LOWEST)
    low_open = read_bool(at)
    high, high_rest, at = _key_at(state, at + 1, HIGHEST)
    high_open = read_bool(at)
    at += 1
    mode = -1 if is_nil(at) else 1
    if mode < 0:
        at += 1
    count, at = read_array(at)
    if mode > 0 and count == 1:
        key, rest, at = _key_at(state, at, 0)
        at = skip(state, at, 2)
        if in_reach(key):
            return _found(out, 1 << NUMBER, IN_RANGE, key, key, at)
        bounds = new_set(state, key, rest, key, rest, 0, 0, KEYS)
        return _found(out, 1 << NUMBER, AMONG_NUMBERS, bounds, 0, at)
    if mode < 0 and count == 0 and in_reach(low) and in_reach(high):
        at = skip(state, at, 1)
        return _found(out, 1 << NUMBER, IN_RANGE, low + low_open, high - high_open, at)
    mode = mode if count else 0
    form = form_of(state, at, count)
    bounds = new_set(
        state, low, low_rest + low_open, high, high_rest - high_open, mode, count, form
    )
    at = read_members(state, bounds, at)
    if mode > 0:
        for side in range(2):
            m = (count - 1) * side
            put8(bounds, N_LOW + 2 * side, member_key(bounds, m))
            put8(bounds, N_LOW_REST + 2 * side, member_rest(bounds, m))
    at = skip(state, at, 2 if mode > 0 else 1)
    return _found(out, 1 << NUMBER, AMONG_NUMBERS, bounds, 0, at)


# --- strings --------------------------------------------------------------------------------------


@part
def _read_text(state: Int, at: Int) -> tuple[Int, Int]:
    """Return (a text with one user more, or 0 for none, where it ends)."""
    if is_nil(at):
        return 0, at + 1
    start, size = read_string(at)
    return use_text(state, start, size), start + size


@unit
def _read_strings(state: Int, at: Int, out: Int) -> Int:
    low, at = _read_text(state, at)
    low_open = read_bool(at)
    high, at = _read_text(state, at + 1)
    high_open = read_bool(at)
    at += 1
    mode = -1 if is_nil(at) else 1
    if mode < 0:
        at += 1
    count, at = read_array(at)
    if mode > 0 and count == 1:
        text, at = _read_text(state, at)
        return _found(out, 1 << STRING, IS_TEXT, text, 0, skip(state, at, 2))
    members = at
    at = skip(state, at, count)
    if mode > 0:
        at = skip(state, at, 1)
    patterns, at = read_array(at)
    if low == 0 and high == 0 and count == 0 and patterns == 0:
        return _found(out, 1 << STRING, OF_KIND, 0, 0, at)
    size = 8 * (X_MEMBERS + count + patterns)
    bounds = new(state, size)
    put8(bounds, X_BYTES, size)
    put8(bounds, X_LOW, low)
    put8(bounds, X_LOW_OPEN, low_open)
    put8(bounds, X_HIGH, high)
    put8(bounds, X_HIGH_OPEN, high_open)
    put8(bounds, X_MODE, mode if count else 0)
    put8(bounds, X_COUNT, count)
    put8(bounds, X_PATTERNS, patterns)
    for i in range(count):
        text, members = _read_text(state, members)
        put8(bounds, X_MEMBERS + i, text)
    sort_words(bounds + 8 * X_MEMBERS, count, 0)
    for i in range(patterns):
        pattern, at = read_pattern(state, at)
        put8(bounds, X_MEMBERS + count + i, pattern)
    return _found(out, 1 << STRING, AMONG_TEXTS, bounds, 0, at)


@unit
def read_constraint(state: Int, at: Int) -> Int:
    """Read a packed `Constraint` into the words at S_READ; return where it ends."""
    out = state + 8 * S_READ
    _, at = read_array(at)
    if read_bool(at):
        return _found(out, 1 << MISSING, OF_KIND, 0, 0, skip(state, at + 1, 8))
    at += 1
    if is_nil(at):
        return _found(out, PRESENT, OF_KIND, 0, 0, skip(state, at, 8))
    kind, at = read_int(at)
    if kind == OF_NUMBERS:
        return _read_numbers(state, at, out)
    if kind == OF_STRINGS:
        return _read_strings(state, at, out)
    return _read_booleans(state, at, out)


@part
def _string_holds(state: Int, bounds: Int, text: Int, start: Int, size: Int) -> bool:
    mode, count = get8(bounds, X_MODE), get8(bounds, X_COUNT)
    if mode != 0 and is_among(bounds + 8 * X_MEMBERS, count, text) != (mode > 0):
        return False
    low, high = get8(bounds, X_LOW), get8(bounds, X_HIGH)
    if low != 0 and compare_text(start, size, low) < get8(bounds, X_LOW_OPEN):
        return False
    if high != 0 and compare_text(start, size, high) > -get8(bounds, X_HIGH_OPEN):
        return False
    for i in range(get8(bounds, X_PATTERNS)):
        if not pattern_holds(state, get8(bounds, X_MEMBERS + count + i), start, size):
            return False
    return True


# --- both -----------------------------------------------------------------------------------------


@unit
def value_holds(state: Int, how: Int, bounds: Int, value: Int) -> Int:
    """Return 1 if a value of the right kind satisfies bounds that are stored elsewhere."""
    if how == AMONG_NUMBERS:
        holds = number_holds(bounds, get8(value, V_KEY), get8(value, V_REST))
    else:
        start, size = get8(value, V_START), get8(value, V_SIZE)
        holds = _string_holds(state, bounds, get8(value, V_KEY), start, size)
    return 1 if holds else 0


@part
def is_satisfied(state: Int, how: Int, bounds: Int, value: Int) -> bool:
    """Return whether a value of the right kind is within the two bounds of a predicate."""
    if how == IN_RANGE:
        key = get8(value, V_KEY)
        return bool(key >= get8(bounds, 0) and key <= get8(bounds, 1))
    if how == IS_TEXT:
        return bool(get8(value, V_KEY) == get8(bounds, 0))
    return bool(how == OF_KIND or value_holds(state, how, get8(bounds, 0), value))


@unit
def leave_bounds(state: Int, how: Int, bound: Int) -> None:
    """Free what the bounds of a predicate hold."""
    if how == IS_TEXT:
        leave_text(state, bound)
    elif how == AMONG_NUMBERS:
        give_back(state, bound, get8(bound, N_BYTES))
    elif how == AMONG_TEXTS:
        for word in (X_LOW, X_HIGH):
            if get8(bound, word) != 0:
                leave_text(state, get8(bound, word))
        count = get8(bound, X_COUNT)
        for i in range(count):
            leave_text(state, get8(bound, X_MEMBERS + i))
        for i in range(get8(bound, X_PATTERNS)):
            leave_pattern(state, get8(bound, X_MEMBERS + count + i))
        give_back(state, bound, get8(bound, X_BYTES))

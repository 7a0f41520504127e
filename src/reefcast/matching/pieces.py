"""Pieces: substrings that a string must contain to match a pattern, for partitions by them.

`s LIKE '%abcdefghi%'` needs `abcdefgh` to be there, and 1 of 7 other runs of 8 bytes as well. A row
with such a pattern is in the partition of one of them, its *piece*, of 1, 2, 4 or 8 bytes. The
index looks at each position of an event's string once for each of these lengths, whatever the
number of patterns; at nearly all positions a table of counts by hash shows that no partition has
these bytes."""

from __future__ import annotations

from reefcast.matching.chains import MIX
from reefcast.matching.machine import (
    Int,
    get1,
    get4,
    get8,
    get8_anywhere,
    part,
    put1,
    put8,
    shifted_right,
)
from reefcast.matching.state import (
    A_PIECES,
    A_SPLIT,
    BY_PIECE,
    give_back,
    new_zeroed,
)
from reefcast.matching.wildcards import (
    ANY,
    LEVELS,
    SLASH,
    W_COUNT,
    W_TOKENS,
)

LENGTHS = 4
"""A piece of form k has 1 << k bytes."""

PIECE = -2
"""P_KIND of the partition of a piece of form k is PIECE - k; its key is the bytes of the piece."""

HASH_BITS = 14
TABLE_BYTES = 8 * LENGTHS + (1 << HASH_BITS)
"""The size of an attribute's table: the number of partitions of each form, then a byte for each
hash with the number of partitions that have it. A byte that reached MOST stays there."""

MOST = 255


@part
def piece_at(at: Int, form: Int, left: Int) -> Int:
    """Return the piece that begins here, with `left` bytes left, which are enough for it."""
    width = 1 << form
    if left >= 8:
        key = get8_anywhere(at, 0)
        return key if width == 8 else key & ((1 << (8 * width)) - 1)
    key = 0
    for i in range(width):
        key |= get1(at, i) << (8 * i)
    return key


@part
def may_have(table: Int, key: Int) -> Int:
    """Return 0 if no partition has the piece."""
    return get1(table + 8 * LENGTHS, shifted_right(key * MIX, 64 - HASH_BITS))


@part
def count_piece(state: Int, attribute: Int, form: Int, key: Int, change: Int) -> None:
    """Count one partition more, or less, of an attribute (by its address)."""
    if get8(attribute, A_PIECES) == 0:
        put8(attribute, A_PIECES, new_zeroed(state, TABLE_BYTES))
        put8(attribute, A_SPLIT, get8(attribute, A_SPLIT) | BY_PIECE)
    table = get8(attribute, A_PIECES)
    put8(table, form, get8(table, form) + change)
    count = may_have(table, key)
    if count < MOST:
        put1(table + 8 * LENGTHS, shifted_right(key * MIX, 64 - HASH_BITS), count + change)
    for k in range(LENGTHS):
        if get8(table, k) != 0:
            return
    put8(attribute, A_PIECES, 0)
    put8(attribute, A_SPLIT, get8(attribute, A_SPLIT) & ~BY_PIECE)
    give_back(state, table, TABLE_BYTES)


# --- of a pattern ---------------------------------------------------------------------------------


@part
def run_end(pattern: Int, first: Int) -> Int:
    """Return the end of the bytes from this token on that stand for themselves. A `/` before `#`
    does not: `a/#` matches `a`."""
    tokens, count = pattern + 8 * W_TOKENS, get8(pattern, W_COUNT)
    end = first
    while end < count and get4(tokens, end) < ANY:
        end += 1
    if (
        end > first
        and end < count
        and get4(tokens, end) == LEVELS
        and get4(tokens, end - 1) == SLASH
    ):
        return end - 1
    return end


@part
def longest_form(pattern: Int) -> Int:
    """Return the form of the pattern's longest pieces, or -1."""
    form, at, count = -1, 0, get8(pattern, W_COUNT)
    while at < count:
        end = run_end(pattern, at)
        while form + 1 < LENGTHS and end - at >= 1 << (form + 1):
            form += 1
        at = end + 1
    return form


@part
def piece_of(pattern: Int, first: Int, form: Int) -> Int:
    """Return the piece that begins at this token."""
    key = 0
    for i in range(1 << form):
        key |= get4(pattern + 8 * W_TOKENS, first + i) << (8 * i)
    return key

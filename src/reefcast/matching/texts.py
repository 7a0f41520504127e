"""Strings of the filters, each kept once: a *text*. Two strings are equal if their texts are one.

Names of attributes are texts too; such a text knows its attribute's number. The table is cut into
shards by hash, and each grows by itself, so that no growth takes long. A text lives as long as it
has users. `T_MEMO` and `T_RANK` remember where the last cuts put it (see `cuts`).
"""

from __future__ import annotations

from reefcast.matching.machine import (
    Int,
    compare_bytes,
    copy_bytes,
    get1,
    get8,
    get8_anywhere,
    part,
    put8,
    shifted_right,
    unit,
)
from reefcast.matching.state import (
    LAYOUT,
    S_LAYOUT,
    S_TEXTS,
    T_ATTRIBUTE,
    T_BYTES,
    T_HASH,
    T_MEMO,
    T_NEXT,
    T_SIZE,
    T_USERS,
    give_back,
    new,
    new_zeroed,
)

SHARDS, SHARD_WORDS = 256, 4
H_HEADS, H_ROOM, H_COUNT = 0, 1, 2
FIRST_ROOM = 4
MIX = -7046029254386353131
"""An odd number whose bits look random (2^64 divided by the golden ratio)."""


@part
def mixed(value: Int) -> Int:
    value = value * MIX
    return value ^ shifted_right(value, 32)


@part
def hash_of(start: Int, size: Int) -> Int:
    value = size
    whole = size & ~7
    for i in range(0, whole, 8):
        value = mixed(value ^ get8_anywhere(start + i, 0))
    rest = 0
    for i in range(whole, size):
        rest = (rest << 8) | get1(start, i)
    return mixed(mixed(value ^ rest))


@part
def head_of(shard: Int, hashed: Int) -> Int:
    """Where the chain starts that a text with this hash is in."""
    room = get8(shard, H_ROOM)
    return get8(shard, H_HEADS) + 8 * (shifted_right(hashed, 8) & (room - 1))


@part
def start_shards(state: Int, shards: Int) -> Int:
    """A table of so many shards, all empty."""
    table = new_zeroed(state, 8 * SHARD_WORDS * shards)
    for i in range(shards):
        shard = table + 8 * SHARD_WORDS * i
        put8(shard, H_ROOM, FIRST_ROOM)
        put8(shard, H_HEADS, new_zeroed(state, 8 * FIRST_ROOM))
    return table


@part
def shard_of(table: Int, hashed: Int, shards: Int) -> Int:
    return table + 8 * SHARD_WORDS * (hashed & (shards - 1))


@unit
def find_text(state: Int, start: Int, size: Int) -> Int:
    """The text of these bytes, or 0."""
    hashed = hash_of(start, size)
    text = get8(head_of(shard_of(get8(state, S_TEXTS), hashed, SHARDS), hashed), 0)
    while text != 0:
        if (
            get8(text, T_HASH) == hashed
            and get8(text, T_SIZE) == size
            and compare_bytes(text + 8 * T_BYTES, start, size) == 0
        ):
            return text
        text = get8(text, T_NEXT)
    return 0


@unit
def use_text(state: Int, start: Int, size: Int) -> Int:
    """The text of these bytes, made if need be, with one user more."""
    text = find_text(state, start, size)
    if text == 0:
        text = new(state, 8 * T_BYTES + size)
        hashed = hash_of(start, size)
        copy_bytes(text + 8 * T_BYTES, start, size)
        put8(text, T_HASH, hashed)
        put8(text, T_SIZE, size)
        put8(text, T_USERS, 0)
        put8(text, T_ATTRIBUTE, 0)
        put8(text, T_MEMO, 0)
        shard = shard_of(get8(state, S_TEXTS), hashed, SHARDS)
        put8(shard, H_COUNT, get8(shard, H_COUNT) + 1)
        if get8(shard, H_COUNT) > get8(shard, H_ROOM):
            _grow(state, shard)
        head = head_of(shard, hashed)
        put8(text, T_NEXT, get8(head, 0))
        put8(head, 0, text)
    put8(text, T_USERS, get8(text, T_USERS) + 1)
    return text


@part
def _grow(state: Int, shard: Int) -> None:
    heads, room = get8(shard, H_HEADS), get8(shard, H_ROOM)
    put8(shard, H_HEADS, new_zeroed(state, 16 * room))
    put8(shard, H_ROOM, 2 * room)
    for i in range(room):
        text = get8(heads, i)
        while text != 0:
            following = get8(text, T_NEXT)
            head = head_of(shard, get8(text, T_HASH))
            put8(text, T_NEXT, get8(head, 0))
            put8(head, 0, text)
            text = following
    give_back(state, heads, 8 * room)


@unit
def leave_text(state: Int, text: Int) -> None:
    """One user less; the last one takes the text along."""
    put8(text, T_USERS, get8(text, T_USERS) - 1)
    if get8(text, T_USERS) > 0:
        return
    hashed = get8(text, T_HASH)
    shard = shard_of(get8(state, S_TEXTS), hashed, SHARDS)
    put8(shard, H_COUNT, get8(shard, H_COUNT) - 1)
    place = head_of(shard, hashed)
    while get8(place, 0) != text:
        place = get8(place, 0)  # T_NEXT is a text's first word
    put8(place, 0, get8(text, T_NEXT))
    for i in range(LAYOUT):
        if get8(get8(state, S_LAYOUT), i) == text:
            put8(get8(state, S_LAYOUT), i, 0)
    give_back(state, text, 8 * T_BYTES + get8(text, T_SIZE))


@part
def compare_text(start: Int, size: Int, text: Int) -> Int:
    """Below, at or above 0, as these bytes are to the text: UTF-8 keeps the code points' order."""
    other = get8(text, T_SIZE)
    order = compare_bytes(start, text + 8 * T_BYTES, min(size, other))
    if order != 0:
        return int(order)
    return size - other


@part
def compare_texts(left: Int, right: Int) -> Int:
    if left == right:
        return 0
    return compare_text(left + 8 * T_BYTES, get8(left, T_SIZE), right)

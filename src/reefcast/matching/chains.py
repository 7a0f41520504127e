"""Hash tables of chained items, for texts and for partitions.

An item's first word is the next item of its chain, its second its hash. A table is cut into shards
by hash, and each grows by itself, so that no growth takes long. Hashes start from a number that
Python draws for the process (`S_SEED`), so that nobody can choose names or values that collide; the
order within a chain never shows.
"""

from __future__ import annotations

from reefcast.matching.machine import Int, get8, part, put8, release, shifted_right, unit
from reefcast.matching.state import give_back, new_zeroed

I_NEXT, I_HASH = 0, 1
SHARDS, SHARD_WORDS = 256, 3
H_HEADS, H_ROOM, H_COUNT = range(SHARD_WORDS)
FIRST_ROOM = 4
MIX = -7046029254386353131
"""An odd number whose bits look random (2^64 divided by the golden ratio)."""


@part
def mixed(value: Int) -> Int:
    value = value * MIX
    return value ^ shifted_right(value, 32)


@part
def new_table(state: Int) -> Int:
    table = new_zeroed(state, 8 * SHARD_WORDS * SHARDS)
    for i in range(SHARDS):
        shard = table + 8 * SHARD_WORDS * i
        put8(shard, H_ROOM, FIRST_ROOM)
        put8(shard, H_HEADS, new_zeroed(state, 8 * FIRST_ROOM))
    return table


@part
def _shard_of(table: Int, hashed: Int) -> Int:
    return table + 8 * SHARD_WORDS * (hashed & (SHARDS - 1))


@part
def _head_of(shard: Int, hashed: Int) -> Int:
    """Return the head of the chain for items with this hash."""
    room = get8(shard, H_ROOM)
    return get8(shard, H_HEADS) + 8 * (shifted_right(hashed, 8) & (room - 1))


@part
def first_of(table: Int, hashed: Int) -> Int:
    """Return the first item of the chain, or 0."""
    return get8(_head_of(_shard_of(table, hashed), hashed), 0)


@unit
def enter_item(state: Int, table: Int, item: Int) -> None:
    """Add an item to the table; its I_HASH must be set."""
    hashed = get8(item, I_HASH)
    shard = _shard_of(table, hashed)
    put8(shard, H_COUNT, get8(shard, H_COUNT) + 1)
    if get8(shard, H_COUNT) > get8(shard, H_ROOM):
        _grow(state, shard)
    _push(shard, item)


@part
def _push(shard: Int, item: Int) -> None:
    head = _head_of(shard, get8(item, I_HASH))
    put8(item, I_NEXT, get8(head, 0))
    put8(head, 0, item)


@part
def _grow(state: Int, shard: Int) -> None:
    heads, room = get8(shard, H_HEADS), get8(shard, H_ROOM)
    put8(shard, H_HEADS, new_zeroed(state, 16 * room))
    put8(shard, H_ROOM, 2 * room)
    for i in range(room):
        item = get8(heads, i)
        while item != 0:
            following = get8(item, I_NEXT)
            _push(shard, item)
            item = following
    give_back(state, heads, 8 * room)


@unit
def take_item(table: Int, item: Int) -> None:
    """Remove an item from the table."""
    hashed = get8(item, I_HASH)
    shard = _shard_of(table, hashed)
    put8(shard, H_COUNT, get8(shard, H_COUNT) - 1)
    place = _head_of(shard, hashed)
    while get8(place, 0) != item:
        place = get8(place, 0)  # I_NEXT is an item's first word
    put8(place, 0, get8(item, I_NEXT))


@part
def first_at(table: Int, shard: Int, chain: Int) -> Int:
    """Return the first item of the shard's chain of this number, -1 if there are fewer chains."""
    at = table + 8 * SHARD_WORDS * shard
    if chain >= get8(at, H_ROOM):
        return -1
    return get8(get8(at, H_HEADS), chain)


@part
def leave_table(table: Int) -> None:
    """Free the table, not its items."""
    for i in range(SHARDS):
        release(get8(table + 8 * SHARD_WORDS * i, H_HEADS))
    release(table)

"""Strings of the filters, each kept once: a *text*. Two strings are equal if their texts are one.

Names of attributes are texts too; such a text knows its attribute's number. A text lives as long as
it has users. `T_MEMO` and `T_RANK` remember its rank in the last cuts (see `cuts`)."""

from __future__ import annotations

from reefcast.matching.chains import enter_item, first_of, mixed, take_item
from reefcast.matching.machine import (
    Int,
    compare_bytes,
    copy_bytes,
    get1,
    get8,
    get8_anywhere,
    part,
    put8,
    unit,
)
from reefcast.matching.state import (
    S_SEED,
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
)


@part
def hash_of(state: Int, start: Int, size: Int) -> Int:
    value = get8(state, S_SEED) ^ size
    whole = size & ~7
    for i in range(0, whole, 8):
        value = mixed(value ^ get8_anywhere(start + i, 0))
    rest = 0
    for i in range(whole, size):
        rest = (rest << 8) | get1(start, i)
    return mixed(mixed(value ^ rest))


@unit
def find_text(state: Int, start: Int, size: Int) -> Int:
    """Return the text of these bytes, or 0."""
    hashed = hash_of(state, start, size)
    text = first_of(get8(state, S_TEXTS), hashed)
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
    """Return the text of these bytes, created if needed, with one more user."""
    text = find_text(state, start, size)
    if text == 0:
        text = new(state, 8 * T_BYTES + size)
        copy_bytes(text + 8 * T_BYTES, start, size)
        put8(text, T_HASH, hash_of(state, start, size))
        put8(text, T_SIZE, size)
        put8(text, T_USERS, 0)
        put8(text, T_ATTRIBUTE, 0)
        put8(text, T_MEMO, 0)
        enter_item(state, get8(state, S_TEXTS), text)
    put8(text, T_USERS, get8(text, T_USERS) + 1)
    return text


@unit
def leave_text(state: Int, text: Int) -> None:
    """Count one user less; the last one frees the text."""
    put8(text, T_USERS, get8(text, T_USERS) - 1)
    if get8(text, T_USERS) > 0:
        return
    take_item(get8(state, S_TEXTS), text)
    give_back(state, text, 8 * T_BYTES + get8(text, T_SIZE))


@part
def compare_text(start: Int, size: Int, text: Int) -> Int:
    """Return a number below, at or above 0, as these bytes are less than, equal to or greater than
    the text: UTF-8 keeps the order of code points."""
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

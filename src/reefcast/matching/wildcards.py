"""Patterns on strings, compiled: LIKE, and MATCHES with the wildcards of MQTT.

`model.patterns`, their twin, defines their meaning. A pattern is a list of tokens, 4 bytes each: a
byte of UTF-8, or a wildcard. Behind them are the lowest bytes of all tokens, side by side."""

from __future__ import annotations

from reefcast.matching.grams import GRAM_BYTES, LONG, lacks
from reefcast.matching.machine import (
    Int,
    find_bytes,
    get1,
    get4,
    get8,
    part,
    put1,
    put4,
    put8,
)
from reefcast.matching.packed import read_array, read_bool, read_string
from reefcast.matching.state import give_back, new

W_BYTES, W_TOPIC, W_NEGATED, W_COUNT, W_LAST, W_TOKENS = range(6)
"""W_LAST: the number of the last `%`, or -1."""

ANY, ONE, LEVEL, LEVELS = range(256, 260)
"""`%`, `_`, `+` and `#`."""

PERCENT, UNDERSCORE, PLUS, HASH, SLASH, DOLLAR = 37, 95, 43, 35, 47, 36
L = 76


@part
def read_pattern(state: Int, at: Int) -> tuple[Int, Int]:
    """Return (the pattern, where it ends) of a packed `model.constraint.Pattern`."""
    _, at = read_array(at)
    operator, size = read_string(at)
    topic = 0 if get1(operator, 0) == L else 1
    start, size = read_string(operator + size)
    escape, escape_size = read_string(start + size)
    end = escape + escape_size
    room = 8 * W_TOKENS + 5 * (size + 1)
    pattern = new(state, room)
    put8(pattern, W_BYTES, room)
    put8(pattern, W_TOPIC, topic)
    put8(pattern, W_NEGATED, read_bool(end))
    tokens = pattern + 8 * W_TOKENS
    if topic:
        count = _topic_tokens(tokens, start, size)
    else:
        count = _like_tokens(tokens, start, size, escape, escape_size)
    for token in range(count):
        put1(tokens + 4 * count, token, get4(tokens, token))
    put8(pattern, W_COUNT, count)
    put8(pattern, W_LAST, _last_any(tokens, count))
    return pattern, end + 1


@part
def _last_any(tokens: Int, count: Int) -> Int:
    last = count - 1
    while last >= 0 and get4(tokens, last) != ANY:
        last -= 1
    return last


@part
def leave_pattern(state: Int, pattern: Int) -> None:
    give_back(state, pattern, get8(pattern, W_BYTES))


@part
def _topic_tokens(tokens: Int, start: Int, size: Int) -> Int:
    for i in range(size):
        byte = get1(start, i)
        put4(tokens, i, LEVEL if byte == PLUS else LEVELS if byte == HASH else byte)
    return size


@part
def _begins(start: Int, size: Int, other: Int, other_size: Int) -> bool:
    """Return whether the bytes at `start` begin with the others, of which there is at least one."""
    if other_size == 0 or size < other_size:
        return False
    for i in range(other_size):
        if get1(start, i) != get1(other, i):
            return False
    return True


@part
def _like_tokens(tokens: Int, start: Int, size: Int, escape: Int, escape_size: Int) -> Int:
    count = i = 0
    while i < size:
        if _begins(start + i, size - i, escape, escape_size):
            i += escape_size
            length = _character(start, i, size)  # the character that it escapes
            for k in range(length):
                put4(tokens, count + k, get1(start, i + k))
            count += length
            i += length
            continue
        byte = get1(start, i)
        put4(tokens, count, ANY if byte == PERCENT else ONE if byte == UNDERSCORE else byte)
        count += 1
        i += 1
    return count


@part
def _character(start: Int, i: Int, size: Int) -> Int:
    """Return how many bytes the character at byte i has."""
    length = 1
    while i + length < size and get1(start, i + length) & 0xC0 == 0x80:
        length += 1
    return length


@part
def pattern_holds(state: Int, pattern: Int, start: Int, size: Int) -> bool:
    tokens, count = pattern + 8 * W_TOKENS, get8(pattern, W_COUNT)
    if get8(pattern, W_TOPIC):
        found = _is_topic_match(tokens, count, start, size)
    else:
        found = _is_like(state, tokens, count, get8(pattern, W_LAST), start, size)
    return bool(found != (get8(pattern, W_NEGATED) != 0))


@part
def _ends(tokens: Int, first: Int, count: Int, start: Int, i: Int, size: Int) -> bool:
    """Return whether the tokens from the first on, none a `%`, match the end of the bytes from byte
    i on."""
    for token in range(count - 1, first - 1, -1):
        if size <= i:
            return False
        size -= 1
        wanted = get4(tokens, token)
        if wanted == ONE:
            while size > i and get1(start, size) & 0xC0 == 0x80:
                size -= 1
        elif wanted != get1(start, size):
            return False
    return True


@part
def _wildcard(tokens: Int, token: Int) -> Int:
    """Return the first wildcard from this token on; there must be one."""
    while get4(tokens, token) < ANY:
        token += 1
    return token


@part
def _is_like(state: Int, tokens: Int, count: Int, last: Int, start: Int, size: Int) -> bool:
    """Match LIKE. The tokens between two `%` are matched at their first place: no other place could
    do better. Those after the last `%` have only one place, the end. The C library finds plain
    bytes."""
    i = token = back = 0
    star = -1
    while i < size:
        wanted = get4(tokens, token) if token < count else -1
        if wanted == ANY:
            if token == last:
                return _ends(tokens, token + 1, count, start, i, size)
            following = _wildcard(tokens, token + 1)
            if get4(tokens, following) == ANY:
                width, needle = following - token - 1, tokens + 4 * count + token + 1
                if (
                    size >= LONG
                    and width >= GRAM_BYTES
                    and lacks(state, start, size, needle, width)
                ):
                    return False
                found = find_bytes(start + i, size - i, needle, width)
                if found == 0:
                    return False
                i, token = found - start + width, following
                continue
            star, back = token, i
            token += 1
        elif wanted == ONE:
            i += _character(start, i, size)
            token += 1
        elif wanted == get1(start, i):
            i += 1
            token += 1
        elif star >= 0:
            back += _character(start, back, size)
            i, token = back, star + 1
        else:
            return False
    while token < count and get4(tokens, token) == ANY:
        token += 1
    return bool(token == count)


@part
def _is_topic_match(tokens: Int, count: Int, start: Int, size: Int) -> bool:
    if get4(tokens, 0) >= ANY and size > 0 and get1(start, 0) == DOLLAR:
        return False
    i = 0
    for token in range(count):
        wanted = get4(tokens, token)
        if wanted == LEVELS:
            return True
        if wanted == LEVEL:
            while i < size and get1(start, i) != SLASH:
                i += 1
        elif i < size and get1(start, i) == wanted:
            i += 1
        else:  # `a/#` matches `a`
            parent = i == size and wanted == SLASH and token == count - 2
            return bool(parent and get4(tokens, count - 1) == LEVELS)
    return bool(i == size)

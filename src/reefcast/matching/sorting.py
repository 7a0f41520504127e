"""Sorting words in place, as numbers or as texts. Heap sort: small, without a worst case."""

from __future__ import annotations

from reefcast.matching.machine import Int, get8, part, put8, unit
from reefcast.matching.texts import compare_texts


@part
def is_less(left: Int, right: Int, as_texts: Int) -> bool:
    if as_texts:
        return bool(compare_texts(left, right) < 0)
    return bool(left < right)


@part
def _sink(words: Int, start: Int, end: Int, as_texts: Int) -> None:
    value = get8(words, start)
    root = start
    while 2 * root + 1 < end:
        child = 2 * root + 1
        if child + 1 < end and is_less(get8(words, child), get8(words, child + 1), as_texts):
            child += 1
        if not is_less(value, get8(words, child), as_texts):
            break
        put8(words, root, get8(words, child))
        root = child
    put8(words, root, value)


@unit
def sort_words(words: Int, count: Int, as_texts: Int) -> None:
    """Sort the words, ascending."""
    for i in range(count // 2 - 1, -1, -1):
        _sink(words, i, count, as_texts)
    for end in range(count - 1, 0, -1):
        last = get8(words, end)
        put8(words, end, get8(words, 0))
        put8(words, 0, last)
        _sink(words, 0, end, as_texts)


@part
def distinct(words: Int, count: Int) -> Int:
    """Keep one of each of the sorted words; return how many are left."""
    kept = 0
    for i in range(count):
        if kept == 0 or get8(words, i) != get8(words, kept - 1):
            put8(words, kept, get8(words, i))
            kept += 1
    return kept


@part
def is_among(words: Int, count: Int, value: Int) -> bool:
    """Return whether one of the ascending words is `value`."""
    low, high = 0, count
    while low < high:
        middle = (low + high) >> 1
        if get8(words, middle) < value:
            low = middle + 1
        else:
            high = middle
    return bool(low < count and get8(words, low) == value)


@part
def quantiles(words: Int, count: Int, limit: Int, as_texts: Int) -> Int:
    """Sort the words and keep at most `limit` different ones, as evenly as possible; return how
    many."""
    sort_words(words, count, as_texts)
    different = 0
    for i in range(count):
        if i == 0 or get8(words, i) != get8(words, i - 1):
            different += 1
    if different > limit:
        for i in range(limit):  # never writes beyond what it has read
            put8(words, i, get8(words, i * (count - 1) // (limit - 1)))
        count = limit
    return distinct(words, count)

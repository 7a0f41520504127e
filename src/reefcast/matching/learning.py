"""Learning which attributes partition the rows, from a sample of rows that no partition has yet."""

from __future__ import annotations

from reefcast.matching.cutting import predicate_on
from reefcast.matching.machine import Int, get8, part, put8
from reefcast.matching.predicates import IN_RANGE, IS_TEXT
from reefcast.matching.rows import attribute_at, attribute_of, bounds_of, count_of, how_of, tag_of
from reefcast.matching.sorting import distinct, sort_words
from reefcast.matching.state import A_COUNT, A_SPLIT, BY_PRESENCE, BY_VALUE

FEWEST_VALUES = 16
FEW_ROWS = 32
"""An attribute that less than 1 in so many rows knows partitions by its presence."""


@part
def is_equality(row: Int, i: Int) -> bool:
    """Return whether predicate i of the row demands one value."""
    how, bounds = how_of(tag_of(row, i)), bounds_of(count_of(row)) + 2 * i
    if how == IS_TEXT:
        return True
    return bool(how == IN_RANGE and get8(row, bounds) == get8(row, bounds + 1))


@part
def learn_values(state: Int, attribute: Int, rows: Int, count: Int, values: Int) -> bool:
    """Return whether the attribute partitions from now on: enough rows compare it with enough
    values."""
    at = attribute_at(state, attribute)
    if get8(at, A_SPLIT) & BY_VALUE:
        return False
    found = 0
    for r in range(count):
        row = get8(rows, r)
        i = predicate_on(row, attribute)
        if i >= 0 and is_equality(row, i):
            put8(values, found, get8(row, bounds_of(count_of(row)) + 2 * i))
            found += 1
    if 8 * found < count:
        return False
    sort_words(values, found, 0)
    if distinct(values, found) < FEWEST_VALUES:
        return False
    put8(at, A_SPLIT, get8(at, A_SPLIT) | BY_VALUE)
    return True


@part
def learn_rare(state: Int, rows: Int, count: Int) -> bool:
    """Let attributes that few of the rows know partition by their presence."""
    for r in range(count):
        row = get8(rows, r)
        for i in range(count_of(row)):
            at = attribute_at(state, attribute_of(tag_of(row, i)))
            put8(at, A_COUNT, get8(at, A_COUNT) + 1)
    learned = False
    for r in range(count):
        row = get8(rows, r)
        for i in range(count_of(row)):
            at = attribute_at(state, attribute_of(tag_of(row, i)))
            if 0 < get8(at, A_COUNT) * FEW_ROWS < count and not get8(at, A_SPLIT) & BY_PRESENCE:
                put8(at, A_SPLIT, get8(at, A_SPLIT) | BY_PRESENCE)
                learned = True
            put8(at, A_COUNT, 0)
    return learned

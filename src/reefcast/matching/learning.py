"""Learning which attributes partition the rows, from a sample of rows in no partition."""

from __future__ import annotations

from reefcast.matching.attributes import attribute_at
from reefcast.matching.machine import Int, get8, part, put8
from reefcast.matching.predicates import IN_RANGE, IS_TEXT, attribute_of, how_of
from reefcast.matching.rows import (
    bounds_of,
    count_of,
    tag_of,
)
from reefcast.matching.sorting import distinct, sort_words
from reefcast.matching.state import A_COUNT, A_SPLIT, BY_PRESENCE, BY_VALUE

FEWEST_VALUES = 16
FEW_ROWS = 32
"""An attribute that less than 1 in this many rows constrains partitions by its presence."""


@part
def _predicate_on(row: Int, attribute: Int) -> Int:
    """Return the number of the row's predicate on the attribute, or -1."""
    for i in range(count_of(row)):
        if attribute_of(tag_of(row, i)) == attribute:
            return i
    return -1


@part
def is_equality(row: Int, i: Int) -> bool:
    """Return whether predicate i of the row requires one value."""
    how, bounds = how_of(tag_of(row, i)), bounds_of(count_of(row)) + 2 * i
    if how == IS_TEXT:
        return True
    return bool(how == IN_RANGE and get8(row, bounds) == get8(row, bounds + 1))


@part
def count_equalities(state: Int, rows: Int, count: Int, change: Int) -> None:
    """Add to A_COUNT of each attribute how many rows require one value of it, times `change`."""
    for r in range(count):
        row = get8(rows, r)
        for i in range(count_of(row)):
            if is_equality(row, i):
                at = attribute_at(state, attribute_of(tag_of(row, i)))
                put8(at, A_COUNT, get8(at, A_COUNT) + change)


@part
def learn_values(state: Int, attribute: Int, rows: Int, count: Int, values: Int) -> bool:
    """Return whether the attribute partitions from now on: enough rows, as `count_equalities`
    says, compare it with enough values."""
    at = attribute_at(state, attribute)
    if get8(at, A_SPLIT) & BY_VALUE or 8 * get8(at, A_COUNT) < count:
        return False
    found = 0
    for r in range(count):
        row = get8(rows, r)
        i = _predicate_on(row, attribute)
        if i >= 0 and is_equality(row, i):
            put8(values, found, get8(row, bounds_of(count_of(row)) + 2 * i))
            found += 1
    sort_words(values, found, 0)
    if distinct(values, found) < FEWEST_VALUES:
        return False
    put8(at, A_SPLIT, get8(at, A_SPLIT) | BY_VALUE)
    return True


@part
def learn_rare(state: Int, rows: Int, count: Int) -> bool:
    """Let attributes that few of the rows constrain partition by their presence."""
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

"""The order of the rows in a block: rows that answer the same queries are neighbours.

Bitmaps are read 512 rows at a time, and a group is finished when no bit is left. So a full block is
sorted by the attribute that distinguishes most rows: one for which most of them require a value,
else the most frequent one."""

from __future__ import annotations

import numpy as np

from reefcast.matching.cover.layout import HALF
from reefcast.matching.machine import Array

SAMPLE = 256


def row_order(records: Array, counts: Array) -> Array:
    """Return the numbers of all rows in the order for a block; `counts` says how many of the
    records each row has."""
    attributes = records[:, 3] & HALF
    if not len(attributes):
        return np.arange(len(counts))
    own = np.flatnonzero(attributes == _telling(records, attributes, len(counts)))
    rows = np.repeat(np.arange(len(counts)), counts)[own]
    keys = np.full(len(counts), np.iinfo(np.int64).max)
    keys[rows] = records[own, 0]
    return np.argsort(keys, kind="stable")


def _telling(records: Array, attributes: Array, rows: int) -> int:
    """Return the number of the attribute to sort by."""
    rests = records[:, 2]
    one_value = (records[:, 0] == records[:, 1]) & (rests & HALF == rests >> 32)
    equals = np.bincount(attributes[one_value], minlength=1)
    candidates = np.flatnonzero(2 * equals >= rows).tolist()
    if not candidates:
        return int(np.bincount(attributes).argmax())

    def values(attribute: int) -> int:
        own = np.flatnonzero(attributes == attribute)[:SAMPLE]
        return len(np.unique(records[own, 0]))

    return max(candidates, key=values)

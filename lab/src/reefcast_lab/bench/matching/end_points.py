"""Two baselines that look at the end points of intervals: counting and REIN, compiled.

Both keep, for each numeric attribute, the lower ends of the rows' intervals and the upper ends, in
buckets of equal size by value; inside a bucket rows ascend, so that what is written for a bucket
goes through memory in one direction. For each string of each attribute they keep the rows that take
it. Each row has a byte. For an event:

- *Counting* (Yan and Garcia-Molina; SIENA) begins with the number of ends and string predicates of
  the row and takes one off for each that the event satisfies.
- *REIN* (Qian et al., INFOCOM 2014) goes the other way: it sets the highest bit of the rows whose
  interval the event misses. Strings, which REIN has not, are counted off as above.

Rows whose byte is 0 in the end match; they are found eight at a time. Built once for all rows: what
adding and removing costs is not compared. All values are there in every event.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from reefcast.errors import LocalError
from reefcast.matching.kernel_cache import njit
from reefcast_lab.bench.matching.table import Array, Table

_BUCKET = 64
"""The least number of rows in a bucket, unless there would be more than `_MOST_BUCKETS`."""
_MOST_BUCKETS = 1024
_MISSED = 0x80
_MOST_PREDICATES = 127


class Layout(NamedTuple):
    """What the kernels read. List 2 a holds the lower ends of numeric attribute a, list 2 a + 1 the
    upper ones."""

    values: Array  # float64: ends, by list and bucket
    rows: Array  # int32: the row of each
    lists: Array  # int64 (lists + 1,): where the buckets of each start in `firsts` and `starts`
    firsts: Array  # float64: the least value of each bucket
    starts: Array  # int64: where each bucket starts in `values`; one more at the end
    takers: Array  # int32: rows, by string attribute and code
    code_starts: Array  # int64 (codes of all attributes + 1,): where they start
    codes: Array  # int64 (string attributes,): where those of each start in `code_starts`
    template: Array  # uint8 (rows, up to a multiple of 8): bytes to begin with; 255 beyond the rows
    left: Array  # uint8, as `template`: room for the event at hand


def layout(table: Table, counts_ends: bool) -> Layout:
    ends = [column for name in table.low for column in (table.low[name], table.high[name])]
    lists = [_buckets(column) for column in ends]
    takers = [_takers(table.members[n], len(table.vocabulary[n])) for n in table.members]
    template = np.full((len(table) + 7) // 8 * 8, 255, np.uint8)
    demands: Array = np.zeros(len(table), np.int64)
    for members in table.members.values():
        demands += members[:, 0] >= 0
    for column in ends if counts_ends else []:
        demands += np.isfinite(column)
    if demands.max(initial=0) > _MOST_PREDICATES:
        raise LocalError(f"a row has more than {_MOST_PREDICATES} predicates; use fewer")
    template[: len(table)] = demands
    return Layout(
        _joined([values for values, _, _ in lists], np.float64),
        _joined([rows for _, rows, _ in lists], np.int32),
        _ends([len(starts) for _, _, starts in lists]),
        _joined([values[starts] for values, _, starts in lists], np.float64),
        _shifted([starts for _, _, starts in lists], [len(values) for values, _, _ in lists]),
        _joined([rows for rows, _ in takers], np.int32),
        _shifted([starts for _, starts in takers], [len(rows) for rows, _ in takers]),
        _ends([len(starts) for _, starts in takers])[:-1],
        template,
        np.empty_like(template),
    )


def _buckets(column: Array) -> tuple[Array, Array, Array]:
    """Return (values, rows, starts of the buckets) of the finite ends. The first value of a bucket
    is its least, after which rows ascend."""
    rows = np.flatnonzero(np.isfinite(column))
    rows = rows[np.argsort(column[rows], kind="stable")]
    count = min(_MOST_BUCKETS, -(-len(rows) // _BUCKET))
    bounds = np.arange(count + 1) * len(rows) // max(count, 1)
    for start, end in pairwise(bounds):
        rows[start + 1 : end].sort()
    return column[rows], rows.astype(np.int32), bounds[:-1]


def _takers(members: Array, codes: int) -> tuple[Array, Array]:
    """Return (rows, starts of each code); rows ascend for each code."""
    row, column = np.nonzero(members >= 0)
    code = members[row, column]
    order = np.argsort(code, kind="stable")
    return row[order].astype(np.int32), np.searchsorted(code[order], np.arange(codes))


def _joined(parts: Sequence[Array], type: Any) -> Array:
    return np.concatenate([np.empty(0, type), *parts]).astype(type)


def _ends(lengths: Sequence[int]) -> Array:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)]).astype(np.int64)


def _shifted(starts: Sequence[Array], lengths: Sequence[int]) -> Array:
    """Return the places in each part as places in all parts joined, and the end of all."""
    offsets = _ends(lengths)
    parts = [part + offset for part, offset in zip(starts, offsets[:-1], strict=True)]
    return _joined([*parts, offsets[-1:]], np.int64)


@njit(cache=True)
def _last_bucket(firsts: Array, start: int, end: int, value: float, strictly: bool) -> int:
    """Return the last bucket whose least value is at most (strictly: below) `value`; `start` - 1 if
    there is none."""
    while start < end:
        middle = (start + end) >> 1
        if firsts[middle] < value or (not strictly and firsts[middle] == value):
            start = middle + 1
        else:
            end = middle
    return start - 1


@njit(cache=True)
def _parts(at: Layout, list_: int, value: float) -> tuple[int, int, int, int]:
    """Return where the list starts, where the bucket of `value` starts and ends, and where the list
    ends. Only in that bucket must each end be compared."""
    first, end = at.lists[list_], at.lists[list_ + 1]
    bucket = _last_bucket(at.firsts, first, end, value, list_ % 2 != 0)
    middle = at.starts[max(bucket, first)]
    return at.starts[first], middle, at.starts[bucket + 1], at.starts[end]


@njit(cache=True)
def _count_off(at: Layout, list_: int, value: float) -> None:
    """Subtract one for each row of which `value` satisfies an end."""
    first, middle, beyond, end = _parts(at, list_, value)
    if list_ % 2 == 0:
        for i in range(first, middle):
            at.left[at.rows[i]] -= 1
        for i in range(middle, beyond):
            at.left[at.rows[i]] -= at.values[i] <= value
    else:
        for i in range(middle, beyond):
            at.left[at.rows[i]] -= at.values[i] >= value
        for i in range(beyond, end):
            at.left[at.rows[i]] -= 1


@njit(cache=True)
def _mark_missed(at: Layout, list_: int, value: float) -> None:
    """Mark each row of which `value` does not satisfy an end."""
    first, middle, beyond, end = _parts(at, list_, value)
    if list_ % 2 == 0:
        for i in range(middle, beyond):
            at.left[at.rows[i]] |= _MISSED * (at.values[i] > value)
        for i in range(beyond, end):
            at.left[at.rows[i]] |= _MISSED
    else:
        for i in range(first, middle):
            at.left[at.rows[i]] |= _MISSED
        for i in range(middle, beyond):
            at.left[at.rows[i]] |= _MISSED * (at.values[i] < value)


@njit(cache=True)
def _count_strings(at: Layout, codes: Array) -> None:
    for attribute, code in enumerate(codes):
        if code >= 0:
            place = at.codes[attribute] + code
            for i in range(at.code_starts[place], at.code_starts[place + 1]):
                at.left[at.takers[i]] -= 1


@njit(cache=True)
def _zeros(left: Array, out: Array, found: int) -> int:
    """Append the places of the bytes that are 0 to `out`; return the new count, or -1 if there is
    no room."""
    words = left.view(np.uint64)
    for i in range(len(words)):
        word = words[i]
        if (word - np.uint64(0x0101010101010101)) & ~word & np.uint64(0x8080808080808080):
            if found + 8 > len(out):
                return -1
            for j in range(8 * i, 8 * i + 8):
                out[found] = j
                found += left[j] == 0
    return found


@njit(cache=True)
def run(
    at: Layout, counting: bool, numbers: Array, codes: Array, offsets: Array, out: Array
) -> bool:
    """Match events: `numbers` float64 (events, numeric attributes), `codes` int64 (events, string
    attributes), -1 for a string that no row names. Writes rows into `out`, and where those of each
    event start into `offsets`; False if `out` is too small."""
    found = 0
    for event in range(len(numbers)):
        at.left[:] = at.template
        for list_ in range(len(at.lists) - 1):
            value = numbers[event, list_ >> 1]
            if counting:
                _count_off(at, list_, value)
            else:
                _mark_missed(at, list_, value)
        _count_strings(at, codes[event])
        found = _zeros(at.left, out, found)
        if found < 0:
            return False
        offsets[event + 1] = found
    return True

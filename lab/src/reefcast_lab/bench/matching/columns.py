"""The baseline of plain numpy: columns of bounds, partitioned by the most selective equality.

A row that names strings goes into the partition of its string, of the attribute with the most
different strings; a row that allows several goes in once for each, and as an event has one of them,
at most one copy matches. The other strings are numbers here, their codes, and bounds like the rest.
Inside a partition rows ascend by the lower bound of one attribute, so that a binary search leaves
out those that begin too high. Partitions of one attribute lie behind one another in its columns.

An event looks up its partitions, compares, and takes the places that are left with `nonzero`.
Batches compare all pairs of an event and a row of its partition in one go, where partitions are
small, and small tables as a whole. Built once; what adding and removing costs is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from reefcast.model.publication import Publication
from reefcast_lab.bench.matching.table import Array, Table

_SMALL = 2048
"""Up to how many rows all bounds of a partition are compared in one call."""
_BLOCK = 1 << 15
"""How many pairs of event and row are compared at once: they stay in the cache."""
_FEW = 16
"""When less than one row of this many is left, only the rows that are left are compared further."""
_NOWHERE = -1
"""The code of a string that no row names, and of a missing string; it has no partition."""


@dataclass(frozen=True, slots=True)
class Group:
    """The partitions of one attribute, by code. `used`: which of all attributes have bounds,
    int64 (attributes,); `low`, `high`: theirs, float64 (attributes, copies); `rows`: int64
    (copies,); those of code c are `starts[c]` to `starts[c + 1]`, where the first attribute's `low`
    ascends."""

    key: int
    used: Array
    low: Array
    high: Array
    rows: Array
    starts: Array

    def match(self, values: Array, code: int) -> Array:
        """Return the rows of a partition that hold for these values of all attributes."""
        start, end = self.starts[code : code + 2].tolist()
        if start == end or not len(self.used):
            return self.rows[start:end]
        mine = values[self.used]
        end = start + int(self.low[0, start:end].searchsorted(mine[0], "right"))
        if end - start > _SMALL:
            return self._match_many(mine, start, end)
        column = mine[:, None]
        held = (self.low[1:, start:end] <= column[1:]).all(axis=0)
        held &= (self.high[:, start:end] >= column).all(axis=0)
        return self.rows[start:end][np.flatnonzero(held)]

    def _match_many(self, mine: Array, start: int, end: int) -> Array:
        """Match one event; compare one attribute after the other, so that the arrays stay small."""
        held = self.high[0, start:end] >= mine[0]
        room = np.empty(end - start, bool)
        for i in range(1, len(mine)):
            held &= np.less_equal(self.low[i, start:end], mine[i], out=room)
            held &= np.greater_equal(self.high[i, start:end], mine[i], out=room)
            if np.count_nonzero(held) * _FEW < end - start:
                return self._match_few(mine, i + 1, start + np.flatnonzero(held))
        return self.rows[start:end][np.flatnonzero(held)]

    def _match_few(self, mine: Array, first: int, left: Array) -> Array:
        for i in range(first, len(mine)):
            left = left[(self.low[i, left] <= mine[i]) & (self.high[i, left] >= mine[i])]
        return self.rows[left]

    def match_events(self, values: Array, codes: Array) -> Iterator[tuple[Array, Array]]:
        """Yield (events, their rows), both int64, with events ascending from pair to pair."""
        counts = np.where(codes >= 0, self.starts[codes + 1] - self.starts[codes], 0)
        if counts.max(initial=0) > _SMALL:
            for event in np.flatnonzero(counts).tolist():
                rows = self.match(values[event], int(codes[event]))
                yield np.full(len(rows), event), rows
            return
        mine = values[:, self.used]
        bounds = np.searchsorted(np.cumsum(counts) // _BLOCK, np.arange(counts.sum() // _BLOCK + 2))
        for chunk in map(slice, bounds[:-1].tolist(), bounds[1:].tolist()):
            if self.key < 0:
                yield self._match_block(mine, chunk)
            else:
                yield self._match_pairs(mine, codes, counts, chunk)

    def _match_block(self, mine: Array, chunk: slice) -> tuple[Array, Array]:
        """Match a chunk of events with the partition that they share."""
        held = np.ones((chunk.stop - chunk.start, len(self.rows)), bool)
        for i in range(len(self.used)):
            value = mine[chunk, i, None]
            held &= self.low[i] <= value
            held &= self.high[i] >= value
        event, place = held.nonzero()
        return event + chunk.start, self.rows[place]

    def _match_pairs(
        self, mine: Array, codes: Array, counts: Array, chunk: slice
    ) -> tuple[Array, Array]:
        counts = counts[chunk]
        event = np.repeat(np.arange(chunk.start, chunk.stop), counts)
        skipped = self.starts[codes[chunk]] - (np.cumsum(counts) - counts)
        place = np.arange(len(event)) + np.repeat(skipped, counts)
        for i in range(len(self.used)):
            value = mine[event, i]
            held = (self.low[i, place] <= value) & (self.high[i, place] >= value)
            event, place = event[held], place[held]
        return event, self.rows[place]


class Columns:
    def __init__(self, table: Table) -> None:
        self._names = table.attributes
        self._codes: dict[str, dict[Any, int]] = {
            name: {word: code for code, word in enumerate(words)}
            for name, words in table.vocabulary.items()
        }
        low, high, rows = _bounds(table)
        sizes = [0] * len(table.low) + [len(words) for words in self._codes.values()]
        self._groups = list(_groups(low, high, rows, sizes))

    def memory_bytes(self) -> int:
        arrays = [(g.low, g.high, g.rows, g.starts) for g in self._groups]
        return sum(array.nbytes for of in arrays for array in of)

    def match(self, publication: Publication) -> Array:
        attributes = publication.attributes
        values = np.array(
            [
                self._codes[name].get(attributes[name], _NOWHERE)
                if name in self._codes
                else attributes[name]
                for name in self._names
            ],
            np.float64,
        )
        codes = [(g, 0 if g.key < 0 else int(values[g.key])) for g in self._groups]
        found = [group.match(values, code) for group, code in codes if code >= 0]
        return found[0] if len(found) == 1 else np.concatenate([np.empty(0, np.int64), *found])

    def match_batch(self, columns: Mapping[str, Any]) -> tuple[Array, Array]:
        values = np.column_stack([self._values(name, columns[name]) for name in self._names])
        pieces: list[tuple[Array, Array]] = []
        for group in self._groups:
            codes = np.zeros(len(values)) if group.key < 0 else values[:, group.key]
            pieces += group.match_events(values, codes.astype(np.int64))
        return _sorted(pieces, len(values), len(self._groups) > 1)

    def _values(self, name: str, column: Any) -> Array:
        if name not in self._codes:
            return np.asarray(column, np.float64)
        get = self._codes[name].get
        return np.array([get(word, _NOWHERE) for word in column.to_pylist()], np.float64)


def _bounds(table: Table) -> tuple[Array, Array, Array]:
    """Return (low, high, rows): bounds float64 (attributes, copies) of numbers and of codes, and
    the row of each copy."""
    rows = np.arange(len(table))
    chosen: dict[str, Array] = {}
    for name, members in table.members.items():
        takes = members[rows] >= 0
        takes[:, 0] = True
        copy, column = np.nonzero(takes)
        code = members[rows[copy], column].astype(np.float64)
        chosen = {other: codes[copy] for other, codes in chosen.items()}
        rows, chosen[name] = rows[copy], code
    codes = list(chosen.values())
    low = [*(c[rows] for c in table.low.values()), *(np.where(c < 0, -np.inf, c) for c in codes)]
    high = [*(c[rows] for c in table.high.values()), *(np.where(c < 0, np.inf, c) for c in codes)]
    return np.array(low), np.array(high), rows


def _groups(low: Array, high: Array, rows: Array, sizes: list[int]) -> Iterator[Group]:
    """Yield a group for each attribute of strings, the attributes with the most strings first, and
    one for the rest. `sizes`: how many strings each attribute has, 0 for numbers."""
    rest = np.arange(len(rows))
    for key in sorted(np.flatnonzero(sizes).tolist(), key=lambda i: -sizes[i]):
        mine = np.isfinite(low[key, rest])
        if mine.any():
            yield _group(low, high, rows, rest[mine], key, sizes[key])
        rest = rest[~mine]
    if len(rest):
        yield _group(low, high, rows, rest, -1, 1)


def _group(low: Array, high: Array, rows: Array, mine: Array, key: int, size: int) -> Group:
    """Group the copies `mine` by their code for the attribute `key`, which has `size` codes; all
    together if `key` is -1."""
    codes = np.zeros(len(mine), np.int64) if key < 0 else low[key, mine].astype(np.int64)
    lower = np.isfinite(low[:, mine]).sum(axis=1)
    used = np.flatnonzero(lower + np.isfinite(high[:, mine]).sum(axis=1))
    used = used[used != key]
    used = used[np.argsort(-lower[used], kind="stable")]
    order = np.lexsort((low[used[0], mine], codes)) if len(used) else np.argsort(codes)
    mine, codes = mine[order], codes[order]
    starts = np.searchsorted(codes, np.arange(size + 1))
    return Group(key, used, low[np.ix_(used, mine)], high[np.ix_(used, mine)], rows[mine], starts)


def _sorted(pieces: list[tuple[Array, Array]], count: int, mixed: bool) -> tuple[Array, Array]:
    """Return (offsets, rows) of `count` events; `mixed`: the events of the pieces do not ascend."""
    events = np.concatenate([np.empty(0, np.int64), *(events for events, _ in pieces)])
    rows = np.concatenate([np.empty(0, np.int64), *(rows for _, rows in pieces)])
    offsets = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(events, minlength=count), out=offsets[1:])
    if mixed:
        rows = rows[np.argsort(events.astype(np.uint16), kind="stable")]
    return offsets, rows

"""Cuts of the attributes' lines, at quantiles of the ends that a block's rows have there.

An end that many rows share gets a bucket of its own, a *point*, between a boundary at the end and
one just above. Blocks share cuts as long as these fit their rows, so that a query is cut only
once."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from reefcast.matching.cover.coding import MOST, STRING, Coder
from reefcast.matching.cover.layout import (
    BUCKETS,
    CLASS_WORDS,
    CLASSES,
    FIXED_MAPS,
    HALF,
    S_ATTRIBUTE,
    S_BOUNDARIES,
    S_COUNT,
    S_HIGH,
    S_LOW,
    S_PLAIN_KIND,
    S_POINTS,
)
from reefcast.matching.machine import (
    Array,
)
from reefcast.matching.vectors import GROUP_WORDS

BOUNDARIES = 63
"""Boundaries of an attribute that every row has, without those of points."""

SAMPLE = 256
"""How many records of an attribute are sampled."""

UNFIT = 8
"""Cuts do not fit if more than 1/UNFIT of the ends are in one bucket that is no point, or more than
1/UNFIT of the records are uncut."""

End = tuple[int, int, bytes, int]
"""Kind, key, long text or nothing, and rest: ends sort in this order."""


class Line(NamedTuple):
    """The boundaries of one attribute, ascending: keys, rests and kinds; codes of the long texts
    among them; the rest as in `cover.layout`."""

    boundaries: Array
    texts: list[int]
    plain_kind: int
    points: list[int]


class Cuts:
    """The tables of the classes and their boundaries; `bitmaps`: how many bitmaps a block needs,
    the fixed ones included. `users`: how many blocks use these cuts."""

    def __init__(self, records: Array, rows: int, coder: Coder) -> None:
        """Make cuts for the records of this many rows; `records` may be empty."""
        self.classes = np.zeros((CLASSES, CLASS_WORDS), np.int64)
        self.classes[:, S_ATTRIBUTE] = -1
        self.texts: list[int] = []
        self.bitmaps = FIXED_MAPS
        self.users = 0
        parts = [np.zeros((0, 2), np.int64)]
        first = 0
        attributes = records[:, 3] & HALF
        for attribute, count in _to_cut(attributes, rows):
            own = records[np.flatnonzero(attributes == attribute)]
            line = _line(own[:: 1 + len(own) // SAMPLE], count, coder)
            number = len(line.boundaries)
            words = self.classes[attribute % CLASSES]
            words[S_ATTRIBUTE], words[S_COUNT], words[S_BOUNDARIES] = attribute, number, first
            words[S_PLAIN_KIND], words[S_POINTS : S_POINTS + 2] = line.plain_kind, line.points
            words[S_LOW], words[S_HIGH] = self.bitmaps, self.bitmaps + number + 1
            self.bitmaps += 2 * number + 1
            padding = np.full((-number % GROUP_WORDS, 2), MOST, np.int64)
            first += number + len(padding)
            parts += [line.boundaries, padding]
            self.texts += line.texts
        self.boundaries, self.boundary_rests = np.concatenate(parts).T.copy()

    def memory_bytes(self) -> int:
        return sum(t.nbytes for t in (self.classes, self.boundaries, self.boundary_rests))

    def fits(self, ends: Array, records: int, uncut: int) -> bool:
        """Return whether these cuts divide the ends well enough; `ends`: see `count_ends`."""
        if uncut * UNFIT > records:
            return False
        ends = ends.reshape(CLASSES, 2, BUCKETS)
        totals = ends.sum(axis=2, keepdims=True)
        words = np.ascontiguousarray(self.classes[:, S_POINTS : S_POINTS + 2])
        points = np.unpackbits(words.view(np.uint8), axis=1, bitorder="little")
        crowded = (ends * UNFIT > totals) & (points[:, None, :] == 0) & (ends > UNFIT)
        return not bool(crowded.any())


def _to_cut(attributes: Array, rows: int) -> list[tuple[int, int]]:
    """Return the most frequent attribute of each class, with the number of boundaries that it
    deserves: memory depends on records, not on attributes."""
    if not len(attributes):
        return []
    counts = np.bincount(attributes)
    worth = np.minimum(counts, counts * (BOUNDARIES + 1) // rows)
    chosen: dict[int, tuple[int, int]] = {}
    for attribute in np.flatnonzero(worth).tolist():
        count = int(worth[attribute])
        if count > chosen.get(attribute % CLASSES, (0, 0))[1]:
            chosen[attribute % CLASSES] = (attribute, count)
    return [(attribute, min(count, BOUNDARIES)) for attribute, count in chosen.values()]


def _line(records: Array, count: int, coder: Coder) -> Line:
    """Return about `count` boundaries that cut the ends of one attribute's records into equal
    parts."""
    kinds = records[:, 3] >> 32
    ends = np.empty((2 * len(records), 3), np.int64)
    ends[:, 0] = np.concatenate([kinds & 15, kinds >> 4])
    ends[:, 1] = np.concatenate([records[:, 0], records[:, 1]])
    ends[:, 2] = np.concatenate([records[:, 2] & HALF, records[:, 2] >> 32])
    if ((ends[:, 0] == STRING) & (ends[:, 2] >= 4)).any():
        keys = [_end(end, coder) for end in ends.tolist()]
        order = np.array(sorted(range(len(keys)), key=keys.__getitem__))
    else:
        order = np.lexsort((ends[:, 2], ends[:, 1], ends[:, 0]))
    return _cut(ends[order], count)


def _end(end: list[int], coder: Coder) -> End:
    kind, key, rest = end
    return kind, key, coder.text(rest >> 2) if kind == STRING else b"", rest


def _cut(ends: Array, count: int) -> Line:
    """Return about `count` boundaries of sorted ends."""
    chosen = _choose(ends, count)
    lines: list[tuple[int, int]] = []
    texts: list[int] = []
    points = 0
    for place, is_point in sorted(chosen.items()):
        kind, key, rest = ends[place].tolist()
        lines.append((key, kind << 32 | rest))
        if kind == STRING and rest >= 4:
            texts.append(rest >> 2)
        if is_point:
            points |= 1 << len(lines)
            lines.append((key, kind << 32 | (rest + 1)))
    kinds = np.unique(ends[list(chosen), 0])
    plain_kind = int(kinds[0]) if len(kinds) == 1 and not texts else -1
    words = np.frombuffer(points.to_bytes(BUCKETS // 8, "little"), np.int64).tolist()
    return Line(np.array(lines, np.int64).reshape(-1, 2), texts, plain_kind, words)


def _choose(ends: Array, count: int) -> dict[int, bool]:
    """Return the positions of the ends to cut at, each with whether many ends are the same."""
    new = np.ones(len(ends), bool)
    new[1:] = (ends[1:] != ends[:-1]).any(axis=1)
    starts = np.flatnonzero(new)
    weights = np.diff(starts, append=len(ends))
    heavy = (weights * (count + 1) >= len(ends)) & (weights > 1)
    points = starts[heavy].tolist()[: BUCKETS // 2 - 1]
    chosen = dict.fromkeys(points, True)
    light = np.flatnonzero(~np.repeat(heavy, weights))
    left = min(count, BUCKETS - 1 - 2 * len(points))
    if left > 0 and len(light):
        places = light[np.arange(1, left + 1) * len(light) // (left + 1)]
        for place in starts[np.searchsorted(starts, places, side="right") - 1].tolist():
            chosen.setdefault(place, False)
    return chosen

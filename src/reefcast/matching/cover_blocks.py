"""Blocks of rows as Python manages them: making, growing, cutting and merging; see `cover_layout`.

A block grows by doubling, up to 4096 rows, and at each doubling it is made anew: its live rows are
copied and cut at quantiles of what is there then. A full block is made anew once more, to fit what
came last, and takes no more rows until half of them are gone. So a change never costs more than
making one block, a few milliseconds, and on the average it costs a microsecond.
"""

from __future__ import annotations

import numpy as np

from reefcast.matching.cover_coding import MOST, STRING, Coder
from reefcast.matching.cover_layout import (
    BLOCK_WORDS,
    BOX_WORDS,
    CLASS_WORDS,
    CLASSES,
    D_BITS,
    D_BOXES,
    D_CLASSES,
    D_CONJUNCTIONS,
    D_KEYS,
    D_LIVE,
    D_OWNERS,
    D_RESTS,
    D_STARTS,
    D_STRIDE,
    D_USED,
    FIXED_MAPS,
    HALF,
    S_ATTRIBUTE,
    S_BOUNDARIES,
    S_COUNT,
    S_HIGH,
    S_LOW,
    S_PLAIN_KIND,
)
from reefcast.matching.machine import GROUP_WORDS, Array

FEWEST_ROWS, MOST_ROWS = 64, 4096
MOST_BOUNDARIES = 63
SAMPLE = 512
"""Rows looked at to find the boundaries of one attribute."""


class Block:
    """The tables of one block; `words` is its line in the directory, which the kernels change."""

    def __init__(self, words: Array, capacity: int, records: int) -> None:
        self.words = words
        self.capacity = capacity
        self.records = records  # room for so many in `boxes`
        self.stride = max(64, capacity // 8)
        self.boxes = np.zeros((records, BOX_WORDS), np.int64)
        self.starts = np.zeros(capacity + 1, np.int32)
        self.owners = np.zeros(capacity, np.int32)
        self.conjunctions = np.zeros(capacity, np.int32)
        self.classes = np.zeros((CLASSES, CLASS_WORDS), np.int64)
        self.classes[:, S_ATTRIBUTE] = -1
        self.keys = self.rests = np.zeros(0, np.int64)
        self.texts: list[int] = []  # codes that boundaries use
        self.bits = np.zeros(FIXED_MAPS * self.stride // 8, np.int64)
        words[:] = 0
        words[D_STRIDE] = self.stride
        self.place()

    def place(self) -> None:
        """Tells the kernels where the tables are."""
        words = self.words
        words[D_BITS] = self.bits.ctypes.data
        words[D_BOXES] = self.boxes.ctypes.data
        words[D_STARTS] = self.starts.ctypes.data
        words[D_OWNERS] = self.owners.ctypes.data
        words[D_CONJUNCTIONS] = self.conjunctions.ctypes.data
        words[D_CLASSES] = self.classes.ctypes.data
        words[D_KEYS] = self.keys.ctypes.data
        words[D_RESTS] = self.rests.ctypes.data

    @property
    def live(self) -> int:
        return int(self.words[D_LIVE])

    @property
    def used(self) -> int:
        return int(self.words[D_USED])

    @property
    def used_records(self) -> int:
        return int(self.starts[self.used])

    def memory_bytes(self) -> int:
        tables = (self.boxes, self.starts, self.owners, self.conjunctions, self.classes)
        return sum(table.nbytes for table in (*tables, self.keys, self.rests, self.bits))

    def make_room(self, records: int) -> None:
        """For so many records more."""
        needed = self.used_records + records
        if needed > self.records:
            self.records = max(needed, self.records + self.records // 2)
            boxes = np.zeros((self.records, BOX_WORDS), np.int64)
            boxes[: len(self.boxes)] = self.boxes
            self.boxes = boxes
            self.place()

    # --- cutting ---------------------------------------------------------------------------------

    def cut(self, coder: Coder) -> None:
        """Chooses the attributes to cut and their boundaries, and makes room for their bitmaps,
        which are left empty."""
        boxes = self.boxes[: self.used_records]
        attributes = boxes[:, 3] & HALF
        boundaries: list[Array] = []
        size, first = FIXED_MAPS * self.stride, 0
        for attribute, count in _to_cut(attributes, self.used):
            records = boxes[np.flatnonzero(attributes == attribute)]
            chosen, texts = _boundaries(records[:: 1 + len(records) // SAMPLE], count, coder)
            number = len(chosen)
            line = self.classes[attribute % CLASSES]
            line[S_ATTRIBUTE], line[S_COUNT], line[S_BOUNDARIES] = attribute, number, first
            kinds = set(chosen[:, 1].tolist())
            line[S_PLAIN_KIND] = kinds.pop() >> 32 if len(kinds) == 1 and not texts else -1
            line[S_LOW], line[S_HIGH] = size, size + (number + 1) * self.stride
            size += (2 * number + 1) * self.stride
            padding = np.full((-number % GROUP_WORDS, 2), MOST, np.int64)
            first += number + len(padding)
            boundaries += [chosen, padding]
            self.texts += texts
        if boundaries:
            self.keys, self.rests = np.concatenate(boundaries).T.copy()
        bits = np.zeros(size // 8, np.int64)
        bits[: len(self.bits)] = self.bits
        self.bits = bits
        self.place()


def _to_cut(attributes: Array, rows: int) -> list[tuple[int, int]]:
    """The most frequent attribute of each class, with the number of boundaries that it is worth:
    memory goes by records, not by attributes."""
    if not len(attributes):
        return []
    counts = np.bincount(attributes)
    worth = np.minimum(counts, counts * (MOST_BOUNDARIES + 1) // rows)
    chosen: dict[int, tuple[int, int]] = {}
    for attribute in np.flatnonzero(worth).tolist():
        count = int(worth[attribute])
        if count > chosen.get(attribute % CLASSES, (0, 0))[1]:
            chosen[attribute % CLASSES] = (attribute, count)
    return [(attribute, min(count, MOST_BOUNDARIES)) for attribute, count in chosen.values()]


def _boundaries(records: Array, count: int, coder: Coder) -> tuple[Array, list[int]]:
    """At most `count` ascending ends that cut the ends of these records into parts of equal
    weight, and the codes of the long texts among them."""
    kinds = records[:, 3] >> 32
    keys = np.concatenate([records[:, 0], records[:, 1]])
    rests = np.concatenate([records[:, 2] & HALF, records[:, 2] >> 32])
    kinds = np.concatenate([kinds & 15, kinds >> 4])
    places = np.arange(1, count + 1) * len(keys) // (count + 1)
    long = (kinds == STRING) & (rests >= 4)
    if long.any():
        return _text_boundaries(keys, rests, kinds, places.tolist(), coder)
    order = np.lexsort((keys, kinds)) if (kinds != kinds[0]).any() else np.argsort(keys)
    chosen = order[places]
    keys, kinds = keys[chosen], kinds[chosen]
    kept = np.ones(len(keys), bool)
    kept[1:] = (keys[1:] != keys[:-1]) | (kinds[1:] != kinds[:-1])
    return np.stack([keys[kept], kinds[kept] << 32], axis=1), []


def _text_boundaries(
    keys: Array, rests: Array, kinds: Array, places: list[int], coder: Coder
) -> tuple[Array, list[int]]:
    """The same where some are long texts, which only their bytes can put in order."""
    codes = np.where(kinds == STRING, rests >> 2, 0).tolist()
    ends = sorted(
        (kind, key, coder.text(code), code)
        for kind, key, code in zip(kinds.tolist(), keys.tolist(), codes, strict=True)
    )
    chosen = sorted({ends[place] for place in places})
    lines = [(key, kind << 32 | code << 2) for kind, key, _, code in chosen]
    return np.array(lines, np.int64), [code for *_, code in chosen if code]


def new_directory(blocks: int) -> Array:
    return np.zeros((blocks, BLOCK_WORDS), np.int64)

"""Blocks of rows as Python manages them: making, growing, cutting and merging; see `cover.layout`.

A block grows by doubling, up to 4096 rows. At each doubling it is rebuilt: its live rows are
copied, and cut at quantiles of their ends. A full block is rebuilt once more, to fit its latest
rows, and accepts no more rows until half of them are gone. So a change never costs more than
building one block, a few milliseconds, and a microsecond on average."""

from __future__ import annotations

import numpy as np

from reefcast.matching.cover.coding import Coder
from reefcast.matching.cover.cuts import Cuts
from reefcast.matching.cover.layout import (
    BLOCK_WORDS,
    BOX_WORDS,
    D_BITS,
    D_BOUNDARIES,
    D_BOUNDARY_RESTS,
    D_CLASSES,
    D_CONJUNCTIONS,
    D_KEYS,
    D_LIVE,
    D_ROW_SHAPES,
    D_SHAPE_WORDS,
    D_SHAPES,
    D_STARTS,
    D_STRIDE,
    D_USED,
    FIXED_MAPS,
    LIVE_MAP,
    SHAPE_HEADS,
)
from reefcast.matching.machine import Array

FEWEST_ROWS, MOST_ROWS = 64, 4096


NO_CUTS = Cuts(np.zeros((0, BOX_WORDS), np.int64), 0, Coder())


class Block:
    """The tables of one block; `words` is its row of the directory, which the kernels change."""

    def __init__(self, words: Array, capacity: int, records: int, shape_words: int) -> None:
        self.words = words
        self.capacity = capacity
        self.stride = max(64, capacity // 8)
        self.keys = np.zeros((records, 2), np.int64)
        self.starts = np.zeros(capacity + 1, np.int32)
        self.row_shapes = np.zeros(capacity, np.int32)
        self.shapes = np.zeros(SHAPE_HEADS + shape_words, np.int64)
        self.conjunctions = np.zeros(capacity, np.int32)
        self.cuts = NO_CUTS
        self.bits = np.zeros(FIXED_MAPS * self.stride // 8, np.int64)
        words[:] = 0
        words[D_STRIDE], words[D_SHAPE_WORDS] = self.stride, SHAPE_HEADS
        self.place()

    def place(self) -> None:
        """Tell the kernels where the tables are."""
        for word, table in self._tables().items():
            self.words[word] = table.ctypes.data
        self.words[D_CLASSES] = self.cuts.classes.ctypes.data
        self.words[D_BOUNDARIES] = self.cuts.boundaries.ctypes.data
        self.words[D_BOUNDARY_RESTS] = self.cuts.boundary_rests.ctypes.data

    def _tables(self) -> dict[int, Array]:
        return {
            D_BITS: self.bits,
            D_KEYS: self.keys,
            D_STARTS: self.starts,
            D_ROW_SHAPES: self.row_shapes,
            D_SHAPES: self.shapes,
            D_CONJUNCTIONS: self.conjunctions,
        }

    @property
    def live(self) -> int:
        return int(self.words[D_LIVE])

    @property
    def used(self) -> int:
        return int(self.words[D_USED])

    def live_rows(self) -> Array:
        """Return a bool for each row, including removed ones."""
        live = self.bits[LIVE_MAP * self.stride // 8 :][: self.stride // 8]
        return np.unpackbits(live.view(np.uint8), bitorder="little")[: self.used].astype(bool)

    @property
    def records(self) -> int:
        return int(self.starts[self.used])

    @property
    def shape_words(self) -> int:
        return int(self.words[D_SHAPE_WORDS]) - SHAPE_HEADS

    def memory_bytes(self) -> int:
        """Return the bytes of the block, without the cuts."""
        return sum(table.nbytes for table in self._tables().values())

    def make_room(self, records: int) -> None:
        """Make room for one more row of this many records."""
        keys, shapes = self.records + records, int(self.words[D_SHAPE_WORDS]) + 2 + 2 * records
        if keys > len(self.keys) or shapes > len(self.shapes):
            self.keys, self.shapes = _longer(self.keys, keys), _longer(self.shapes, shapes)
            self.place()

    def take_cuts(self, cuts: Cuts) -> None:
        """Replace the cuts, and make room for their bitmaps, which stay empty."""
        self.cuts = cuts
        bits = np.zeros(cuts.bitmaps * self.stride // 8, np.int64)
        fixed = FIXED_MAPS * self.stride // 8
        bits[:fixed] = self.bits[:fixed]
        self.bits = bits
        self.place()


def _longer(table: Array, needed: int) -> Array:
    """Return `table` if it is long enough, otherwise a copy longer by at least half, padded with
    zeros."""
    if needed <= len(table):
        return table
    longer = np.zeros((max(needed, len(table) * 3 // 2), *table.shape[1:]), table.dtype)
    longer[: len(table)] = table
    return longer


def new_directory(blocks: int) -> Array:
    return np.zeros((blocks, BLOCK_WORDS), np.int64)

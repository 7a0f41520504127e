"""The table of a covering index: conjunctions by number, in blocks, and the search among them.

Filters have no texts and no keys here, and conjunctions only their numbers."""

from __future__ import annotations

import numpy as np

from reefcast.matching.cover.blocks import (
    FEWEST_ROWS,
    MOST_ROWS,
    NO_CUTS,
    Block,
    new_directory,
)
from reefcast.matching.cover.coding import Box, Coder
from reefcast.matching.cover.cuts import Cuts
from reefcast.matching.cover.layout import (
    BOX_WORDS,
    BUCKETS,
    CLASSES,
    DOMINATING,
    F_AGES,
    F_ATTRIBUTE_USERS,
    F_BLOCK_COUNT,
    F_BLOCKS,
    F_BOX,
    F_DEPTHS,
    F_FILTERS,
    F_LISTS,
    F_OUT,
    F_PLACES,
    F_ROOM,
    F_TEXT_ADDRESSES,
    F_TEXT_SIZES,
    F_TEXT_USERS,
    FRAME_WORDS,
    GROUPS,
    LIST,
    LISTS,
    LIVE_MAP,
    MARKED_MAP,
    ROW_BITS,
)
from reefcast.matching.cover.order import row_order
from reefcast.matching.cover.rows import (
    add_row,
    copy_rows,
    count_ends,
    enter_rows,
    mark_row,
    remove_row,
    write_records,
)
from reefcast.matching.cover.search import search
from reefcast.matching.machine import (
    Array,
)
from reefcast.matching.vectors import GROUP_WORDS

FULL = MOST_ROWS * 3 // 4
"""If a block of the largest size has more rows than this when it is rebuilt, it is full: it
would soon have to be rebuilt again."""

FITTED = 2048
"""How many records are sampled to see whether cuts fit."""

ALL = 1 << 31
"""More answers than there can be."""


class Table:
    """Conjunctions in blocks. `coder` is the one that made all boxes passed in here."""

    def __init__(self) -> None:
        self.coder = Coder()
        self._frame = np.zeros(FRAME_WORDS, np.int64)
        self._at = int(self._frame.ctypes.data)
        self._directory = new_directory(8)
        self._blocks: list[Block | None] = []
        self._open: dict[int, None] = {}  # blocks that accept rows, or could if they grew
        self._box = bytearray()
        self._out = np.zeros(1024, np.int64)
        self._lists = np.zeros(LISTS * LIST + 2 * GROUPS * GROUP_WORDS, np.int64)
        self._places = np.zeros(64, np.int64)
        self._cuts: Cuts = NO_CUTS  # those that large blocks share
        self._version = -1  # of the coder, when the frame was written
        self._frame[F_LISTS] = self._lists.ctypes.data
        self._frame[F_PLACES] = self._places.ctypes.data
        self._frame[F_BLOCKS] = self._directory.ctypes.data
        self._frame[F_OUT], self._frame[F_ROOM] = self._out.ctypes.data, len(self._out)

    def memory_bytes(self) -> int:
        own = (self._frame, self._directory, self._out, self._lists, self._places)
        made = [block for block in self._blocks if block is not None]
        blocks = sum(block.memory_bytes() for block in made)
        blocks += sum(cuts.memory_bytes() for cuts in {block.cuts for block in made})
        return sum(table.nbytes for table in own) + blocks + self.coder.memory_bytes()

    # --- searching -------------------------------------------------------------------------------

    def search(self, box: Box, mode: int, *, marked: bool, enough: int) -> tuple[Array, Array]:
        """Return the conjunctions that answer, and the doubtful ones, about which Python decides.
        Both are views, valid until the next call."""
        base = MARKED_MAP if marked else LIVE_MAP
        while True:
            self._load(box)
            found: int = search(self._at, mode, box.records, base, enough)
            if found >= 0:
                break
            self._widen(2 * len(self._out))
        out, answers = self._out, found & 0xFFFFFFFF
        return out[:answers], out[len(out) - (found >> 32) :]

    def dominators(self, filters: Array, ages: Array, depths: Array, enough: int) -> None:
        """Find dominators (see `search` for `DOMINATING`). `filters` are numbers of filters of one
        conjunction each; such numbers index the other two."""
        self._refresh()
        frame, done = self._frame, 0
        frame[F_AGES], frame[F_DEPTHS] = ages.ctypes.data, depths.ctypes.data
        while done < len(filters):
            frame[F_FILTERS] = filters[done:].ctypes.data
            done += search(self._at, DOMINATING, len(filters) - done, LIVE_MAP, enough)
            if done < len(filters):
                self._widen(2 * len(self._out))

    def _refresh(self) -> None:
        """Tell the kernels where the coder's tables are."""
        coder, frame = self.coder, self._frame
        if coder.version != self._version:
            self._version = coder.version
            frame[F_ATTRIBUTE_USERS] = coder.attribute_users.ctypes.data
            frame[F_TEXT_USERS] = coder.text_users.ctypes.data
            frame[F_TEXT_ADDRESSES] = coder.text_addresses.ctypes.data
            frame[F_TEXT_SIZES] = coder.text_sizes.ctypes.data

    def _load(self, box: Box) -> None:
        """Put the box where the kernels read it."""
        self._refresh()
        size = len(box.data)
        if size > len(self._box):
            self._box = bytearray(2 * size)
            self._frame[F_BOX] = np.frombuffer(self._box, np.uint8).ctypes.data
            # What one row can release: its attributes, and two texts for each.
            self._widen(size // (8 * BOX_WORDS) * 6 + 1024)
        self._box[:size] = box.data

    def _widen(self, words: int) -> None:
        if words > len(self._out):
            self._out = np.zeros(words, np.int64)
            self._frame[F_OUT], self._frame[F_ROOM] = self._out.ctypes.data, words

    # --- changes ---------------------------------------------------------------------------------

    def add(self, box: Box, number: int, conjunction: int, doubts: int) -> None:
        """Add a row to the block of this number, which `room` has found for it."""
        if conjunction >= len(self._places):
            room = np.zeros(2 * conjunction - len(self._places), np.int64)
            self._places = np.concatenate([self._places, room])
            self._frame[F_PLACES] = self._places.ctypes.data
        self._load(box)
        add_row(self._at, number, box.records, conjunction, doubts)

    def remove(self, conjunction: int) -> None:
        self._refresh()
        lost: int = remove_row(self._at, conjunction)
        for what in self._out[:lost].tolist():
            if what & 1:
                self.coder.drop_text(what >> 1)
            else:
                self.coder.drop_attribute(what >> 1)
        number = int(self._places[conjunction]) >> ROW_BITS
        block = self._block(number)
        if 2 * block.live < block.used:
            self._shrink(number, block)

    def mark(self, conjunction: int, mark: bool) -> None:
        mark_row(self._at, conjunction, int(mark))

    # --- blocks ----------------------------------------------------------------------------------

    def _block(self, number: int) -> Block:
        block = self._blocks[number]
        assert block is not None, "no row is in a block that is gone"
        return block

    def room(self, records: int) -> int:
        """Return the number of a block with room for one row of this many records."""
        self._refresh()
        for old in list(self._open):
            number, block = old, self._block(old)
            if block.used == block.capacity:
                number = self._renew([old], min(MOST_ROWS, 2 * block.live))
                block = self._block(number)
                if block.used > FULL:
                    del self._open[number]
                    continue
            block.make_room(records)
            return number
        number = self._new(FEWEST_ROWS, 8 * FEWEST_ROWS, 64)
        self._open[number] = None
        self._block(number).make_room(records)
        return number

    def _new(self, capacity: int, records: int, shape_words: int) -> int:
        number = next((n for n, b in enumerate(self._blocks) if b is None), len(self._blocks))
        if number == len(self._blocks):
            self._blocks.append(None)
            if number == len(self._directory):
                self._grow_directory()
        self._blocks[number] = Block(self._directory[number], capacity, records, shape_words)
        self._frame[F_BLOCK_COUNT] = len(self._blocks)
        return number

    def _grow_directory(self) -> None:
        directory = new_directory(2 * len(self._directory))
        directory[: len(self._directory)] = self._directory
        for words, block in zip(directory, self._blocks, strict=False):
            if block is not None:
                block.words = words
        self._directory = directory
        self._frame[F_BLOCKS] = directory.ctypes.data

    def _renew(self, sources: list[int], rows: int) -> int:
        """Merge the live rows of several blocks into one with room for `rows`; return its number.
        It takes the place of the first of them among the open ones."""
        blocks = [self._block(number) for number in sources]
        capacity = FEWEST_ROWS
        while capacity < rows:
            capacity *= 2
        is_full = sum(block.live for block in blocks) > FULL
        records = sum(block.records for block in blocks)
        target = self._new(capacity, records, sum(block.shape_words for block in blocks))
        for source in sources:
            rows_there = self._rows_of(source, is_full)
            at = int(rows_there.ctypes.data)
            copy_rows(self._at, source, target, at, len(rows_there))
        self._cut(target, self._block(target))
        enter_rows(self._at, target)
        for source in sources:
            self._drop(source)
        self._open[target] = None
        return target

    def _records(self, number: int) -> Array:
        """Return the records of all rows of a block."""
        records = np.empty((self._block(number).records, BOX_WORDS), np.int64)
        write_records(self._at, number, int(records.ctypes.data))
        return records

    def _rows_of(self, number: int, sort: bool) -> Array:
        """Return the live rows of a block, in their order or sorted."""
        block = self._block(number)
        live = block.live_rows()
        if not sort:
            return np.flatnonzero(live)
        order = row_order(self._records(number), np.diff(block.starts[: block.used + 1]))
        return order[live[order]]

    def _cut(self, number: int, block: Block) -> None:
        """Give the block the cuts of the other large blocks, or cuts of its own if those do not
        fit."""
        records = self._records(number)
        if block.capacity == MOST_ROWS:
            if self._cuts.users:
                block.take_cuts(self._cuts)
                if self._fit(number, records):
                    self._cuts.users += 1
                    return
            cuts = self._cuts = Cuts(records, block.used, self.coder)
        else:
            cuts = Cuts(records, block.used, self.coder)
        np.add.at(self.coder.text_users, cuts.texts, 1)
        cuts.users += 1
        block.take_cuts(cuts)

    def _fit(self, number: int, records: Array) -> bool:
        sample = np.ascontiguousarray(records[:: 1 + len(records) // FITTED])
        ends = np.zeros(2 * BUCKETS * CLASSES, np.int64)
        at, out = int(sample.ctypes.data), int(ends.ctypes.data)
        uncut = count_ends(self._at, number, at, len(sample), out)
        return self._cuts.fits(ends, len(sample), uncut)

    def _drop(self, number: int) -> None:
        cuts = self._block(number).cuts
        if cuts is not NO_CUTS:
            self._leave(cuts)
        self._directory[number] = 0
        self._blocks[number] = None
        self._open.pop(number, None)

    def _leave(self, cuts: Cuts) -> None:
        """Count one user less; with the last one, free what only these cuts needed."""
        cuts.users -= 1
        users = self.coder.text_users
        for code in cuts.texts if cuts.users == 0 else ():
            users[code] -= 1
            if users[code] == 0:
                self.coder.drop_text(code)

    def _shrink(self, number: int, block: Block) -> None:
        """Rebuild a block of which half of the rows are gone, together with one that is as sparse
        if there is one."""
        if block.live == 0:
            self._drop(number)
            return
        sources, rows = [number], block.live
        for other in self._open:
            more = self._block(other).live
            if other != number and rows + more <= MOST_ROWS // 2:
                sources.append(other)
                rows += more
                break
        self._renew(sources, 2 * rows)

"""Several sorted sources of rows as one.

Each source has fetched some rows ahead; rows that are not behind the last row of any source are
complete, and are sorted together. A publication that several sources have (several topics; database
and sealed segment) comes once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence

from reefcast.history.rows import ABOVE_ALL, Key, Row
from reefcast.model.publication import INT64_MAX

FIRST_ROWS = 64
"""Rows that a source fetches at first, if it is the only one, so that the first results come
soon."""
FEW_ROWS = 16
"""Rows that each of many sources fetches at first."""
_ALL_SOURCES = 1 << 62


class Whole(list[bytes]):
    """Bodies that one source had behind each other: none of them is damaged, and nothing of another
    source belongs between them."""


class Source(ABC):
    """Sorted rows behind the position `before`. `rows`: fetched and not taken yet. `done`: nothing
    is left to fetch. `start_us`: no row is earlier."""

    def __init__(self, number: int, before: Key, start_us: int) -> None:
        self.number = number
        self.start_us = max(start_us, before[0])
        self.before = before
        if start_us > before[0]:
            # if an earlier row was just added, others behind it may have been read already
            self.before = (start_us - 1, ABOVE_ALL, INT64_MAX)
        self.rows: list[Row] = []
        self.done = False
        self.size = 0

    @abstractmethod
    def fetch(self, size: int) -> None:
        """Fetch about `size` more rows: at least one, or the source is done. Called when `rows` is
        empty. A damaged place yields a row without a body, and the source continues behind it."""

    def take_whole(self, before_us: int) -> Whole:
        """Remove and return the bodies of the next rows that are earlier than this; none where they
        must be fetched. Called when `rows` is empty."""
        return Whole()

    @abstractmethod
    def where(self) -> str:
        """Return the topic and the file in words."""

    def read_until(self, bound: Key | None) -> list[Row]:
        """Remove and return the rows up to `bound`, or all for None."""
        if bound is None:
            taken, self.rows = self.rows, []
            return taken
        end = bisect_right(self.rows, (*bound, _ALL_SOURCES))
        taken, self.rows = self.rows[:end], self.rows[end:]
        return taken


def merged(sources: Sequence[Source], batch: int) -> Iterator[list[Row] | Whole]:
    """Yield blocks of rows in order, each of about `batch` at most, the first ones shorter; and
    what one source has before all others as it is."""
    if len(sources) == 1:
        yield from _single(sources[0], batch)
        return
    later = sorted(sources, key=lambda source: -source.start_us)
    left: list[Source] = []
    while True:
        yield from _wholes(left, later)
        left = _filled(left, batch)
        if later and not any(source.rows[0][0] < later[-1].start_us for source in left):
            left += _starting(later)
        elif left:
            yield _block(left, later[-1].start_us if later else None)
        else:
            return


def _wholes(left: list[Source], later: list[Source]) -> Iterator[Whole]:
    """Yield what the only source without rows has before the next row of all others."""
    empty = [source for source in left if not (source.rows or source.done)]
    if len(empty) == 1:
        starts = [source.rows[0][0] for source in left if source.rows]
        if later:
            starts.append(later[-1].start_us)
        before_us = min(starts, default=INT64_MAX)
        while whole := empty[0].take_whole(before_us):
            yield whole


def _starting(later: list[Source]) -> list[Source]:
    """Return the sources that start next, all at the same time."""
    start_us = later[-1].start_us
    starting = []
    while later and later[-1].start_us == start_us:
        starting.append(later.pop())
    return starting


def _block(sources: list[Source], before_us: int | None) -> list[Row]:
    """Return the rows that are complete, and earlier than `before_us`."""
    ends = [source.rows[-1][:3] for source in sources if not source.done]
    if before_us is not None:
        ends.append((before_us - 1, ABOVE_ALL, INT64_MAX))
    bound = min(ends, default=None)
    block = [row for source in sources for row in source.read_until(bound)]
    block.sort(key=_position_and_source)
    return _unique(block)


def _position_and_source(row: Row) -> tuple[int, bytes, int, int]:
    return row[:4]


def _single(source: Source, batch: int) -> Iterator[list[Row] | Whole]:
    size = min(batch, FIRST_ROWS)
    while not source.done:
        if size > FIRST_ROWS:
            while whole := source.take_whole(INT64_MAX):
                yield whole
        source.fetch(size)
        if block := source.read_until(None):
            yield block
        size = min(batch, 4 * size)


def _filled(sources: list[Source], batch: int) -> list[Source]:
    """Return the sources with rows, after those without have fetched some. A source that is asked
    often fetches more each time."""
    for source in sources:
        if not (source.rows or source.done):
            source.size = min(batch, max(FEW_ROWS, 2 * source.size))
            source.fetch(source.size)
    return [source for source in sources if source.rows]


def _unique(block: list[Row]) -> list[Row]:
    """Return sorted rows with each position once; damaged ones stay, because they have the position
    of another row."""
    kept = []
    last: object = None
    for row in block:
        position = row[:3]
        if row[4] is None:
            kept.append(row)
        elif position != last:
            kept.append(row)
            last = position
    return kept

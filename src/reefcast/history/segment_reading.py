"""Reading sealed segments: the rows of a topic in their order, by row groups.

Row groups whose statistics exclude all of their rows are skipped; of the others, the columns of the
filter's attributes are read first, and the rest only if a row is left. A few row groups are kept
decoded while a request is answered: several topics may share one."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate
from operator import itemgetter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from reefcast.errors import DamagedError
from reefcast.history.limits import Topic, Topics
from reefcast.history.merging import Source, Whole
from reefcast.history.reading import Span
from reefcast.history.rows import ABOVE_ALL, Key, Seeds, checked, checksums
from reefcast.history.segments import ROWS, Extent, Segment, Segments
from reefcast.model.constraint import Constraint, satisfies
from reefcast.model.filters import Filter
from reefcast.model.publication import INT64_MAX, INT64_MIN
from reefcast.model.values import NAN, Kind, is_nan

KEPT = 32
"""Row groups that stay decoded: a few megabytes each."""
_ROW = ("time_us", "publisher", "seq", "expiry_us", "checksum", "body")
_FAILED = (OSError, pa.ArrowException)

Wanted = list[dict[str, Constraint]]
"""For each conjunction, the conditions that columns can check."""


def wanted_of(filter: Filter | None, indexed: Mapping[str, Kind]) -> Wanted:
    """Return what each conjunction requires of columns; empty if one requires nothing, since then
    all rows are read."""
    found = [
        {
            name: constraint
            for name, constraint in conjunction.constraints.items()
            if name in indexed and constraint.kind is indexed[name]
        }
        for conjunction in (filter.conjunctions if filter is not None else ())
    ]
    return found if all(found) else []


def keys(segment: Segment, first: int, most: int) -> list[tuple[Any, ...]]:
    """Return topic, time, publisher and seq of some rows, beginning with row `first`. Raises
    `DamagedError`."""
    try:
        file = SegmentFile(segment, None, {})
        group = file.group_of(first)
        table = file.read(group, ["topic", "time_us", "publisher", "seq"])
    except _FAILED as error:
        raise DamagedError(f"{segment.path} is damaged: {error}") from error
    return _tuples(table.slice(first - file.starts[group], most))


def _tuples(table: Any) -> list[tuple[Any, ...]]:
    columns = []
    for name in table.column_names:
        column = table[name].cast(pa.binary()) if name == "publisher" else table[name]
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


Place = tuple[str, Key]
"""A topic's name, and a position in it."""


def held(segments: Segments, topics: Topics, places: set[Place]) -> set[Place]:
    """Return those of `places`, and others near them, where segments have sound rows."""
    found: set[Place] = set()
    seeds = Seeds()
    for segment in segments.all:
        since_us, until_us = segment.footer.since_us, segment.footer.until_us
        here = {(name, key[0]) for name, key in places if since_us <= key[0] < until_us}
        if not here:
            continue
        times_us = [time_us for _, time_us in here]
        span = Span((min(times_us) - 1, ABOVE_ALL, INT64_MAX), max(times_us), INT64_MIN)
        file, names = SegmentFile(segment, None, {}), {name for name, _ in here}
        for extent in segment.footer.extents:
            if extent.topic in names:
                topic = topics.by_name[extent.topic]
                source = SegmentSource(file, extent, topic, span, seeds, 0)
                found.update((topic.name, key) for key in _sound(source))
    return found


def _sound(source: Source) -> Iterator[Key]:
    while not source.done:
        source.fetch(ROWS)
        yield from (row[:3] for row in source.read_until(None) if row[4] is not None)


class SegmentFile:
    """A segment, opened for one request."""

    def __init__(
        self, segment: Segment, filter: Filter | None, indexed: Mapping[str, Kind]
    ) -> None:
        self.segment = segment
        self._file: Any = None  # opened when it is read: a request may end long before that
        self._wanted = wanted_of(filter, indexed)
        self._names = sorted({name for each in self._wanted for name in each})
        metadata = segment.metadata
        sizes = (metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))
        self.starts = list(accumulate(sizes, initial=0))
        self._kept: OrderedDict[int, Any] = OrderedDict()

    def group_of(self, row: int) -> int:
        return bisect_right(self.starts, row) - 1

    def read(self, group: int, columns: list[str]) -> Any:
        if self._file is None:
            self._file = pq.ParquetFile(
                self.segment.path, metadata=self.segment.metadata, page_checksum_verification=True
            )
        return self._file.read_row_group(group, columns=columns, use_threads=False)

    def last_time_us(self, group: int) -> int | None:
        """Return the latest time in a row group by its statistics; None if they lack it."""
        known = self.times_us(group)
        return None if known is None else known[1]

    def times_us(self, group: int) -> tuple[int, int] | None:
        """Return the earliest and the latest time in a row group by its statistics; None if they
        lack them."""
        statistics = self._statistics(group, "time_us")
        return None if statistics is None else (int(statistics.min), int(statistics.max))

    def _statistics(self, group: int, name: str) -> Any:
        number = self.segment.metadata.schema.names.index(name)
        statistics = self.segment.metadata.row_group(group).column(number).statistics
        return statistics if statistics is not None and statistics.has_min_max else None

    def rows(self, group: int) -> Any:
        """Return the columns of the rows that the filter may want, and `row`, their numbers in the
        file."""
        if group in self._kept:
            self._kept.move_to_end(group)
            return self._kept[group]
        rows = self._kept[group] = self._read_rows(group)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
        return rows

    def _read_rows(self, group: int) -> Any:
        start, end = self.starts[group : group + 2]
        numbers = pa.array(np.arange(start, end))
        if not self._wanted:
            return self.read(group, list(_ROW)).append_column("row", numbers)
        if not any(self._may_have(group, each) for each in self._wanted):
            return None
        chosen = _mask(self.read(group, self._names), self._wanted)
        if not chosen.any():
            return None
        table = self.read(group, list(_ROW)).append_column("row", numbers)
        return table.filter(pa.array(chosen))

    def _may_have(self, group: int, constraints: Mapping[str, Constraint]) -> bool:
        """Return whether a row group may have such rows by its statistics, which know nothing of
        NaN."""
        for name, constraint in constraints.items():
            statistics = self._statistics(group, name)
            if statistics is None or satisfies(constraint, NAN):
                continue
            low, high = _bounds(constraint)
            if (low is not None and statistics.max < low) or (
                high is not None and statistics.min > high
            ):
                return False
        return True


def _bounds(c: Constraint) -> tuple[Any, Any]:
    """Return the bounds of a constraint as the column has them: float64 for numbers."""
    low, high = (c.members[0], c.members[-1]) if c.members is not None else (c.low, c.high)
    return _as_column(c, low), _as_column(c, high)


def _as_column(c: Constraint, value: Any) -> Any:
    return float(value) if c.kind is Kind.NUMBER and value is not None else value


def _mask(table: Any, wanted: Wanted) -> Any:
    """Return which rows some conjunction may want; int64 values are rounded in columns of float64,
    so bounds belong to their intervals."""
    either = np.zeros(table.num_rows, bool)
    for constraints in wanted:
        every = np.ones(table.num_rows, bool)
        for name, constraint in constraints.items():
            every &= _satisfying(table[name], constraint)
        either |= every
    return either


def _satisfying(column: Any, c: Constraint) -> Any:
    if c.members is not None:
        members = [_as_column(c, value) for value in c.members if not is_nan(value)]
        found = pc.is_in(column, value_set=pa.array(members, column.type))
    else:
        low = c.low if c.low is not None else -math.inf if c.kind is Kind.NUMBER else ""
        found = pc.greater_equal(column, _as_column(c, low))
        if c.high is not None:
            found = pc.and_(found, pc.less_equal(column, _as_column(c, c.high)))
    if c.kind is Kind.NUMBER and satisfies(c, NAN):
        found = pc.or_(found, pc.is_nan(column))
    return found.fill_null(False).to_numpy()


class SegmentSource(Source):
    """The rows of one topic in one segment."""

    def __init__(
        self,
        file: SegmentFile,
        extent: Extent,
        topic: Topic,
        span: Span,
        seeds: Seeds,
        number: int,
    ) -> None:
        super().__init__(number, span.before, file.segment.footer.since_us)
        self._file, self._topic, self._span, self._seeds = file, topic, span, seeds
        self._next, self._end = extent.first, extent.first + extent.rows

    def where(self) -> str:
        return f"topic {self._topic.name!r} in {self._file.segment.name}"

    def fetch(self, size: int) -> None:
        while not self.done and not self.rows:
            self._fetch_some(size)

    def _fetch_some(self, size: int) -> None:
        file = self._file
        if self._next >= self._end:
            self.done = True
            return
        group = file.group_of(self._next)
        end = min(self._end, file.starts[group + 1])
        last_us = file.last_time_us(group)
        if last_us is not None and last_us < self.before[0]:
            self._next = end
            return
        try:
            table = file.rows(group)
        except _FAILED:
            self.rows, self._next = [(*self.before, self.number, None)], end
            return
        self._take_over(table, end, size)

    def take_whole(self, before_us: int) -> Whole:
        if self._next >= self._end or self.before == self._span.before:
            return Whole()  # the first rows may be on either side of it
        group = self._file.group_of(self._next)
        end = min(self._end, self._file.starts[group + 1])
        try:
            table = self._file.rows(group)
        except _FAILED:
            return Whole()
        if table is None:
            return Whole()
        first, last = np.searchsorted(table["row"].to_numpy(), (self._next, end)).tolist()
        times_us = table["time_us"].to_numpy()[first:last]
        count = int(np.searchsorted(times_us, min(before_us, self._span.last_us + 1)))
        bodies = self._sound_bodies(table.slice(first, count)) if count else None
        if bodies is None:
            return Whole()
        key = _tuples(table.slice(first + count - 1, 1).select(_ROW))[0][:3]
        self.before, self._next = key, int(table["row"][first + count - 1].as_py()) + 1
        return Whole(bodies)

    def _sound_bodies(self, table: Any) -> list[bytes] | None:
        """Return the bodies of rows; None if one is damaged, or has expired."""
        expiries = table["expiry_us"]
        if expiries.null_count < len(expiries) and pc.min(expiries).as_py() <= self._span.now_us:
            return None
        names = table["publisher"].combine_chunks().dictionary_encode()
        of_names = [self._seeds[name.encode()] for name in names.dictionary.to_pylist()]
        bodies: list[bytes] = table["body"].to_pylist()
        expected = checksums(
            self._topic.seed,
            np.array(of_names, np.uint64)[names.indices.to_numpy()],
            table["time_us"].to_numpy(),
            table["seq"].to_numpy(),
            expiries.fill_null(0).to_numpy(),
            bodies,
        )
        return bodies if np.array_equal(expected, table["checksum"].to_numpy()) else None

    def _take_over(self, table: Any, end: int, size: int) -> None:
        """Append rows of a row group, up to this row of the file, or up to `size`."""
        if table is not None:
            numbers = table["row"].to_numpy()
            first, last = np.searchsorted(numbers, (self._next, end)).tolist()
            times = table["time_us"].to_numpy()[first:last]
            first += int(np.searchsorted(times, self.before[0]))
            part = table.slice(first, min(size, last - first))
            if first + part.num_rows < last:
                end = int(numbers[first + part.num_rows])
            self._choose(_tuples(part.select(_ROW)))
        self._next = end

    def _choose(self, raw: list[tuple[Any, ...]]) -> None:
        span = self._span
        if raw and raw[-1][0] > span.last_us:
            self.done = True
        first = bisect_right(raw, self.before, key=itemgetter(0, 1, 2))
        end = bisect_right(raw, span.last_us, key=itemgetter(0))
        here = [row for row in raw[first:end] if row[3] is None or row[3] > span.now_us]
        self.rows = checked(here, self._topic.seed, self._seeds, self.number, self.before)
        if self.rows:
            self.before = self.rows[-1][:3]


def segment_sources(
    segments: Segments,
    topics: Iterable[Topic],
    filter: Filter | None,
    span: Span,
    seeds: Seeds,
    first_number: int,
) -> list[Source]:
    """Return a source for each segment with rows of these topics."""
    asked = {topic.name: topic for topic in topics}
    found: list[Source] = []
    for segment in segments.all:
        footer = segment.footer
        if footer.until_us <= span.before[0] or footer.since_us > span.last_us:
            continue
        file = SegmentFile(segment, filter, segments.indexed)
        for extent in footer.extents:
            if extent.topic in asked:
                number, topic = first_number + len(found), asked[extent.topic]
                found.append(SegmentSource(file, extent, topic, span, seeds, number))
    return found

"""How stored events are spread over topics and time: counts of stretches, without reading events.

A *stretch* has the rows of one topic from its time on to that of the topic's next stretch. Counts
come from what a history keeps anyway: the statistics of row groups, a column of times where one
stretch is less than a row group, and the primary key of the database, along which SQLite steps.
They are estimates: rows that have expired count until they are removed.

For topics of which a filter may leave out events nothing of that may be told, since the filter may
be what a user is allowed to see. There the first part of each stretch is read, one event in
`SAMPLED`, and what the filter leaves of that is told, with the times of events that match."""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence

from reefcast.history.conditions import is_whole
from reefcast.history.limits import Topic
from reefcast.history.reading import WHOLE, Connected, Span
from reefcast.history.rows import ABOVE_ALL, Key
from reefcast.history.segments import Segment, Segments
from reefcast.history.spread import Stretch
from reefcast.model.filters import Filter
from reefcast.model.publication import INT64_MIN
from reefcast.model.wire import decode_publication

SAMPLED = 16
"""One event in so many is read where a filter decides."""
LEAST_SAMPLE = 64
"""Rows of a stretch that are read at least."""
Part = tuple[int, int]
"""A time, and how many rows lie behind it."""
Read = Callable[[int, int], Iterator[list[bytes]]]
"""Reads the events of some topics that a filter wants, from a time to another one (exclusive)."""


def stretches(
    segments: Segments,
    connected: Connected,
    topics: Sequence[Topic],
    filter: Filter,
    span: Span,
    most: int,
    read: Read,
) -> list[Stretch]:
    """Return some `most` stretches, or one for each topic, in the order of time. `read`: reads
    what the filter wants of all `topics`."""
    whole = all(is_whole(filter, topic.name) for topic in topics)
    counting = _Counting(segments, connected, span)
    step = max(counting.rows(topics) // most, 1)
    if whole:
        return sorted(each for topic in topics for each in counting.of(topic, step))
    fine = max(step // SAMPLED, LEAST_SAMPLE)
    parts = sorted(each for topic in topics for each in counting.of(topic, fine))
    return _sampled([(each.time_us, each.rows) for each in parts], step, span, read)


# --- rows that lie somewhere ----------------------------------------------------------------------


class _Counting:
    def __init__(self, segments: Segments, connected: Connected, span: Span) -> None:
        self._span = span
        self._since_us = span.before[0] + (span.before[1] == ABOVE_ALL)
        self._connected = connected
        self._sealed = [
            (each, segments.dropped.get(each.name, 0))
            for each in segments.all
            if each.footer.until_us > self._since_us and each.footer.since_us <= span.last_us
        ]

    def rows(self, topics: Iterable[Topic]) -> int:
        """Return how many rows there may be of these topics, with those of other times in the
        database."""
        names = {topic.name: topic.rows for topic in topics}
        sealed = sum(
            extent.rows
            for segment, _ in self._sealed
            for extent in segment.footer.extents
            if extent.topic in names
        )
        return sealed + sum(names.values())

    def of(self, topic: Topic, step: int) -> Iterator[Stretch]:
        """Yield the stretches of a topic, each of about `step` rows in one file."""
        for segment, dropped in self._sealed:
            for extent in segment.footer.extents:
                if extent.topic == topic.name:
                    # what the database still has of it is counted there
                    end = min(extent.first + extent.rows, dropped)
                    parts = self._in_file(segment, extent.first, end, step)
                    for time_us, rows in _together(parts, step):
                        yield Stretch(time_us, topic.name, rows)
        if topic.rows:
            with self._connected() as database:
                for time_us, rows in self._in_database(database, topic, step):
                    yield Stretch(time_us, topic.name, rows)

    def _in_file(self, segment: Segment, first: int, end: int, step: int) -> Iterator[Part]:
        from reefcast.history.segment_reading import SegmentFile

        if first >= end:
            return
        file = SegmentFile(segment, None, {})
        for group in range(file.group_of(first), file.group_of(end - 1) + 1):
            start, until = file.starts[group : group + 2]
            low, high = max(first, start), min(end, until)
            known = file.times_us(group)
            if known is not None and (known[1] < self._since_us or known[0] > self._span.last_us):
                continue
            if known is not None and high - low == until - start <= step and self._covers(known):
                yield known[0], until - start
                continue
            times = file.read(group, ["time_us"])["time_us"].to_numpy()
            yield from self._in_steps(times[low - start : high - start].tolist(), step)

    def _covers(self, known: tuple[int, int]) -> bool:
        return self._since_us <= known[0] and known[1] <= self._span.last_us

    def _in_steps(self, times: Sequence[int], step: int) -> Iterator[Part]:
        first = bisect_left(times, self._since_us)
        end = bisect_left(times, self._span.last_us + 1)
        for start in range(first, end, step):
            yield times[start], min(step, end - start)

    def _in_database(self, database: sqlite3.Connection, topic: Topic, step: int) -> Iterator[Part]:
        """Yield parts, by steps along the primary key: nothing but keys is looked at."""
        rows = (
            f"FROM message INDEXED BY {WHOLE.through} WHERE topic = ? "
            "AND (time_us, publisher, seq) >= (?, ?, ?) AND time_us <= ?"
        )
        nth = f"SELECT time_us, publisher, seq {rows} ORDER BY 1, 2, 3 LIMIT 1 OFFSET ?"
        last_us = self._span.last_us
        first: Key = (self._since_us, b"", INT64_MIN)
        here = database.execute(nth, (topic.id, *first, last_us, 0)).fetchone()
        while here is not None:
            following = database.execute(nth, (topic.id, *here, last_us, step)).fetchone()
            count = step
            if following is None:
                asked = (topic.id, *here, last_us)
                (count,) = database.execute(f"SELECT count(*) {rows}", asked).fetchone()
            yield here[0], count
            here = following


def _together(parts: Iterable[Part], step: int) -> Iterator[Part]:
    """Yield parts that lie behind each other as one, of up to `step` rows."""
    last: Part | None = None
    for time_us, rows in parts:
        if last is not None and last[1] + rows <= step:
            last = (last[0], last[1] + rows)
            continue
        if last is not None:
            yield last
        last = (time_us, rows)
    if last is not None:
        yield last


# --- rows that a filter chooses -------------------------------------------------------------------


def _sampled(parts: Sequence[Part], step: int, span: Span, read: Read) -> list[Stretch]:
    """Return how many events are wanted of stretches of about `step` rows each, by reading the
    first parts of each. `parts`: in the order of their times."""
    times = sorted({time_us for time_us, _ in parts})
    counts = dict.fromkeys(times, 0)
    for time_us, rows in parts:
        counts[time_us] += rows
    found: list[Stretch] = []
    start = 0
    while start < len(times):
        end, rows = start, 0
        while end < len(times) and rows < step:
            rows += counts[times[end]]
            end += 1
        until = start + max((end - start) // SAMPLED, 1)
        until_us = times[until] if until < len(times) else span.last_us + 1
        bodies = [body for some in read(times[start], until_us) for body in some]
        if bodies:
            looked = sum(counts[time_us] for time_us in times[start:until])
            first_us = decode_publication(bodies[0]).time_us
            found.append(Stretch(first_us, "", len(bodies) * rows // looked or 1))
        start = end
    return found

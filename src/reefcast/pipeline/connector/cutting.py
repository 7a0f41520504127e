"""Cutting what is to be read into pieces of about equal numbers of events, for tasks.

Theory of operation
-------------------
Topics lie behind each other on a line, each over the whole time that is read; topics of one storage
are neighbours. The line is cut where equal numbers of events lie between the cuts, as counts of
stretches say, or the events themselves if they are few. So a topic that has most events is divided
by time, however short its bursts are, small ones share a task, and a task asks few storages.

An event on several topics belongs to the first one that is on the line: whoever reads another one
of its topics leaves it out (`Read.but`). That is right as long as each of the topics shows the
event, so only topics that are read as a whole have places of their own; the storages say so. If
there are many of these, the ones with most events have. All others have the last place on the line,
and are cut by time alone.

Counts may be wrong: then pieces have unlike sizes, and are all there is nevertheless."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Any, NamedTuple, Protocol

from reefcast.history.spread import Stretch
from reefcast.model.filters import parse_filter
from reefcast.model.topics import topic_patterns_of
from reefcast.pipeline.connector.ids import Ids

LEAST_ROWS = 1000
"""The least rows of a task, where a batch could be divided further."""
MOST_PROBED = 16 * LEAST_ROWS
"""The most events of which the ids are read to divide them."""
STRETCHES, LEAST_STRETCHES, MOST_STRETCHES = 16, 64, 8192
"""Stretches that are asked for: for each task, and altogether."""
MOST_TOPICS, MOST_TOPIC_CHARS = 256, 16_384
"""The most topics with places of their own, since filters name them."""
NEAR = 8
"""A cut is moved to a boundary between topics that is nearer than 1/8 of a piece."""

Span = tuple[int, int]
"""Microseconds: the first inclusive, the second exclusive."""


class Read(NamedTuple):
    """What is asked for at once: from a time to another one (exclusive). `topics`: the names of the
    topics; none: all. `but`: events on one of these are left out. `filter`: what finds the events;
    "" if that of the query does."""

    since_us: int
    until_us: int
    topics: tuple[str, ...] = ()
    but: tuple[str, ...] = ()
    filter: str = ""

    @property
    def span(self) -> Span:
        """The time."""
        return self.since_us, self.until_us

    def asked(self, filter: str) -> str:
        """Return the filter to ask with; `filter`: that of the query."""
        filter = self.filter or filter
        if self.topics:
            return f"({filter}) AND topic IN ({_quoted(self.topics)})"
        return f"({filter}) AND topic NOT IN ({_quoted(self.but)})" if self.but else filter

    def is_possible(self, filter: str) -> bool:
        """Return whether any topic can match: not if all topics that the filter names are left
        out."""
        return (
            bool(self.topics or not self.but)
            or topic_patterns_of(parse_filter(self.asked(filter))) != ()
        )


def _quoted(topics: Iterable[str]) -> str:
    return ", ".join("'" + topic.replace("'", "''") + "'" for topic in topics)


class Cuts(NamedTuple):
    """Where the line is cut: places of `topics`, with times. `topics`: those with places of their
    own; all others have the place behind them, also those that came since they were counted."""

    topics: tuple[str, ...] = ()
    at: tuple[tuple[int, int], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return what goes into a checkpoint."""
        return {"topics": list(self.topics), "at": [list(each) for each in self.at]}

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> Cuts:
        """Return what a checkpoint says."""
        return cls(tuple(value["topics"]), tuple((place, us) for place, us in value["at"]))

    def pieces(self, since_us: int, until_us: int) -> list[tuple[Read, ...]]:
        """Return what each task asks for; together that is all from a time to another one."""
        if since_us >= until_us:
            return []
        rest = len(self.topics)  # the place of events on other topics
        inside = sorted({(p, min(max(us, since_us), until_us)) for p, us in self.at if p <= rest})
        ends = [(0, since_us), *inside, (rest, until_us)]
        found = (self._between(a, b, (since_us, until_us)) for a, b in pairwise(ends))
        return [piece for piece in found if piece]

    def _between(self, low: tuple[int, int], high: tuple[int, int], span: Span) -> tuple[Read, ...]:
        (first, low_us), (last, high_us) = low, high
        if first == last:
            return self._some(first, last + 1, (low_us, high_us))
        whole = first if low_us <= span[0] else first + 1
        end = last + 1 if high_us >= span[1] else last
        return (
            *(self._some(first, whole, (low_us, span[1]))),
            *(self._some(whole, end, span)),
            *(self._some(end, last + 1, (span[0], high_us))),
        )

    def _some(self, first: int, end: int, span: Span) -> tuple[Read, ...]:
        """Return the reads for the places from `first` on and before `end`, in this span of
        time."""
        if first >= end or span[0] >= span[1]:
            return ()
        named = self.topics[first:end]
        found = (Read(*span, named, self.topics[:first]),) if named else ()
        return found if end <= len(self.topics) else (*found, Read(*span, (), self.topics))


class Counted(Protocol):
    """A history that says what it has; see `reading.Past`."""

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Ids: ...

    def stretches(self, since_us: int, until_us: int, most: int) -> list[Stretch] | None: ...


def tasks_for(events: int, most: int) -> int:
    """Return how many tasks, at least one and at most `most`, read this number of events."""
    return min(most, max(events // LEAST_ROWS, 1))


def cuts_of(history: Counted, since_us: int, until_us: int, most: int) -> Cuts:
    """Return how to divide the events of a stretch of time among at most `most` tasks."""
    if most <= 1 or since_us >= until_us:
        return Cuts()
    limit = min(most * LEAST_ROWS, MOST_PROBED)
    ids = history.ids(since_us, until_us, limit)
    if len(ids.times) < limit:
        return cuts_by_ids(ids, most)
    wanted = min(max(most * STRETCHES, LEAST_STRETCHES), MOST_STRETCHES)
    found = history.stretches(since_us, until_us, wanted)
    if found is None:  # by an older storage
        return equal_times(int(ids.times[0]), until_us, most)
    return cuts_by_counts(found, since_us, most)


def cuts_by_ids(ids: Ids, most: int) -> Cuts:
    """Return cuts between events, all of which are known."""
    rows = len(ids.times)
    tasks = tasks_for(rows, most)
    times = sorted({int(ids.times[rows * k // tasks]) for k in range(1, tasks)})
    return Cuts((), tuple((0, time_us) for time_us in times))


def equal_times(since_us: int, until_us: int, count: int) -> Cuts:
    """Return cuts into pieces of equal time, where nothing is known of the events."""
    length_us = until_us - since_us
    count = max(1, min(count, length_us))
    return Cuts((), tuple((0, since_us + length_us * k // count) for k in range(1, count)))


def cuts_by_counts(found: Sequence[Stretch], since_us: int, most: int) -> Cuts:
    """Return cuts between stretches."""
    topics = _with_places(found)
    places = {topic: place for place, topic in enumerate(topics)}
    rest = len(topics)
    line = sorted((places.get(each.topic, rest), each.time_us, each.rows) for each in found)
    ends = list(accumulate((rows for _, _, rows in line), initial=0))
    tasks = tasks_for(ends[-1], most)
    firsts = [k for k in range(1, len(line)) if line[k][0] != line[k - 1][0]]
    piece = ends[-1] / tasks
    numbers = {_nearest(ends, firsts, piece * task, piece) for task in range(1, tasks)}
    at = {_place(line, k, since_us) for k in numbers if 0 < k < len(line)}
    return Cuts(topics, tuple(sorted(at)))


def _with_places(found: Sequence[Stretch]) -> tuple[str, ...]:
    """Return the topics that get places of their own, those of a storage behind each other: the
    ones with most events, if they are told apart."""
    storages = {each.topic: each.storage for each in reversed(found)}
    if "" in storages or len(storages) < 2:
        return ()
    rows: Counter[str] = Counter()
    for each in found:
        rows[each.topic] += each.rows
    most = [topic for topic, _ in rows.most_common(MOST_TOPICS)]
    chars = accumulate(map(len, most))
    some = [topic for topic, size in zip(most, chars, strict=True) if size <= MOST_TOPIC_CHARS]
    return tuple(sorted(some, key=lambda topic: (storages[topic], topic)))


def _nearest(ends: list[int], firsts: list[int], goal: float, piece: float) -> int:
    """Return the number of the stretch that begins nearest to a number of events on the line;
    rather one that begins a topic."""
    k = bisect_left(ends, goal)
    if k and goal - ends[k - 1] < ends[k] - goal:
        k -= 1
    j = bisect_left(firsts, k)
    near = [each for each in firsts[max(j - 1, 0) : j + 1] if abs(ends[each] - goal) < piece / NEAR]
    return min(near, key=lambda each: abs(ends[each] - goal), default=k)


def _place(line: list[tuple[int, int, int]], k: int, since_us: int) -> tuple[int, int]:
    place, time_us, _ = line[k]
    return (place, since_us if line[k - 1][0] != place else time_us)

"""Reading the database: the rows of a topic in their order, found as the filter allows.

A topic's rows are found by one of these *access paths*:

- a value of an indexed attribute, one path for each value that the filter names, and for each era:
  the index has their rows in order;
- an interval of an indexed attribute that holds few rows (`FEW`): they are looked up and sorted;
- all rows of the topic in order, those left out whose columns exclude them. An interval with many
  rows is read like this: then one of them is never far.

Each fetch is a query of its own, from the position behind the last row on. So nothing is held
between two of them, however slow the reader is, and the log of the database can be moved on.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple

from reefcast.history.conditions import Condition, Demands, Indexed, both
from reefcast.history.eras import Era
from reefcast.history.limits import Topic
from reefcast.history.merging import Source
from reefcast.history.rows import Key, Seeds, checked
from reefcast.history.schema import column, index, is_damage
from reefcast.history.writing import RAW
from reefcast.model.publication import INT64_MAX, INT64_MIN

Connected = Callable[[], AbstractContextManager[sqlite3.Connection]]
"""Lends a connection for a moment."""

FEW = 2000
"""Rows of an interval that are sorted."""
MOST_PATHS = 64
"""The most access paths into one topic."""
_WHOLE_TOPIC = "sqlite_autoindex_message_1"
"""SQLite's own name of the primary key."""


@dataclass(frozen=True, slots=True)
class Span:
    """The positions to be read of each topic: behind `before`, until `last_us` (inclusive), and not
    expired at `now_us`."""

    before: Key
    last_us: int
    now_us: int


class AccessPath(NamedTuple):
    """`through`: the index that is used. `start_us`: no row is earlier."""

    through: str
    condition: Condition | None
    start_us: int


WHOLE = AccessPath(_WHOLE_TOPIC, None, INT64_MIN)


class AccessPaths:
    """Find the access paths into topics, by what the conjunctions of a filter want; into these
    eras."""

    def __init__(
        self, database: sqlite3.Connection, wanted: Sequence[Demands], eras: Sequence[Era]
    ) -> None:
        self._database = database
        self._wanted = wanted
        self._eras = eras
        self._in_eras = f"era IN ({', '.join(str(era.number) for era in eras)})"

    def into(self, topic: Topic) -> list[AccessPath]:
        found: list[AccessPath] = []
        for demands in self._wanted:
            some = self._for(topic, demands)
            if some is None or len(found) + len(some) > MOST_PATHS * len(self._eras):
                return [self._scan()]
            found += some
        return list(dict.fromkeys(found))

    def _scan(self) -> AccessPath:
        if not all(self._wanted):
            return WHOLE
        either = [both([demand.condition for demand in demands]) for demands in self._wanted]
        return WHOLE._replace(condition=both(either, "OR"))

    def _for(self, topic: Topic, demands: Demands) -> list[AccessPath] | None:
        """Return the access paths for some demands; None if none is better than all rows of the
        topic."""
        by_points = [demand for demand in demands if demand.points is not None]
        if by_points:
            best = by_points[0]
            if len(by_points) > 1:
                best = min(by_points, key=lambda demand: self._rows(topic, demand))
            return [
                self._to_point(best, value, demands, era)
                for era in self._eras
                for value in best.points or ()
            ]
        for demand in demands:
            if self._rows(topic, demand) <= FEW:
                here = [Condition(self._in_eras, ()), *(each.condition for each in demands)]
                return [AccessPath(index(demand.number), both(here), INT64_MIN)]
        return None

    def _to_point(self, best: Indexed, value: Any, demands: Demands, era: Era) -> AccessPath:
        here = Condition(f"era = ? AND {column(best.number)} IS ?", (era.number, value))
        others = [each.condition for each in demands if each is not best]
        return AccessPath(index(best.number), both([here, *others]), era.first_us)

    def _rows(self, topic: Topic, demand: Indexed) -> int:
        """Return how many rows a demand leaves, at most one more than `FEW`."""
        text, parameters = demand.condition
        query = (
            f"SELECT count(*) FROM (SELECT 1 FROM message INDEXED BY {index(demand.number)} "
            f"WHERE {self._in_eras} AND topic = ? AND {text} LIMIT {FEW + 1})"
        )
        (count,) = self._database.execute(query, (topic.id, *parameters)).fetchone()
        return int(count)


class DatabaseSource(Source):
    """The rows of one topic, by one access path. `raw`: the raw rows behind those fetched last,
    with their expiries and checksums."""

    def __init__(
        self,
        connected: Connected,
        topic: Topic,
        path: AccessPath,
        span: Span,
        seeds: Seeds,
        number: int,
    ) -> None:
        super().__init__(number, span.before, path.start_us)
        self._connected, self._topic, self._seeds = connected, topic, seeds
        self.raw: list[tuple[Any, ...]] = []
        text, parameters = path.condition or ("TRUE", ())
        self._query = (
            f"SELECT {RAW} FROM message INDEXED BY {path.through} "
            "WHERE topic = ? AND (time_us, publisher, seq) > (?, ?, ?) AND time_us <= ? "
            f"AND (expiry_us IS NULL OR expiry_us > ?) AND ({text}) "
            "ORDER BY time_us, publisher, seq LIMIT ?"
        )
        self._until = (span.last_us, span.now_us, *parameters)

    def where(self) -> str:
        return f"topic {self._topic.name!r} in the database"

    def fetch(self, size: int) -> None:
        try:
            raw = self._raw(self.before, size)
        except sqlite3.DatabaseError as error:
            raw = self._before_damage(error, size)
            if not raw:
                self.raw, self.rows = [], [(*self.before, self.number, None)]
                self.before = self._behind_pages(self.before)
                self.done = self.before[0] == INT64_MAX
                return
        else:
            self.done = len(raw) < size
        self._take_over(raw)

    def _take_over(self, raw: list[tuple[Any, ...]]) -> None:
        self.raw = raw
        self.rows = checked(raw, self._topic.seed, self._seeds, self.number, self.before)
        if self.rows:
            self.before = self.rows[-1][:3]
            if self.rows[-1][4] is None and not self.done:
                time_us, publisher, seq = raw[-1][:3]
                self.before = self._behind_damage(self.before, (time_us, publisher, seq))

    def _raw(self, before: Key, size: int) -> list[tuple[Any, ...]]:
        with self._connected() as database:
            return database.execute(
                self._query, (self._topic.id, *before, *self._until, size)
            ).fetchall()

    def _before_damage(self, error: sqlite3.DatabaseError, size: int) -> list[tuple[Any, ...]]:
        """Return the rows before pages that cannot be read."""
        if not is_damage(error):
            raise error
        while size > 1:
            size //= 2
            try:
                return self._raw(self.before, size)
            except sqlite3.DatabaseError:
                continue
        return []

    def _behind_damage(self, before: Key, last: Key) -> Key:
        """Return where to continue when the rows up to `last`, as the database says, are
        damaged."""
        try:
            return self._behind_rows(before)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            return last if last > before else (before[0] + 1, b"", INT64_MIN)

    def _behind_rows(self, before: Key) -> Key:
        """Return the next sound row, if all pages up to it can be read."""
        size = 16
        while True:
            raw = self._raw(before, size)
            rows = checked(raw, self._topic.seed, self._seeds, self.number, before)
            sound = next((row for row in rows if row[4] is not None), None)
            if sound is not None:
                return _just_before(sound[:3])
            if len(raw) < size:
                return (INT64_MAX, b"", INT64_MIN)
            size *= 4

    def _behind_pages(self, before: Key) -> Key:
        """Return the least time found from which on rows can be read again: by doubling, then
        halving."""
        near, step = before[0], 1
        while near + step < INT64_MAX and not self._is_readable(near + step):
            step *= 2
        far = min(near + step, INT64_MAX)
        while far - near > 1:
            middle = (near + far) // 2
            if self._is_readable(middle):
                far = middle
            else:
                near = middle
        return (far, b"", INT64_MIN)

    def _is_readable(self, time_us: int) -> bool:
        try:
            self._raw((time_us, b"", INT64_MIN), 1)
        except sqlite3.DatabaseError:
            return False
        return True


def _just_before(key: Key) -> Key:
    time_us, publisher, seq = key
    return (time_us, publisher, seq - 1) if seq > INT64_MIN else (time_us - 1, b"\xff", INT64_MAX)


def database_sources(
    connected: Connected,
    topics: Iterable[Topic],
    wanted: Sequence[Demands] | None,
    eras: Sequence[Era],
    span: Span,
    seeds: Seeds,
) -> list[Source]:
    """Return a source for each access path into these topics; `wanted` None: everything."""
    found: list[Source] = []
    for topic in topics:
        into = [WHOLE]
        if wanted is not None:
            with connected() as database:
                into = AccessPaths(database, wanted, eras).into(topic)
        for path in into:
            found.append(DatabaseSource(connected, topic, path, span, seeds, len(found)))
    return found

"""Limits of a history: how much it keeps, and for how long; and the counts for them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from reefcast.errors import ConfigurationError
from reefcast.history.rows import Key, topic_seed
from reefcast.model.patterns import is_topic_match


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """None is no limit. `rows`, `bytes`: of all topics together, `topic_rows`, `topic_bytes`: of
    each; they count what is in the database, bodies alone, once for each of their topics. Beyond
    them the oldest go first. `sealed_bytes`: size of the sealed segments on disk; the oldest
    segment goes first, as a whole. `lifetimes_s`: by topic or pattern, the first that matches, for
    publications that do not say it themselves; no pattern: for ever."""

    rows: int | None = None
    bytes: int | None = None
    topic_rows: int | None = None
    topic_bytes: int | None = None
    sealed_bytes: int | None = None
    lifetimes_s: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        limits = (self.rows, self.bytes, self.topic_rows, self.topic_bytes, self.sealed_bytes)
        for number in (*limits, *self.lifetimes_s.values()):
            if number is not None and number <= 0:
                raise ConfigurationError(
                    f"a history cannot be limited to {number}: limits and lifetimes exceed 0"
                )

    def lifetime_us(self, topic: str) -> int | None:
        for pattern, lifetime_s in self.lifetimes_s.items():
            if is_topic_match(topic, pattern):
                return round(lifetime_s * 1e6)
        return None


@dataclass(slots=True)
class Topic:
    """A topic with its counts. `last`: the greatest position that was ever stored, even if its row
    is gone."""

    id: int
    name: str
    lifetime_us: int | None
    rows: int = 0
    bytes: int = 0
    expired: int = 0
    evicted: int = 0
    last: Key | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        self.seed = topic_seed(self.name)


class Kept(dict[tuple[str, ...], tuple[str, ...]]):
    """The kept topics of a publication. `patterns`: the names or patterns of those that are
    kept."""

    MOST = 100_000

    def __init__(self, patterns: Sequence[str]) -> None:
        super().__init__()
        self.patterns = tuple(patterns)

    def __missing__(self, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(self) >= self.MOST:
            self.clear()
        kept = self[names] = tuple(name for name in names if self.has(name))
        return kept

    def has(self, name: str) -> bool:
        return any(is_topic_match(name, pattern) for pattern in self.patterns)


class Topics:
    """The topics of a database, by name, with the counts of each. `kept`: those that are stored,
    None for all; `forgets`: whether the database drops others. The writer changes them; readers
    look at them at any time."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.kept: Kept | None = None
        self.forgets = False
        self.by_name: dict[str, Topic] = {}
        self.by_id: dict[int, Topic] = {}
        self._changed: dict[int, Topic] = {}
        self._sealed: dict[str, Key] = {}
        self._next = 1
        self.rows = self.bytes = 0

    def load(self, database: sqlite3.Connection) -> None:
        """Load the topics from the database. Numbers are never given out twice, because readers may
        know them."""
        by_name, by_id = {}, {}
        for id, name, rows, size, expired, evicted, *last in database.execute(
            "SELECT * FROM topic"
        ):
            key = None if None in last else (last[0], last[1], last[2])
            lifetime_us = self._limits.lifetime_us(name)
            topic = Topic(id, name, lifetime_us, rows, size, expired, evicted, key)
            by_name[name] = by_id[id] = topic
        self.by_name, self.by_id, self._changed = by_name, by_id, {}
        self._next = max(self._next, 1 + max(by_id, default=0))
        for name, last in list(self._sealed.items()):
            self.sealed(name, last)
        self.rows = sum(topic.rows for topic in by_name.values())
        self.bytes = sum(topic.bytes for topic in by_name.values())

    def __iter__(self) -> Iterator[Topic]:
        yield from list(self.by_name.values())

    def get(self, name: str) -> Topic:
        """Return the topic of this name, and add it if there is none."""
        topic = self.by_name.get(name)
        if topic is None:
            topic = Topic(self._next, name, self._limits.lifetime_us(name))
            self._next += 1
            self.by_name[name] = self.by_id[topic.id] = topic
        return topic

    def sealed(self, name: str, last: Key) -> None:
        """Note that a segment has rows of this topic, up to this position."""
        self._sealed[name] = max(last, self._sealed.get(name, last))
        topic = self.get(name)
        topic.last = max(last, topic.last or last)

    def matching(self, patterns: Iterable[str]) -> list[Topic]:
        """Return the topics whose name is among `patterns` or matches one of them."""
        found: dict[str, Topic] = {}
        for pattern in patterns:
            if pattern in self.by_name:
                found[pattern] = self.by_name[pattern]
            if "+" in pattern or "#" in pattern:
                with suppress(ValueError):  # no pattern, but a name
                    found |= {t.name: t for t in self if is_topic_match(t.name, pattern)}
        return list(found.values())

    def forgotten(self, name: str) -> bool:
        """Return whether the rows of this topic are to be removed."""
        return self.forgets and self.kept is not None and not self.kept.has(name)

    def count(self, topic: Topic, rows: int, size: int) -> None:
        """Add to the counts of rows and bytes of a topic, or subtract from them."""
        topic.rows += rows
        topic.bytes += size
        self.rows += rows
        self.bytes += size
        self._changed[topic.id] = topic

    def save(self, database: sqlite3.Connection) -> None:
        """Save the topics that have changed, in the open transaction."""
        database.executemany(
            "INSERT OR REPLACE INTO topic VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                (t.id, t.name, t.rows, t.bytes, t.expired, t.evicted, *(t.last or (None,) * 3))
                for t in self._changed.values()
            ],
        )
        self._changed = {}

    # --- what is too much -------------------------------------------------------------------------

    def excess(self) -> Excess:
        """Return by how much all topics together exceed their limits."""
        return _excess(self.rows, self.bytes, self._limits.rows, self._limits.bytes)

    def excess_of(self, topic: Topic) -> Excess:
        """Return by how much one topic exceeds its limits."""
        if self.forgotten(topic.name):
            return Excess(topic.rows, 0, topic.rows)
        limits = self._limits
        return _excess(topic.rows, topic.bytes, limits.topic_rows, limits.topic_bytes)


class Excess(NamedTuple):
    """The rows and bytes to remove; `guess`: how many rows that may be."""

    rows: int
    bytes: int
    guess: int

    def enough(self, sizes: Sequence[int]) -> int:
        """Return how many of the oldest rows, of these sizes, must be removed."""
        size = 0
        for rows, each in enumerate(sizes):
            if rows >= self.rows and size >= self.bytes:
                return rows
            size += each
        return len(sizes)


def _excess(rows: int, size: int, most_rows: int | None, most_bytes: int | None) -> Excess:
    too_many = 0 if most_rows is None else max(0, rows - most_rows)
    too_much = 0 if most_bytes is None else max(0, size - most_bytes)
    average = 1 + too_much * rows // max(1, size) if too_much else 0
    return Excess(too_many, too_much, max(too_many, average))

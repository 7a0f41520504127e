"""Changes of the database: batches of publications are added, and rows that are too old or too many
removed.

Each call is one transaction. Rows go in sorted by topic and position: neighbours share a page."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

from reefcast.history.eras import Eras
from reefcast.history.limits import Excess, Topic, Topics
from reefcast.history.rows import (
    FIRST,
    Incoming,
    Seeds,
    checked,
    checksum,
    column_value,
    decoded,
    expiry_of,
)
from reefcast.model.publication import Publication

_BODY = (
    "CAST(ifnull(body, (SELECT body FROM shared WHERE (time_us, publisher, seq) = "
    "(message.time_us, message.publisher, message.seq))) AS BLOB)"
)
RAW = (
    "CAST(time_us AS INTEGER), CAST(publisher AS BLOB), CAST(seq AS INTEGER), "
    f"CAST(expiry_us AS INTEGER), CAST(checksum AS INTEGER), {_BODY}"
)
"""The columns of a row of `message` that `rows.checked` takes, with the types that it takes,
whatever has become of them."""

_GONE = "topic, time_us, publisher, seq, size, body IS NULL"
_KEY = "topic = ? AND time_us = ? AND publisher = ? AND seq = ?"
_EXPIRED = f"SELECT {_GONE} FROM message WHERE expiry_us <= ? ORDER BY expiry_us LIMIT ?"
_OLDEST = f"SELECT {_GONE} FROM message INDEXED BY by_time ORDER BY time_us, publisher, seq LIMIT ?"
_OLDEST_OF_TOPIC = (
    f"SELECT {_GONE} FROM message WHERE topic = ? ORDER BY time_us, publisher, seq LIMIT ?"
)
_SWEEP = """
DELETE FROM shared WHERE (time_us, publisher, seq) = (?1, ?2, ?3) AND NOT EXISTS (
    SELECT 1 FROM message INDEXED BY by_time
    WHERE time_us = ?1 AND publisher = ?2 AND seq = ?3 AND body IS NULL)
"""
_STORE_SHARED = "INTO shared VALUES (?, ?, ?, ?)"

_key = itemgetter(0, 1, 2, 3)


class Appended(NamedTuple):
    """How many rows were stored, and how many were `known`, counted once for each topic of a
    publication. `evicted`: rows that were removed for them."""

    stored: int
    known: int
    evicted: int


class Cleaned(NamedTuple):
    """How many rows were removed for which reason; `more`: whether another call would remove
    more."""

    expired: int
    evicted: int
    dropped: int
    more: bool


class _Prepared(NamedTuple):
    """Rows of `message`, sorted, and of `shared`."""

    rows: list[tuple[Any, ...]]
    shared: list[tuple[Any, ...]]


class Writer:
    """The only writer of the database."""

    def __init__(
        self,
        database: sqlite3.Connection,
        topics: Topics,
        eras: Eras,
        attributes: Sequence[str],
    ) -> None:
        self._database = database
        self._topics = topics
        self._eras = eras
        self._attributes = attributes
        self._seeds = Seeds()
        values = ", ".join("?" * (9 + len(attributes)))
        self._store = f"INTO message VALUES ({values})"

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._database.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._topics.save(self._database)
            self._database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._roll_back()
            raise

    def _roll_back(self) -> None:
        if self._database.in_transaction:
            self._database.execute("ROLLBACK")
        self._topics.load(self._database)
        self._eras.load(self._database)

    # --- in --------------------------------------------------------------------------------------

    def append(self, items: Sequence[Incoming]) -> Appended:
        """Store a batch; it is committed on return."""
        publications = list(map(decoded, items))
        with self._transaction():
            prepared = self._prepare(items, publications)
            new = self._store_all(prepared)
            touched = self._count(new)
            budget = max(100, 2 * len(new))
            evicted = self._evict(touched, budget)
        return Appended(len(new), len(prepared.rows) - len(new), evicted)

    def _prepare(
        self, items: Sequence[Incoming], publications: list[tuple[Publication, tuple[str, ...]]]
    ) -> _Prepared:
        rows, shared = [], []
        get, seeds, attributes = self._topics.get, self._seeds, self._attributes
        kept = self._topics.kept
        era = 0
        if attributes and publications:
            era = self._eras.next(self._database, [each.time_us for each, _ in publications])
        for (body, lifetime_us, _), (publication, has) in zip(items, publications, strict=True):
            names = has if kept is None else kept[has]
            time_us, seq = publication.time_us, publication.seq
            publisher = publication.publisher.encode()
            own = publication.attributes
            values = [column_value(own[name]) if name in own else None for name in attributes]
            inline: bytes | None = body
            if len(names) > 1:
                shared.append((time_us, publisher, seq, body))
                inline = None
            for name in names:
                topic = get(name)
                lifetime = topic.lifetime_us if lifetime_us is None else lifetime_us
                expiry = expiry_of(time_us, lifetime)
                check = checksum(topic.seed ^ seeds[publisher], time_us, seq, expiry, body)
                row = (topic.id, time_us, publisher, seq, expiry, check, len(body), inline, era)
                rows.append((*row, *values))
        rows.sort(key=_key)
        return _Prepared(rows, shared)

    def _store_all(self, prepared: _Prepared) -> list[tuple[Any, ...]]:
        """Store rows, and return those that were not there. Most batches contain nothing else."""
        rows, shared = prepared
        database = self._database
        database.executemany(f"INSERT OR IGNORE {_STORE_SHARED}", shared)
        stored = database.executemany(f"INSERT OR IGNORE {self._store}", rows)
        if stored.rowcount == len(rows) or not rows:
            return rows
        self._take_back()
        database.executemany(f"INSERT OR IGNORE {_STORE_SHARED}", shared)
        bodies = {row[:3]: row for row in shared}
        new = [row for row in rows if self._store_one(row, bodies)]
        database.executemany(_SWEEP, list(bodies))
        return new

    def _take_back(self) -> None:
        """Roll the transaction back and begin it again, to store the rows one by one; keep the
        eras, which have rows of these times."""
        eras = list(self._database.execute("SELECT * FROM era"))
        self._database.execute("ROLLBACK")
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany("INSERT OR REPLACE INTO era VALUES (?, ?, ?, ?)", eras)

    def _store_one(
        self, row: tuple[Any, ...], shared: dict[tuple[Any, ...], tuple[Any, ...]]
    ) -> bool:
        """Store a row, and return whether it is new. A known row replaces a damaged one."""
        database = self._database
        if database.execute(f"INSERT OR IGNORE {self._store}", row).rowcount:
            return True
        raw = database.execute(f"SELECT {RAW} FROM message WHERE {_KEY}", row[:4]).fetchall()
        seed = self._topics.by_id[row[0]].seed
        if checked(raw, seed, self._seeds, 0, FIRST)[0][4] is None:
            database.execute(f"INSERT OR REPLACE {self._store}", row)
            if row[1:4] in shared:
                database.execute(f"INSERT OR REPLACE {_STORE_SHARED}", shared[row[1:4]])
        return False

    def _count(self, rows: Iterable[tuple[Any, ...]]) -> list[Topic]:
        touched = []
        for id, group in groupby(rows, itemgetter(0)):
            own, topic = list(group), self._topics.by_id[id]
            self._topics.count(topic, len(own), sum(row[6] for row in own))
            last = own[-1][1:4]
            topic.last = last if topic.last is None else max(topic.last, last)
            touched.append(topic)
        return touched

    # --- what is lacking -------------------------------------------------------------------------

    def save_whole(self, marks: Mapping[str, int]) -> None:
        """Replace the marks of completeness by these; see `HistoryStore.note_whole`."""
        with self._transaction():
            self._database.execute("DELETE FROM whole")
            self._database.executemany("INSERT INTO whole VALUES (?, ?)", marks.items())

    # --- out -------------------------------------------------------------------------------------

    def clean(self, now_us: int, most: int) -> Cleaned:
        """Remove at most `most` rows that have expired or exceed the limits."""
        with self._transaction():
            expired = self._expire(now_us, most)
            evicted = self._evict(self._topics, most - expired)
        return Cleaned(expired, evicted, 0, expired + evicted >= most)

    def _expire(self, now_us: int, most: int) -> int:
        found = self._database.execute(_EXPIRED, (now_us, most)).fetchall()
        for topic, rows in self._remove(found):
            topic.expired += rows
        return len(found)

    def _evict(self, topics: Iterable[Topic], most: int) -> int:
        """Remove rows first for the limits of these topics, then for the limit of all."""
        left = most
        for topic in topics:
            while left > 0 and (excess := self._topics.excess_of(topic)).guess:
                asked = (topic.id, min(excess.guess, left))
                left -= self._evict_rows(excess, self._database.execute(_OLDEST_OF_TOPIC, asked))
        while left > 0 and (excess := self._topics.excess()).guess:
            asked_all = (min(excess.guess, left),)
            left -= self._evict_rows(excess, self._database.execute(_OLDEST, asked_all))
        return most - left

    def _evict_rows(self, excess: Excess, oldest: Iterable[tuple[Any, ...]]) -> int:
        found = list(oldest)
        going = found[: excess.enough([row[4] for row in found])]
        for topic, rows in self._remove(going):
            topic.evicted += rows
        return len(going)

    def forget_file(self, file: str) -> None:
        """Forget a sealed segment that has been removed: its name may be used again."""
        with self._transaction():
            self._database.execute("DELETE FROM dropped WHERE file = ?", (file,))

    def drop(self, file: str, keys: Sequence[tuple[Any, ...]], done: int) -> int:
        """Delete the rows with these keys (topic's number, position), which a sealed segment has;
        return how many there were. `done`: how many rows of the segment have been gone through."""
        with self._transaction():
            found = [
                row
                for key in keys
                for row in self._database.execute(f"SELECT {_GONE} FROM message WHERE {_KEY}", key)
            ]
            self._remove(found)
            self._database.execute("INSERT OR REPLACE INTO dropped VALUES (?, ?)", (file, done))
        return len(found)

    def _remove(self, found: list[tuple[Any, ...]]) -> list[tuple[Topic, int]]:
        """Remove rows of `_GONE`; return how many of which topic."""
        self._database.executemany(f"DELETE FROM message WHERE {_KEY}", [row[:4] for row in found])
        self._database.executemany(_SWEEP, [row[1:4] for row in found if row[5]])
        counted = []
        for id, group in groupby(sorted(found, key=itemgetter(0)), itemgetter(0)):
            own, topic = list(group), self._topics.by_id[id]
            self._topics.count(topic, -len(own), -sum(row[4] for row in own))
            counted.append((topic, len(own)))
        return counted

"""The statistics of incremental pruning in an SQLite file, one for each broker.

Theory of operation
-------------------
Memory (`Pairs`) decides which rows count, and when pairs are dropped, by a few numbers for each
pair; the rows themselves are in the file only, clustered by pair and numbered within it, so that
the latest rows of a pair are neighbours. A row costs an entry in a buffer, and its share of one
transaction for `BATCH` of them, or for those of `BATCH_S` seconds. A question writes the buffer
first, so that the file has all rows.

Written rows survive the death of the process. They may not survive that of the machine, because
nobody waits for the disk (`synchronous=OFF`): no broker should stand still for the sake of
statistics. A file that is damaged, by this or otherwise, is found so when it is opened, or when it
is used; it is set aside under another name, reported, and a new one begun. Without statistics
pruning is bolder, not wrong."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reefcast.errors import ConfigurationError
from reefcast.model.messages import EntityId
from reefcast.model.publication import PublicationId
from reefcast.routing.covering.statistics import Kept, Pair, Pairs, Window, distance_reaching

BATCH = 2000
"""Rows written together, for which the broker stands still: 5 ms, and up to 20 where there are so
many pairs that each row has a page of the file to itself. Fewer rows would share fewer pages."""
BATCH_S = 1.0
"""Seconds after which a row is written, if the store is told of the time at all."""

SET_ASIDE = ".damaged"
"""The ending of a file's name that was set aside; the latest is kept."""
IN_MEMORY = ":memory:"

APPLICATION_ID = 0x72656566
VERSION = 1

# Numbers of ids are text, for clients choose them, and they may exceed 64 bits. The checks are for
# quick_check: SQLite would keep a text in a column of integers.
_SCHEMA = f"""
CREATE TABLE pair (
    id INTEGER PRIMARY KEY,
    subscriber TEXT NOT NULL, subscription TEXT NOT NULL, filter TEXT,
    publisher TEXT NOT NULL, advertisement TEXT NOT NULL
);
CREATE TABLE delivery (
    pair INTEGER NOT NULL CHECK (typeof(pair) = 'integer'),
    number INTEGER NOT NULL CHECK (typeof(number) = 'integer'),
    publisher TEXT NOT NULL,
    publication INTEGER NOT NULL CHECK (typeof(publication) = 'integer'),
    distance INTEGER NOT NULL CHECK (typeof(distance) = 'integer' AND distance >= 0),
    count INTEGER NOT NULL CHECK (typeof(count) = 'integer'),
    at REAL NOT NULL CHECK (typeof(at) = 'real'),
    PRIMARY KEY (pair, number)
) WITHOUT ROWID;
PRAGMA application_id = {APPLICATION_ID};
PRAGMA user_version = {VERSION};
"""
_PAIRS = """
SELECT id, subscriber, subscription, filter, pair.publisher, advertisement,
       count(*), max(number), max(at)
FROM pair JOIN delivery ON pair = id GROUP BY id ORDER BY max(at), id
"""
_HISTOGRAM = """
SELECT distance, count(*) FROM delivery WHERE pair = ? AND number > ? AND at > ? GROUP BY distance
"""


class _DamagedError(Exception):
    """The file cannot be used; the text says why."""


# Where SQLite's sentence quotes what is damaged, Python may fail to decode it.
_ERRORS = (sqlite3.Error, UnicodeDecodeError, OverflowError, _DamagedError)


@dataclass(slots=True, kw_only=True)
class _Stored(Kept):
    """`id`: of its row in the table of pairs; `last`: number of its latest row."""

    id: int
    last: int = 0


class StatisticsStore:
    """`Statistics` in the file `path`, which is this broker's alone; see the module's docstring.

    `now`: the time, by the clock that will be told; rows of a later time (the clock went back while
    nobody looked) are taken for rows of now. `report` is told, in a sentence, of files set aside.
    Raises `ConfigurationError` if the file cannot be made or another process uses it.
    """

    def __init__(
        self,
        path: Path | str,
        now: float,
        report: Callable[[str], None],
        window: Window | None = None,
    ) -> None:
        self.path = Path(path)
        self._window = window or Window()
        self._report = report
        self._filters: dict[EntityId, str] = {}
        self._closed = False
        self._forget()
        self._make_directory()
        try:
            self._open(str(self.path), now)
        except _ERRORS as error:
            self._refuse_what_is_no_damage(error)
            self._start_over(error, now)

    @property
    def rows(self) -> int:
        """How many are kept."""
        return self._pairs.rows

    # --- Statistics ------------------------------------------------------------------------------

    def claim(self, subscription: EntityId, filter: str) -> None:
        self._filters[subscription] = filter
        former = self._former.get((subscription[0], filter))
        if not former:
            return
        for kept in self._pairs.rename(former.pop(), subscription):
            self._renamed.append((str(subscription[1]), kept.id))

    def record(
        self,
        publication: PublicationId,
        advertisement: EntityId,
        subscription: EntityId,
        distance: int,
        count: int,
        now: float,
    ) -> None:
        kept = self._pairs.row((subscription, advertisement), now)
        kept.last += 1
        if not self._rows:
            self._since = kept.at
        self._rows.append((kept.id, kept.last, *publication, distance, count, kept.at))
        if len(self._rows) >= BATCH or kept.at - self._since >= BATCH_S:
            self.flush()

    def pruning_distance(
        self, subscription: EntityId, advertisement: EntityId, theta: float
    ) -> int:
        self.flush()
        kept = self._pairs.get((subscription, advertisement))
        if kept is None or self._closed:
            return 0
        first = kept.last - self._window.rows
        try:
            found = self._database.execute(_HISTOGRAM, (kept.id, first, self._pairs.too_old))
            return distance_reaching(theta, dict(found))
        except _ERRORS as error:
            self._start_over(error, self._pairs.now)
            return 0

    def purge(self, subscription: EntityId) -> None:
        self._filters.pop(subscription, None)
        self._pairs.purge(subscription)

    def expire(self, now: float) -> None:
        self._pairs.expire(now)
        if self._pairs.now - self._since >= BATCH_S:
            self._since = self._pairs.now
            self.flush()

    # --- writing ---------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write all that was buffered. Where that fails, the statistics begin anew."""
        if self._closed:
            self._nothing_to_write()
        if not (self._rows or self._dropped or self._renamed):
            return
        try:
            self._write()
        except _ERRORS as error:
            self._start_over(error, self._pairs.now)

    def close(self) -> None:
        """Write what was buffered, and leave the file to others. What is said afterwards changes
        nothing in it: clients whom a broker sends away as it stops find their statistics again."""
        self.flush()
        self._closed = True
        self._database.close()

    def _begin(self, pair: Pair) -> _Stored:
        kept = _Stored(id=self._next_id)
        self._next_id += 1
        self._new[kept.id] = pair
        return kept

    def _gone(self, kept: _Stored) -> None:
        self._dropped.add(kept.id)

    def _write(self) -> None:
        dropped = [(id,) for id in self._dropped]
        with self._database as database:
            database.execute("BEGIN IMMEDIATE")
            database.executemany("DELETE FROM delivery WHERE pair = ?", dropped)
            database.executemany("DELETE FROM pair WHERE id = ?", dropped)
            database.executemany("INSERT INTO pair VALUES (?, ?, ?, ?, ?, ?)", self._new_pairs())
            database.executemany("UPDATE pair SET subscription = ? WHERE id = ?", self._renamed)
            rows = sorted(row for row in self._rows if row[0] not in self._dropped)
            database.executemany("INSERT INTO delivery VALUES (?, ?, ?, ?, ?, ?, ?)", rows)
            database.executemany(
                "DELETE FROM delivery WHERE pair = ? AND number <= ?", self._outnumbered(rows)
            )
        self._nothing_to_write()

    def _new_pairs(self) -> list[tuple[Any, ...]]:
        return [
            (id, owner, str(number), self._filters.get((owner, number)), publisher, str(other))
            for id, ((owner, number), (publisher, other)) in self._new.items()
            if id not in self._dropped
        ]

    def _outnumbered(self, rows: list[tuple[Any, ...]]) -> list[tuple[int, int]]:
        """Return (pair, number) of the latest rows that no longer count, because later ones have
        come."""
        last = {row[0]: row[1] - self._window.rows for row in rows}
        return [(id, number) for id, number in last.items() if number > 0]

    def _nothing_to_write(self) -> None:
        self._rows: list[tuple[Any, ...]] = []
        self._new: dict[int, Pair] = {}
        self._dropped: set[int] = set()
        self._renamed: list[tuple[str, int]] = []

    # --- the file --------------------------------------------------------------------------------

    def _forget(self) -> None:
        """Forget everything but which subscriptions there are."""
        self._pairs = Pairs(self._window, self._begin, self._gone)
        self._next_id = 1
        self._since = 0.0
        self._former: dict[tuple[str, str], list[EntityId]] = {}
        self._nothing_to_write()

    def _make_directory(self) -> None:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._no_place(error) from error

    def _no_place(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"no statistics can be kept in {self.path}: {error}; give a directory that may be "
            "written to"
        )

    def _open(self, name: str, now: float) -> None:
        self._pairs.now = self._since = now
        self._database = sqlite3.connect(name, timeout=1.0, isolation_level=None)
        self._database.execute("PRAGMA locking_mode = EXCLUSIVE")
        new = self._number("PRAGMA schema_version") == 0
        if not new:
            self._check()
        self._database.execute("PRAGMA journal_mode = WAL")
        self._database.execute("PRAGMA synchronous = OFF")
        if new:
            self._database.executescript(f"BEGIN IMMEDIATE; {_SCHEMA} COMMIT;")
        elif self._load(now) > now:
            self._database.execute("UPDATE delivery SET at = ? WHERE at > ?", (now, now))

    def _number(self, query: str) -> int:
        (found,) = self._database.execute(query).fetchone()
        return int(found)

    def _check(self) -> None:
        if self._number("PRAGMA application_id") != APPLICATION_ID:
            raise _DamagedError("it holds no statistics")
        version = self._number("PRAGMA user_version")
        if version != VERSION:
            raise _DamagedError(f"its version is {version}, not {VERSION}")
        (found,) = self._database.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise _DamagedError(str(found).replace("\n", " "))

    def _load(self, now: float) -> float:
        """Load the file, whose subscriptions are to be claimed; return the latest time."""
        former: dict[tuple[str, str], dict[EntityId, None]] = defaultdict(dict)
        at = now
        for row in self._database.execute(_PAIRS):
            id, subscriber, number, filter, publisher, other, rows, last, at = row
            try:
                pair = (subscriber, int(number)), (publisher, int(other))
            except (ValueError, OverflowError) as error:
                raise _DamagedError(f"pair {id}: {error}") from error
            rows = min(rows, self._window.rows)
            kept = _Stored(id=id, last=last, rows=rows, at=min(at, now))
            self._pairs.put(pair, kept)
            if filter is not None:
                former[subscriber, filter][pair[0]] = None
        self._next_id = 1 + self._number("SELECT ifnull(max(id), 0) FROM pair")
        self._former = {key: list(ids) for key, ids in former.items()}
        self._pairs.expire(now)
        return at

    def _refuse_what_is_no_damage(self, error: Exception) -> None:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code == sqlite3.SQLITE_BUSY:
            self._database.close()
            raise ConfigurationError(
                f"the statistics {self.path} are in use by another process; "
                "give each broker a file of its own"
            ) from error
        if code in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM):
            raise self._no_place(error) from error

    def _start_over(self, problem: Exception, now: float) -> None:
        """Set the file aside and begin a new one; in memory, if that cannot be had either."""
        self._database.close()
        aside = self.path.with_name(self.path.name + SET_ASIDE)
        self._forget()
        try:
            _move(self.path, aside)
            self._open(str(self.path), now)
            then = f"it is kept as {aside.name}, and a new file was begun"
        except (OSError, *_ERRORS) as error:
            with suppress(sqlite3.Error):
                self._database.close()
            self._open(IN_MEMORY, now)
            then = f"they are kept in memory from now on, for no new file could be begun ({error})"
        self._report(f"the statistics {self.path} cannot be used ({problem}): {then}")


def _move(path: Path, target: Path) -> None:
    """Move a database, with the part of it that stands in its log."""
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        with suppress(FileNotFoundError):
            source.replace(target.with_name(target.name + suffix))

"""The store of a broker, in an SQLite file of its own.

Theory of operation
-------------------
A batch is a transaction. The file has a write-ahead log (WAL), which is synced at each commit
(`fsync = "always"`), or once in a while ("interval", which the caller does by `sync`): a batch is
one sequential write and one sync, whatever it holds. SQLite moves what is in the log into the file
when it is long enough. What a restart finds in the log may be in the page cache only; so `load`
syncs it before anybody is told.

Bodies are in the table `event`, each once; what sessions are owed refers to them. Pages of what is
gone are used again, and given back to the file system when they are many.

It was chosen by measurement, see `reefcast-lab bench keeping`: SQLite beside LMDB.

A file that is damaged is renamed and said so, and what can be read of it goes into a new one
(`repair`). A file of an older format is brought up to date when it is opened; one of a newer format
is refused.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import TypeVar

from reefcast.directories import make_directory
from reefcast.errors import ConfigurationError, DamagedError
from reefcast.keeping import coding
from reefcast.keeping.batches import Batch
from reefcast.keeping.database import (
    Format,
    failing,
    is_busy,
    is_damage,
    one_number,
    open_database,
    set_aside,
)
from reefcast.keeping.interface import Bodies
from reefcast.keeping.loading import Loader, no_damage
from reefcast.model.keeping import Change, Contents, EventNumber

T = TypeVar("T")

CHECKPOINT_PAGES = 4000
"""In the log before they are moved into the file: 16 MB."""
FREE_PAGES = 4000
"""So many pages that nothing is in, and as many as a quarter of the file, are given back."""
_CACHE_KIB = 32 * 1024
ROWS_AT_ONCE = (512, 64, 8, 1)
"""That one statement writes: as many as fit, the largest first."""
BODIES_AT_ONCE = 512
"""That one statement reads."""
_SETTINGS = (
    f"PRAGMA auto_vacuum = INCREMENTAL; PRAGMA cache_size = -{_CACHE_KIB}; "
    f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};"
)
_NOTE_TABLE = """
CREATE TABLE note (
    session INTEGER NOT NULL, key BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (session, key)
) WITHOUT ROWID;
"""
_TABLES = f"""
CREATE TABLE row (
    tab TEXT NOT NULL, key BLOB NOT NULL, data BLOB NOT NULL, PRIMARY KEY (tab, key)
) WITHOUT ROWID;
CREATE TABLE session (number INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE mark (session INTEGER PRIMARY KEY, data BLOB NOT NULL);
CREATE TABLE event (number INTEGER PRIMARY KEY, head BLOB NOT NULL, body BLOB NOT NULL);
CREATE TABLE owed (
    session INTEGER NOT NULL, position INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (session, position)
) WITHOUT ROWID;
CREATE TABLE tries (
    session INTEGER NOT NULL, position INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (session, position)
) WITHOUT ROWID;
CREATE TABLE seen (
    session INTEGER NOT NULL, publisher TEXT NOT NULL, chunk INTEGER NOT NULL, data BLOB NOT NULL,
    PRIMARY KEY (session, publisher, chunk)
) WITHOUT ROWID;
{_NOTE_TABLE}
CREATE TABLE synced (one INTEGER PRIMARY KEY, times INTEGER NOT NULL);
INSERT INTO synced VALUES (1, 0);
"""
_UPGRADES = {1: _NOTE_TABLE}
FORMAT = Format(0x72656573, version=2, tables=_TABLES, upgrades=_UPGRADES, holds="sessions")


class SqliteStore:
    """The store in the file `path`, which is this broker's alone.

    `always`: each commit is synced; if not, `sync` is for the caller to call now and then. `report`
    is told, in a sentence, what was found damaged. Raises `ConfigurationError` if the file cannot
    be made or opened: it is another program's, of a newer format, or in use.
    """

    def __init__(self, path: Path, report: Callable[[str], None], *, always: bool = True) -> None:
        self.path = path
        self._report = report
        self._always = always
        self._contents: Contents | None = None
        make_directory(path.parent, "sessions")
        try:
            self._begin()
        except BaseException:
            if "_database" in vars(self):
                self.close()
            raise

    def _begin(self) -> None:
        try:
            self._open()
            self._contents = Loader(self._database, no_damage).contents()
        except (sqlite3.DatabaseError, DamagedError) as error:
            if is_busy(error):
                raise ConfigurationError(
                    f"another broker keeps its sessions in {self.path}: give each broker a "
                    "directory of its own"
                ) from error
            if not is_damage(error):
                raise ConfigurationError(f"{self.path} cannot be opened: {error}") from error
            self._start_over(error)

    # --- opening ---------------------------------------------------------------------------------

    def _open(self) -> None:
        self._database = open_database(self.path, FORMAT, _SETTINGS)

    def _start_over(self, error: Exception) -> None:
        """Set the damaged file aside, and save what can be read of it."""
        if "_database" in vars(self):  # it could be opened
            with suppress(sqlite3.Error):
                self._database.close()
        aside = set_aside(self.path)
        self._open()
        lost: list[str] = []
        old = sqlite3.connect(aside, isolation_level=None, check_same_thread=False)
        try:
            changes = Loader(old, lost.append).changes()
            self.commit(changes)
        finally:
            old.close()
        self._contents = Loader(self._database, no_damage).contents()
        self._report(
            f"{self.path} is damaged ({error}); it is kept as {aside.name}, and what can be read "
            f"of it is in a new file: {len(changes)} things, without {len(lost)} that cannot"
        )

    # --- Store -----------------------------------------------------------------------------------

    def load(self) -> Contents:
        """Return all that is on disk but for the bodies; before any `commit`, once."""
        self._failing(self._sync)
        contents, self._contents = self._contents, None
        assert contents is not None, "the contents are loaded once, at the start"
        if not self._always:
            self._database.execute("PRAGMA synchronous = NORMAL")
        return contents

    def commit(self, changes: Sequence[Change]) -> None:
        """Write a batch. Raises `OSError` if the disk fails; then nothing of it is written."""
        batch = Batch(changes)
        self._failing(lambda: self._commit(batch))

    def _commit(self, batch: Batch) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            _write(database, batch)
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise
        if batch.events_gone or batch.sessions_gone:
            self._give_back()

    def _give_back(self) -> None:
        """Give pages that are free back to the file system, some at a time."""
        free, pages = (
            one_number(self._database, f"PRAGMA {name}")
            for name in ("freelist_count", "page_count")
        )
        if free > FREE_PAGES and 4 * free > pages:
            # Each step gives back one page; `execute` makes one step.
            self._database.executescript(f"PRAGMA incremental_vacuum({FREE_PAGES // 4})")

    def sync(self) -> None:
        """Sync what was committed, where commits are not synced by themselves."""
        self._failing(self._sync)

    def _sync(self) -> None:
        """Sync the log: a commit that is synced syncs all that is before it."""
        self._database.execute("PRAGMA synchronous = FULL")
        self._database.execute("UPDATE synced SET times = times + 1")
        if not self._always:
            self._database.execute("PRAGMA synchronous = NORMAL")

    def bodies(self, events: Iterable[EventNumber]) -> Bodies:
        """Read the bodies of events; what is damaged counts as missing, and is reported."""
        return self._failing(lambda: self._bodies(events))

    def _bodies(self, events: Iterable[EventNumber]) -> Bodies:
        numbers, found = list(events), dict[EventNumber, bytes]()
        for start in range(0, len(numbers), BODIES_AT_ONCE):
            some = numbers[start : start + BODIES_AT_ONCE]
            try:
                found |= self._some_bodies(some)
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                found |= self._bodies_one_by_one(some)
        return Bodies(found, tuple(number for number in numbers if number not in found))

    def _bodies_one_by_one(self, numbers: Iterable[EventNumber]) -> dict[EventNumber, bytes]:
        """Read bodies of which some lie in pages that are damaged."""
        found = dict[EventNumber, bytes]()
        for number in numbers:
            try:
                found |= self._some_bodies([number])
            except sqlite3.DatabaseError as error:
                if not is_damage(error):
                    raise
                self._report(f"{self.path}: the body of event {number} is damaged ({error})")
        return found

    def _some_bodies(self, numbers: Sequence[EventNumber]) -> dict[EventNumber, bytes]:
        found = dict[EventNumber, bytes]()
        # Of a damaged row, SQLite may take the body for a text.
        marks = ", ".join("?" * len(numbers))
        query = f"SELECT number, CAST(body AS BLOB) FROM event WHERE number IN ({marks})"
        for number, body in self._database.execute(query, numbers).fetchall():
            try:
                found[number] = coding.read_body(number, body or b"")
            except DamagedError:
                self._report(f"{self.path}: the body of event {number} is damaged")
        return found

    def close(self) -> None:
        """Close the file, for others to open."""
        with suppress(sqlite3.Error):
            self._database.close()

    def _failing(self, call: Callable[[], T]) -> T:
        return failing(self.path, call)


def _write(database: sqlite3.Connection, batch: Batch) -> None:
    rows = [(*key, row) for key, row in batch.rows.items() if row is not None]
    _put(database, "row", rows)
    keys = [key for key, row in batch.rows.items() if row is None]
    _run(database, "DELETE FROM row WHERE tab = ? AND key = ?", keys)
    _put(database, "session", list(batch.sessions.items()))
    marks = [(session, coding.pack_mark(session, at)) for session, at in batch.marks.items()]
    _put(database, "mark", marks)
    _put(database, "event", batch.events)
    _put(database, "owed", batch.owed)
    _put(database, "tries", batch.tries)
    seen = [(*key, coding.pack_seen(put)) for key, put in batch.seen.items() if put is not None]
    _put(database, "seen", seen)
    unseen = [key for key, put in batch.seen.items() if put is None]
    _run(database, "DELETE FROM seen WHERE session = ? AND publisher = ? AND chunk = ?", unseen)
    notes = [(*key, note) for key, note in batch.notes.items() if note is not None]
    _put(database, "note", notes)
    taken_back = [key for key, note in batch.notes.items() if note is None]
    _run(database, "DELETE FROM note WHERE session = ? AND key = ?", taken_back)
    between = "DELETE FROM {} WHERE session = ? AND position BETWEEN ? AND ?"
    for table in ("owed", "tries"):
        _run(database, between.format(table), batch.owed_gone)
    _run(database, "DELETE FROM event WHERE number BETWEEN ? AND ?", batch.events_gone)
    gone = [(number,) for number in batch.sessions_gone]
    for table in ("mark", "owed", "tries", "seen", "note"):
        _run(database, f"DELETE FROM {table} WHERE session = ?", gone)
    _run(database, "DELETE FROM session WHERE number = ?", gone)


def _put(database: sqlite3.Connection, table: str, rows: Sequence[tuple[object, ...]]) -> None:
    """Write rows, many with one statement: the interpreter's lock is given away and taken again for
    each statement, and whoever takes it may have to wait for the event loop's thread."""
    at = 0
    for size in ROWS_AT_ONCE:
        while len(rows) - at >= size:
            row = f"({', '.join('?' * len(rows[at]))})"
            values = list(chain.from_iterable(rows[at : at + size]))
            database.execute(f"REPLACE INTO {table} VALUES {', '.join([row] * size)}", values)
            at += size


def _run(database: sqlite3.Connection, statement: str, rows: Sequence[Sequence[object]]) -> None:
    if rows:
        database.executemany(statement, rows)

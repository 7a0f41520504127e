"""The database of a history: its tables, and connections to it.

- `message`: a row for each topic of a publication, clustered by topic and position, so that a
  topic's rows are adjacent, in the order in which they are read. A column for each indexed
  attribute, with an index on (era, topic, attribute, position), see `eras`.
- `shared`: the bodies of publications on several topics, each once; `message.body` is NULL there.
- `topic`: names, with the counts of each. `dropped`: how many rows of a sealed segment were
  dropped. - `whole`: topics and patterns, and up to when they are complete
  (`HistoryStore.whole_us`).

Publishers are BLOBs of UTF-8: their order is that of the strings, whatever is garbled. An attribute
is INTEGER, REAL, TEXT, or NULL where it is missing; TRUE and FALSE are 1 and 0, and NaN, which
SQLite does not know, is the empty text. So a condition over columns finds what a filter wants, and
now and then more.

`synchronous=NORMAL`: a commit is the operating system's when it returns, and outlives the death of
the process at any moment. It does not wait for the disk. After a loss of power the database is
sound, and may lack what was committed since the last checkpoint (`CHECKPOINT_PAGES`); a replica has
it (`HistoryStore.whole_us`)."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path

from reefcast.directories import make_private
from reefcast.errors import ConfigurationError, DamagedError
from reefcast.model.values import Kind

APPLICATION_ID = 0x72656568
VERSION = 2
PAGE_BYTES = 4096
CHECKPOINT_PAGES = 8000
"""Pages in the log before they are moved into the database: 32 MB."""
CACHE_KIB = 64 * 1024
BUSY_S = 10.0

_CORRUPT = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)
_UNREADABLE = (sqlite3.SQLITE_IOERR_READ, sqlite3.SQLITE_IOERR_SHORT_READ)

_TABLES = """
CREATE TABLE topic (
    id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE,
    rows INTEGER NOT NULL, bytes INTEGER NOT NULL,
    expired INTEGER NOT NULL, evicted INTEGER NOT NULL,
    time_us INTEGER, publisher BLOB, seq INTEGER
);
CREATE TABLE message (
    topic INTEGER NOT NULL, time_us INTEGER NOT NULL, publisher BLOB NOT NULL, seq INTEGER NOT NULL,
    expiry_us INTEGER, checksum INTEGER NOT NULL, size INTEGER NOT NULL, body BLOB,
    era INTEGER NOT NULL{columns},
    PRIMARY KEY (topic, time_us, publisher, seq)
) WITHOUT ROWID;
CREATE INDEX by_time ON message (time_us, publisher, seq);
CREATE INDEX by_expiry ON message (expiry_us) WHERE expiry_us IS NOT NULL;
{indexes}
CREATE TABLE shared (
    time_us INTEGER NOT NULL, publisher BLOB NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (time_us, publisher, seq)
) WITHOUT ROWID;
CREATE TABLE attribute (number INTEGER PRIMARY KEY, name TEXT NOT NULL, kind INTEGER NOT NULL);
CREATE TABLE era (
    number INTEGER PRIMARY KEY, first_us INTEGER NOT NULL, last_us INTEGER NOT NULL,
    rows INTEGER NOT NULL
);
CREATE TABLE dropped (file TEXT PRIMARY KEY, rows INTEGER NOT NULL);
CREATE TABLE whole (topic TEXT PRIMARY KEY, until_us INTEGER NOT NULL);
"""

_IN_MEMORY = {
    "topic": "id i, name t, rows i, bytes i, expired i, evicted i, time_us I, publisher B, seq I",
    "attribute": "number i, name t, kind i",
    "era": "number i, first_us i, last_us i, rows i",
    "dropped": "file t, rows i",
    "whole": "topic t, until_us i",
}
"""The columns of the tables that are read when a history is opened, with their types: SQLite does
not look whether a page has what was put into it."""
_TYPES = {
    "i": "'integer'",
    "t": "'text'",
    "I": "'integer', 'null'",
    "B": "'blob', 'null'",
}


def connect(path: Path, *, writes: bool = False) -> sqlite3.Connection:
    """Open a connection to the database, for one thread at a time, not always the same. Who writes
    makes it, for its owner alone."""
    if writes:
        make_private(path)
    database = sqlite3.connect(path, timeout=BUSY_S, isolation_level=None, check_same_thread=False)
    try:
        _set_up(database, writes=writes)
    except UnicodeDecodeError as error:  # SQLite quotes the file in what it says of it
        database.close()
        damaged = sqlite3.DatabaseError("it names its tables by what is no text")
        damaged.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
        raise damaged from error
    return database


def _set_up(database: sqlite3.Connection, *, writes: bool) -> None:
    database.execute(f"PRAGMA cache_size = -{CACHE_KIB if writes else CACHE_KIB // 8}")
    if writes:
        database.execute(f"PRAGMA page_size = {PAGE_BYTES}")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}")
    else:
        database.execute("PRAGMA query_only = ON")


def column(number: int) -> str:
    """Return the name of the column of the indexed attribute with this number."""
    return f"a{number}"


def index(number: int) -> str:
    return f"by_a{number}"


def prepare(database: sqlite3.Connection, path: Path, indexed: Mapping[str, Kind]) -> None:
    """Create the tables, or check that they are those of a history with these attributes.

    Raises `ConfigurationError` for other attributes; `DamagedError` if the database is not a
    history, or what is kept of it in memory is not what was stored."""
    if _number(database, "PRAGMA schema_version") == 0:
        _create(database, indexed)
    found = _number(database, "PRAGMA application_id"), _number(database, "PRAGMA user_version")
    if found != (APPLICATION_ID, VERSION):
        raise DamagedError(f"{path} is not a history of version {VERSION}")
    _check_types(database, path)
    rows = database.execute("SELECT name, kind FROM attribute ORDER BY number").fetchall()
    try:
        stored = {name: Kind(kind) for name, kind in rows}
    except ValueError as error:
        raise DamagedError(f"{path} is damaged: of an attribute, {error}") from error
    if stored != dict(indexed):
        raise ConfigurationError(
            f"{path} was made with the indexed attributes {_words(stored)}, not {_words(indexed)}: "
            "ask for those, or begin a new directory and let it catch up from a replica"
        )


def _check_types(database: sqlite3.Connection, path: Path) -> None:
    """Check the values of the tables that are kept in memory. Raises `DamagedError`."""
    for table, columns in _IN_MEMORY.items():
        named = (each.split() for each in columns.split(", "))
        wrong = " OR ".join(f"typeof({name}) NOT IN ({_TYPES[type]})" for name, type in named)
        if database.execute(f"SELECT 1 FROM {table} WHERE {wrong} LIMIT 1").fetchone():
            raise DamagedError(f"{path} is damaged: table {table} has values of other types")


def _words(indexed: Mapping[str, Kind]) -> str:
    named = (f"{name} ({kind.name.lower()})" for name, kind in sorted(indexed.items()))
    return ", ".join(named) or "none"


def _number(database: sqlite3.Connection, query: str) -> int:
    (found,) = database.execute(query).fetchone()
    return int(found)


def _create(database: sqlite3.Connection, indexed: Mapping[str, Kind]) -> None:
    columns = "".join(f", {column(number)}" for number in range(len(indexed)))
    indexes = "".join(
        f"CREATE INDEX {index(number)} ON message (era, topic, {column(number)});\n"
        for number in range(len(indexed))
    )
    tables = _TABLES.format(columns=columns, indexes=indexes)
    marks = f"PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {VERSION};"
    database.executescript(f"BEGIN IMMEDIATE; {tables} {marks}")
    database.executemany(
        "INSERT INTO attribute VALUES (?, ?, ?)",
        [(number, name, int(kind)) for number, (name, kind) in enumerate(indexed.items())],
    )
    database.execute("COMMIT")


def is_damage(error: BaseException) -> bool:
    """Return whether SQLite says that the file is damaged, not that it is busy, full or closed."""
    code = getattr(error, "sqlite_errorcode", 0)
    return code & 0xFF in _CORRUPT or code in _UNREADABLE

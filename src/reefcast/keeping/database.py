"""SQLite files that one program has alone: their format, how they are opened, and damaged ones.

Each commit is synced (a write-ahead log, `synchronous = FULL`). A file of an older format is
brought up to date when it is opened; one of a newer format, or another program's, is refused. A
damaged file is renamed by its owner (`set_aside`), never emptied.
"""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple, TypeVar

from reefcast.directories import make_private
from reefcast.errors import ConfigurationError, DamagedError

T = TypeVar("T")
SET_ASIDE = ".damaged"
_FULL = (sqlite3.SQLITE_FULL,)
_DAMAGE = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


class Format(NamedTuple):
    """What a kind of file is. `application_id`: marks its files; `version`: of its tables, which
    the statements `tables` create; `upgrades`: version -> the statements that make the next one of
    it; `holds`: what such a file holds, in a word or two."""

    application_id: int
    version: int
    tables: str
    upgrades: Mapping[int, str]
    holds: str


def open_database(path: Path, format: Format, settings: str = "") -> sqlite3.Connection:
    """Open the file, or make it, for its owner alone; no other program can open it until it is
    closed. `settings`: further statements, before anything is made. Raises `sqlite3.Error`, and
    `ConfigurationError` for a file of another program or of a newer format, which is not
    changed."""
    make_private(path)
    database = sqlite3.connect(path, timeout=0.0, isolation_level=None, check_same_thread=False)
    try:
        is_new = _is_new(database, path, format)
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.executescript(settings)
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = FULL")
        if is_new:
            marks = (
                f"PRAGMA application_id = {format.application_id}; "
                f"PRAGMA user_version = {format.version};"
            )
            database.executescript(f"BEGIN IMMEDIATE; {format.tables} {marks} COMMIT;")
        _upgrade(database, path, format)
    except UnicodeDecodeError as error:  # SQLite quotes the file in what it says of it
        database.close()
        raise _damaged("it names its tables by what is no text") from error
    except BaseException:
        database.close()
        raise
    return database


def _is_new(database: sqlite3.Connection, path: Path, format: Format) -> bool:
    is_new = one_number(database, "PRAGMA schema_version") == 0
    if not is_new and one_number(database, "PRAGMA application_id") != format.application_id:
        raise ConfigurationError(
            f"{path} holds no {format.holds}, but something else: name another file or directory"
        )
    return is_new


def _upgrade(database: sqlite3.Connection, path: Path, format: Format) -> None:
    version = one_number(database, "PRAGMA user_version")
    if version > format.version:
        raise ConfigurationError(
            f"{path} has format {version}, and this is the program of format {format.version}: "
            "start the newer one again"
        )
    if version < min(format.upgrades, default=format.version):
        raise _damaged(f"it has format {version}, which there never was")
    for old in range(version, format.version):
        database.executescript(
            f"BEGIN IMMEDIATE; {format.upgrades[old]} PRAGMA user_version = {old + 1}; COMMIT;"
        )


def _damaged(reason: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(reason)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error


def one_number(database: sqlite3.Connection, query: str) -> int:
    """Return the one number that a query finds."""
    (found,) = database.execute(query).fetchone()
    return int(found)


def is_busy(error: BaseException) -> bool:
    """Return whether another program, or another broker of this one, has the file open."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def is_damage(error: BaseException) -> bool:
    """Return whether the file is damaged, not busy, full or closed."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return isinstance(error, DamagedError) or code in _DAMAGE


def failing(path: Path, call: Callable[[], T]) -> T:
    """Make a call; SQLite's errors become `OSError`."""
    try:
        return call()
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        number = errno.ENOSPC if code in _FULL else errno.EIO
        raise OSError(number, f"{path}: {error}") from error


def set_aside(path: Path) -> Path:
    """Rename the file and its log, and return the new name, which no other has."""
    number = 1
    while (target := path.with_name(f"{path.name}{SET_ASIDE}-{number}")).exists():
        number += 1
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        if source.exists():
            source.replace(target.with_name(target.name + suffix))
    return target

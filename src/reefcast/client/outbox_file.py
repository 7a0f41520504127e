"""The outbox of a publisher in a file: what it published and what is not done, for its next life.

Rules
-----
- A publication is in the file, synced, before it is sent and before `publish` returns; it goes from
  the file when its answer says that it is where it must be, or was refused.
- The file holds the publisher's id with its secret, and its last number: a new process that opens
  it goes on with them. It sends again what is left, in order and before anything new, under the
  same ids, so that homes of durable sessions recognise what they have.
- Ids of advertisements and subscriptions are never used again: each life has numbers of its own for
  them (`last_registration`).
- A file of format 1 has no secret. Its id stays as long as events of it wait, because homes would
  not recognise them under another; then it is replaced by an id with a secret.

Source: `delivery.md`, rule 8. Cost: one sync for all that is published at the same time.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

from reefcast.directories import make_directory
from reefcast.errors import ConfigurationError
from reefcast.keeping.database import (
    Format,
    failing,
    is_damage,
    one_number,
    open_database,
    set_aside,
)
from reefcast.model.publication import Publication
from reefcast.model.wire import CLIENT_CODEC, KIND_AT, FrameKind
from reefcast.protocol.client_ids import Identity

REGISTRATIONS = 1_000_000
"""Numbers of advertisements and subscriptions that one life may use."""
_TABLES = """
CREATE TABLE publisher (one INTEGER PRIMARY KEY, id TEXT NOT NULL, last INTEGER NOT NULL,
                        lives INTEGER NOT NULL, secret TEXT NOT NULL);
CREATE TABLE publication (seq INTEGER PRIMARY KEY, frame BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE damaged (seq INTEGER PRIMARY KEY, frame BLOB NOT NULL);
"""
_UPGRADES = {1: "ALTER TABLE publisher ADD COLUMN secret TEXT NOT NULL DEFAULT '';"}
FORMAT = Format(0x7265656F, version=2, tables=_TABLES, upgrades=_UPGRADES, holds="outbox")
_REPLACE = """
UPDATE publisher SET id = ?, secret = ?
WHERE secret = '' AND NOT EXISTS (SELECT 1 FROM publication)
"""
_log = logging.getLogger("reefcast.client")


class Left(NamedTuple):
    """What an outbox holds. `last_seq`: the number of the last publication; `frames`: those that
    are not done, by ascending number."""

    identity: Identity
    last_seq: int
    frames: dict[int, bytes]

    def publications(self) -> list[Publication]:
        """Return those that are not done, decoded."""
        kind = int(FrameKind.PUBLISH)
        head = KIND_AT + 1
        decode = CLIENT_CODEC.decode_publish
        return [decode(frame[head:], kind).publication for frame in self.frames.values()]


class OutboxFile:
    """The file `path`, which one program has at a time. `new`: the publisher of a new file.

    Raises `ConfigurationError` if the file cannot be made or opened, or another program has it.
    """

    def __init__(self, path: Path, new: Identity) -> None:
        self.path = path
        make_directory(path.parent, "outbox")
        try:
            self.left = self._begin(new)
        except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
            if not is_damage(error):
                raise in_use(path, error) from error
            aside = set_aside(path)
            _log.error(
                "the outbox %s is damaged (%s); it is kept as %s, and a new one begins without "
                "what was in it",
                *(path, error, aside.name),
            )
            self.left = self._begin(new)

    def _begin(self, new: Identity) -> Left:
        self._database = database = open_database(self.path, FORMAT)
        try:
            database.execute("BEGIN IMMEDIATE")
            add = "INSERT OR IGNORE INTO publisher VALUES (1, ?, 0, 0, ?)"
            database.execute(add, (new.id, new.secret))
            database.execute(_REPLACE, (new.id, new.secret))
            database.execute("UPDATE publisher SET lives = lives + 1")
            damaged = _set_damaged_aside(database)
            database.execute("COMMIT")
            left = _read(database)
        except BaseException:
            database.close()
            raise
        if not left.identity.secret:
            _log.warning(
                "the outbox %s is of an older version, and its publisher %s has no secret: brokers "
                "with [security] or [tls] refuse it; at another broker it is replaced when no "
                "events of it wait any more",
                *(self.path, left.identity.id),
            )
        if damaged:
            _log.error(
                "%d publications in the outbox %s are damaged, and are not sent: the numbers %s; "
                "they stay in its table `damaged`",
                *(len(damaged), self.path, ", ".join(map(str, damaged))),
            )
        return left

    @property
    def last_registration(self) -> int:
        """The number above which this life numbers its advertisements and subscriptions."""
        return REGISTRATIONS * (one_number(self._database, "SELECT lives FROM publisher") - 1)

    def commit(self, first_seq: int, frames: Sequence[bytes], done: Iterable[int]) -> None:
        """Write publications under the numbers from `first_seq` on, and remove those that are
        `done`; all of it is synced. Raises `OSError` if the disk fails; then nothing is written."""
        failing(self.path, lambda: self._commit(first_seq, frames, done))

    def _commit(self, first_seq: int, frames: Sequence[bytes], done: Iterable[int]) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        try:
            rows = [(seq, frame, crc32(frame)) for seq, frame in enumerate(frames, first_seq)]
            database.executemany("INSERT INTO publication VALUES (?, ?, ?)", rows)
            if frames:
                last = first_seq + len(frames) - 1
                database.execute("UPDATE publisher SET last = ?", (last,))
            database.executemany("DELETE FROM publication WHERE seq = ?", ((n,) for n in done))
            database.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                database.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file, for other programs to open."""
        with suppress(sqlite3.Error):
            self._database.close()


def read_outbox(path: Path) -> Left:
    """Return what an outbox holds. Raises `ConfigurationError` if there is none, or a program has
    it."""
    if not path.exists() or not path.stat().st_size:
        raise ConfigurationError(f"there is no outbox {path}, or it is empty")
    try:
        database = open_database(path, FORMAT)
        try:
            return _read(database)
        finally:
            database.close()
    except sqlite3.DatabaseError as error:
        if is_damage(error):
            raise ConfigurationError(
                f"the outbox {path} is damaged ({error}); the next program that publishes with it "
                "sets it aside"
            ) from error
        raise in_use(path, error) from error


def _set_damaged_aside(database: sqlite3.Connection) -> list[int]:
    """Move publications that are not as they were written to a table of their own, and return their
    numbers."""
    rows = database.execute("SELECT seq, frame, crc FROM publication ORDER BY seq").fetchall()
    damaged = [(seq, frame) for seq, frame, crc in rows if crc32(frame) != crc]
    database.executemany("REPLACE INTO damaged VALUES (?, ?)", damaged)
    numbers = [seq for seq, _ in damaged]
    database.executemany("DELETE FROM publication WHERE seq = ?", ((seq,) for seq in numbers))
    return numbers


def _read(database: sqlite3.Connection) -> Left:
    query = "SELECT id, secret, last FROM publisher"
    ((publisher, secret, last),) = database.execute(query).fetchall()
    rows = database.execute("SELECT seq, frame FROM publication ORDER BY seq").fetchall()
    return Left(Identity(publisher, secret), last, dict(rows))


def in_use(path: Path, error: Exception) -> ConfigurationError:
    """Return the error for a file that cannot be opened now."""
    return ConfigurationError(
        f"the outbox {path} cannot be opened: {error}; give each program that publishes a file of "
        "its own"
    )

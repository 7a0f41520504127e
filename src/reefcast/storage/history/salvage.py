"""What can be read of a damaged database goes into a new one.

The damaged file, set aside, is opened as it is (one that was cut off, too), and its rows are read
in the order of their keys, around the pages that cannot be read. The checksum says whether a row is
sound, and, with the topics that the publication itself names, on which topic it was. Nothing else
in the file is believed. Of a publication on several topics each row becomes one by itself.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from reefcast.errors import ProtocolError
from reefcast.model.publication import INT64_MIN
from reefcast.model.wire import decode_publication
from reefcast.storage.history import schema
from reefcast.storage.history.rows import Incoming, Seeds, checksum, topic_seed, topics_of
from reefcast.storage.history.writing import RAW

if TYPE_CHECKING:
    from reefcast.storage.history.writing import Writer

SET_ASIDE = ".damaged"
"""Ends the name of a database that was set aside; the latest is kept."""
_FETCHED = 1024
_ROWS = (
    f"SELECT CAST(topic AS INTEGER), {RAW} FROM message "
    "WHERE (topic, time_us, publisher, seq) > (?, ?, ?, ?) "
    "ORDER BY topic, time_us, publisher, seq LIMIT ?"
)
_Key = tuple[int, int, bytes, int]
_FIRST: _Key = (-1, 0, b"", 0)
_TIMES = 1 << 64
_LAST_TOPIC = 1 << 32


class Saved(NamedTuple):
    """`rows`: saved; `damaged`: rows that were not sound; `gaps`: where pages could not be read."""

    rows: int
    damaged: int
    gaps: int


def set_aside(path: Path) -> Path:
    """The database, with the part of it that stands in its log; returns its new name."""
    target = path.with_name(path.name + SET_ASIDE)
    for suffix in ("", "-wal"):
        target.with_name(target.name + suffix).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            path.with_name(path.name + suffix).replace(target.with_name(target.name + suffix))
    path.with_name(path.name + "-shm").unlink(missing_ok=True)
    return target


def save(aside: Path, writer: Writer) -> Saved:
    """Into the database of this writer."""
    if not aside.exists():
        return Saved(0, 0, 0)
    with closing(sqlite3.connect(aside, isolation_level=None)) as database:
        salvage = _Salvage(database)
        for items in salvage.batches():
            writer.append(items)
    return Saved(salvage.rows, salvage.damaged, salvage.gaps)


class _Salvage:
    def __init__(self, database: sqlite3.Connection) -> None:
        self._database = database
        self._seeds = Seeds()
        self._numbers: dict[str, int] = {}
        self.rows = self.damaged = self.gaps = 0

    def batches(self) -> Iterator[list[Incoming]]:
        with suppress(sqlite3.DatabaseError):
            # SQLite refuses a file that is shorter than it says, unless the schema may be written
            self._database.execute("PRAGMA writable_schema = ON")
        key, size = _FIRST, _FETCHED
        while True:
            rows = self._fetch(key, size)
            if rows is None and size > 1:
                size //= 2
            elif rows is None:
                self.gaps += 1
                behind = self._behind(key)
                if behind is None:
                    return
                key, size = behind, _FETCHED
            else:
                items = [self._item(*row) for row in rows]
                yield [item for item in items if item is not None]
                if len(rows) < size:
                    self._count(items)
                    return
                key, size = self._go_on(key, rows, items), _FETCHED

    def _count(self, items: list[Incoming | None]) -> None:
        self.damaged += items.count(None)
        self.rows += len(items) - items.count(None)

    def _go_on(self, key: _Key, rows: list[tuple[Any, ...]], items: list[Incoming | None]) -> _Key:
        """Behind the last sound row. If there is none, behind the last one, as far as its key can be
        believed."""
        sound = [i for i, item in enumerate(items) if item and self._is_in_place(rows[i], item)]
        end = sound[-1] if sound else len(rows) - 1
        self._count(items[: end + 1])
        last: _Key = rows[end][:4]
        return last if last > key else (key[0], key[1] + 1, b"", INT64_MIN)

    def _is_in_place(self, row: tuple[Any, ...], item: Incoming) -> bool:
        """The topic's number is not in the checksum: other rows know it."""
        (name,) = item.topics or ("",)
        number: int = row[0]
        return self._numbers.setdefault(name, number) == number

    def _item(self, topic: int, *raw: Any) -> Incoming | None:
        """None for a row that is not sound."""
        time_us, publisher, seq, expiry_us, check, body = raw
        try:
            names = topics_of(decode_publication(body))
            seed = self._seeds[publisher]
            for name in names:
                if checksum(topic_seed(name) ^ seed, time_us, seq, expiry_us, body) == check:
                    lifetime_us = None if expiry_us is None else expiry_us - time_us
                    return Incoming(body, lifetime_us, (name,))
        except (TypeError, ProtocolError):
            pass
        return None

    def _fetch(self, key: _Key, size: int) -> list[tuple[Any, ...]] | None:
        """None: pages cannot be read."""
        try:
            return self._database.execute(_ROWS, (*key, size)).fetchall()
        except sqlite3.DatabaseError as error:
            if schema.is_damage(error):
                return None
            return []  # there is no such table: nothing of the schema can be read

    def _behind(self, key: _Key) -> _Key | None:
        """The least topic and time found from which on rows can be read again, taken as one number:
        by doubling, then halving. None: nothing can be read."""
        near, step = key[0] * _TIMES + key[1] + _TIMES // 2, 1
        while self._fetch(_at(near + step), 1) is None:
            step *= 2
            if near + step > _LAST_TOPIC * _TIMES:
                return None
        far = near + step
        while far - near > 1:
            middle = (near + far) // 2
            if self._fetch(_at(middle), 1) is None:
                near = middle
            else:
                far = middle
        return _at(far)


def _at(number: int) -> _Key:
    topic, time = divmod(number, _TIMES)
    return topic, time - _TIMES // 2, b"", INT64_MIN

"""The store of `reefcast.keeping` with LMDB instead of SQLite: what it would be, to be measured.

The same values under the same keys; a batch is a transaction, synced when it is committed.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import lmdb

from reefcast.keeping import coding
from reefcast.keeping.batches import Batch
from reefcast.keeping.interface import Bodies
from reefcast.model.keeping import Change, Contents, EventNumber, StoredOwed, StoredSession

_TABLES = ("row", "session", "mark", "head", "body", "owed", "tries", "seen")
_MAP_BYTES = 1 << 36
_ONE, _TWO = struct.Struct(">Q"), struct.Struct(">QQ")
_SEEN = struct.Struct(">Qq")


class LmdbStore:
    """The store in the directory `path`."""

    def __init__(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        self._file = lmdb.open(str(path), map_size=_MAP_BYTES, max_dbs=len(_TABLES))
        self._tables = {name: self._file.open_db(name.encode()) for name in _TABLES}

    def load(self) -> Contents:
        """Return all but the bodies."""
        contents = Contents()
        with self._file.begin() as reading:
            for key, data in self._items(reading, "session"):
                (number,) = _ONE.unpack(key)
                contents.sessions[number] = StoredSession(coding.read_session(number, data))
            for key, data in self._items(reading, "mark"):
                (number,) = _ONE.unpack(key)
                contents.sessions[number].mark = coding.read_mark(number, data)
            for key, data in self._items(reading, "head"):
                (number,) = _ONE.unpack(key)
                contents.events[number] = coding.read_event(number, data)
            for key, data in self._items(reading, "owed"):
                number, position = _TWO.unpack(key)
                owed = coding.read_owed(number, position, data)
                contents.sessions[number].owed[position] = owed
            for key, data in self._items(reading, "tries"):
                number, position = _TWO.unpack(key)
                its = contents.sessions[number].owed
                if (old := its.get(position)) is not None:
                    tried = coding.read_tries(number, position, data)
                    its[position] = StoredOwed(
                        old.event, old.at_s, old.subscriptions, old.late, *tried
                    )
            for key, data in self._items(reading, "seen"):
                number, chunk = _SEEN.unpack(key[: _SEEN.size])
                publisher = key[_SEEN.size :].decode()
                seen = coding.read_seen(number, publisher, chunk, data)
                contents.sessions[number].seen[publisher, chunk] = seen
        return contents

    def _items(self, reading: Any, table: str) -> Iterator[tuple[bytes, bytes]]:
        with reading.cursor(self._tables[table]) as cursor:
            yield from cursor

    def commit(self, changes: Sequence[Change]) -> None:
        """Write a batch, and sync it."""
        batch = Batch(changes)
        with self._file.begin(write=True) as writing:
            self._write(writing, batch)

    def _write(self, writing: Any, batch: Batch) -> None:
        one, two = _ONE.pack, _TWO.pack
        self._put(writing, "session", ((one(n), data) for n, data in batch.sessions.items()))
        marks = ((one(n), coding.pack_mark(n, at)) for n, at in batch.marks.items())
        self._put(writing, "mark", marks)
        self._put(writing, "head", ((one(n), head) for n, head, _ in batch.events))
        self._put(writing, "body", ((one(n), body) for n, _, body in batch.events))
        self._put(writing, "owed", ((two(n, at), data) for n, at, data in batch.owed))
        self._put(writing, "tries", ((two(n, at), data) for n, at, data in batch.tries))
        self._put(
            writing,
            "seen",
            (
                (_SEEN.pack(key[0], key[2]) + key[1].encode(), coding.pack_seen(put))
                for key, put in batch.seen.items()
                if put is not None
            ),
        )
        for table in ("owed", "tries"):
            for session, first, last in batch.owed_gone:
                self._drop(writing, table, two(session, first), two(session, last))
        for table in ("head", "body"):
            for first, last in batch.events_gone:
                self._drop(writing, table, one(first), one(last))

    def _put(self, writing: Any, table: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        with writing.cursor(self._tables[table]) as cursor:
            cursor.putmulti(items)

    def _drop(self, writing: Any, table: str, first: bytes, last: bytes) -> None:
        with writing.cursor(self._tables[table]) as cursor:
            found = cursor.set_range(first)
            while found and cursor.key() <= last:
                found = cursor.delete()

    def bodies(self, events: Iterable[EventNumber]) -> Bodies:
        """Read the bodies of events."""
        found: dict[EventNumber, bytes] = {}
        missing: list[EventNumber] = []
        with self._file.begin() as reading:
            get: Callable[..., bytes | None] = reading.get
            for number in events:
                body = get(_ONE.pack(number), db=self._tables["body"])
                if body is None:
                    missing.append(number)
                else:
                    found[number] = coding.read_body(number, body)
        return Bodies(found, tuple(missing))

    def sync(self) -> None:
        """Sync all."""
        self._file.sync(force=True)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

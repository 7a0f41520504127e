"""Reading all that a store holds: at the start, and out of a file that is damaged."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import msgspec

from reefcast.errors import DamagedError
from reefcast.keeping import coding
from reefcast.model.keeping import (
    Change,
    Contents,
    PutEvent,
    PutMark,
    PutNotes,
    PutOwed,
    PutRow,
    PutSeen,
    PutSession,
    PutTries,
    StoredOwed,
    StoredSession,
)

_KEYS = {
    "row": "tab, key",
    "session": "number",
    "mark": "session",
    "event": "number",
    "owed": "session, position",
    "tries": "session, position",
    "seen": "session, publisher, chunk",
    "note": "session, key",
}


def no_damage(what: str) -> None:
    """Raise `DamagedError`: nothing may be left out."""
    raise DamagedError(what)


class Loader:
    """Reads a database. `damaged` is told of each thing that cannot be read; if it returns, that is
    left out."""

    def __init__(self, database: sqlite3.Connection, damaged: Callable[[str], None]) -> None:
        self._database = database
        self._damaged = damaged

    def contents(self) -> Contents:
        """Return all but the bodies."""
        contents = Contents()
        for table, key, row in self._read("row", "tab, key, data", coding.read_row):
            contents.rows.setdefault(table, {})[key] = row
        for number, record in self._read("session", "number, data", coding.read_session):
            contents.sessions[number] = StoredSession(record)
        for number, event in self._read("event", "number, head", coding.read_event):
            contents.events[number] = event
        self._load_sessions(contents)
        return contents

    def _load_sessions(self, contents: Contents) -> None:
        sessions = contents.sessions
        for number, mark in self._read("mark", "session, data", coding.read_mark):
            if number in sessions:
                sessions[number].mark = mark
        for number, position, owed in self._read(
            "owed", "session, position, data", coding.read_owed
        ):
            if number in sessions:
                sessions[number].owed[position] = owed
        for number, position, tries in self._read(
            "tries", "session, position, data", coding.read_tries
        ):
            its = sessions[number].owed if number in sessions else {}
            if position in its:
                its[position] = _tried(its[position], *tries)
        for number, publisher, chunk, seen in self._read(
            "seen", "session, publisher, chunk, data", coding.read_seen
        ):
            if number in sessions:
                sessions[number].seen[publisher, chunk] = seen
        for number, _, (key, text) in self._read("note", "session, key, data", coding.read_note):
            if number in sessions:
                sessions[number].notes[key] = text

    def changes(self) -> list[Change]:
        """Return changes that write all that can be read into an empty store, bodies too."""
        contents = self.contents()
        changes: list[Change] = [
            PutRow(table, key, row)
            for table, rows in contents.rows.items()
            for key, row in rows.items()
        ]
        for number, body in self._read("event", "number, body", coding.read_body):
            if (event := contents.events.get(number)) is not None:
                changes.append(PutEvent(number, event.id, event.expires_s, body))
        for number, session in contents.sessions.items():
            changes += (PutSession(number, session.record), PutMark(number, session.mark))
            for position, owed in session.owed.items():
                changes.append(
                    PutOwed(number, position, owed.event, owed.at_s, owed.subscriptions, owed.late)
                )
                if owed.tries:
                    changes.append(PutTries(number, position, owed.tries, owed.dead))
            for (publisher, chunk), (bits, at_s) in session.seen.items():
                changes.append(PutSeen(number, publisher, chunk, bits, at_s))
            if session.notes:
                changes.append(PutNotes(number, dict(session.notes)))
        return changes

    def _read(
        self, table: str, columns: str, decode: Callable[..., Any]
    ) -> Iterator[tuple[Any, ...]]:
        """Yield keys with their values, decoded."""
        for *key, data in self._raw(table, columns):
            try:
                yield (*key, decode(*key, data))
            except (DamagedError, TypeError, ValueError) as error:
                self._damaged(f"{table} {key}: {error}")

    def _raw(self, table: str, columns: str) -> Iterator[tuple[Any, ...]]:
        """Yield rows; where the tree is broken, those that can be reached from either end."""
        seen: set[Any] = set()
        whole = False
        for direction in ("ASC", "DESC"):
            order = ", ".join(f"{key} {direction}" for key in _KEYS[table].split(", "))
            try:
                for row in self._database.execute(
                    f"SELECT {columns} FROM {table} ORDER BY {order}"
                ):
                    if direction == "ASC" or row[:-1] not in seen:
                        yield row
                    if direction == "ASC" and self._damaged is not no_damage:
                        seen.add(row[:-1])
                whole = True
            except (sqlite3.DatabaseError, UnicodeDecodeError) as error:
                if isinstance(error, sqlite3.DatabaseError) and self._damaged is no_damage:
                    raise
                with suppress(sqlite3.Error):
                    self._damaged(f"{table}: {error}")
            if whole:
                return


def _tried(owed: StoredOwed, tries: int, dead: str) -> StoredOwed:
    return msgspec.structs.replace(owed, tries=tries, dead=dead)

"""A batch of changes by what they do to which table, ready for a database.

The order of changes within a batch matters little: numbers of sessions, of events, and positions
are not used twice in the life of a process, so what is written may come before what is removed.
Only rows of the core, ids that were had and notes come and go under the same key; of these the last
word counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from reefcast.keeping import coding
from reefcast.model.keeping import (
    Change,
    DropEvents,
    DropOwed,
    DropRow,
    DropSeen,
    DropSession,
    PutEvent,
    PutMark,
    PutNotes,
    PutOwed,
    PutRow,
    PutSeen,
    PutSession,
    PutTries,
)

_RowKey = tuple[str, bytes]
_SeenKey = tuple[int, str, int]
_NoteKey = tuple[int, bytes]


class Batch:
    """Each list has what one statement does, as parameters."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self.rows: dict[_RowKey, bytes | None] = {}
        self.seen: dict[_SeenKey, PutSeen | None] = {}
        self.notes: dict[_NoteKey, bytes | None] = {}
        self.sessions: dict[int, bytes] = {}
        self.marks: dict[int, int] = {}
        self.events: list[tuple[int, bytes, bytes]] = []
        self.owed: list[tuple[int, int, bytes]] = []
        self.tries: list[tuple[int, int, bytes]] = []
        self.events_gone: list[tuple[int, int]] = []
        self.owed_gone: list[tuple[int, int, int]] = []
        self.sessions_gone: list[int] = []
        sort: dict[type, Callable[[Any], None]] = {
            PutRow: self._put_row,
            DropRow: self._drop_row,
            PutSession: self._put_session,
            DropSession: self._drop_session,
            PutMark: self._put_mark,
            PutEvent: self._put_event,
            DropEvents: self._drop_events,
            PutOwed: self._put_owed,
            PutTries: self._put_tries,
            DropOwed: self._drop_owed,
            PutSeen: self._put_seen,
            DropSeen: self._drop_seen,
            PutNotes: self._put_notes,
        }
        for change in changes:
            sort[type(change)](change)

    def _put_row(self, change: PutRow) -> None:
        row = coding.pack_row(change.table, change.key, change.row)
        self.rows[change.table, change.key] = row

    def _drop_row(self, change: DropRow) -> None:
        self.rows[change.table, change.key] = None

    def _put_session(self, change: PutSession) -> None:
        self.sessions[change.session] = coding.pack_session(change.session, change.record)

    def _drop_session(self, change: DropSession) -> None:
        self.sessions_gone.append(change.session)

    def _put_mark(self, change: PutMark) -> None:
        self.marks[change.session] = change.position

    def _put_event(self, change: PutEvent) -> None:
        self.events.append((change.event, *coding.pack_event(change)))

    def _drop_events(self, change: DropEvents) -> None:
        self.events_gone.append((change.first, change.last))

    def _put_owed(self, change: PutOwed) -> None:
        self.owed.append((change.session, change.position, coding.pack_owed(change)))

    def _put_tries(self, change: PutTries) -> None:
        self.tries.append((change.session, change.position, coding.pack_tries(change)))

    def _drop_owed(self, change: DropOwed) -> None:
        self.owed_gone.append((change.session, change.first, change.last))

    def _put_seen(self, change: PutSeen) -> None:
        self.seen[change.session, change.publisher, change.chunk] = change

    def _drop_seen(self, change: DropSeen) -> None:
        self.seen[change.session, change.publisher, change.chunk] = None

    def _put_notes(self, change: PutNotes) -> None:
        session = change.session
        for key, text in change.notes.items():
            raw = key.encode()
            note = None if text is None else coding.pack_note(session, raw, text)
            self.notes[session, raw] = note

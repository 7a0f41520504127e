"""What a broker writes to its own disk, and what waits for that.

Rules
-----
- Changes are written in one order: those of the core's rows, then those of its sessions, input by
  input (`Keep`). Nobody hears that something has settled, or is confirmed, before all is synced
  that was written until then (`Kept`): the answers wait here.
- An answer that waits for a link which comes up anew is dropped: its token is of another life, and
  a publication that is not answered is sent again.
- *Durable rows* (`RowLog`): subscriptions of durable sessions that came from neighbours, and
  advertisements that did, each with its last hop. When the broker starts they are entered again
  (`restore`), before its first link is up: what passes meanwhile finds its way. What does not hold
  any more is swept when the neighbour has told all that it knows, as after any restart
  (`relearning`). A row too many costs a copy, one too few a publication.

Source: `delivery.md`, rule 3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

import msgspec

from reefcast.model.filters import parse_filter
from reefcast.model.keeping import Change, DropRow, PutRow
from reefcast.model.messages import (
    Confirmed,
    Effect,
    EntityId,
    Keep,
    LinkName,
    PeerMessage,
    Send,
    ServiceMessage,
    Settled,
    is_durable,
)
from reefcast.routing.capabilities import KeepsRows, capability
from reefcast.routing.router import SUBSCRIPTIONS, Router
from reefcast.routing.tables import Row

Rows = Mapping[str, Mapping[bytes, bytes]]
"""Table -> key -> row, as the store has them."""
Then = Callable[[], list[Effect]]
_encode = msgspec.msgpack.Encoder().encode
_decode_key = msgspec.msgpack.Decoder(tuple[EntityId, LinkName]).decode
_decode_text = msgspec.msgpack.Decoder(str).decode


class OnDisk:
    """The disk of one broker as its core sees it: changes that are not handed out yet, and the
    answers that wait."""

    def __init__(self) -> None:
        self._changes: list[Change] = []
        self._last = self._kept = 0
        self._answers: deque[tuple[int, list[Effect]]] = deque()
        self._then: deque[tuple[int, Then]] = deque()

    @property
    def next_token(self) -> int:
        """The token of the changes of this input."""
        return self._last + 1

    def write(self, change: Change) -> None:
        """Write a change of the core's rows."""
        self._changes.append(change)

    def behind(self, effects: Iterable[Effect], changes: Sequence[Change]) -> list[Effect]:
        """Return the effects of an input, preceded by a `Keep` of what it writes: the core's rows,
        then `changes`. Hold answers back until everything written so far is synced."""
        onward: list[Effect] = []
        answers: list[Effect] = []
        if self._changes or changes:
            self._last += 1
            onward.append(Keep((*self._changes, *changes), self._last))
            self._changes.clear()
        waits = self._kept < self._last
        for effect in effects:
            (answers if waits and _is_answer(effect) else onward).append(effect)
        if answers:
            self._answers.append((self._last, answers))
        return onward

    def once_kept(self, then: Then) -> list[Effect]:
        """Have something done when all is synced that was written so far, this input included."""
        self._then.append((self._last + bool(self._changes), then))
        return []

    def due(self) -> list[Effect]:
        """Do what had to wait until what was written is synced; return the effects."""
        effects: list[Effect] = []
        while self._then and self._then[0][0] <= self._kept:
            effects += self._then.popleft()[1]()
        return effects

    def kept(self, token: int) -> list[Effect]:
        """Return the answers that may go: the changes up to `token` are synced."""
        self._kept = max(self._kept, token)
        ready: list[Effect] = []
        while self._answers and self._answers[0][0] <= self._kept:
            ready += self._answers.popleft()[1]
        return ready

    def forget(self, link: LinkName) -> None:
        """Drop the answers to a link that comes up anew, or is gone."""
        for _, answers in self._answers:
            answers[:] = [e for e in answers if not (isinstance(e, Send) and e.link == link)]


def _is_answer(effect: Effect) -> bool:
    """Return whether an effect says that something is on disk."""
    if not isinstance(effect, Send):
        return False
    message = effect.message
    return isinstance(message, Settled | Confirmed) or (
        isinstance(message, ServiceMessage | PeerMessage) and message.after_disk
    )


class RowLog:
    """Writes the rows that are added to a table and removed from it; of subscriptions only those of
    durable sessions. Rows of this broker's own clients are left out: they end with their sessions,
    or are kept with these."""

    def __init__(self, disk: OnDisk, table: str) -> None:
        self._disk = disk
        self._table = table

    def came(self, row: Row) -> None:
        if self._is_kept(row):
            self._disk.write(PutRow(self._table, _key_of(row), _encode(row.filter.text)))

    def went(self, row: Row) -> None:
        if self._is_kept(row):
            self._disk.write(DropRow(self._table, _key_of(row)))

    def _is_kept(self, row: Row) -> bool:
        return not row.local and (self._table != SUBSCRIPTIONS or is_durable(row.id[0]))


def restore(router: Router, rows: Rows, neighbours: Collection[LinkName], disk: OnDisk) -> bool:
    """Enter the durable rows of a broker that starts, before its first link is up; from now on its
    tables write what changes. Rows of those who are no `neighbours` any more are removed. Return
    whether there were any."""
    entered = False
    kept = capability(router, KeepsRows)
    for name, table in kept.durable_tables().items():
        for key, text in rows.get(name, {}).items():
            id, last_hop = _decode_key(key)
            if last_hop in neighbours:
                kept.restore(name, id, parse_filter(_decode_text(text)), last_hop)
                entered = True
            else:
                disk.write(DropRow(name, key))
        table.log = RowLog(disk, name)
    return entered


def _key_of(row: Row) -> bytes:
    return _encode((row.id, row.last_hop))

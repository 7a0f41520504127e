"""What a broker writes to its own disk: changes, in one order, and what a start finds there.

A *change* is one thing to write. Changes are written in batches; a batch is on disk as a whole or
not at all, and only behind all earlier ones. Times are seconds UTC, for they outlive a process.

There are three kinds of things on the disk, and each change concerns one of them:

- *rows* of the core: durable subscriptions and advertisements. The store knows a table's name, a
  key and bytes; what they mean is the core's;
- *sessions*: options and subscriptions, the mark up to which events may have been handed out, the
  ids of the events that they have had (bits, in chunks of `CHUNK` numbers of one publisher), and
  notes that their user's clients left with them;
- *events*: each once, with a number of its own, and for each session the positions that it owes.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from reefcast.model.publication import PublicationId
from reefcast.model.subjects import Subject

CHUNK = 1024
"""Numbers of one publisher whose bits stand together in `PutSeen`."""

SessionNumber = int
"""The number of a session in its broker's store, from 1. It may come again when the session is
closed."""
EventNumber = int
"""The number of an event in its broker's store, ascending; it may come again when the event is
gone."""
Position = int
"""The place of an event in the queue of a session, ascending from 1."""

FullPolicy = Literal["drop_oldest", "refuse", "block"]
Expires = Literal["all", "fresh"]

_Seconds = Annotated[float, msgspec.Meta(ge=0)]
_Whole = Annotated[int, msgspec.Meta(ge=0)]
_Number = Annotated[int, msgspec.Meta(ge=1)]


class SessionOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a session's owner may choose.

    - `expiry_s`: seconds without consumers after which the session ends; 0: never.
    - `max_events`, `max_bytes` (of bodies): how much its queue may hold.
    - `policy`: what happens when the queue is full: "drop_oldest" (counted and told), "refuse" (the
      new event is not taken; a confirmation becomes an error), or "block" (it waits, and so does
      its confirmation).
    - `max_age_s`: seconds after which an event is dropped; 0: never.
    - `expires`: which events are dropped when their own time (`$expires_s`) is over: "all", or
      "fresh", those that were never handed out.
    - `ack_wait_s`: seconds that a consumer has to acknowledge an event.
    - `max_deliveries`: how often an event is handed out before it becomes a dead letter; 0: for
      ever.
    - `max_dead_letters`: how many of these are kept, the newest.
    """

    expiry_s: _Seconds = 86_400.0
    max_events: _Number = 1_000_000
    max_bytes: _Number = 1 << 30
    policy: FullPolicy = "drop_oldest"
    max_age_s: _Seconds = 0.0
    expires: Expires = "all"
    ack_wait_s: Annotated[float, msgspec.Meta(gt=0)] = 30.0
    max_deliveries: _Whole = 0
    max_dead_letters: _Number = 10_000


class SessionRecord(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A session as it stands on the disk.

    - `name`, `owner`: the name, unique for its owner; the user ("" where nobody proves who it is).
    - `link`: the name of the link that its rows have in the core; new for each life of a session.
    - `subscriptions`: number -> filter. `last_subscription`: the highest number given so far.
    - `created_s`: when it was made.
    - `subject`: who its owner was when he last opened it, None for one who may do everything.
    """

    name: str
    owner: str
    link: str
    created_s: float
    options: SessionOptions = SessionOptions()
    subscriptions: dict[int, str] = msgspec.field(default_factory=dict)
    last_subscription: int = 0
    subject: Subject | None = None


# --- changes -------------------------------------------------------------------------------------


class Change(msgspec.Struct, frozen=True, gc=False):
    """The root of all changes."""


class PutRow(Change, frozen=True, gc=False):
    """Write a row of the core, also in the place of one with this key."""

    table: str
    key: bytes
    row: bytes


class DropRow(Change, frozen=True, gc=False):
    """Remove a row of the core, if it is there."""

    table: str
    key: bytes


class PutSession(Change, frozen=True, gc=False):
    """Write a session, new or changed; what it owes stays."""

    session: SessionNumber
    record: SessionRecord


class DropSession(Change, frozen=True, gc=False):
    """Remove a session with its mark, what it owes, the ids that it has had, and its notes."""

    session: SessionNumber


class PutMark(Change, frozen=True, gc=False):
    """Events of a session up to `position` may have been handed out once."""

    session: SessionNumber
    position: Position


class PutEvent(Change, frozen=True, gc=False):
    """Write an event. `expires_s`: when it is worth nothing any more (0: never); `body`: its
    encoding."""

    event: EventNumber
    id: PublicationId
    expires_s: float
    body: bytes


class DropEvents(Change, frozen=True, gc=False):
    """Remove the events `first` to `last`, both included; some may be gone already."""

    first: EventNumber
    last: EventNumber


class PutOwed(Change, frozen=True, gc=False):
    """A session owes an event to its consumers, at `position`, since `at_s`. `subscriptions`: those
    of the session that match, ascending; `late`: the session may have had it before."""

    session: SessionNumber
    position: Position
    event: EventNumber
    at_s: float
    subscriptions: tuple[int, ...]
    late: bool = False


class PutTries(Change, frozen=True, gc=False):
    """What is owed at `position` may have been handed out `tries` times. `dead`: why it is a dead
    letter, "" if it is none."""

    session: SessionNumber
    position: Position
    tries: int
    dead: str = ""


class DropOwed(Change, frozen=True, gc=False):
    """A session owes nothing at the positions `first` to `last`, both included, any more."""

    session: SessionNumber
    first: Position
    last: Position


class PutSeen(Change, frozen=True, gc=False):
    """Write which events of `publisher` with the numbers `chunk * CHUNK` to `(chunk + 1) * CHUNK -
    1` a session has had: bit `seq % CHUNK` of `bits` (little endian). `at_s`: when it had the
    latest of them."""

    session: SessionNumber
    publisher: str
    chunk: int
    bits: bytes
    at_s: float


class DropSeen(Change, frozen=True, gc=False):
    """Forget what `PutSeen` wrote."""

    session: SessionNumber
    publisher: str
    chunk: int


class PutNotes(Change, frozen=True, gc=False):
    """Write notes of a session, key -> text, in the place of those with the same keys; None removes
    one."""

    session: SessionNumber
    notes: dict[str, str | None]


# --- what a start finds --------------------------------------------------------------------------


class StoredEvent(msgspec.Struct, frozen=True, gc=False):
    """An event without its body, of which `size` is the number of bytes."""

    id: PublicationId
    expires_s: float
    size: int


class StoredOwed(msgspec.Struct, frozen=True, gc=False):
    """What a session owes at a position."""

    event: EventNumber
    at_s: float
    subscriptions: tuple[int, ...]
    late: bool
    tries: int = 0
    dead: str = ""


class StoredSession(msgspec.Struct):
    """`owed`: by ascending position. `seen`: (publisher, chunk) -> (bits, at_s). `notes`: key ->
    text."""

    record: SessionRecord
    mark: Position = 0
    owed: dict[Position, StoredOwed] = msgspec.field(default_factory=dict)
    seen: dict[tuple[str, int], tuple[bytes, float]] = msgspec.field(default_factory=dict)
    notes: dict[str, str] = msgspec.field(default_factory=dict)


class Contents(msgspec.Struct):
    """All that a broker's store holds, but for the bodies. `rows`: table -> key -> row."""

    rows: dict[str, dict[bytes, bytes]] = msgspec.field(default_factory=dict)
    sessions: dict[SessionNumber, StoredSession] = msgspec.field(default_factory=dict)
    events: dict[EventNumber, StoredEvent] = msgspec.field(default_factory=dict)

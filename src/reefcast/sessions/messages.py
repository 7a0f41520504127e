"""Messages between a client and the broker that is the home of its durable sessions.

Rules
-----
- What a client asks carries a `token`, a number of its own above 0, and is answered by `Done`,
  `Failed` with a sentence, or with what it asked for. The answer comes when what it says is on the
  home's disk.
- `owner` is the user whose session it is; "" stands for the client's own user. Another one's
  sessions are for administrators (the server sees to that, and fills it in).
- A consumer is named by its client and a number that the client draws. A number is never used
  again: after a reconnect a client attaches under a new one, and what comes for the old one is
  worth nothing any more.
- `Handed` may overtake no `Done` and the other way round: all of them go by one connection, in
  order.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from reefcast.model.keeping import SessionOptions
from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import PublicationId

EVERYBODY = "*"
"""In the place of an owner: all of them. No user has this name."""
MOST_NAME_CHARS = 200
MOST_WINDOW = 65_536
MOST_POSITIONS = 65_536
"""In one message."""
MOST_DELAY_S = 366 * 86_400.0
MOST_DEPOSITED = 1_000
"""Past events in one message."""
MOST_LETTERS = 1_000
"""Events that one `Look` returns at most."""
MOST_NOTES, MOST_NOTES_BYTES = 70_000, 16 << 20
"""Notes of one session, and bytes of their keys and texts together."""
MOST_KEY_BYTES, MOST_TEXT_BYTES = 70_000, 2 << 20
"""Bytes of one note. The key has room for an MQTT topic filter (65,535 bytes) and some more, the
text for a retained value of 1 MiB in base64."""

Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Token = Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
Window = Annotated[int, msgspec.Meta(ge=0, le=MOST_WINDOW)]
SessionName = Annotated[str, msgspec.Meta(min_length=1, max_length=MOST_NAME_CHARS)]
Owner = Annotated[str, msgspec.Meta(max_length=MOST_NAME_CHARS)]
DelayS = Annotated[float, msgspec.Meta(ge=0, le=MOST_DELAY_S)]


class Asked(ServiceMessage, frozen=True, kw_only=True):
    """The root of what clients ask."""

    token: Token


class AboutSession(Asked, frozen=True, kw_only=True):
    """The root of what concerns one session by its name."""

    session: SessionName
    owner: Owner = ""


class OpenSession(AboutSession, frozen=True, kw_only=True, tag="open_session"):
    """There is to be this session; made if there is none. `options`: fields of `SessionOptions`,
    which it has from now on; those that are not named stay as they are. `here`: it is made at this
    broker, although some brokers cannot be asked whether they have it."""

    options: dict[str, float | int | str] = msgspec.field(default_factory=dict)
    here: bool = False


class CloseSession(AboutSession, frozen=True, kw_only=True, tag="close_session"):
    """The session ends, with all that it owes."""


class AddFilter(AboutSession, frozen=True, kw_only=True, tag="add_filter"):
    """The session is to have a subscription with this filter; answered by `Done` with its number
    when it has settled. One that it has already stays. `retained`: the session is owed the retained
    values that match, too."""

    filter: str
    retained: bool = False


class Deposit(AboutSession, frozen=True, kw_only=True, tag="deposit"):
    """The session is owed these past events, which its subscription `number` matches, but for those
    that it has had; answered by `Done` when they are on disk. `bodies`: their encodings."""

    number: Count
    bodies: Annotated[tuple[bytes, ...], msgspec.Meta(min_length=1, max_length=MOST_DEPOSITED)]


class RemoveFilter(AboutSession, frozen=True, kw_only=True, tag="remove_filter"):
    """The session's subscription with this filter ends; what it owes already stays owed."""

    filter: str


class Attach(AboutSession, frozen=True, kw_only=True, tag="attach"):
    """The client is a consumer of the session from now on, under the number `consumer`. `window`:
    events that it may have without having acknowledged them. `filter`: which events it takes, ""
    for all. `alone`: all other consumers of the session end (`ConsumerEnded`), wherever they are,
    and what they had is owed again at once; others may still attach later."""

    consumer: Count
    window: Window
    filter: str = ""
    alone: bool = False


class Look(AboutSession, frozen=True, kw_only=True, tag="look"):
    """Asks for events of the queue behind position `after`, or of the dead letters; answered by
    `Letters`."""

    after: Count = 0
    most: Annotated[int, msgspec.Meta(ge=1, le=MOST_LETTERS)] = 100
    dead: bool = False


class Manage(AboutSession, frozen=True, kw_only=True, tag="manage"):
    """Drop all that the session owes; owe its dead letters again; forget these. `Done` says how
    many events that were."""

    wish: Literal["drain", "move_dead_letters", "drop_dead_letters"]


class Note(AboutSession, frozen=True, kw_only=True, tag="note"):
    """The session's home keeps these notes, key -> text, in the place of those with the same keys;
    None removes one. Answered by `Done` when all of them are on disk. They get there together, and
    not after what the client asks behind them. Notes are for the session's own user only.
    `consumer`: if given, they are kept only while the client's consumer of this number is attached:
    so what was on its way when another client took the session over changes nothing any more."""

    notes: dict[str, str | None]
    consumer: Count | None = None


class ReadNotes(AboutSession, frozen=True, kw_only=True, tag="read_notes"):
    """Asks for the session's notes whose keys begin with `prefix`; answered by `Notes` when they
    are on disk, as they all were at one time. If the way to the session's home breaks between two
    of these messages, a `Failed` stands for the rest."""

    prefix: str = ""


class ListSessions(Asked, frozen=True, kw_only=True, tag="list_sessions"):
    """Asks for the sessions of `owner` ("*": everybody's; needs an administrator) behind the first
    `skip`, by owner and name, or for the one with this name; answered by `Sessions`."""

    session: Annotated[str, msgspec.Meta(max_length=MOST_NAME_CHARS)] = ""
    owner: Owner = ""
    skip: Count = 0


class Detach(Asked, frozen=True, kw_only=True, tag="detach"):
    """The consumer leaves; what it has not acknowledged is owed again."""

    consumer: Count


class Resize(Asked, frozen=True, kw_only=True, tag="resize"):
    """The consumer may have so many events from now on; 0 pauses it."""

    consumer: Count
    window: Window


class Acknowledge(Asked, frozen=True, kw_only=True, tag="acknowledge"):
    """The consumer has done with the events at these positions; `up_to`: and with all that it was
    handed before the last of them."""

    consumer: Count
    positions: Annotated[tuple[Count, ...], msgspec.Meta(min_length=1, max_length=MOST_POSITIONS)]
    up_to: bool = False


class Reject(Asked, frozen=True, kw_only=True, tag="reject"):
    """The consumer gives an event back; nobody gets it before `delay_s` have passed."""

    consumer: Count
    position: Count
    delay_s: DelayS = 0.0


# --- what the home says --------------------------------------------------------------------------


class Done(ServiceMessage, frozen=True, kw_only=True, tag="done"):
    """What was asked is done, and on disk. `value`: a number that belongs to the answer."""

    token: Count
    value: Count = 0


class Failed(ServiceMessage, frozen=True, kw_only=True, tag="failed"):
    """What was asked cannot be done. `gone`: there is no such session, or consumer. `again`: it may
    be asked again, "now" if the way to the session's home broke, "later" if there is none now."""

    token: Count
    reason: str
    gone: bool = False
    again: Literal["", "now", "later"] = ""


class Owed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An event for a consumer. `subscriptions`: numbers of the session's that match; `tries`: how
    often it may have been handed out, this time included; `late`: it may be a duplicate."""

    position: int
    tries: int
    late: bool
    subscriptions: tuple[int, ...]
    body: bytes


class Handed(ServiceMessage, frozen=True, kw_only=True, tag="handed"):
    """Events for a consumer, in their order."""

    consumer: Count
    events: tuple[Owed, ...]


class ConsumerEnded(ServiceMessage, frozen=True, kw_only=True, tag="consumer_ended"):
    """The consumer is no longer attached: its session ended, or another one took over
    (`Attach.alone`). `again`: the path to the session's home broke, and it may attach again."""

    consumer: Count
    reason: str
    again: bool = False


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A durable session as its home sees it; times in seconds UTC, sizes in bytes.

    - `home`: the broker that has it.
    - `consumers`: name -> events that it has not acknowledged.
    - `events`, `bytes`: what it owes; `out`: how many of them consumers have.
    - `waiting`: publications for which the queue has no room yet.
    - `dropped`: events that went by limits and age since the broker started.
    - `oldest_s`: since when the oldest event is owed, 0 if there is none.
    - `notes`: how many notes its user's programs have left with it; nobody else may read them.
    """

    owner: str
    name: str
    options: SessionOptions
    subscriptions: dict[int, str]
    consumers: dict[str, int]
    events: int
    bytes: int
    out: int
    dead_letters: int
    waiting: int
    dropped: int
    oldest_s: float
    created_s: float
    home: str = ""
    notes: int = 0


class Sessions(ServiceMessage, frozen=True, kw_only=True, tag="sessions"):
    """The answer to `ListSessions`. `more`: there are more behind these."""

    token: Count
    rows: tuple[SessionRow, ...]
    more: bool = False


class LetterRow(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a queue. `at_s`: when the home took it; `dead`: why it is a dead letter, "" if
    it is none."""

    position: int
    id: PublicationId
    at_s: float
    tries: int
    late: bool
    dead: str
    body: bytes


class Letters(ServiceMessage, frozen=True, kw_only=True, tag="letters"):
    """The answer to `Look`: as many events as one message holds, and at least one if there are
    any."""

    token: Count
    letters: tuple[LetterRow, ...]


class Notes(ServiceMessage, frozen=True, kw_only=True, tag="notes"):
    """The answer to `ReadNotes`, by key. `more`: a further message with the same token follows."""

    token: Count
    notes: dict[str, str]
    more: bool = False


FROM_CLIENTS = (
    *(OpenSession, CloseSession, AddFilter, RemoveFilter, Deposit, Attach, Look, Manage),
    *(Note, ReadNotes),
    *(ListSessions, Detach, Resize, Acknowledge, Reject),
)
FROM_HOMES = (Done, Failed, Handed, ConsumerEnded, Sessions, Letters, Notes)
SESSION_MESSAGES = (*FROM_CLIENTS, *FROM_HOMES)
"""Only between clients and their brokers."""

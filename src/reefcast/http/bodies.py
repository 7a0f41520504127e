"""What requests say in their queries and bodies, and what answers say, as msgspec structs. The
docstrings and descriptions are those of the OpenAPI document."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from reefcast.http.content import Told
from reefcast.model.keeping import SessionOptions
from reefcast.sessions.messages import MOST_DELAY_S, MOST_WINDOW, SessionRow

MOST_WAIT_S = 60.0
MOST_FETCHED = 1_000
MOST_COUNT = 1 << 53
"""The largest number that a program may ask for: all of JavaScript's integers, and what fits into
messages between brokers."""
Count = Annotated[int, msgspec.Meta(le=MOST_COUNT)]
Position = Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
Prefetch = Annotated[
    int,
    msgspec.Meta(
        ge=1, le=1_000, description="How many events of the session may be unacknowledged."
    ),
]


def _about(text: str) -> msgspec.Meta:
    return msgspec.Meta(description=text)


class Query(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The root of queries; a parameter that is a list may be there several times."""


class NoQuery(Query, frozen=True):
    """No parameters."""


class PublishQuery(Query, frozen=True):
    """How events are published."""

    topic: Annotated[
        list[str], _about("The topics of all events, in the place of their member topic.")
    ] = []
    confirm: Annotated[
        bool,
        _about(
            "Answer when each durable session that the events are for has them on disk, or they "
            "were refused."
        ),
    ] = False
    expires_s: (
        Annotated[
            float,
            msgspec.Meta(gt=0, le=MOST_DELAY_S, description="After how many seconds they expire."),
        ]
        | None
    ) = None


Format = Annotated[
    Literal["", "cloudevents"],
    _about(
        "How events are written: as CloudEvents, if this says so, or the header Accept names "
        "application/cloudevents+json or application/cloudevents-batch+json."
    ),
]


class EventsQuery(Query, frozen=True):
    """Which events a stream brings."""

    format: Format = ""
    filter: Annotated[
        list[str],
        _about(
            "Filters: events that match at least one of them. With a session, at most one: which "
            "of its events this stream takes."
        ),
    ] = []
    session: Annotated[
        str, _about("The durable session whose events these are, which must exist.")
    ] = ""
    prefetch: Prefetch = 100
    queue_policy: Annotated[
        Literal["", "block", "drop_oldest", "disconnect"],
        _about("What happens when the reader is too slow; by default as the broker says."),
    ] = ""
    queue_limit: Annotated[
        int,
        msgspec.Meta(ge=0, le=MOST_COUNT, description="How many events may wait for the reader."),
    ] = 0
    last_event_id: Annotated[
        str,
        _about("The header Last-Event-ID, for programs that cannot send it; the header wins."),
    ] = ""


class PermissionQuery(Query, frozen=True):
    """Who permits deliveries to a sink."""

    key: Annotated[str, _about("What the handshake has told the sink, and nobody else.")]


class HistoryQuery(Query, frozen=True, rename={"since": "from", "until": "to"}):
    """Which past events are asked for."""

    filter: Annotated[str, _about("A filter that names its topics: topic = 'fx' AND price > 10.")]
    since: Annotated[
        str, _about("From this time of publication on (RFC 3339, or seconds since 1970).")
    ] = ""
    until: Annotated[str, _about("Before this time of publication, as from.")] = ""
    limit: Annotated[
        int,
        msgspec.Meta(ge=0, le=MOST_COUNT, description="At most so many, the oldest; 0: all."),
    ] = 0


class FetchQuery(Query, frozen=True):
    """How many events are fetched, and how long they are waited for."""

    format: Format = ""
    max: Annotated[
        int,
        msgspec.Meta(ge=1, le=MOST_FETCHED, description="The most events of the answer."),
    ] = 100
    wait_s: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=MOST_WAIT_S, description="How long to wait for the first event, in seconds."
        ),
    ] = 0.0


# --- bodies --------------------------------------------------------------------------------------


class SessionWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A durable session that is to exist. What is left out stays as it is, or as by default.
    `expiry_s`: seconds without consumers after which it ends, 0: never; `max_events`, `max_bytes`:
    how much its queue may hold; `policy`: what happens when that is full; `max_age_s`: after which
    age events are dropped; `ack_wait_s`: seconds that a consumer has to acknowledge an event;
    `max_deliveries`: how often an event is handed out before it becomes a dead letter;
    `max_dead_letters`: how many of these are kept. `filters`: subscriptions that it is to have."""

    expiry_s: float | None = None
    max_events: Count | None = None
    max_bytes: Count | None = None
    policy: Literal["drop_oldest", "refuse", "block"] | None = None
    max_age_s: float | None = None
    ack_wait_s: float | None = None
    max_deliveries: Count | None = None
    max_dead_letters: Count | None = None
    filters: list[str] = []

    def choices(self) -> dict[str, Any]:
        """Return what was chosen of `SessionChoices`."""
        chosen = msgspec.structs.asdict(self)
        del chosen["filters"]
        return {name: value for name, value in chosen.items() if value is not None}


class SubscriptionWish(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A subscription that a session is to have. `retained`: with the retained values that match;
    `replay`: with what storages have from this time on (RFC 3339; true: everything)."""

    filter: str
    retained: bool = False
    replay: str | bool = False


class Rejection(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An event that is given back. `delay_s`: nobody gets it for so many seconds."""

    position: Position
    delay_s: Annotated[float, msgspec.Meta(ge=0, le=MOST_DELAY_S)] = 0.0


class Acknowledgements(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What becomes of events that were fetched. `positions`: these are done; `up_to`: this one is,
    and all that was fetched before it; `reject`: these are owed again."""

    positions: Annotated[list[Position], msgspec.Meta(max_length=MOST_WINDOW)] = []
    up_to: Position | None = None
    reject: Annotated[list[Rejection], msgspec.Meta(max_length=MOST_WINDOW)] = []


class ExplainQuestion(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Asks why a filter matches an event, or does not. `event`: its attributes, nested as in an
    event that is posted."""

    filter: str
    event: dict[str, Any] = {}
    topics: list[str] = []


# --- answers -------------------------------------------------------------------------------------


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of one event. `state`: "accepted": it is on its way; "confirmed": each durable
    session that it is for has it; "refused", with a `reason`; "unknown": no answer came in time, so
    it may have been published. `id`: its id, unless it was refused before it had one."""

    item: int
    state: Literal["accepted", "confirmed", "refused", "unknown"]
    id: str = ""
    reason: str = ""


class Published(msgspec.Struct, frozen=True, kw_only=True):
    """What became of the events of a request. `accepted`: how many are on their way or confirmed;
    `refused`: how many were not taken; `events`: each, in the order of the request."""

    accepted: int
    refused: int
    events: list[Outcome]


class SessionSubscription(msgspec.Struct, frozen=True, kw_only=True):
    """A subscription of a session. `id`: its number."""

    id: int
    filter: str


class SessionState(msgspec.Struct, frozen=True, kw_only=True):
    """A durable session as its home sees it; times in seconds UTC, sizes in bytes. `home`: the
    broker that has it; `consumers`: each with the events that it has not acknowledged; `events`,
    `bytes`: what it owes; `out`: how many of these consumers have; `dropped`: how many went by
    limits and age; `oldest_s`: since when the oldest is owed, 0 if there is none."""

    name: str
    home: str
    options: SessionOptions
    subscriptions: list[SessionSubscription]
    consumers: dict[str, int]
    events: int
    bytes: int
    out: int
    dead_letters: int
    dropped: int
    oldest_s: float
    created_s: float


def state_of(row: SessionRow) -> SessionState:
    """Return what is told of a session."""
    names = SessionState.__struct_fields__
    fields = {name: getattr(row, name) for name in names if name != "subscriptions"}
    subscriptions = [
        SessionSubscription(id=number, filter=text) for number, text in row.subscriptions.items()
    ]
    return SessionState(**fields, subscriptions=subscriptions)


class SessionList(msgspec.Struct, frozen=True, kw_only=True):
    """The durable sessions of a user at this broker."""

    sessions: list[SessionState]


class Fetched(msgspec.Struct, frozen=True, kw_only=True):
    """Events of a session, which it owes until they are acknowledged."""

    events: list[Told]


class Done(msgspec.Struct, frozen=True, kw_only=True):
    """What was acknowledged and given back: how many events."""

    acknowledged: int
    rejected: int


class Explained(msgspec.Struct, frozen=True, kw_only=True):
    """Why a filter matches an event, or does not. `explanation`: the tree of its conditions with
    their verdicts, as `reefcast explain --json` prints it; `doubts`: what looks like a mistake in
    the filter."""

    matches: bool
    explanation: dict[str, Any]
    doubts: list[str]

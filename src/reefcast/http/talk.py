"""What a WebSocket at /v1/events says: JSON texts in both directions, each an object whose member
`type` says what it is. A message with an `id` is answered by one with the same `id`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec

from reefcast.http.bodies import Outcome, Position, Prefetch, Rejection
from reefcast.http.content import MOST_EVENTS
from reefcast.http.problems import Problem
from reefcast.sessions.messages import MOST_DELAY_S, MOST_WINDOW

Number = Annotated[int, msgspec.Meta(ge=0, le=1 << 53)]


class Said(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, tag_field="type"):
    """The root of what programs say. `id`: a number of the program's own, 0 for none."""

    id: Number = 0


class Publish(Said, frozen=True, kw_only=True, tag="publish"):
    """Publish events, as POST /v1/events does; answered by `published`. `topics`: of all of them,
    in the place of their member topic."""

    events: Annotated[list[msgspec.Raw], msgspec.Meta(min_length=1, max_length=MOST_EVENTS)]
    topics: list[str] = []
    confirm: bool = False
    expires_s: Annotated[float, msgspec.Meta(gt=0, le=MOST_DELAY_S)] | None = None


class Subscribe(Said, frozen=True, kw_only=True, tag="subscribe"):
    """Subscribe to what matches a filter; answered by `subscribed` when that has settled."""

    filter: str


class Replace(Said, frozen=True, kw_only=True, tag="replace"):
    """Give a subscription another filter, without a gap; answered by `done`."""

    subscription: Number
    filter: str


class Unsubscribe(Said, frozen=True, kw_only=True, tag="unsubscribe"):
    """End a subscription; answered by `done` behind its last event."""

    subscription: Number


class Attach(Said, frozen=True, kw_only=True, tag="attach"):
    """Consume a durable session, which must exist; answered by `done`. `filter`: which of its
    events."""

    session: str
    prefetch: Prefetch = 100
    filter: str = ""


class Acknowledge(Said, frozen=True, kw_only=True, tag="acknowledge"):
    """Acknowledge events of a session, or give them back; answered by `done` when its home has that
    on disk. See `Acknowledgements`."""

    session: str
    positions: Annotated[list[Position], msgspec.Meta(max_length=MOST_WINDOW)] = []
    up_to: Position | None = None
    reject: Annotated[list[Rejection], msgspec.Meta(max_length=MOST_WINDOW)] = []


ANY = Publish | Subscribe | Replace | Unsubscribe | Attach | Acknowledge
_decoder: msgspec.json.Decoder[ANY] = msgspec.json.Decoder(ANY)


def said(text: str | bytes) -> ANY:
    """Return what a program says. Raises `DecodeError` for what has no meaning."""
    return _decoder.decode(text)


# --- what the listener says ----------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True, kw_only=True, tag_field="type", omit_defaults=True):
    """The root of what the listener says. `id`: that of what it answers."""

    id: int = 0


class Subscribed(Told, frozen=True, kw_only=True, tag="subscribed"):
    """The subscription has settled, and this is its number."""

    subscription: int


class Done(Told, frozen=True, kw_only=True, tag="done"):
    """What was asked is done. `acknowledged`: how many events that were."""

    acknowledged: int = 0


class PublishedEvents(Told, frozen=True, kw_only=True, tag="published"):
    """What became of each event, in their order."""

    events: list[Outcome]


class Events(Told, frozen=True, kw_only=True, tag="events"):
    """Events of a subscription, or of a session, in their order."""

    events: list[Any]
    subscription: int = 0
    session: str = ""


class DroppedEvents(Told, frozen=True, kw_only=True, tag="dropped"):
    """How many events the broker dropped, because this program did not keep up."""

    count: int


class Failed(Told, frozen=True, kw_only=True, tag="problem"):
    """What was asked cannot be done; or, without an id, this is why the socket closes."""

    problem: Problem

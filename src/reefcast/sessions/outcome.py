"""What the sessions of a broker ask their driver to do, and the answers that they give."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

import msgspec

from reefcast.model.keeping import Change, EventNumber, Position
from reefcast.model.publication import PublicationId

ConsumerName = str
"""The name of a consumer of a session: unique at this broker, chosen by the server."""


class Told(StrEnum):
    """What happens to sessions, for advisory events."""

    CREATED = "created"
    CLOSED = "closed"
    ATTACHED = "attached"
    DETACHED = "detached"
    FULL = "full"
    DROPPED = "dropped"
    EXPIRED = "expired"
    DEAD_LETTER = "dead_letter"
    DAMAGED = "damaged"


class Advisory(msgspec.Struct, frozen=True, gc=False):
    """Something happened to a session, `count` times: of a consumer, or of events of which `ids`
    names the first. `quiet`: an advisory event brought it about, so that it causes no other."""

    kind: Told
    owner: str
    session: str
    consumer: ConsumerName = ""
    count: int = 1
    ids: tuple[PublicationId, ...] = ()
    reason: str = ""
    quiet: bool = False


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """Hand an event to a consumer.

    `subscriptions`: those of the session that match, ascending; `tries`: how often it may have been
    handed out with this time, so it is *redelivered* from 2 on; `late`: it may be a duplicate.
    """

    consumer: ConsumerName
    owner: str
    session: str
    position: Position
    id: PublicationId
    body: bytes
    subscriptions: tuple[int, ...]
    tries: int
    late: bool

    @property
    def redelivered(self) -> bool:
        """Whether a consumer may have had it before."""
        return self.tries > 1


class Ended(msgspec.Struct, frozen=True, gc=False):
    """A consumer is no longer attached: its session ended, or another one took over; `reason`
    says which."""

    consumer: ConsumerName
    reason: str


class Letter(msgspec.Struct, frozen=True, gc=False):
    """An event of a session's queue, for who looks into it. `dead`: why it is a dead letter."""

    position: Position
    id: PublicationId
    at_s: float
    tries: int
    late: bool
    dead: str
    body: bytes


class Read(msgspec.Struct, frozen=True):
    """The answer to `Home.read`, with what it was asked with."""

    question: object
    letters: tuple[Letter, ...]


class Verdict(msgspec.Struct, frozen=True):
    """What became of a publication at the sessions that it is for.

    `refused`: a sentence that names a session that did not take it ("" where all did). `blocked`:
    a session has no room for it yet, whether another one refused it or not: its id will be among
    `Outcome.taken` some day. Neither: all sessions have it once the changes of this input, and all
    earlier ones, are kept.
    """

    refused: str = ""
    blocked: bool = False


TAKEN = Verdict()


class Outcome(NamedTuple):
    """What follows from the calls since the last `Home.take`, in this order.

    - `changes`: to be written, behind all earlier ones.
    - `fetch`: events whose bodies are to be read from the store, for `Home.fetched`.
    - `deliveries`, `ended`, `read`: for consumers and for who asked.
    - `replies`: what calls were given as `reply`, now that their changes are kept.
    - `taken`: publications that were blocked, and are in the queues of all of their sessions once
      these changes are kept.
    - `advisories`: what to tell.
    - `timer_s`: when `Home.due` must be called (the clock of `now`); None: not at all. It takes the
      place of what was said before.
    """

    changes: tuple[Change, ...]
    fetch: tuple[EventNumber, ...]
    deliveries: list[Delivery]
    ended: list[Ended]
    read: list[Read]
    replies: list[object]
    taken: list[PublicationId]
    advisories: list[Advisory]
    timer_s: float | None

"""Messages about retained values, between clients and their brokers, and between brokers.

Rules
-----
- What a client asks carries a `token`, a number of its own above 0 that it never uses again. `Keep
  it` and `clear it` are answered by `Retained`, on a broker with a disk when it is there, or by
  `NotRetained`; `Recall` by `Recalled`.
- A client sends `Retain` right before the publication itself, on the same connection: who does not
  get the publication because he subscribed too late finds its value (see `service`).
- `Compare`, `Spread` and `Took` go between brokers only.
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import msgspec

from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import WireValue

BUCKETS = 256
"""Parts into which keys are divided, to compare what two brokers have."""
DIGEST_BYTES = 8
MOST_WATCH_S = 3600.0
MOST_NAMES = 64
"""Attributes that a key may consist of."""

Token = Annotated[int, msgspec.Meta(ge=1, le=1 << 62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]
Names = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_NAMES)]

Version = tuple[int, str, int]
"""Time of publication (microseconds UTC), publisher, number; the greater one is the later. What
clears a key has a number below 0, minus its token."""


class Entry(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is retained under a key: the encoded publication, or nothing any more (`body` is empty:
    the key was cleared, or its value has expired). `by`: the attributes that make the key, none if
    the topic does."""

    key: bytes
    version: Version
    by: Names = ()
    body: bytes = b""


# --- from clients --------------------------------------------------------------------------------


class Asked(ServiceMessage, frozen=True, kw_only=True):
    """The root of what clients ask."""

    token: Token


class Retain(Asked, frozen=True, kw_only=True, tag="retain"):
    """This publication of the client is to be the last value of its key (`by` as in `Entry`).
    `clear`: there is to be none any more, as of this publication; so does MQTT clear a topic."""

    body: bytes
    by: Names = ()
    clear: bool = False


class Clear(Asked, frozen=True, kw_only=True, tag="clear_retained"):
    """The key that this topic, or else these attributes make is to have no value any more, as of
    `time_us`."""

    time_us: Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
    topic: str = ""
    attributes: dict[str, WireValue] = msgspec.field(default_factory=dict)


class Recall(Asked, frozen=True, kw_only=True, tag="recall"):
    """The client wants the values that match `filter`. `watch_s`: it also wants those that are
    published within this many seconds, and later ones that the broker missed because it was cut
    off, until it says `Forget`; 0: it wants what there is, and no more."""

    filter: str
    watch_s: Annotated[float, msgspec.Meta(ge=0, le=MOST_WATCH_S)] = 0.0


class RecallOn(Asked, frozen=True, kw_only=True, tag="recall_on"):
    """The client has taken what it got for the `Recall` with this token, and wants the rest."""


class Forget(Asked, frozen=True, kw_only=True, tag="forget_recall"):
    """The client cancels the `Recall` with this token."""


# --- to clients ----------------------------------------------------------------------------------


class Retained(ServiceMessage, frozen=True, kw_only=True, tag="retained"):
    """The broker has it, and so will all others."""

    after_disk: ClassVar[bool] = True
    token: Token


class NotRetained(ServiceMessage, frozen=True, kw_only=True, tag="not_retained"):
    """What was asked with this token is refused; nothing has changed."""

    token: Token
    reason: str


class Recalled(ServiceMessage, frozen=True, kw_only=True, tag="recalled"):
    """Values for the `Recall` with this token, maybe none. `more`: there may be more, for which the
    client has to ask; `late`: these are not of the answer, but came later."""

    token: Token
    entries: tuple[Entry, ...]
    more: bool = False
    late: bool = False


# --- between brokers -----------------------------------------------------------------------------


class Compare(ServiceMessage, frozen=True, kw_only=True, tag="compare_retained"):
    """What the sender has, as a digest of each of `BUCKETS` parts, one behind the other."""

    digests: Annotated[
        bytes,
        msgspec.Meta(min_length=BUCKETS * DIGEST_BYTES, max_length=BUCKETS * DIGEST_BYTES),
    ]


class Spread(ServiceMessage, frozen=True, kw_only=True, tag="spread_retained"):
    """Entries that the receiver may not have. `late`: some broker did not have them when they were
    published, for it was cut off. `exchange`: if not 0, the receiver answers `Took` with this
    number."""

    entries: tuple[Entry, ...]
    late: bool = False
    exchange: Count = 0


class Took(ServiceMessage, frozen=True, kw_only=True, tag="took_retained"):
    """The receiver of an exchange has taken a `Spread`, and another may follow."""

    exchange: Token


FROM_CLIENTS = (Retain, Clear, Recall, RecallOn, Forget)
TO_CLIENTS = (Retained, NotRetained, Recalled)
CLIENT_MESSAGES = (*FROM_CLIENTS, *TO_CLIENTS)
BETWEEN_BROKERS = (Compare, Spread, Took)
MESSAGES = (*CLIENT_MESSAGES, *BETWEEN_BROKERS)

"""Messages between clients, brokers and storages about history.

A *request* is answered by one storage, in the order of `Position`. Its path is the client, the
brokers on the way, and the storage; each message that follows it carries the whole path and `at`,
the receiver's place on it.
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from reefcast.model.messages import EntityId, ServiceMessage
from reefcast.model.wire import MAX_NAME_CHARS, Codec
from reefcast.retaining.messages import CLIENT_MESSAGES
from reefcast.sessions.messages import SESSION_MESSAGES

MOST_TOPICS = 10_000
MOST_HOPS = 64
FARTHEST = MOST_HOPS
"""The distance of an unreachable storage."""

RequestId = EntityId
"""A client, and its number for the request."""

Position = tuple[int, str, int]
"""The place of a publication in history: time (microseconds), publisher, seq."""

Topics = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_TOPICS)]
"""Topic names, or patterns as for MATCHES."""
Place = Annotated[int, msgspec.Meta(ge=0, le=MOST_HOPS)]
Path = Annotated[tuple[str, ...], msgspec.Meta(max_length=MOST_HOPS)]
Name = Annotated[str, msgspec.Meta(max_length=MAX_NAME_CHARS)]
Time = Annotated[int, msgspec.Meta(ge=-(1 << 62), le=1 << 62)]
Count = Annotated[int, msgspec.Meta(ge=0, le=1 << 62)]


class Stores(ServiceMessage, frozen=True, kw_only=True, tag="stores"):
    """A client is a storage, and answers for these topics from now on, and no others. `name`: that
    of its entry in the network file, "" if it has none."""

    topics: Topics
    name: Name = ""


class Stored(ServiceMessage, frozen=True, kw_only=True, tag="stored"):
    """Between brokers: `storage`, `distance` hops from the sender, answers for the topic. With an
    odd `seq`: it cannot be reached, or does not any more. `name`: see `Stores`."""

    topic: str
    storage: str
    seq: Count
    distance: Place
    name: Name = ""


class Find(ServiceMessage, frozen=True, kw_only=True, tag="find"):
    """A client asks its broker which storages answer for these topics, besides itself: the nearest
    ones, or `every` one."""

    number: Count
    topics: Topics
    every: bool = False


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A storage, its distance (hops), and the topics to ask it about."""

    storage: str
    distance: Place
    topics: Topics


class Found(ServiceMessage, frozen=True, kw_only=True, tag="found"):
    """`parts` together have all that is stored; `missing`: topics that nobody stores."""

    number: Count
    parts: tuple[Part, ...]
    missing: Topics = ()


class Request(ServiceMessage, frozen=True, kw_only=True, tag="request"):
    """A request for what a storage has of these topics, from `since_us` (inclusive) to `until_us`
    (exclusive, both microseconds, None for no bound) and behind `after`, as far as the whole filter
    matches; at most `limit` (0: all). `window`: publications that may be sent before `More` allows
    more. `handover_s`: seconds for which the answer stays open for new events. `for_storage`: the
    request is that of a storage that lacks them, not of a client. `attributes`: names of those that
    the answer is to have, None for all; `payload`: whether it is to have that. `stretches`: with a
    number, the answer says how many events lie where, as about so many publications
    (`history.stretches`), instead of the events. A storage that does not know one of these three
    sends everything."""

    id: RequestId
    storage: str
    topics: Topics
    filter: str
    since_us: Time | None = None
    until_us: Time | None = None
    after: Position | None = None
    limit: Count = 0
    window: Annotated[int, msgspec.Meta(ge=1, le=1 << 20)] = 4096
    handover_s: Annotated[float, msgspec.Meta(ge=0, le=3600)] = 0.0
    for_storage: bool = False
    path: Path = ()
    attributes: tuple[str, ...] | None = None
    payload: bool = True
    stretches: Count = 0


class OnPath(ServiceMessage, frozen=True, kw_only=True):
    """The base class of messages that go along the path of a request."""

    id: RequestId
    path: Path
    at: Place


class Items(OnPath, frozen=True, kw_only=True, tag="items"):
    """To the client: encoded publications, in the order of their positions; `late`: in any order,
    as they came in after the storage had looked (see `Request.handover_s`). `before`: how many
    were sent before in this answer, for a broker that restarts loses what it had in hand."""

    before: Count
    bodies: tuple[bytes, ...]
    late: bool = False


class End(OnPath, frozen=True, kw_only=True, tag="end"):
    """To the client: that was all, `before` publications; or, with a `reason`, no more will come
    though there may be. `refused`: its broker does not let it ask, and to ask again is of no
    use."""

    before: Count = 0
    reason: str = ""
    refused: bool = False


class More(OnPath, frozen=True, kw_only=True, tag="more"):
    """To the storage: it may send this many more publications."""

    count: Count


class Cancel(OnPath, frozen=True, kw_only=True, tag="cancel"):
    """To the storage: the client wants nothing more."""


BACKWARD = (Items, End)
FORWARD = (More, Cancel)
FROM_STORAGES = (Stores, *BACKWARD)
"""Messages that only a client that is a storage sends."""
FROM_CLIENTS = (Find, Request, *FORWARD, *FROM_STORAGES)
"""Messages that clients send, storages among them."""
MESSAGES = (Stores, Stored, Find, Found, Request, Items, End, More, Cancel)
CLIENT_CODEC = Codec((*MESSAGES, *SESSION_MESSAGES, *CLIENT_MESSAGES))
"""Encodes the messages between clients and their brokers."""

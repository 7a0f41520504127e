"""Events as subscribers get them, decoded at the first access."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, KeysView, Mapping
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar, overload

from reefcast.errors import LocalError
from reefcast.model import wire
from reefcast.model.carried import EPOCH
from reefcast.model.flat import Attributes
from reefcast.model.publication import Publication, PublicationId, Value

T = TypeVar("T")

TO, FOR, NUMBER = "reply.to", "reply.for", "reply.number"
"""Attributes of requests (the first and the last) and of replies: see `requests`."""


class Replier(Protocol):
    """The client that an event came to; `publish_reply` of a synchronous one waits itself."""

    def publish_reply(
        self,
        request: Event,
        attributes: Attributes | None,
        named: Mapping[str, object],
        payload: bytes,
        topics: Iterable[str],
    ) -> Awaitable[PublicationId] | PublicationId: ...


class Event:
    """A publication as a subscriber sees it: a mapping of attributes, with topics and a payload.

    `event["price"]` raises `KeyError` if the attribute is missing, `event.get("price")` returns
    None; `dict(event)` copies all attributes. An event is decoded at the first access: counting
    events costs nothing, and a malformed event raises `ProtocolError` only then."""

    __slots__ = ("_body", "_decoded", "_replier", "_retained")

    _retained: bool

    def __init__(self, body: bytes, replier: Replier | None = None) -> None:
        self._body = body
        self._replier = replier
        self._decoded: Publication | None = None

    @property
    def _publication(self) -> Publication:
        if self._decoded is None:
            self._decoded = wire.decode_publication(self._body)
        return self._decoded

    @property
    def publisher(self) -> str:
        """The id of the client that published it."""
        return self._publication.publisher

    @property
    def seq(self) -> int:
        """The publisher's number for it, counted from 1."""
        return self._publication.seq

    @property
    def id(self) -> PublicationId:
        """The event's id, (publisher, seq), unique for ever."""
        return self._publication.id

    @property
    def time_us(self) -> int:
        """The time of publication, in microseconds UTC since 1970."""
        return self._publication.time_us

    @property
    def time(self) -> datetime:
        """The time of publication, in UTC."""
        return EPOCH + timedelta(microseconds=self.time_us)

    @property
    def attributes(self) -> dict[str, Value]:
        """The values by name; a missing attribute has no entry."""
        return self._publication.attributes

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics under which it was published, besides its attributes."""
        return self._publication.topics

    @property
    def payload(self) -> bytes:
        """The bytes published with it; no filter sees them."""
        return self._publication.payload

    @property
    def retained(self) -> bool:
        """Whether it came as a retained value, published before it was asked for, and not as it was
        published."""
        return getattr(self, "_retained", False)  # few events are, so others have no such field

    @property
    def body(self) -> bytes:
        """The encoded publication, as it arrived."""
        return self._body

    @property
    def size_bytes(self) -> int:
        """The size of the encoded publication; known without decoding."""
        return len(self._body)

    @property
    def reply_to(self) -> str | None:
        """The address to which its publisher wants a reply; None if it wants none."""
        address = self.get(TO)
        return address if isinstance(address, str) else None

    async def reply(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        **named: object,
    ) -> PublicationId:
        """Publish the reply to a request (see `Client.request`) and return its id.

        Arguments, waits and errors: as `Client.publish`; besides, raises `LocalError` for an event
        that asks for no reply, and for one that did not come to a subscription of this client.
        """
        sent: Any = self._by().publish_reply(self, attributes, named, payload, topics)
        return await sent  # type: ignore[no-any-return]  # an asyncio client's

    def _by(self) -> Replier:
        if self._replier is None:
            raise LocalError(
                "this event can be replied to only where it came to a subscription: it is a past "
                "one, or was decoded by itself"
            )
        return self._replier

    def as_(self, type: type[T]) -> T:
        """Return the attributes as an instance of `type`: a msgspec Struct, a dataclass or a
        TypedDict.

        Nested types get the attributes whose names have dots; times, decimals, enumerations and
        UUIDs are restored from the forms in which they travel (docs/reference/values.md). Other
        attributes are ignored. Raises `InvalidValueError` for an attribute that is missing or does
        not fit, and for a type that no event can become.
        """
        from reefcast.client.typed import read_as

        publication = self._publication
        event = f"event {publication.seq} of {publication.publisher!r}"
        return read_as(type, publication.attributes, event)

    def __getitem__(self, name: str) -> Value:
        return (self._decoded or self._publication).attributes[name]

    @overload
    def get(self, name: str) -> Value | None: ...
    @overload
    def get(self, name: str, default: T) -> Value | T: ...
    def get(self, name: str, default: object = None) -> object:
        """Return the attribute's value, or `default` if the event has no such attribute."""
        return (self._decoded or self._publication).attributes.get(name, default)

    def keys(self) -> KeysView[str]:
        """Return the names of the attributes."""
        return self._publication.attributes.keys()

    def __contains__(self, name: object) -> bool:
        return name in self._publication.attributes

    def __iter__(self) -> Iterator[str]:
        return iter(self._publication.attributes)

    def __len__(self) -> int:
        return len(self._publication.attributes)

    def __repr__(self) -> str:
        return f"Event({self.publisher!r}, {self.seq}, {self.attributes!r})"


def as_retained(event: Event) -> Event:
    """Mark an event as one that came as a retained value, and return it."""
    event._retained = True
    return event


def publication_of(event: Event) -> Publication:
    """Return the publication that the event is."""
    return event._publication


def replier_of(event: Event) -> Replier | None:
    """Return the client that the event came to, for events made of others."""
    return event._replier


def decode_delivery(payload: bytes) -> tuple[tuple[int, ...], Event]:
    """Decode a DELIVER payload into the numbers of the filters that matched and the event; for
    receivers set by `on_deliveries`."""
    head, body = wire.split_parts(payload)
    return wire.decode_numbers(head), Event(bytes(body))

"""What a subscriber gets: an event, decoded when it is first looked at."""

from __future__ import annotations

from collections.abc import Iterator, KeysView
from datetime import datetime, timedelta
from typing import TypeVar, overload

from reefcast.model import wire
from reefcast.model.carried import EPOCH
from reefcast.model.publication import Publication, PublicationId, Value

T = TypeVar("T")


class Event:
    """One publication as a subscriber sees it: its attributes by name, and what is beside them.

    `event["price"]` raises KeyError where the attribute is missing, `event.get("price")` gives
    None; `dict(event)` is a copy of all attributes. An event is decoded at the first look: whoever
    only counts events pays nothing, and one that is none raises `ProtocolError` then.
    """

    __slots__ = ("_body", "_decoded")

    def __init__(self, body: bytes) -> None:
        self._body = body
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
        """Counts from 1 for each publisher."""
        return self._publication.seq

    @property
    def id(self) -> PublicationId:
        """(publisher, seq), unique for ever."""
        return self._publication.id

    @property
    def time_us(self) -> int:
        """When it was published, in microseconds UTC since 1970."""
        return self._publication.time_us

    @property
    def time(self) -> datetime:
        """When it was published, in UTC."""
        return EPOCH + timedelta(microseconds=self.time_us)

    @property
    def attributes(self) -> dict[str, Value]:
        """Values by name; a missing attribute has no entry."""
        return self._publication.attributes

    @property
    def topics(self) -> tuple[str, ...]:
        """What it was published under, beside its attributes."""
        return self._publication.topics

    @property
    def payload(self) -> bytes:
        """The bytes that came along; no filter sees them."""
        return self._publication.payload

    @property
    def body(self) -> bytes:
        """The encoded publication, as it came."""
        return self._body

    @property
    def size_bytes(self) -> int:
        """Size of the encoded publication; known without decoding."""
        return len(self._body)

    def as_(self, type: type[T]) -> T:
        """Return the attributes as an instance of `type`: a msgspec Struct, a dataclass or a
        TypedDict.

        Nested ones take the attributes whose names have dots; times, decimals, enumerations and
        UUIDs are made again of the forms in which they travel (docs/reference/values.md). Other
        attributes are left aside. Raises `InvalidValueError` for an attribute that is missing or
        that the type does not take, and for a type of which no event can be.
        """
        from reefcast.client.typed import read_as

        publication = self._publication
        event = f"event {publication.seq} of {publication.publisher!r}"
        return read_as(type, publication.attributes, event)

    def __getitem__(self, name: str) -> Value:
        return self._publication.attributes[name]

    @overload
    def get(self, name: str) -> Value | None: ...
    @overload
    def get(self, name: str, default: T) -> Value | T: ...
    def get(self, name: str, default: object = None) -> object:
        """Return the attribute's value, or `default` if the event has no such attribute."""
        return self._publication.attributes.get(name, default)

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


def decode_delivery(payload: bytes) -> tuple[tuple[int, ...], Event]:
    """Decode a DELIVER payload into the numbers of the filters that matched and the event; for
    receivers set by `on_deliveries`."""
    head, body = wire.split_parts(payload)
    return wire.decode_numbers(head), Event(bytes(body))

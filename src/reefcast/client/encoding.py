"""From what an application publishes to a frame; here its mistakes are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.messages import Publish
from reefcast.model.publication import (
    MAX_PAYLOAD_BYTES,
    Publication,
    PublicationId,
    Value,
    check_attributes,
)
from reefcast.model.values import plain

_BUILT_IN = frozenset((int, float, bool, str, type(None)))


def merge_attributes(
    attributes: Mapping[str, object] | None, named: Mapping[str, object]
) -> Mapping[str, object]:
    """What `publish` was given, as one mapping; raises `InvalidValueError` if it was none."""
    if attributes is None:
        return named
    if not isinstance(attributes, (dict, Mapping)):  # dict for speed
        if not hasattr(attributes, "keys"):
            raise InvalidValueError(_no_mapping(attributes))
        attributes = dict(attributes)  # a row of a data frame, or of SQLite
    return {**attributes, **named} if named else attributes


def _no_mapping(given: object) -> str:
    what = f"publish takes attributes by name, and this is a {type(given).__name__}"
    if isinstance(given, (bytes, bytearray, memoryview)):
        return f"{what}; write publish(payload=...)"
    if isinstance(given, str):
        return f"{what}; write publish(text='...') or publish({{'text': '...'}})"
    return f"{what}; write publish(name=value) or publish({{'name': value}})"


def encode_event(
    identity: PublicationId,
    time_us: int,
    attributes: Mapping[str, object],
    topics: Iterable[str],
    payload: bytes,
) -> bytes:
    """A PUBLISH frame; raises `InvalidValueError` for what the model does not know."""
    names = _check_topics(topics) if topics else ()
    content = _check_payload(payload) if payload else b""
    values = _check_attributes(attributes)
    publisher, seq = identity
    publication = Publication(publisher, seq, time_us, values, names, content)
    try:
        body = wire.encode_publication(publication)
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise InvalidValueError(
            f"the publication holds text that is no Unicode: {error}"
        ) from error
    frame = wire.encode_publish(Publish(publication, body=body))
    if len(frame) > wire.MAX_FRAME_BYTES:
        raise InvalidValueError(
            f"the publication has {len(frame)} bytes; at most {wire.MAX_FRAME_BYTES} are allowed"
        )
    return frame


def _check_attributes(attributes: Mapping[str, object]) -> dict[str, Value]:
    if _BUILT_IN.issuperset(map(type, attributes.values())):
        return check_attributes(attributes)
    return check_attributes({name: _plain(name, value) for name, value in attributes.items()})


def _plain(name: object, value: object) -> object:
    """Subclasses of the built-in types, and scalars of numpy, as the built-in types.

    Raises `InvalidValueError` for what would lose something on the way, a unit or digits.
    """
    if isinstance(value, (int, float, str)):  # bool is an int
        return plain(value)
    if value is None or not callable(getattr(value, "item", None)):
        return value
    if getattr(value, "ndim", 0):
        raise InvalidValueError(
            f"attribute {name!r} is an array; an attribute is one value: publish one event for "
            "each, or put them into the payload"
        )
    if getattr(getattr(value, "dtype", None), "kind", "") in _TIMES:
        return value  # its item is a number without the unit
    return value.item()  # type: ignore[attr-defined]  # looked for above


_TIMES = ("M", "m")
"""What numpy calls the kinds of datetime64 and timedelta64."""


def _check_topics(topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise InvalidValueError(f"topics is the text {topics!r}; pass a list: topics=[{topics!r}]")
    names = tuple(topics)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"topic {name!r} is not a non-empty string")
    return names


def _check_payload(payload: object) -> bytes:
    if not isinstance(payload, (bytes, bytearray, memoryview)):
        raise InvalidValueError(
            f"the payload is of type {type(payload).__name__}; it must be bytes "
            "(encode a text with .encode())"
        )
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise InvalidValueError(
            f"the payload has {len(payload)} bytes; at most {MAX_PAYLOAD_BYTES} are allowed"
        )
    return bytes(payload)

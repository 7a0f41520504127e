"""Encoding what an application publishes as a frame, and reporting its mistakes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.flat import Attributes, as_sent, fields_of, is_nested
from reefcast.model.publication import (
    MAX_PAYLOAD_BYTES,
    Publication,
    PublicationId,
    is_plain,
)
from reefcast.model.reserved import MAY_NOT_PUBLISH, is_reserved


def merge_attributes(
    attributes: Attributes | None, named: Mapping[str, object]
) -> Mapping[str, object]:
    """Return the arguments of `publish` as one mapping. Raises `InvalidValueError` if `attributes`
    is no mapping, Struct or dataclass."""
    if attributes is None:
        return named
    if not isinstance(attributes, (dict, Mapping)):  # dict for speed
        attributes = _by_name(attributes)
    return {**attributes, **named} if named else attributes


def _by_name(given: object) -> Mapping[str, object]:
    if is_nested(type(given)):
        return fields_of(given)
    if not hasattr(given, "keys"):
        raise InvalidValueError(_no_mapping(given))
    row: Any = given  # such as those of a data frame, or of SQLite
    return dict(row)


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
    """Encode an event as a PUBLISH frame. Raises `InvalidValueError` for values that no event can
    have."""
    names = check_topics(topics) if topics else ()
    content = check_payload(payload) if payload else b""
    plain = type(attributes) is dict and is_plain(attributes)
    values: Any = attributes if plain else as_sent(attributes)
    publisher, seq = identity
    publication = Publication(publisher, seq, time_us, values, names, content)
    try:
        body = wire.encode_publication(publication)
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise InvalidValueError(
            f"the publication holds text that is not Unicode: {error}"
        ) from error
    frame = wire.encode_published(body)
    if len(frame) > wire.MAX_FRAME_BYTES:
        raise InvalidValueError(
            f"the publication has {len(frame)} bytes; at most {wire.MAX_FRAME_BYTES} are allowed"
        )
    return frame


def check_topics(topics: Iterable[str]) -> tuple[str, ...]:
    if isinstance(topics, str):
        raise InvalidValueError(f"topics is the text {topics!r}; pass a list: topics=[{topics!r}]")
    names = tuple(topics)
    for name in names:
        if not isinstance(name, str) or not name:
            raise InvalidValueError(f"topic {name!r} is not a non-empty string")
        if is_reserved(name):
            raise InvalidValueError(f"topic {name!r}: {MAY_NOT_PUBLISH}")
    return names


def check_payload(payload: object) -> bytes:
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

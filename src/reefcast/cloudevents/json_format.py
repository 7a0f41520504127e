"""CloudEvents in JSON: one event ("structured"), and a list of them ("batched").

Data that is JSON keeps its bytes, white space included. An event whose data is JSON by its media
type and is none (nothing checks that in binary mode) is written with `data_base64`, and so is one
that says nothing of its data.

Source: JSON Event Format for CloudEvents 1.0.2."""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any

import msgspec

from reefcast.cloudevents.context import DATA_TYPE, CloudEventError, check_context
from reefcast.cloudevents.events import (
    CloudEvent,
    charset_of,
    is_json,
    is_json_type,
    text_of,
)
from reefcast.model.json_attributes import JSON_TYPE, is_deep

STRUCTURED_TYPE = "application/cloudevents+json"
BATCH_TYPE = "application/cloudevents-batch+json"
MOST_EVENTS = 10_000
"""The most events of one batch."""
MEMBERS = frozenset(("data", "data_base64"))

_encode = msgspec.json.Encoder().encode
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
_value = msgspec.json.Decoder(Any).decode
_NULL = b"null"
_INTEGER = re.compile(rb"-?(?:0|[1-9][0-9]*)")


def decode_event(document: bytes) -> CloudEvent:
    """Return the event of a document of `application/cloudevents+json`. Raises
    `CloudEventError`."""
    _check_depth(document)
    return _event_of(document)


def split_batch(document: bytes) -> list[bytes]:
    """Return the documents of the events of one of `application/cloudevents-batch+json`. Raises
    `CloudEventError` if it is none; what is wrong with an event, `decode_event` says."""
    _check_depth(document)
    try:
        elements = _elements(document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CloudEventError(f"the batch is no JSON array: {error}") from None
    if len(elements) > MOST_EVENTS:
        raise CloudEventError(f"the batch has {len(elements)} events; it may have {MOST_EVENTS}")
    return [bytes(element) for element in elements]


def decode_batch(document: bytes) -> list[CloudEvent]:
    """Return the events of a document of `application/cloudevents-batch+json`. Raises
    `CloudEventError`, which says which event is wrong, counted from 1."""
    events = []
    for number, element in enumerate(split_batch(document), 1):
        try:
            events.append(_event_of(element))
        except CloudEventError as error:
            raise CloudEventError(f"event {number} of the batch: {error}") from None
    return events


def encode_event(event: CloudEvent) -> bytes:
    """Encode an event as `application/cloudevents+json`."""
    document: dict[str, Any] = dict(event.context)
    data, kind = event.data, event.data_type
    if data:
        if kind is None:
            document["data_base64"] = b64encode(data).decode()
        elif is_json_type(kind):
            if is_json(data):
                document["data"] = msgspec.Raw(data)
            else:
                document["data_base64"] = b64encode(data).decode()
        elif (text := text_of(data, kind)) is not None:
            document["data"] = text
        else:
            document["data_base64"] = b64encode(data).decode()
    return _encode(document)


def encode_batch(events: Iterable[CloudEvent]) -> bytes:
    """Encode events as `application/cloudevents-batch+json`."""
    return b"[" + b",".join(map(encode_event, events)) + b"]"


def _check_depth(document: bytes) -> None:
    if is_deep(document):
        raise CloudEventError("the document is nested too deep: at most 100 levels are read")


def _event_of(document: bytes) -> CloudEvent:
    try:
        members = _members(document)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CloudEventError(f"the event is no JSON object: {error}") from None
    attributes = {
        name: _attribute(name, bytes(raw)) for name, raw in members.items() if name not in MEMBERS
    }
    context = check_context(attributes)
    kind = context.get(DATA_TYPE)
    data = _data_of(members, kind if isinstance(kind, str) else None)
    if "data" in members and DATA_TYPE not in context:
        context[DATA_TYPE] = JSON_TYPE  # as sections 3.1.2 and "datacontenttype" imply
    return CloudEvent(context, data)


def _attribute(name: str, raw: bytes) -> Any:
    value = _read(name, raw)
    if isinstance(value, int | float) and not isinstance(value, bool):
        if _INTEGER.fullmatch(raw.strip()) is None:
            raise CloudEventError(
                f"the attribute {name[:100]!r} is {raw.decode()[:100]}; a number must be an integer"
            )
        return int(value)
    return value


def _data_of(members: dict[str, msgspec.Raw], kind: str | None) -> bytes:
    """Return the bytes of the data (section 3.1.2)."""
    raw, encoded = members.get("data"), members.get("data_base64")
    encoded = None if encoded is not None and bytes(encoded).strip() == _NULL else encoded
    if encoded is not None:
        if raw is not None:
            raise CloudEventError("the event has both 'data' and 'data_base64'; leave one out")
        return _decoded(_read("data_base64", bytes(encoded)))
    if raw is None:
        return b""
    data = bytes(raw)
    value = _read("data", data)
    if kind is None or is_json_type(kind):
        return data.strip()
    if value is None:
        return b""
    if not isinstance(value, str):
        raise CloudEventError(
            f"the data is no text, and its media type {kind!r} is not JSON: send a text, or "
            "'data_base64'"
        )
    charset = charset_of(kind)
    if charset is None:
        raise CloudEventError(
            f"the encoding that the media type {kind!r} names is not known here: send 'data_base64'"
        )
    try:
        return value.encode(charset)
    except UnicodeEncodeError as error:
        raise CloudEventError(f"the data is no text of {kind!r}: {error}") from None


def _decoded(text: object) -> bytes:
    if not isinstance(text, str):
        raise CloudEventError("'data_base64' must be a text")
    try:
        return b64decode(text, validate=True)
    except ValueError as error:
        raise CloudEventError(f"'data_base64' is no Base64 (RFC 4648): {error}") from None


def _read(name: str, raw: bytes) -> Any:
    try:
        return _value(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CloudEventError(f"the member {name[:100]!r} is no JSON: {error}") from None

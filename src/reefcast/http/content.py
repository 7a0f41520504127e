"""What HTTP publishes as a publication of Reefcast, and back.

| HTTP | Reefcast |
|---|---|
| an event of the body, a JSON object | `payload`, its bytes as they came |
| `topic` of the query; else the member `topic`, a text or a list of texts | `topics` |
| members of the object | attributes of these names (`model.json_attributes`) |
| `application/json` | `content.type` |
| `expires_s` of the query | `$expires_s`, from the publication's `time_us` on |

This is what MQTT publishes with the content type `application/json`. Events come out as `Told`:
whoever published them, with all of their attributes, and the payload beside them: as JSON if its
content type says that it is JSON, as text if it is one, else in base64."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from reefcast.http.problems import HttpError, refused
from reefcast.model.json_attributes import (
    CONTENT_TYPE,
    JSON_TYPE,
    MAX_ATTRIBUTES,
    MAX_JSON_BYTES,
    attributes_of_json,
    is_json_type,
)
from reefcast.model.publication import Publication, PublicationId, Value
from reefcast.sessions.events import EXPIRES

NDJSON_TYPE = "application/x-ndjson"
MOST_EVENTS = 10_000
"""The most events of one request."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_US, _LAST_US = -62_135_596_800_000_000, 253_402_300_799_999_999
"""The first and the last time that has a year from 1 to 9999; publishers may say any other."""
_BLANKS = b" \t\r\n"
_NO_BREAKS = bytes.maketrans(b"\r\n", b"  ")
_MQTT_FORMAT = "mqtt.format"
_decode_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_check = msgspec.json.Decoder(msgspec.Raw).decode


class Posted(msgspec.Struct, frozen=True):
    """An event that a request brings."""

    attributes: dict[str, Value]
    topics: tuple[str, ...]
    payload: bytes


class _WithTopic(msgspec.Struct):
    """The member of an event that says its topics."""

    topic: str | list[str] | None = None


_decode_topic = msgspec.json.Decoder(_WithTopic).decode


# --- from HTTP -----------------------------------------------------------------------------------


def split(body: bytes, content_type: str) -> tuple[list[bytes], bool]:
    """Return the events of a body, not decoded, and whether they are a list, so that each has its
    own answer. Raises `HttpError` for a body that cannot be divided."""
    essence = content_type.partition(";")[0].strip().lower()
    if essence == NDJSON_TYPE:
        lines = [line for line in body.split(b"\n") if line.strip(_BLANKS)]
        return _few(lines), True
    if not is_json_type(essence):
        raise refused(
            415,
            "content-type",
            f"a body of the type {essence[:80]!r} is no event: send {JSON_TYPE} (an object, or a "
            f"list of objects) or {NDJSON_TYPE} (an object a line)",
            where="header Content-Type",
            headers={"Accept": f"{JSON_TYPE}, {NDJSON_TYPE}"},
        )
    if not body.lstrip(_BLANKS).startswith(b"["):
        return [body], False
    try:
        return _few([bytes(each) for each in _decode_list(body)]), True
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise refused(400, "unreadable", f"this is no JSON list: {error}", where="body") from None


def _few(events: list[bytes]) -> list[bytes]:
    if len(events) <= MOST_EVENTS:
        return events
    said = f"this request brings {len(events)} events; one may bring {MOST_EVENTS}"
    raise refused(413, "too-many", said, where="body")


def event_of(event: bytes, topics: tuple[str, ...], expires_s: float | None) -> Posted:
    """Return the event that this JSON object is. `topics`, `expires_s`: of the query. Raises
    `HttpError` for what gives no attributes."""
    members = attributes_of_json(event)
    if members is None:
        raise _unreadable(event)
    try:
        own = _decode_topic(event).topic if not topics else None
    except msgspec.DecodeError:
        said = "the member topic is neither a text nor a list of texts"
        raise refused(400, "invalid", said) from None
    if own:
        topics = (own,) if isinstance(own, str) else tuple(own)
    attributes: dict[str, Value] = {CONTENT_TYPE: JSON_TYPE}
    if expires_s is not None:
        attributes[EXPIRES] = expires_s
    return Posted({**attributes, **members}, topics, event)


def _unreadable(event: bytes) -> HttpError:
    """Return what is wrong with an event that gives no attributes."""
    if len(event) > MAX_JSON_BYTES:
        said = f"this event has {len(event)} bytes; one has {MAX_JSON_BYTES} at most"
        return refused(413, "too-large", said)
    try:
        decoded: Any = msgspec.json.decode(event)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return refused(400, "unreadable", f"this is no JSON: {error}")
    if not isinstance(decoded, dict):
        return refused(400, "unreadable", "this is JSON, and no object: an event is an object")
    said = f"this object has more than {MAX_ATTRIBUTES} values, or too long names for them"
    return refused(400, "invalid", f"{said}, or is nested too deeply, so that it has no attributes")


# --- to HTTP -------------------------------------------------------------------------------------


class Told(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An event as HTTP tells it. `id`: unique for ever, `publisher:seq`; `time`: when it was
    published, in UTC; `data`: its payload, as JSON or as a text; `data_base64`: the same in base64
    if it is neither. `position`, `deliveries`: of a durable session: the place in its queue, and
    how often it may have been handed out, this time included."""

    id: str
    time: str
    topics: tuple[str, ...]
    attributes: dict[str, str | int | float | bool]
    data: Any | msgspec.UnsetType = msgspec.UNSET
    data_base64: str | msgspec.UnsetType = msgspec.UNSET
    position: int | msgspec.UnsetType = msgspec.UNSET
    deliveries: int | msgspec.UnsetType = msgspec.UNSET


def told(publication: Publication, position: int = 0, deliveries: int = 0) -> Told:
    """Return an event as HTTP tells it. `position`, `deliveries`: of a durable session, from 1."""
    attributes = publication.attributes
    finite = {
        name: value
        for name, value in attributes.items()
        if type(value) is not float or math.isfinite(value)
    }
    time_us = min(max(publication.time_us, _FIRST_US), _LAST_US)
    time = _EPOCH + timedelta(microseconds=time_us)
    return Told(
        id=id_text(publication.id),
        time=time.isoformat(timespec="microseconds").replace("+00:00", "Z"),
        topics=publication.topics,
        attributes=finite,
        position=position or msgspec.UNSET,
        deliveries=deliveries or msgspec.UNSET,
        **_payload_of(attributes, publication.payload),
    )


def id_text(identity: PublicationId) -> str:
    """Return the id of an event as one text."""
    return f"{identity[0]}:{identity[1]}"


def _payload_of(attributes: Mapping[str, Value], payload: bytes) -> dict[str, Any]:
    if not payload:
        return {}
    kind = attributes.get(CONTENT_TYPE)
    kind = kind if isinstance(kind, str) else ""
    try:
        if is_json_type(kind):
            payload.decode()  # a check of JSON alone lets other bytes pass in its texts
            return {"data": msgspec.Raw(bytes(_check(payload)).translate(_NO_BREAKS))}
        if kind.startswith("text/") or attributes.get(_MQTT_FORMAT) == 1:
            return {"data": payload.decode()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass  # it is not what it is said to be
    return {"data_base64": b64encode(payload).decode()}

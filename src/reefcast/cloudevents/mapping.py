"""What a CloudEvent is as a publication of Reefcast, and what CloudEvent a publication is.

| CloudEvents | Reefcast |
|---|---|
| context attributes, extensions | attributes of these names |
| the extension `topic` | the topic; CloudEvents without it have none |
| `datacontenttype` | also `content.type`, as all protocols call it |
| the extension `expirytime` | also `$expires_s`, from the publication's `time_us` on |
| data | `payload`, byte for byte |
| members of a JSON object as data | attributes `data.NAME`; other JSON is the attribute `data` |

No context attribute has a dot in its name or is called `data`, so these names never collide.

An event that was not published as a CloudEvent becomes one by these rules:

- `id` is its publisher and number, `PUBLISHER:NUMBER`; `time` is when it was published.
- `source` is `/reefcast/PUBLISHER`, and `type` is `reefcast.event`, unless the event has an
  attribute `source` or `type` that may stand there. So it is with `time`, `subject`, `dataschema`.
- Each further attribute whose name and value a CloudEvent may have is an extension; characters that
  are not allowed become U+FFFD. The first topic is the extension `topic`.
- Data is the payload. Without a payload it is a JSON object of all attributes, as MQTT clients get
  it.
- What would be lost of an event with a payload (numbers with a fraction, names with dots) is in the
  extension `reefcastattributes`, a JSON object. Members of a JSON payload are in the payload.

A native program publishes a CloudEvent by giving it the four attributes that each needs; without a
payload, its attributes `data.NAME` are the data. If such attributes are wrong, the event counts as
one that was not published as a CloudEvent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from reefcast.cloudevents.context import (
    DATA_TYPE,
    SPECVERSION,
    VERSION,
    CloudEventError,
    Context,
    canonical,
    check_context,
    is_allowed,
    is_media_type,
    is_name,
    replaced,
    time_us_of,
    timestamp_of,
)
from reefcast.cloudevents.events import CloudEvent, essence_of, is_json, is_json_type
from reefcast.cloudevents.json_format import STRUCTURED_TYPE, decode_event
from reefcast.model.filters import TOPIC
from reefcast.model.json_attributes import (
    CONTENT_TYPE,
    JSON_TYPE,
    attributes_of_json,
    members_of,
)
from reefcast.model.publication import Publication, Value
from reefcast.sessions.events import EXPIRES, lifetime_of

DATA, DATA_MEMBERS = "data", "data."
EXPIRY_TIME = "expirytime"
OTHERS = "reefcastattributes"
DEFAULT_TYPE, DEFAULT_SOURCE = "reefcast.event", "/reefcast/"
AT_ONCE_S = 1e-6
"""The `$expires_s` of what has expired: 0 stands for never."""
_BY_MQTT = "mqtt.qos"
_encode_json = msgspec.json.Encoder().encode


# --- from CloudEvents ----------------------------------------------------------------------------


def attributes_of(event: CloudEvent, time_us: int) -> dict[str, Value]:
    """Return the attributes of the publication that an event is. `time_us`: when it is published,
    in microseconds UTC. Its payload is the event's data; its topics: `topics_of`."""
    found = lasting_attributes(event)
    expiry = event.context.get(EXPIRY_TIME)
    if isinstance(expiry, str) and (until_us := time_us_of(expiry)) is not None:
        found[EXPIRES] = max((until_us - time_us) / 1e6, AT_ONCE_S)
    return found


def lasting_attributes(event: CloudEvent) -> dict[str, Value]:
    """Return the attributes of the publication that an event is, but for its expiry."""
    found: dict[str, Value] = {
        name: value for name, value in event.context.items() if name != TOPIC
    }
    kind = event.data_type
    if kind is not None:
        found[CONTENT_TYPE] = kind
    if kind is not None and is_json_type(kind) and is_json(event.data):
        found |= attributes_of_json(b'{"data":' + event.data + b"}") or {}
    return found


def topics_of(event: CloudEvent) -> tuple[str, ...]:
    """Return the topics under which an event is published."""
    topic = event.context.get(TOPIC, "")
    return () if topic == "" else (canonical(topic),)


def publication_of(event: CloudEvent, publisher: str, seq: int, time_us: int) -> Publication:
    """Return the publication that an event is, with this id and time (microseconds UTC)."""
    attributes = attributes_of(event, time_us)
    return Publication(publisher, seq, time_us, attributes, topics_of(event), event.data)


# --- to CloudEvents ------------------------------------------------------------------------------


def event_of(publication: Publication) -> CloudEvent:
    """Return the CloudEvent that a publication is, or becomes by the rules of this module."""
    return claimed_event(publication) or _derived(publication)


def claims(attributes: Mapping[str, Value]) -> bool:
    """Return whether an event says that it is a CloudEvent."""
    return attributes.get(SPECVERSION) == VERSION


def claimed_event(publication: Publication) -> CloudEvent | None:
    """Return the CloudEvent that a publication says it is; None if it says nothing of the kind, or
    is wrong."""
    attributes = publication.attributes
    if not claims(attributes):
        return None
    content_type = attributes.get(CONTENT_TYPE)
    try:
        if isinstance(content_type, str) and essence_of(content_type) == STRUCTURED_TYPE:
            return decode_event(publication.payload)  # as an MQTT client published it
        context = check_context({n: v for n, v in attributes.items() if is_name(n)})
    except CloudEventError:
        return None
    data = publication.payload
    if not data and (members := _nested(attributes)) is not _NOTHING:
        data = _encode_json(members)
        context.setdefault(DATA_TYPE, JSON_TYPE)
    _add_known(context, publication)
    own = {n: v for n, v in attributes.items() if n == DATA or n.startswith(DATA_MEMBERS)}
    _add_others(context, attributes, in_payload=own)
    return CloudEvent(context, data)


def _derived(publication: Publication) -> CloudEvent:
    attributes = publication.attributes
    context: Context = {
        SPECVERSION: VERSION,
        "id": replaced(f"{publication.publisher}:{publication.seq}"),
        "source": DEFAULT_SOURCE + quote(publication.publisher, safe=""),
        "type": DEFAULT_TYPE,
        "time": timestamp_of(publication.time_us),
    }
    for name, value in attributes.items():
        if name not in (SPECVERSION, "id", TOPIC) and is_name(name):
            allowed = replaced(value) if isinstance(value, str) else value
            if is_allowed(name, allowed):
                context[name] = allowed  # type: ignore[assignment]  # a float is not allowed
    _add_known(context, publication)
    data = publication.payload
    if data:
        if _BY_MQTT not in attributes:
            _add_others(context, attributes, in_payload=_members_in(publication))
    elif _BY_MQTT not in attributes and (members := members_of(attributes)):
        data = _encode_json(members)
        context[DATA_TYPE] = JSON_TYPE
    return CloudEvent(context, data)


def _add_known(context: Context, publication: Publication) -> None:
    """Add what other protocols say of an event, and CloudEvents in another way."""
    attributes = publication.attributes
    kind = attributes.get(CONTENT_TYPE)
    if DATA_TYPE not in context and isinstance(kind, str) and is_media_type(kind):
        context[DATA_TYPE] = kind
    topics = publication.topics or (attributes.get(TOPIC),)
    if isinstance(topics[0], str) and topics[0]:
        context[TOPIC] = replaced(topics[0])
    lifetime_s = lifetime_of(attributes)
    if lifetime_s and EXPIRY_TIME not in context:
        until_us = publication.time_us + round(min(lifetime_s, 1e11) * 1e6)
        context[EXPIRY_TIME] = timestamp_of(until_us)


def _members_in(publication: Publication) -> Mapping[str, Value]:
    """Return the attributes that a payload gives which is said to be JSON."""
    kind = publication.attributes.get(CONTENT_TYPE)
    if not isinstance(kind, str) or not is_json_type(kind):
        return {}
    return attributes_of_json(publication.payload) or {}


def _add_others(
    context: Context, attributes: Mapping[str, Value], in_payload: Mapping[str, Value]
) -> None:
    others = {
        name: value
        for name, value in members_of(attributes).items()
        if name not in context and in_payload.get(name) != value
    }
    if others:
        context[OTHERS] = json.dumps(others)  # in ASCII: each character is allowed


class _Nothing:
    """Stands for no data, which differs from the data null."""


_NOTHING = _Nothing()


def _nested(attributes: Mapping[str, Value]) -> Any:
    """Return the JSON value of the attributes `data` and `data.NAME`; `_NOTHING` if there are
    none. Where one name is within another, the longer one keeps its dots."""
    members = members_of(
        {
            n.removeprefix(DATA_MEMBERS): v
            for n, v in attributes.items()
            if n.startswith(DATA_MEMBERS)
        }
    )
    if not members:
        return attributes.get(DATA, _NOTHING)
    root: dict[str, Any] = {}
    for name, value in members.items():
        at, key = root, name
        while "." in key:
            first, _, rest = key.partition(".")
            inner = at.setdefault(first, {}) if first and rest else None
            if not isinstance(inner, dict):
                break
            at, key = inner, rest
        at[key] = value
    return root

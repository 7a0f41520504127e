"""What MQTT publishes as a publication of Reefcast, and back.

| MQTT | Reefcast |
|---|---|
| topic name | the only one of `topics` |
| payload | `payload`, unchanged |
| QoS | `mqtt.qos`; every event that has it counts as one that came by MQTT |
| RETAIN | `mqtt.retain`, TRUE; missing if it was not set |
| Payload Format Indicator | `mqtt.format` |
| Message Expiry Interval | `$expires_s`, from the publication's `time_us` on |
| Content Type | `content.type` |
| Response Topic, Correlation Data | `mqtt.response_topic`, `mqtt.correlation` (base64) |
| User Properties | `mqtt.user_properties`, a JSON list of their pairs |
| members of a JSON object as payload | attributes of these names (`model.json_attributes`) |
| User Properties, if the listener says so | attributes of these names; the first of each |

A message with the User Property `specversion` is a CloudEvent in binary mode (MQTT Protocol Binding
for CloudEvents 1.0.2): its User Properties are context attributes, whatever the listener says, and
members of its payload are attributes `data.NAME` (`cloudevents.mapping`). If it is none, it is an
ordinary message. In structured mode (`application/cloudevents+json`) the members of the payload are
just that. CloudEvents of other clients reach MQTT in binary mode.

Members of payloads win over User Properties of the same name. Neither can have a name of this
table, nor another reserved one (`is_reserved_name`).

Events of native clients may have attributes of these names. They reach MQTT as properties, unless
no packet could have such a value; then the property is left out. If such an event has no payload
and no `mqtt.qos`, its other attributes become its payload, a JSON object.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

import msgspec

from reefcast.cloudevents.context import (
    DATA_TYPE,
    SPECVERSION,
    CloudEventError,
    canonical,
    check_context,
)
from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.mapping import claimed_event, claims, lasting_attributes
from reefcast.model.filters import TOPIC
from reefcast.model.json_attributes import (
    CONTENT_TYPE,
    JSON_TYPE,
    MAX_ATTRIBUTES,
    attributes_of_json,
    is_json_type,
    is_reserved_name,
    members_of,
)
from reefcast.model.patterns import is_topic_match
from reefcast.model.publication import Publication, Value
from reefcast.mqtt.fields import variable
from reefcast.mqtt.packets import MQTT_5, Publish, Will
from reefcast.mqtt.properties import NO_PROPERTIES, Properties
from reefcast.sessions.events import EXPIRES, lifetime_of

QOS, RETAIN, FORMAT = "mqtt.qos", "mqtt.retain", "mqtt.format"
RESPONSE_TOPIC, CORRELATION = "mqtt.response_topic", "mqtt.correlation"
USER_PROPERTIES = "mqtt.user_properties"
NEVER_US = 1 << 62
"""A time that does not come."""
AT_ONCE_S = 1e-6
"""The `$expires_s` of what expires in 0 seconds: 0 stands for never."""

_OF_PROPERTIES = frozenset(
    (FORMAT, EXPIRES, CONTENT_TYPE, RESPONSE_TOPIC, CORRELATION, USER_PROPERTIES, SPECVERSION)
)
_PUBLISH = 0x30
_PUBLISH_HEAD = _PUBLISH.to_bytes()
_MOST_TEXT_BYTES = (1 << 16) - 1
_MOST_INTERVAL_S = (1 << 32) - 1
_encode = msgspec.msgpack.Encoder().encode
_encode_json = msgspec.json.Encoder().encode
_decode_pairs = msgspec.json.Decoder(tuple[tuple[str, str], ...]).decode


class ContentOptions(msgspec.Struct, frozen=True):
    """What a listener reads attributes from. `json`: payloads without a content type, too, may be
    JSON objects; `user_properties`: User Properties become attributes."""

    json: bool = False
    user_properties: bool = False


# --- from MQTT -----------------------------------------------------------------------------------


def attributes_of(
    message: Publish | Will, options: ContentOptions
) -> tuple[dict[str, Value], bool]:
    """Return the attributes of what a client publishes, and whether its payload should be a JSON
    object, and is none that gives attributes."""
    attributes: dict[str, Value] = {QOS: message.qos}
    if message.retain:
        attributes[RETAIN] = True
    properties = message.properties
    if properties is not NO_PROPERTIES:
        _add_properties(attributes, properties)
    event = _cloudevent_in(properties, message.payload) if properties.user_properties else None
    if event is not None:
        return attributes | lasting_attributes(event), False
    unreadable = False
    if message.payload and _is_json(properties.content_type, options):
        members = attributes_of_json(message.payload)
        unreadable = members is None
        attributes.update(members or {})
    if options.user_properties and len(properties.user_properties) <= MAX_ATTRIBUTES:
        for name, value in properties.user_properties:
            if name not in attributes and not is_reserved_name(name):
                attributes[name] = value
    return attributes, unreadable


def _cloudevent_in(properties: Properties, payload: bytes) -> CloudEvent | None:
    """Return the CloudEvent in binary mode that a message is; None if it is none."""
    said = dict(properties.user_properties)
    if SPECVERSION not in said or len(said) < len(properties.user_properties):
        return None
    try:
        return CloudEvent(check_context({**said, DATA_TYPE: properties.content_type}), payload)
    except CloudEventError:
        return None


def _add_properties(attributes: dict[str, Value], properties: Properties) -> None:
    if properties.payload_format_indicator is not None:
        attributes[FORMAT] = properties.payload_format_indicator
    if properties.message_expiry_interval is not None:
        attributes[EXPIRES] = properties.message_expiry_interval or AT_ONCE_S
    if properties.content_type is not None:
        attributes[CONTENT_TYPE] = properties.content_type
    if properties.response_topic is not None:
        attributes[RESPONSE_TOPIC] = properties.response_topic
    if properties.correlation_data is not None:
        attributes[CORRELATION] = b64encode(properties.correlation_data).decode()
    if properties.user_properties:
        attributes[USER_PROPERTIES] = _encode_json(properties.user_properties).decode()


def _is_json(content_type: str | None, options: ContentOptions) -> bool:
    return options.json if content_type is None else is_json_type(content_type)


def publication_of(
    publisher: str,
    seq: int,
    time_us: int,
    topic: str,
    message: Publish | Will,
    options: ContentOptions,
) -> tuple[Publication, bool]:
    """Return the publication that a client's message is, and whether its payload is unreadable
    (see `attributes_of`). `time_us`: when it came, in microseconds UTC; `topic`: its topic name,
    for which the packet may have an alias."""
    attributes, unreadable = attributes_of(message, options)
    made = Publication(publisher, seq, time_us, attributes, (topic,), message.payload)
    return made, unreadable


def encode_body(
    publisher: str,
    seq: int,
    time_us: int,
    topic: str,
    message: Publish | Will,
    options: ContentOptions,
) -> tuple[bytes, bool]:
    """Encode what `publication_of` returns, without making it. Few messages have properties."""
    content = message.payload
    if message.properties is NO_PROPERTIES and not options.json:
        plain = _PLAIN[message.retain][message.qos]
        return _encode((publisher, seq, time_us, plain, (topic,), content)), False
    attributes, unreadable = attributes_of(message, options)
    return _encode((publisher, seq, time_us, attributes, (topic,), content)), unreadable


def plain_publication(
    publisher: str, seq: int, time_us: int, topic: str, payload: bytes
) -> tuple[Publication, bytes]:
    """Return what `publication_of` and `encode_body` do for a message with QoS 0 that has nothing
    but a topic and a payload."""
    topics = (topic,)
    made = Publication(publisher, seq, time_us, _QOS_0, topics, payload)
    return made, _encode((publisher, seq, time_us, _PLAIN[False][0], topics, payload))


def _encoded_plain(retain: bool) -> tuple[msgspec.Raw, ...]:
    made = (attributes_of(Publish("", b"", qos, retain), ContentOptions()) for qos in (0, 1, 2))
    return tuple(msgspec.Raw(_encode(attributes)) for attributes, _ in made)


_PLAIN = (_encoded_plain(False), _encoded_plain(True))
"""The encoded attributes of messages without properties, by RETAIN and QoS."""
PLAIN = bytes(_PLAIN[False][0])
"""The encoded attributes of a message with QoS 0 without properties."""
_QOS_0: dict[str, Value] = {QOS: 0}
"""The attributes of a message with QoS 0 without properties; nobody changes those of a
publication."""


# --- to MQTT -------------------------------------------------------------------------------------


class Outbound(msgspec.Struct, frozen=True, gc=False):
    """What all subscribers get of an event. `qos`, `retain`: as it was published by MQTT; None:
    it came from a program of our own. `properties`: for those who speak 5.0."""

    payload: bytes
    qos: int | None
    retain: bool
    properties: Properties


def outbound_of(publication: Publication, now_us: int) -> Outbound | None:
    """Return what subscribers get of an event at `now_us`, in microseconds UTC; None if it has
    expired."""
    attributes, payload = publication.attributes, publication.payload
    qos = _qos_of(attributes)
    if (payload or qos is not None) and _OF_PROPERTIES.isdisjoint(attributes):
        return Outbound(payload, qos, attributes.get(RETAIN) is True, NO_PROPERTIES)
    interval = None
    if lifetime := lifetime_of(attributes):
        interval = _interval_of(lifetime, now_us - publication.time_us)
        if interval is None:
            return None
    fields = _properties_of(attributes)
    event = claimed_event(publication) if qos is None and claims(attributes) else None
    if event is not None:
        payload, fields = event.data, fields | _properties_of_cloudevent(event)
    elif qos is None and not payload and (members := members_of(attributes)):
        payload = _encode_json(members)
        fields |= {"content_type": JSON_TYPE, "payload_format_indicator": 1}
    properties = Properties(message_expiry_interval=interval, **fields)
    return Outbound(payload, qos, attributes.get(RETAIN) is True, properties)


def same_until_us(publication: Publication, now_us: int) -> int:
    """Return until when `outbound_of` returns the same as at `now_us`, in microseconds UTC."""
    lifetime = lifetime_of(publication.attributes)
    if not lifetime:
        return NEVER_US
    left_us = last_us(publication) + 1 - max(now_us, publication.time_us)
    return now_us + 1 + (left_us - 1) % 1_000_000 if left_us > 0 else now_us


def last_us(publication: Publication) -> int:
    """Return the last time at which an event has not expired, in microseconds UTC."""
    lifetime = lifetime_of(publication.attributes)
    if not lifetime:
        return NEVER_US
    return publication.time_us + round(min(lifetime, _MOST_INTERVAL_S) * 1e6) - 1


def packet_of(
    outbound: Outbound,
    topic: str,
    granted_qos: int,
    version: int,
    *,
    retain: bool = False,
    dup: bool = False,
    packet_id: int = 0,
    subscription_identifiers: tuple[int, ...] = (),
) -> Publish:
    """Return the PUBLISH packet of an event for one subscriber. `packet_id`: left out if its QoS is
    0 (see `delivered_qos`)."""
    qos = delivered_qos(outbound, granted_qos)
    properties = outbound.properties if version == MQTT_5 else NO_PROPERTIES
    if subscription_identifiers and version == MQTT_5:
        properties = msgspec.structs.replace(
            properties, subscription_identifiers=subscription_identifiers
        )
    number = packet_id if qos else 0
    return Publish(topic, outbound.payload, qos, retain, dup, number, properties)


def delivered_qos(outbound: Outbound, granted_qos: int) -> int:
    """Return the QoS with which a subscriber gets an event (MQTT-3.8.4-8): an event that came
    without any has the one that was granted."""
    return granted_qos if outbound.qos is None else min(outbound.qos, granted_qos)


def encode_plain(publication: Publication, topic: str, version: int) -> bytes | None:
    """Encode the PUBLISH packet of an event for all who get it with QoS 0 and without RETAIN and
    subscription identifiers, if it came with QoS 0 and without properties; else return None. As
    `encoding.encode` of `packet_of`, in half the time."""
    attributes, payload = publication.attributes, publication.payload
    if _qos_of(attributes) != 0 or not _OF_PROPERTIES.isdisjoint(attributes):
        return None
    name = topic.encode()
    behind = b"\0" if version == MQTT_5 else b""
    size = 2 + len(name) + len(behind) + len(payload)
    head = bytes((_PUBLISH, size)) if size < 0x80 else _PUBLISH_HEAD + variable(size)
    return b"".join((head, len(name).to_bytes(2), name, behind, payload))


def topic_for(publication: Publication, pattern: str) -> str | None:
    """Return the topic name under which a subscriber gets an event that matches its topic filter
    `pattern`: the first of the event's topics that does. None if MQTT has no such name: programs of
    our own may publish under the topic 'a/+'."""
    topics = publication.topics
    if not topics:
        topic = publication.attributes.get(TOPIC)
        topics = (topic,) if isinstance(topic, str) else ()
    for topic in topics:
        if is_topic_name(topic) and (len(topics) == 1 or is_topic_match(topic, pattern)):
            return topic
    return None


def is_topic_name(topic: str) -> bool:
    """Return whether MQTT can publish under a topic (MQTT-3.3.2-2, sections 1.5.4 and 4.7.3)."""
    return topic != "" and "+" not in topic and "#" not in topic and is_text(topic)


def is_text(value: object) -> bool:
    """Return whether a value is a text that a packet can contain (section 1.5.4)."""
    if not isinstance(value, str) or "\0" in value:
        return False
    return len(value) <= _MOST_TEXT_BYTES // 4 or len(value.encode()) <= _MOST_TEXT_BYTES


def _qos_of(attributes: Mapping[str, Value]) -> int | None:
    qos = attributes.get(QOS)
    return qos if type(qos) is int and 0 <= qos <= 2 else None


def _interval_of(lifetime_s: float, elapsed_us: int) -> int | None:
    """Return the Message Expiry Interval that is left, in seconds; None if nothing is. It is never
    longer than it was, whatever the clock of another broker said (MQTT-3.3.2-6)."""
    left_us = round(min(lifetime_s, _MOST_INTERVAL_S) * 1e6) - max(elapsed_us, 0)
    if left_us <= 0:
        return None
    return 0 if lifetime_s <= AT_ONCE_S else -(-left_us // 1_000_000)


def _properties_of(attributes: Mapping[str, Value]) -> dict[str, Any]:
    """Return the properties, but for the interval, that attributes say and a packet can have."""
    found: dict[str, Any] = {}
    indicator = attributes.get(FORMAT)
    if type(indicator) is int and indicator in (0, 1):
        found["payload_format_indicator"] = indicator
    if is_text(kind := attributes.get(CONTENT_TYPE)):
        found["content_type"] = kind
    reply = attributes.get(RESPONSE_TOPIC)
    if isinstance(reply, str) and is_topic_name(reply):
        found["response_topic"] = reply
    correlation = _correlation_of(attributes.get(CORRELATION))
    if correlation is not None:
        found["correlation_data"] = correlation
    if pairs := _pairs_of(attributes.get(USER_PROPERTIES)):
        found["user_properties"] = pairs
    return found


def _properties_of_cloudevent(event: CloudEvent) -> dict[str, Any]:
    """Return the properties of a CloudEvent in binary mode."""
    names = event.context.keys() - {DATA_TYPE, TOPIC}
    pairs = [(name, canonical(event.context[name])) for name in event.context if name in names]
    found: dict[str, Any] = {"user_properties": tuple(p for p in pairs if is_text(p[1]))}
    if is_text(event.data_type):
        found["content_type"] = event.data_type
    return found


def _correlation_of(value: Value | None) -> bytes | None:
    if not isinstance(value, str):
        return None
    try:
        correlation = b64decode(value, validate=True)
    except ValueError:
        return None
    return correlation if len(correlation) <= _MOST_TEXT_BYTES else None


def _pairs_of(value: Value | None) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, str):
        return ()
    try:
        pairs = _decode_pairs(value)
    except msgspec.DecodeError:
        return ()
    return pairs if all(is_text(text) for pair in pairs for text in pair) else ()

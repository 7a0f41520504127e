"""Reading the fields of each packet, behind its fixed header (chapter 3 of both standards).

A reader takes the first byte of a packet, the bytes, where the fixed header and the packet end, and
the version; it raises `MqttError` as `decoding` says."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reefcast.mqtt.fields import Cursor, decoded, forbidden, malformed, shown
from reefcast.mqtt.packets import (
    MQTT_3_1_1,
    MQTT_5,
    Acknowledgement,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    Pingreq,
    Pingresp,
    Puback,
    Pubcomp,
    Publish,
    Pubrec,
    Pubrel,
    Suback,
    Subscribe,
    TopicRequest,
    Unsuback,
    Unsubscribe,
    Will,
)
from reefcast.mqtt.properties import NO_PROPERTIES, WILL, Properties, read_properties
from reefcast.mqtt.reasons import (
    AUTH_REASONS,
    CONNACK_OF_RETURN_CODE,
    CONNACK_REASONS,
    DISCONNECT_REASONS,
    PUBACK_REASONS,
    PUBREL_REASONS,
    SUBACK_OF_RETURN_CODE,
    SUBACK_REASONS,
    UNSUBACK_REASONS,
    MqttError,
    Reason,
)
from reefcast.mqtt.topics import check_topic_name, is_shared

Reader = Callable[[int, bytes, int, int, int], Packet]


# --- CONNECT and CONNACK -------------------------------------------------------------------------


def unsupported(what: str) -> MqttError:
    return MqttError(
        Reason.UNSUPPORTED_PROTOCOL_VERSION,
        f"{what}; this end speaks MQTT 5.0 (level 5) and MQTT 3.1.1 (level 4)",
    )


def protocol_level(cursor: Cursor) -> int:
    """Read the protocol name and the protocol level (sections 3.1.2.1 and 3.1.2.2)."""
    name = cursor.binary("protocol name")
    level = cursor.byte("protocol level")
    if name == b"MQIsdp":
        return level if level < MQTT_3_1_1 else 3
    if name != b"MQTT":
        raise unsupported(f"CONNECT names the protocol {shown(name.decode(errors='replace'))}")
    return level


def _read_connect(first: int, data: bytes, at: int, end: int, version: int) -> Connect:
    cursor = Cursor("CONNECT", data, at, end)
    level = protocol_level(cursor)
    if level != version:
        raise unsupported(f"CONNECT asks for the protocol level {level} instead of {version}")
    flags = cursor.byte("connect flags")
    _check_connect_flags(flags, version)
    keep_alive = cursor.two_bytes("keep-alive")
    properties = read_properties(cursor, "CONNECT") if version == MQTT_5 else NO_PROPERTIES
    if properties.authentication_data is not None and properties.authentication_method is None:
        raise forbidden("CONNECT has authentication data without an authentication method")
    client_id = cursor.text("client identifier")
    will = _read_will(cursor, flags, version) if flags & 0x04 else None
    user_name = cursor.text("user name") if flags & 0x80 else None
    password = cursor.binary("password") if flags & 0x40 else None
    cursor.finish()
    clean_start = flags & 0x02 != 0
    if not client_id and not clean_start and version == MQTT_3_1_1:
        raise MqttError(
            Reason.CLIENT_IDENTIFIER_NOT_VALID,
            "CONNECT has no client identifier, and asks for a session that lasts; "
            "give a client identifier, or set Clean Session",
        )
    return Connect(client_id, clean_start, keep_alive, will, user_name, password, properties)


def _check_connect_flags(flags: int, version: int) -> None:
    if flags & 0x01:
        raise malformed("CONNECT has the reserved connect flag (bit 0); it must be 0")
    qos = flags >> 3 & 3
    if qos == 3:
        raise malformed("CONNECT has the will QoS 3; use 0, 1 or 2")
    if not flags & 0x04 and flags & 0x38:
        raise forbidden("CONNECT has a will QoS or will retain without a will; set them to 0")
    if flags & 0x40 and not flags & 0x80 and version == MQTT_3_1_1:
        raise malformed("CONNECT has a password without a user name, which 3.1.1 does not allow")


def _read_will(cursor: Cursor, flags: int, version: int) -> Will:
    properties = read_properties(cursor, WILL) if version == MQTT_5 else NO_PROPERTIES
    topic = cursor.text("will topic")
    check_topic_name(topic, "CONNECT: the will topic")
    payload = cursor.binary("will payload")
    return Will(topic, payload, flags >> 3 & 3, flags & 0x20 != 0, properties)


def _read_connack(first: int, data: bytes, at: int, end: int, version: int) -> Connack:
    cursor = Cursor("CONNACK", data, at, end)
    flags = cursor.byte("acknowledge flags")
    if flags > 1:
        raise malformed(f"CONNACK has the acknowledge flags {flags:08b}; only bit 0 may be set")
    reasons = CONNACK_REASONS if version == MQTT_5 else CONNACK_OF_RETURN_CODE
    reason = _read_reason(cursor, reasons)
    properties = read_properties(cursor, "CONNACK") if version == MQTT_5 else NO_PROPERTIES
    cursor.finish()
    if flags and reason:
        raise forbidden("CONNACK refuses the client and has Session Present; it must be 0")
    return Connack(flags == 1, reason, properties)


# --- PUBLISH and its acknowledgements ------------------------------------------------------------


def _read_publish(first: int, data: bytes, at: int, end: int, version: int) -> Publish:
    """Read a PUBLISH: the hot path, hence without a cursor where nothing is wrong."""
    start = at + 2
    if start > end:
        raise malformed("PUBLISH ends within the length of its topic name; send the whole field")
    at = start + (data[at] << 8 | data[at + 1])
    if at > end:
        raise malformed("PUBLISH ends within its topic name; send all of it, or correct its length")
    try:
        topic = data[start:at].decode()
    except UnicodeDecodeError:
        topic = "\0"
    if "\0" in topic or "+" in topic or "#" in topic:
        _check_topic_name(data[start:at])
    packet_id = 0
    if first & 6:
        packet_id = data[at] << 8 | data[at + 1] if at + 2 <= end else 0
        if not packet_id:
            Cursor("PUBLISH", data, at, end).packet_id()
        at += 2
    properties = NO_PROPERTIES
    if version == MQTT_5:
        if at < end and not data[at]:
            at += 1
        else:
            cursor = Cursor("PUBLISH", data, at, end, start - 2)
            properties = read_properties(cursor, "PUBLISH")
            at = cursor.at
    if not topic:
        _check_alias(properties.topic_alias, version)
    if first == 0x30:
        return Publish(topic, data[at:end], properties=properties)
    qos, retain, dup = _FLAGS[first & 15]
    return Publish(topic, data[at:end], qos, retain, dup, packet_id, properties)


_FLAGS = tuple((flags >> 1 & 3, flags & 1 == 1, flags & 8 == 8) for flags in range(16))
"""QoS, RETAIN and DUP of the first byte of a PUBLISH."""


def _check_topic_name(raw: bytes) -> None:
    topic = decoded(raw, "PUBLISH: the topic name")
    check_topic_name(topic, "PUBLISH: the topic name")


def _check_alias(alias: int | None, version: int) -> None:
    """Check that there is a topic alias instead of a topic name (section 3.3.2.1)."""
    if version == MQTT_3_1_1:
        raise MqttError(Reason.TOPIC_NAME_INVALID, "PUBLISH has an empty topic name")
    if alias is None:
        raise forbidden("PUBLISH has neither a topic name nor a topic alias; send one of them")


_Acknowledging = type[Puback] | type[Pubrec] | type[Pubrel] | type[Pubcomp]


def _reader_of(kind: _Acknowledging, reasons: Mapping[int, Reason]) -> Reader:
    name = kind.type.name

    def read_acknowledgement(
        first: int, data: bytes, at: int, end: int, version: int
    ) -> Acknowledgement:
        if end - at == 2 and (data[at] or data[at + 1]):
            return kind(data[at] << 8 | data[at + 1])
        cursor = Cursor(name, data, at, end)
        packet_id = cursor.packet_id()
        if not cursor.left or version == MQTT_3_1_1:
            cursor.finish()
            return kind(packet_id)
        reason = _read_reason(cursor, reasons)
        properties = read_properties(cursor, name) if cursor.left else NO_PROPERTIES
        cursor.finish()
        return kind(packet_id, reason, properties)

    return read_acknowledgement


def _read_reason(cursor: Cursor, known: Mapping[int, Reason]) -> Reason:
    code = cursor.byte("reason code")
    reason = known.get(code)
    if reason is None:
        raise forbidden(f"{cursor.packet} has the reason code 0x{code:02X}, which it cannot have")
    return reason


# --- subscriptions -------------------------------------------------------------------------------


def _read_subscribe(first: int, data: bytes, at: int, end: int, version: int) -> Subscribe:
    cursor = Cursor("SUBSCRIBE", data, at, end)
    packet_id = cursor.packet_id()
    properties = read_properties(cursor, "SUBSCRIBE") if version == MQTT_5 else NO_PROPERTIES
    requests = []
    while cursor.left:
        topic_filter = _read_topic_filter(cursor)
        options = cursor.byte("subscription options")
        if options > 2:
            _check_options(options, topic_filter, version)
        requests.append(
            TopicRequest(
                topic_filter, options & 3, options & 4 != 0, options & 8 != 0, options >> 4
            )
        )
    if not requests:
        raise forbidden("SUBSCRIBE has no topic filter; it needs one or more")
    return Subscribe(packet_id, tuple(requests), properties)


def _read_topic_filter(cursor: Cursor) -> str:
    topic_filter = cursor.text("topic filter")
    if not topic_filter:
        raise MqttError(
            Reason.TOPIC_FILTER_INVALID,
            f"{cursor.packet} has an empty topic filter, {cursor.place}; it needs a character",
        )
    return topic_filter


def _check_options(options: int, topic_filter: str, version: int) -> None:
    where = f"SUBSCRIBE to {shown(topic_filter)}"
    if options & (0xC0 if version == MQTT_5 else 0xFC):
        raise malformed(f"{where}: the options {options:08b} have reserved bits; they must be 0")
    if options & 3 == 3:
        wrong = forbidden if version == MQTT_5 else malformed
        raise wrong(f"{where}: the QoS is 3; use 0, 1 or 2")
    if options >> 4 == 3:
        raise forbidden(f"{where}: the retain handling is 3; use 0, 1 or 2")
    if options & 4 and is_shared(topic_filter):
        raise forbidden(f"{where}: a shared subscription cannot have No Local")


def _read_suback(first: int, data: bytes, at: int, end: int, version: int) -> Suback:
    known = SUBACK_REASONS if version == MQTT_5 else SUBACK_OF_RETURN_CODE
    return Suback(*_read_answers("SUBACK", data, at, end, version, known))


def _read_unsubscribe(first: int, data: bytes, at: int, end: int, version: int) -> Unsubscribe:
    cursor = Cursor("UNSUBSCRIBE", data, at, end)
    packet_id = cursor.packet_id()
    properties = read_properties(cursor, "UNSUBSCRIBE") if version == MQTT_5 else NO_PROPERTIES
    topic_filters = []
    while cursor.left:
        topic_filters.append(_read_topic_filter(cursor))
    if not topic_filters:
        raise forbidden("UNSUBSCRIBE has no topic filter; it needs one or more")
    return Unsubscribe(packet_id, tuple(topic_filters), properties)


def _read_unsuback(first: int, data: bytes, at: int, end: int, version: int) -> Unsuback:
    if version == MQTT_5:
        return Unsuback(*_read_answers("UNSUBACK", data, at, end, version, UNSUBACK_REASONS))
    cursor = Cursor("UNSUBACK", data, at, end)
    packet_id = cursor.packet_id()
    cursor.finish()
    return Unsuback(packet_id)


def _read_answers(
    name: str, data: bytes, at: int, end: int, version: int, known: Mapping[int, Reason]
) -> tuple[int, tuple[Reason, ...], Properties]:
    """Read the fields of a SUBACK or UNSUBACK."""
    cursor = Cursor(name, data, at, end)
    packet_id = cursor.packet_id()
    properties = read_properties(cursor, name) if version == MQTT_5 else NO_PROPERTIES
    if not cursor.left:
        raise forbidden(f"{name} has no reason code; it needs one for each topic filter")
    reasons = tuple(_read_reason(cursor, known) for _ in range(cursor.left))
    return packet_id, reasons, properties


# --- the others ----------------------------------------------------------------------------------


def _read_pingreq(first: int, data: bytes, at: int, end: int, version: int) -> Pingreq:
    Cursor("PINGREQ", data, at, end).finish()
    return Pingreq()


def _read_pingresp(first: int, data: bytes, at: int, end: int, version: int) -> Pingresp:
    Cursor("PINGRESP", data, at, end).finish()
    return Pingresp()


def _read_disconnect(first: int, data: bytes, at: int, end: int, version: int) -> Disconnect:
    cursor = Cursor("DISCONNECT", data, at, end)
    if not cursor.left or version == MQTT_3_1_1:
        cursor.finish()
        return Disconnect()
    reason = _read_reason(cursor, DISCONNECT_REASONS)
    properties = read_properties(cursor, "DISCONNECT") if cursor.left else NO_PROPERTIES
    cursor.finish()
    return Disconnect(reason, properties)


def reserved_auth() -> MqttError:
    return malformed("a packet has the type 15, which 3.1.1 reserves")


def _read_auth(first: int, data: bytes, at: int, end: int, version: int) -> Auth:
    if version == MQTT_3_1_1:
        raise reserved_auth()
    cursor = Cursor("AUTH", data, at, end)
    if not cursor.left:
        return Auth()
    reason = _read_reason(cursor, AUTH_REASONS)
    properties = read_properties(cursor, "AUTH")
    cursor.finish()
    if properties.authentication_method is None:
        raise forbidden("AUTH has no authentication method; send the one of the CONNECT")
    return Auth(reason, properties)


# The reader for each first byte with a type and flags that exist (section 2.1.3).
READERS: dict[int, Reader] = {
    0x10: _read_connect,
    0x20: _read_connack,
    # neither QoS 3 nor DUP with QoS 0
    **dict.fromkeys((*range(0x30, 0x36), *range(0x3A, 0x3E)), _read_publish),
    0x40: _reader_of(Puback, PUBACK_REASONS),
    0x50: _reader_of(Pubrec, PUBACK_REASONS),
    0x62: _reader_of(Pubrel, PUBREL_REASONS),
    0x70: _reader_of(Pubcomp, PUBREL_REASONS),
    0x82: _read_subscribe,
    0x90: _read_suback,
    0xA2: _read_unsubscribe,
    0xB0: _read_unsuback,
    0xC0: _read_pingreq,
    0xD0: _read_pingresp,
    0xE0: _read_disconnect,
    0xF0: _read_auth,
}

"""The properties of packets (MQTT 5.0, section 2.2.2)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec

from reefcast.mqtt.fields import Cursor, binary, forbidden, malformed, shown, text, variable
from reefcast.mqtt.reasons import MqttError, Reason


class Properties(msgspec.Struct, frozen=True, kw_only=True, gc=False, omit_defaults=True):
    """The properties of one packet or will; None, or an empty tuple, stands for an absent one.

    Intervals are in seconds, `maximum_packet_size` in bytes."""

    payload_format_indicator: int | None = None
    message_expiry_interval: int | None = None
    content_type: str | None = None
    response_topic: str | None = None
    correlation_data: bytes | None = None
    subscription_identifiers: tuple[int, ...] = ()
    session_expiry_interval: int | None = None
    assigned_client_id: str | None = None
    server_keep_alive: int | None = None
    authentication_method: str | None = None
    authentication_data: bytes | None = None
    request_problem_information: bool | None = None
    will_delay_interval: int | None = None
    request_response_information: bool | None = None
    response_information: str | None = None
    server_reference: str | None = None
    reason_string: str | None = None
    receive_maximum: int | None = None
    topic_alias_maximum: int | None = None
    topic_alias: int | None = None
    maximum_qos: int | None = None
    retain_available: bool | None = None
    user_properties: tuple[tuple[str, str], ...] = ()
    maximum_packet_size: int | None = None
    wildcard_subscription_available: bool | None = None
    subscription_identifiers_available: bool | None = None
    shared_subscription_available: bool | None = None


NO_PROPERTIES = Properties()


# --- how values are read and written -------------------------------------------------------------


class Kind(NamedTuple):
    """A data type of properties. `read` takes the property's name for sentences."""

    read: Callable[[Cursor, str], Any]
    write: Callable[[Any], bytes]


def _read_bit(cursor: Cursor, name: str) -> int:
    value = cursor.byte(name)
    if value > 1:
        raise forbidden(f"{cursor.packet}: the {name} is {value}; it must be 0 or 1")
    return value


def _read_flag(cursor: Cursor, name: str) -> bool:
    return _read_bit(cursor, name) == 1


def _positive(
    read: Callable[[Cursor, str], int], reason: Reason = Reason.PROTOCOL_ERROR
) -> Callable[[Cursor, str], int]:
    def read_positive(cursor: Cursor, name: str) -> int:
        value = read(cursor, name)
        if not value:
            raise MqttError(reason, f"{cursor.packet}: the {name} is 0; it must be 1 or more")
        return value

    return read_positive


def _read_pair(cursor: Cursor, name: str) -> tuple[str, str]:
    return cursor.text(f"name of a {name}"), cursor.text(f"value of a {name}")


def _read_response_topic(cursor: Cursor, name: str) -> str:
    """Read a response topic, which is a topic name (MQTT-3.3.2-14, MQTT-4.7.3-1)."""
    topic = cursor.text(name)
    if not topic or "+" in topic or "#" in topic:
        raise forbidden(
            f"{cursor.packet}: the {name} {shown(topic)} is empty or has a wildcard; "
            "it must be a topic name"
        )
    return topic


def _two_bytes(value: int) -> bytes:
    return value.to_bytes(2)


def _four_bytes(value: int) -> bytes:
    return value.to_bytes(4)


def _pair(value: tuple[str, str]) -> bytes:
    return text(value[0]) + text(value[1])


_BIT = Kind(_read_bit, int.to_bytes)
_FLAG = Kind(_read_flag, int.to_bytes)
_TWO = Kind(Cursor.two_bytes, _two_bytes)
_POSITIVE_TWO = Kind(_positive(Cursor.two_bytes), _two_bytes)
_ALIAS = Kind(_positive(Cursor.two_bytes, Reason.TOPIC_ALIAS_INVALID), _two_bytes)
_FOUR = Kind(Cursor.four_bytes, _four_bytes)
_POSITIVE_FOUR = Kind(_positive(Cursor.four_bytes), _four_bytes)
_POSITIVE_VARIABLE = Kind(_positive(Cursor.variable), variable)
_TEXT = Kind(Cursor.text, text)
_TOPIC = Kind(_read_response_topic, text)
_BINARY = Kind(Cursor.binary, binary)
_PAIR = Kind(_read_pair, _pair)


class Property(NamedTuple):
    """A row of table 2-4. `identifier` is the byte that begins it; `field` is the attribute of
    `Properties`, `name` its name in sentences; those with `repeats` are tuples."""

    identifier: bytes
    field: str
    name: str
    kind: Kind
    repeats: bool


# --- which packets have which --------------------------------------------------------------------

WILL = "WILL"
"""Stands, among the names of packets, for the will in a CONNECT."""
_MESSAGE = f"PUBLISH {WILL}"
_ANSWERS = "CONNACK PUBACK PUBREC PUBREL PUBCOMP SUBACK UNSUBACK DISCONNECT AUTH"
_REPEATED = ("subscription_identifiers", "user_properties")

_ROWS: tuple[tuple[int, str, Kind, str], ...] = (
    (0x01, "payload_format_indicator", _BIT, _MESSAGE),
    (0x02, "message_expiry_interval", _FOUR, _MESSAGE),
    (0x03, "content_type", _TEXT, _MESSAGE),
    (0x08, "response_topic", _TOPIC, _MESSAGE),
    (0x09, "correlation_data", _BINARY, _MESSAGE),
    (0x0B, "subscription_identifiers", _POSITIVE_VARIABLE, "PUBLISH SUBSCRIBE"),
    (0x11, "session_expiry_interval", _FOUR, "CONNECT CONNACK DISCONNECT"),
    (0x12, "assigned_client_id", _TEXT, "CONNACK"),
    (0x13, "server_keep_alive", _TWO, "CONNACK"),
    (0x15, "authentication_method", _TEXT, "CONNECT CONNACK AUTH"),
    (0x16, "authentication_data", _BINARY, "CONNECT CONNACK AUTH"),
    (0x17, "request_problem_information", _FLAG, "CONNECT"),
    (0x18, "will_delay_interval", _FOUR, WILL),
    (0x19, "request_response_information", _FLAG, "CONNECT"),
    (0x1A, "response_information", _TEXT, "CONNACK"),
    (0x1C, "server_reference", _TEXT, "CONNACK DISCONNECT"),
    (0x1F, "reason_string", _TEXT, _ANSWERS),
    (0x21, "receive_maximum", _POSITIVE_TWO, "CONNECT CONNACK"),
    (0x22, "topic_alias_maximum", _TWO, "CONNECT CONNACK"),
    (0x23, "topic_alias", _ALIAS, "PUBLISH"),
    (0x24, "maximum_qos", _BIT, "CONNACK"),
    (0x25, "retain_available", _FLAG, "CONNACK"),
    (0x26, "user_properties", _PAIR, f"CONNECT {_MESSAGE} SUBSCRIBE UNSUBSCRIBE {_ANSWERS}"),
    (0x27, "maximum_packet_size", _POSITIVE_FOUR, "CONNECT CONNACK"),
    (0x28, "wildcard_subscription_available", _FLAG, "CONNACK"),
    (0x29, "subscription_identifiers_available", _FLAG, "CONNACK"),
    (0x2A, "shared_subscription_available", _FLAG, "CONNACK"),
)
"""Table 2-4: the identifier, the field, the data type, and where it may be."""


def _named(number: int, field: str, kind: Kind) -> Property:
    words = field.replace("_", " ").replace("user properties", "user property")
    words = words.replace("subscription identifiers", "subscription identifier")
    return Property(number.to_bytes(), field, words, kind, field in _REPEATED)


ALL: Mapping[int, Property] = {
    number: _named(number, field, kind) for number, field, kind, _ in _ROWS
}


def _of(packet: str) -> Mapping[int, Property]:
    return {number: ALL[number] for number, _, _, packets in _ROWS if packet in packets.split()}


def _of_all(packets: Iterable[str]) -> Mapping[str, Mapping[int, Property]]:
    return {packet: _of(packet) for packet in packets}


BY_PACKET = _of_all(f"CONNECT {_MESSAGE} SUBSCRIBE UNSUBSCRIBE {_ANSWERS}".split())
"""The properties that each packet may have, by identifier, in ascending order."""


# --- all properties of a packet ------------------------------------------------------------------

_SHORT = 64
"""Bytes of properties that are remembered with what they say."""


def read_properties(cursor: Cursor, place: str) -> Properties:
    """Read the properties of a packet or will; `place` is its key in `BY_PACKET`."""
    size = cursor.variable("property length")
    if not size:
        return NO_PROPERTIES
    at, end = cursor.at, cursor.end
    cursor.end = at + size
    if cursor.end > end:
        raise malformed(
            f"{cursor.packet}: the properties need {size} bytes, and {end - at} are left, "
            f"{cursor.place}; correct the property length"
        )
    if size <= _SHORT and place == "PUBLISH":
        try:
            properties = _publish_properties(cursor.data[at : cursor.end])
        except MqttError:
            pass  # what is wrong is told below, with its place
        else:
            cursor.at, cursor.end = cursor.end, end
            return properties
    properties = _read_all(cursor, place)
    cursor.end, cursor.in_properties = end, False
    return properties


@lru_cache(maxsize=1024)
def _publish_properties(raw: bytes) -> Properties:
    """Return the properties of a PUBLISH, and remember them: most publishers send the same ones
    again and again."""
    return _read_all(Cursor("PUBLISH", raw, 0, len(raw)), "PUBLISH")


def _read_all(cursor: Cursor, place: str) -> Properties:
    """Read properties up to the end of the cursor, without their length."""
    cursor.in_properties = True
    allowed, data, end = BY_PACKET[place], cursor.data, cursor.end
    found: dict[str, Any] = {}
    while cursor.at < end:
        number = data[cursor.at]
        kept = allowed.get(number)
        if kept is None:
            raise malformed(_misplaced(cursor, number, place))
        cursor.at += 1
        field, value = kept.field, kept.kind.read(cursor, kept.name)
        if kept.repeats:
            found.setdefault(field, []).append(value)
        elif field not in found:
            found[field] = value
        else:
            raise _twice(cursor, kept.name)
    for field in _REPEATED:
        if field in found:
            found[field] = tuple(found[field])
    if place == "SUBSCRIBE" and len(found.get("subscription_identifiers", ())) > 1:
        raise _twice(cursor, "subscription identifier")
    return Properties(**found)


def _twice(cursor: Cursor, name: str) -> MqttError:
    return forbidden(f"{cursor.packet} has the {name} twice; send it once")


def _misplaced(cursor: Cursor, number: int, place: str) -> str:
    known = ALL.get(number)
    what = f"the {known.name}" if known else "no property of MQTT 5.0"
    whose = "a will" if place == WILL else "this packet"
    return (
        f"{cursor.packet} has the property 0x{number:02X}, which is {what}, {cursor.place}; "
        f"{whose} cannot have it"
    )


def encoded(properties: Properties, place: str) -> bytes:
    """Return the properties of a packet or will with their length. Those that it cannot have are
    left out."""
    if properties is NO_PROPERTIES:
        return b"\0"
    made: list[bytes] = []
    for each in BY_PACKET[place].values():
        value = getattr(properties, each.field)
        if value is None or value == ():
            continue
        for one in value if each.repeats else (value,):
            made += (each.identifier, each.kind.write(one))
    body = b"".join(made)
    return variable(len(body)) + body

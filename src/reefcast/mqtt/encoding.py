"""Bytes from packets, in their shortest form; properties in ascending order of their identifiers.

In 3.1.1, properties and subscription options are left out, and reasons become return codes. The
packets are taken at their word: an encoder does not ask whether the standard allows their values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from reefcast.errors import InvalidValueError
from reefcast.mqtt.fields import MOST_VARIABLE, binary, text, variable
from reefcast.mqtt.packets import (
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
from reefcast.mqtt.properties import NO_PROPERTIES, WILL, Properties, encoded
from reefcast.mqtt.reasons import RETURN_CODE_OF_OTHERS, RETURN_CODES, Reason


def encode(packet: Packet, version: int) -> bytes:
    """Return the bytes of a packet. Raises `InvalidValueError` if a field is too long, a text is
    not one of MQTT, or 3.1.1 has no such packet, and `OverflowError` if a number does not fit."""
    return _ENCODERS[type(packet)](packet, version)


def publish_parts(packet: Publish, version: int) -> tuple[bytes, bytes]:
    """Return the bytes of a PUBLISH before and behind its packet identifier; with QoS 0, of its two
    halves. Many subscribers get the same parts around identifiers of their own."""
    head, properties = _publish_head(packet, version)
    return head, properties + packet.payload


def _packet(first: int, *fields: bytes) -> bytes:
    """Return a packet with its fixed header."""
    body = b"".join(fields)
    return b"".join((first.to_bytes(), _length(len(body)), body))


def _length(size: int) -> bytes:
    if size > MOST_VARIABLE:
        raise InvalidValueError(
            f"MQTT has no packet with {size} bytes behind its fixed header; "
            f"the most are {MOST_VARIABLE}"
        )
    return variable(size)


def _properties(properties: Properties, place: str, version: int) -> bytes:
    return encoded(properties, place) if version == MQTT_5 else b""


# --- CONNECT and CONNACK -------------------------------------------------------------------------


def _connect(packet: Connect, version: int) -> bytes:
    flags = packet.clean_start << 1
    will = b""
    if packet.will is not None:
        flags |= 0x04 | packet.will.qos << 3 | packet.will.retain << 5
        will = _will(packet.will, version)
    user_name = b"" if packet.user_name is None else text(packet.user_name)
    password = b"" if packet.password is None else binary(packet.password)
    flags |= (packet.user_name is not None) << 7 | (packet.password is not None) << 6
    return _packet(
        0x10,
        b"\x00\x04MQTT",
        bytes((version, flags)),
        packet.keep_alive.to_bytes(2),
        _properties(packet.properties, "CONNECT", version),
        text(packet.client_id),
        will,
        user_name,
        password,
    )


def _will(will: Will, version: int) -> bytes:
    properties = _properties(will.properties, WILL, version)
    return properties + text(will.topic) + binary(will.payload)


def _connack(packet: Connack, version: int) -> bytes:
    code = int(packet.reason)
    if version != MQTT_5:
        code = RETURN_CODES.get(packet.reason, RETURN_CODE_OF_OTHERS)
    properties = _properties(packet.properties, "CONNACK", version)
    return _packet(0x20, bytes((packet.session_present, code)), properties)


# --- PUBLISH and its acknowledgements ------------------------------------------------------------


def _publish(packet: Publish, version: int) -> bytes:
    head, properties = _publish_head(packet, version)
    packet_id = packet.packet_id.to_bytes(2) if packet.qos else b""
    return b"".join((head, packet_id, properties, packet.payload))


def _publish_head(packet: Publish, version: int) -> tuple[bytes, bytes]:
    """Return the fixed header of a PUBLISH with its topic name, and its properties."""
    properties = b""
    if version == MQTT_5:
        kept = packet.properties
        properties = b"\0" if kept is NO_PROPERTIES else encoded(kept, "PUBLISH")
    topic, qos = text(packet.topic), packet.qos
    size = len(topic) + len(properties) + len(packet.payload)
    first = 0x30
    if qos:
        size += 2
        first |= packet.dup << 3 | qos << 1
    if packet.retain:
        first |= 1
    if size < 0x80:
        return bytes((first, size)) + topic, properties
    return first.to_bytes() + _length(size) + topic, properties


def _acknowledgement(packet: Acknowledgement, version: int) -> bytes:
    first = 0x62 if type(packet) is Pubrel else packet.type << 4
    reason, properties = packet.reason, packet.properties
    if version != MQTT_5 or (not reason and properties == NO_PROPERTIES):
        return bytes((first, 2)) + packet.packet_id.to_bytes(2)
    return _packet(
        first, packet.packet_id.to_bytes(2), _ending(reason, properties, packet.type.name)
    )


def _ending(reason: Reason, properties: Properties, place: str) -> bytes:
    """Return a reason and properties, of which the latter are left out if there are none."""
    if properties == NO_PROPERTIES:
        return reason.to_bytes()
    return reason.to_bytes() + encoded(properties, place)


# --- subscriptions -------------------------------------------------------------------------------


def _subscribe(packet: Subscribe, version: int) -> bytes:
    return _packet(
        0x82,
        packet.packet_id.to_bytes(2),
        _properties(packet.properties, "SUBSCRIBE", version),
        *(_request(each, version) for each in packet.requests),
    )


def _request(request: TopicRequest, version: int) -> bytes:
    options = request.qos
    if version == MQTT_5:
        options |= request.no_local << 2 | request.retain_as_published << 3
        options |= request.retain_handling << 4
    return text(request.topic_filter) + options.to_bytes()


def _suback(packet: Suback, version: int) -> bytes:
    reasons = bytes(packet.reasons)
    if version != MQTT_5:
        reasons = bytes(min(reason, Reason.UNSPECIFIED_ERROR) for reason in packet.reasons)
    properties = _properties(packet.properties, "SUBACK", version)
    return _packet(0x90, packet.packet_id.to_bytes(2), properties, reasons)


def _unsubscribe(packet: Unsubscribe, version: int) -> bytes:
    return _packet(
        0xA2,
        packet.packet_id.to_bytes(2),
        _properties(packet.properties, "UNSUBSCRIBE", version),
        *map(text, packet.topic_filters),
    )


def _unsuback(packet: Unsuback, version: int) -> bytes:
    reasons = bytes(packet.reasons) if version == MQTT_5 else b""
    properties = _properties(packet.properties, "UNSUBACK", version)
    return _packet(0xB0, packet.packet_id.to_bytes(2), properties, reasons)


# --- the others ----------------------------------------------------------------------------------


def _pingreq(packet: Pingreq, version: int) -> bytes:
    return b"\xc0\0"


def _pingresp(packet: Pingresp, version: int) -> bytes:
    return b"\xd0\0"


def _disconnect(packet: Disconnect, version: int) -> bytes:
    if version == MQTT_5:
        if not packet.reason and packet.properties == NO_PROPERTIES:
            return b"\xe0\0"
        return _packet(0xE0, _ending(packet.reason, packet.properties, "DISCONNECT"))
    if packet.reason:
        raise InvalidValueError(
            f"3.1.1 has no DISCONNECT with a reason ({packet.reason.name}); close the connection"
        )
    return b"\xe0\0"


def _auth(packet: Auth, version: int) -> bytes:
    if version != MQTT_5:
        raise InvalidValueError("3.1.1 has no AUTH; enhanced authentication needs MQTT 5.0")
    if not packet.reason and packet.properties == NO_PROPERTIES:
        return b"\xf0\0"
    return _packet(0xF0, packet.reason.to_bytes(), encoded(packet.properties, "AUTH"))


_ENCODERS: dict[type[Packet], Callable[[Any, int], bytes]] = {
    Connect: _connect,
    Connack: _connack,
    Publish: _publish,
    Puback: _acknowledgement,
    Pubrec: _acknowledgement,
    Pubrel: _acknowledgement,
    Pubcomp: _acknowledgement,
    Subscribe: _subscribe,
    Suback: _suback,
    Unsubscribe: _unsubscribe,
    Unsuback: _unsuback,
    Pingreq: _pingreq,
    Pingresp: _pingresp,
    Disconnect: _disconnect,
    Auth: _auth,
}

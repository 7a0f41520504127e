"""Packets of the library mqtt5 (PyPI, written in Rust) as ours, and ours as its.

It has no absent properties where the standard has a default: both are the same to it. `plain`
takes properties away that say no more than the default."""

from __future__ import annotations

from typing import Any

import mqtt5

from reefcast.mqtt import packets as ours
from reefcast.mqtt.properties import BY_PACKET, NO_PROPERTIES, WILL, Properties
from reefcast.mqtt.reasons import Reason

NAMES = {
    "reason_string": "reason_str",
    "response_information": "response_info",
    "topic_alias_maximum": "topic_alias_max",
    "receive_maximum": "receive_max",
    "maximum_packet_size": "max_packet_size",
    "maximum_qos": "max_qos",
    "request_problem_information": "request_problem_info",
    "request_response_information": "request_response_info",
    "subscription_identifiers_available": "subscription_id_available",
    "subscription_identifiers": "subscription_ids",
}
"""Names of properties that differ: ours, and theirs."""
DEFAULTS = {
    "payload_format_indicator": 0,
    "receive_maximum": 65_535,
    "topic_alias_maximum": 0,
    "maximum_qos": 2,
    "retain_available": True,
    "wildcard_subscription_available": True,
    "subscription_identifiers_available": True,
    "shared_subscription_available": True,
    "request_problem_information": True,
    "request_response_information": False,
    "will_delay_interval": 0,
}
CODES: dict[type, type] = {
    ours.Connack: mqtt5.ConnAckReasonCode,
    ours.Puback: mqtt5.PubAckReasonCode,
    ours.Pubrec: mqtt5.PubRecReasonCode,
    ours.Pubrel: mqtt5.PubRelReasonCode,
    ours.Pubcomp: mqtt5.PubCompReasonCode,
    ours.Suback: mqtt5.SubAckReasonCode,
    ours.Unsuback: mqtt5.UnsubAckReasonCode,
    ours.Disconnect: mqtt5.DisconnectReasonCode,
    ours.Auth: mqtt5.AuthReasonCode,
}
KINDS: dict[type, type] = {
    ours.Connect: mqtt5.ConnectPacket,
    ours.Connack: mqtt5.ConnAckPacket,
    ours.Publish: mqtt5.PublishPacket,
    ours.Puback: mqtt5.PubAckPacket,
    ours.Pubrec: mqtt5.PubRecPacket,
    ours.Pubrel: mqtt5.PubRelPacket,
    ours.Pubcomp: mqtt5.PubCompPacket,
    ours.Subscribe: mqtt5.SubscribePacket,
    ours.Suback: mqtt5.SubAckPacket,
    ours.Unsubscribe: mqtt5.UnsubscribePacket,
    ours.Unsuback: mqtt5.UnsubAckPacket,
    ours.Pingreq: mqtt5.PingReqPacket,
    ours.Pingresp: mqtt5.PingRespPacket,
    ours.Disconnect: mqtt5.DisconnectPacket,
    ours.Auth: mqtt5.AuthPacket,
}


def _defaults(place: str) -> dict[str, Any]:
    return DEFAULTS | ({"session_expiry_interval": 0} if place == "CONNECT" else {})


def _place(kind: type) -> str:
    return WILL if kind is ours.Will else kind.type.name


# --- ours, without what is default ---------------------------------------------------------------


def plain(packet: Any) -> Any:
    """Return one of our packets without properties that have the default value."""
    changes = {}
    if isinstance(packet, ours.Connect) and packet.will is not None:
        changes["will"] = plain(packet.will)
    if hasattr(packet, "properties"):
        changes["properties"] = _plain(packet.properties, _place(type(packet)))
    return changed(packet, **changes)


def changed(packet: Any, **changes: Any) -> Any:
    fields = {field: getattr(packet, field) for field in packet.__struct_fields__}
    return type(packet)(**fields | changes)


def _plain(properties: Properties, place: str) -> Properties:
    defaults = _defaults(place)
    kept = {}
    for each in BY_PACKET[place].values():
        value = getattr(properties, each.field)
        if value is not None and value != () and value != defaults.get(each.field, ...):
            kept[each.field] = value
    return Properties(**kept) if kept else NO_PROPERTIES


# --- theirs as ours ------------------------------------------------------------------------------


def from_theirs(packet: Any) -> Any:
    """Return one of their packets as ours, without properties that have the default value."""
    kind = next(mine for mine, theirs in KINDS.items() if type(packet) is theirs)
    fields: dict[str, Any] = {}
    for field in kind.__struct_fields__:
        fields[field] = _field(packet, kind, field)
    return kind(**fields)


def _field(packet: Any, kind: type, field: str) -> Any:
    match field:
        case "properties":
            return _properties(packet, kind)
        case "reason":
            return Reason(packet.reason_code)
        case "reasons":
            return tuple(map(Reason, packet.reason_codes))
        case "will":
            return packet.will and _will(packet.will)
        case "user_name":
            return packet.username
        case "requests":
            return tuple(map(_request, packet.topic_filters))
        case "topic_filters":
            return tuple(packet.patterns)
        case "dup":
            return packet.duplicate
        case "qos":
            return int(packet.qos)
        case "packet_id":
            return packet.packet_id or 0
        case _:
            return getattr(packet, field)


def _properties(packet: Any, kind: type) -> Properties:
    place = _place(kind)
    found = {}
    for each in BY_PACKET[place].values():
        if place == "SUBSCRIBE" and each.field == "subscription_identifiers":
            value = () if packet.subscription_id is None else (packet.subscription_id,)
        else:
            value = getattr(packet, NAMES.get(each.field, each.field))
        if isinstance(value, list):
            value = tuple(map(tuple, value)) if each.field == "user_properties" else tuple(value)
        found[each.field] = int(value) if each.field == "maximum_qos" else value
    return _plain(Properties(**found), place)


def _will(will: Any) -> ours.Will:
    properties = _properties(will, ours.Will)
    return ours.Will(will.topic, will.payload or b"", int(will.qos), will.retain, properties)


def _request(asked: Any) -> ours.TopicRequest:
    return ours.TopicRequest(
        asked.pattern,
        int(asked.max_qos),
        asked.no_local,
        asked.retain_as_published,
        int(asked.retain_handling),
    )


# --- ours as theirs ------------------------------------------------------------------------------


def to_theirs(packet: Any) -> Any:
    """Return one of our packets as theirs."""
    kind = type(packet)
    given = _their_properties(packet) if hasattr(packet, "properties") else {}
    for field in packet.__struct_fields__:
        given |= _their_field(packet, kind, field)
    return KINDS[kind](**given)


def _their_field(packet: Any, kind: type, field: str) -> dict[str, Any]:
    value = getattr(packet, field)
    match field:
        case "properties":
            return {}
        case "reason":
            return {"reason_code": CODES[kind](value)}
        case "reasons":
            return {"reason_codes": list(map(CODES[kind], value))}
        case "will":
            return {"will": value and _their_will(value)}
        case "user_name":
            return {"username": value}
        case "requests":
            return {"topic_filters": list(map(_their_request, value))}
        case "topic_filters":
            return {"patterns": list(value)}
        case "dup":
            return {"duplicate": value}
        case "qos":
            return {"qos": mqtt5.QoS(value)}
        case "packet_id":
            return {"packet_id": value or None}
        case _:
            return {field: value}


def _their_properties(packet: Any) -> dict[str, Any]:
    given: dict[str, Any] = {}
    for each in BY_PACKET[_place(type(packet))].values():
        value = getattr(packet.properties, each.field)
        if value is None or value == ():
            continue
        if isinstance(packet, ours.Subscribe) and each.field == "subscription_identifiers":
            given["subscription_id"] = value[0]
        elif each.field == "maximum_qos":
            given["max_qos"] = mqtt5.QoS(value)
        else:
            name = NAMES.get(each.field, each.field)
            given[name] = list(value) if isinstance(value, tuple) else value
    return given


def _their_will(will: ours.Will) -> Any:
    return mqtt5.Will(
        will.topic,
        payload=will.payload,
        qos=mqtt5.QoS(will.qos),
        retain=will.retain,
        **_their_properties(will),
    )


def _their_request(asked: ours.TopicRequest) -> Any:
    return mqtt5.TopicFilter(
        asked.topic_filter,
        max_qos=mqtt5.QoS(asked.qos),
        no_local=asked.no_local,
        retain_as_published=asked.retain_as_published,
        retain_handling=mqtt5.RetainHandling(asked.retain_handling),
    )

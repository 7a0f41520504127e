"""What the decoder refuses, with which reason, and what it does not.

A case is named by the normative statement that it shows; what follows a colon tells several cases
of one statement apart. Names without a number are sentences of the standard that have none."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from reefcast.mqtt.decoding import MOST_BYTES, Decoder
from reefcast.mqtt.encoding import encode
from reefcast.mqtt.packets import (
    FROM_CLIENTS,
    MQTT_3_1_1,
    MQTT_5,
    Auth,
    Connack,
    Connect,
    Disconnect,
    Packet,
    PacketType,
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
    Will,
)
from reefcast.mqtt.properties import Properties
from reefcast.mqtt.reasons import MqttError, Reason

MALFORMED, FORBIDDEN = Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR


def packet(first: int, *fields: bytes) -> bytes:
    """A packet of at most 127 bytes behind its fixed header."""
    body = b"".join(fields)
    return bytes((first, len(body))) + body


def text(value: str | bytes) -> bytes:
    raw = value if isinstance(value, bytes) else value.encode()
    return len(raw).to_bytes(2) + raw


def connect(
    *payload: bytes, name: bytes = b"MQTT", level: int = 5, flags: int = 2, kept: bytes = b"\0"
) -> bytes:
    """A CONNECT with keep-alive 10 and the properties `kept`, which 3.1.1 does not have."""
    kept = kept if level == MQTT_5 else b""
    return packet(0x10, text(name), bytes((level, flags, 0, 10)), kept, *(payload or (text("c"),)))


def kept(*properties: bytes) -> bytes:
    body = b"".join(properties)
    return bytes((len(body),)) + body


def publish(*properties: bytes, topic: str | bytes = "a", first: int = 0x30) -> bytes:
    packet_id = b"\0\1" if first & 6 else b""
    return packet(first, text(topic), packet_id, kept(*properties), b"payload")


def subscribe(topic_filter: str | bytes, options: int, *properties: bytes) -> bytes:
    return packet(0x82, b"\0\1", kept(*properties), text(topic_filter), bytes((options,)))


def subscribe_3(topic_filter: str | bytes, options: int) -> bytes:
    return packet(0x82, b"\0\1", text(topic_filter), bytes((options,)))


class Case(NamedTuple):
    name: str
    data: bytes
    reason: Reason
    words: str
    """Words of the sentence."""


USER, LONE = b"\x26" + text("a") + text("b"), b"\xed\xa0\x80"
"""A user property; and what would be half a surrogate pair, if UTF-8 had it."""
ALIAS, SUBSCRIPTION = b"\x23\0\1", b"\x0b\1"
WILL = (text("c"), b"\0", text("w"), text("payload"))
"""The payload of a CONNECT with a will."""

# --- 5.0 -----------------------------------------------------------------------------------------

REFUSED_5 = [
    # section 1.5
    Case("MQTT-1.5.4-1", publish(topic=b"\xff"), MALFORMED, "topic name is not UTF-8"),
    Case("MQTT-1.5.4-1:surrogate", publish(topic=LONE), MALFORMED, "not UTF-8"),
    Case("MQTT-1.5.4-1:overlong", publish(topic=b"\xc0\x80"), MALFORMED, "not UTF-8"),
    Case("MQTT-1.5.4-2", publish(topic="a\0b"), MALFORMED, "U+0000 at its character 1"),
    Case("MQTT-1.5.5-1", packet(0x30, text("a"), b"\x80\0"), MALFORMED, "shortest form"),
    Case("MQTT-1.5.5-1:remaining-length", b"\xc0\x80\0", MALFORMED, "shortest form"),
    Case("MQTT-1.5.5-1:remaining-length-4", b"\xc0\x80\x80\x80\0", MALFORMED, "shortest form"),
    Case("MQTT-1.5.5-1:identifier", publish(b"\x81\0\1"), MALFORMED, "0x81"),
    Case("1.5.5:five-bytes", b"\xc0\xff\xff\xff\xff\0", MALFORMED, "more than four bytes"),
    Case(
        "1.5.5:property-length-of-five-bytes",
        packet(0x30, text("a"), b"\xff\xff\xff\xff\1"),
        MALFORMED,
        "more than four bytes",
    ),
    Case("MQTT-1.5.7-1", publish(b"\x26" + text(b"\xff") + text("b")), MALFORMED, "name of a user"),
    Case("MQTT-1.5.7-1:value", publish(b"\x26" + text("a") + text("\0")), MALFORMED, "value of a"),
    # section 2.1.3
    *(
        Case(
            f"MQTT-2.1.3-1:{PacketType(kind).name}",
            bytes((kind << 4 | flags, 0)),
            MALFORMED,
            "flags",
        )
        for kind, flags in {
            **dict.fromkeys((1, 2, 4, 5, 7, 9, 11, 12, 13, 14, 15), 1),
            **dict.fromkeys((6, 8, 10), 0),
        }.items()
    ),
    Case("2.1.2:reserved-type", b"\0\0", MALFORMED, "reserved type 0"),
    # section 2.2
    Case("MQTT-2.2.1-3:PUBLISH", packet(0x32, text("a"), b"\0\0\0"), FORBIDDEN, "identifier 0"),
    Case("MQTT-2.2.1-3:SUBSCRIBE", packet(0x82, b"\0\0\0", text("a"), b"\0"), FORBIDDEN, "er 0"),
    Case("MQTT-2.2.1-3:UNSUBSCRIBE", packet(0xA2, b"\0\0\0", text("a")), FORBIDDEN, "identifier 0"),
    *(
        Case(f"MQTT-2.2.1-5:{first >> 4}", packet(first, b"\0\0"), FORBIDDEN, "identifier 0")
        for first in (0x40, 0x50, 0x62, 0x70)
    ),
    Case("MQTT-2.2.1-6:SUBACK", packet(0x90, b"\0\0\0\0"), FORBIDDEN, "identifier 0"),
    Case("MQTT-2.2.1-6:UNSUBACK", packet(0xB0, b"\0\0\0\0"), FORBIDDEN, "identifier 0"),
    Case("MQTT-2.2.2-1:PUBLISH", packet(0x30, text("a")), MALFORMED, "property length"),
    Case("MQTT-2.2.2-1:SUBSCRIBE", packet(0x82, b"\0\1"), MALFORMED, "property length"),
    Case("MQTT-2.2.2-1:CONNACK", packet(0x20, b"\0\0"), MALFORMED, "property length"),
    Case("2.2.2.1:too-long", packet(0x30, text("a"), b"\5\1\0"), MALFORMED, "property length"),
    Case("2.2.2.1:too-short", packet(0x30, text("a"), b"\1\1\0"), MALFORMED, "payload format"),
    Case("2.2.2.2:unknown", publish(b"\x7f\0"), MALFORMED, "no property of MQTT 5.0"),
    Case("2.2.2.2:other-packet", publish(b"\x21\0\1"), MALFORMED, "receive maximum"),
    Case("2.2.2.2:will", connect(*WILL, flags=6, kept=b"\5\x18\0\0\0\1"), MALFORMED, "will delay"),
    Case(
        "2.2.2.2:not-of-a-will",
        connect(text("c"), kept(ALIAS), *WILL[2:], flags=6),
        MALFORMED,
        "a will cannot have it",
    ),
    # section 3.1
    Case("MQTT-3.1.2-3", connect(flags=3), MALFORMED, "reserved connect flag"),
    Case("MQTT-3.1.2-9", connect(text("c"), flags=6), MALFORMED, "property length"),
    Case("MQTT-3.1.2-9:topic", connect(text("c"), b"\0", flags=6), MALFORMED, "will topic"),
    Case("MQTT-3.1.2-9:payload", connect(*WILL[:3], flags=6), MALFORMED, "will payload"),
    Case("MQTT-3.1.2-11", connect(flags=0x0A), FORBIDDEN, "without a will"),
    Case("MQTT-3.1.2-12", connect(*WILL, flags=0x1E), MALFORMED, "will QoS 3"),
    Case("MQTT-3.1.2-13", connect(flags=0x22), FORBIDDEN, "without a will"),
    Case("MQTT-3.1.2-16", connect(text("c"), text("user")), MALFORMED, "more bytes"),
    Case("MQTT-3.1.2-17", connect(text("c"), flags=0x82), MALFORMED, "user name"),
    Case("MQTT-3.1.2-18", connect(text("c"), text("u"), text("p"), flags=0x82), MALFORMED, "more"),
    Case("MQTT-3.1.2-19", connect(text("c"), flags=0x42), MALFORMED, "password"),
    Case("MQTT-3.1.3-3", packet(0x10, text("MQTT"), b"\5\2\0\0\0"), MALFORMED, "client identifier"),
    Case("MQTT-3.1.3-4", connect(text(b"\xff")), MALFORMED, "client identifier is not UTF-8"),
    Case(
        "MQTT-3.1.3-11",
        connect(text("c"), b"\0", text(b"\xff"), text(""), flags=6),
        MALFORMED,
        "will topic is not UTF-8",
    ),
    Case("MQTT-3.1.3-12", connect(text("c"), text(b"\xff"), flags=0x82), MALFORMED, "user name"),
    Case("MQTT-3.1.4-1", connect(text("c"), b"more"), MALFORMED, "4 more bytes"),
    Case("3.1.2.11.3:receive-maximum-0", connect(kept=b"\3\x21\0\0"), FORBIDDEN, "is 0"),
    Case("3.1.2.11.4:maximum-packet-size-0", connect(kept=b"\5\x27\0\0\0\0"), FORBIDDEN, "is 0"),
    Case("3.1.2.11.6:request-response-2", connect(kept=b"\2\x19\2"), FORBIDDEN, "0 or 1"),
    Case("3.1.2.11.7:request-problem-2", connect(kept=b"\2\x17\2"), FORBIDDEN, "0 or 1"),
    Case("3.1.2.11.10:data-without-method", connect(kept=b"\3\x16\0\0"), FORBIDDEN, "method"),
    *(
        Case(f"3.1.2.11:twice-{each[0]:02x}", connect(kept=kept(each, each)), FORBIDDEN, "twice")
        for each in (
            b"\x11\0\0\0\1",
            b"\x15\0\1m",
            b"\x16\0\1d",
            b"\x17\1",
            b"\x19\1",
            b"\x21\0\1",
            b"\x22\0\1",
            b"\x27\0\0\0\1",
        )
    ),
    *(
        Case(
            f"3.1.3.2:twice-{each[0]:02x}",
            connect(text("c"), kept(each, each), *WILL[2:], flags=6),
            FORBIDDEN,
            "twice",
        )
        for each in (
            b"\x18\0\0\0\1",
            b"\1\1",
            b"\2\0\0\0\1",
            b"\3\0\1t",
            b"\x08\0\1r",
            b"\x09\0\1d",
        )
    ),
    # section 3.2
    Case("MQTT-3.2.2-1", packet(0x20, b"\2\0\0"), MALFORMED, "acknowledge flags"),
    Case("MQTT-3.2.2-6", packet(0x20, b"\1\x87\0"), FORBIDDEN, "Session Present"),
    Case("MQTT-3.2.2-8", packet(0x20, b"\0\x8e\0"), FORBIDDEN, "0x8E"),
    Case("MQTT-3.2.2-8:no-reason", packet(0x20, b"\0\7\0"), FORBIDDEN, "0x07"),
    Case("3.2.2.3.4:maximum-qos-2", packet(0x20, b"\0\0\2\x24\2"), FORBIDDEN, "0 or 1"),
    Case("3.2.2.3.5:retain-available-2", packet(0x20, b"\0\0\2\x25\2"), FORBIDDEN, "0 or 1"),
    Case("3.2.2.3.11:wildcards-2", packet(0x20, b"\0\0\2\x28\2"), FORBIDDEN, "0 or 1"),
    Case("3.2.2.3.12:identifiers-2", packet(0x20, b"\0\0\2\x29\2"), FORBIDDEN, "0 or 1"),
    Case("3.2.2.3.13:shared-2", packet(0x20, b"\0\0\2\x2a\2"), FORBIDDEN, "0 or 1"),
    *(
        Case(
            f"3.2.2.3:twice-{each[0]:02x}",
            packet(0x20, b"\0\0", kept(each, each)),
            FORBIDDEN,
            "twice",
        )
        for each in (
            b"\x11\0\0\0\1",
            b"\x12\0\1c",
            b"\x13\0\1",
            b"\x15\0\1m",
            b"\x16\0\1d",
            b"\x1a\0\1i",
            b"\x1c\0\1s",
            b"\x1f\0\1r",
            b"\x21\0\1",
            b"\x22\0\1",
            b"\x24\1",
            b"\x25\1",
            b"\x27\0\0\0\1",
            b"\x28\1",
            b"\x29\1",
            b"\x2a\1",
        )
    ),
    # section 3.3
    Case("MQTT-3.3.1-2", publish(first=0x38), MALFORMED, "DUP with QoS 0"),
    Case("MQTT-3.3.1-4", publish(first=0x36), MALFORMED, "QoS 3"),
    Case("MQTT-3.3.1-4:dup", publish(first=0x3F), MALFORMED, "QoS 3"),
    Case("MQTT-3.3.2-1", packet(0x30, b"\0"), MALFORMED, "length of its topic name"),
    Case("MQTT-3.3.2-1:cut", packet(0x30, b"\0\2a"), MALFORMED, "within its topic name"),
    Case("MQTT-3.3.2-2", publish(topic="a/+"), Reason.TOPIC_NAME_INVALID, "+ at its character 2"),
    Case("MQTT-3.3.2-2:#", publish(topic="#"), Reason.TOPIC_NAME_INVALID, "# at its character 0"),
    Case("MQTT-3.3.2-8", publish(b"\x23\0\0"), Reason.TOPIC_ALIAS_INVALID, "topic alias is 0"),
    Case("MQTT-3.3.2-13", publish(b"\x08" + text(b"\xff")), MALFORMED, "response topic is not"),
    Case("MQTT-3.3.2-14", publish(b"\x08" + text("a/#")), FORBIDDEN, "response topic"),
    Case("MQTT-3.3.2-19", publish(b"\3" + text(b"\xff")), MALFORMED, "content type is not UTF-8"),
    Case("3.3.2.1:neither-name-nor-alias", publish(topic=""), FORBIDDEN, "neither"),
    Case("3.3.2.3.2:payload-format-2", publish(b"\1\2"), FORBIDDEN, "0 or 1"),
    Case("3.3.2.3.8:subscription-identifier-0", publish(b"\x0b\0"), FORBIDDEN, "is 0"),
    Case("2.2.1:no-identifier", packet(0x32, text("a"), b"\0"), MALFORMED, "packet identifier"),
    *(
        Case(f"3.3.2.3:twice-{each[0]:02x}", publish(each, each), FORBIDDEN, "twice")
        for each in (
            b"\1\1",
            b"\2\0\0\0\1",
            b"\3\0\1t",
            b"\x08\0\1r",
            b"\x09\0\1d",
            ALIAS,
        )
    ),
    # sections 3.4 to 3.7
    Case("MQTT-3.4.2-1", packet(0x40, b"\0\1\x92"), FORBIDDEN, "PUBACK has the reason code 0x92"),
    Case("MQTT-3.5.2-1", packet(0x50, b"\0\1\x92"), FORBIDDEN, "PUBREC has the reason code 0x92"),
    Case("MQTT-3.6.2-1", packet(0x62, b"\0\1\x10"), FORBIDDEN, "PUBREL has the reason code 0x10"),
    Case("MQTT-3.7.2-1", packet(0x70, b"\0\1\x10"), FORBIDDEN, "PUBCOMP has the reason code 0x10"),
    Case("MQTT-3.6.1-1", b"\x60\2\0\1", MALFORMED, "PUBREL has the flags 0000"),
    *(
        Case(
            f"3.{kind}.2.2:twice-1f",
            packet(first, b"\0\1\0", kept(b"\x1f\0\1r", b"\x1f\0\1r")),
            FORBIDDEN,
            "twice",
        )
        for kind, first in {4: 0x40, 5: 0x50, 6: 0x62, 7: 0x70}.items()
    ),
    Case("3.4.2:more", packet(0x40, b"\0\1\0\0\0"), MALFORMED, "1 more bytes"),
    Case("3.4.2:less", packet(0x40, b"\1"), MALFORMED, "packet identifier"),
    # sections 3.8 and 3.9
    Case("MQTT-3.8.1-1", b"\x80\6\0\1\0\0\1a\0", MALFORMED, "SUBSCRIBE has the flags 0000"),
    Case("MQTT-3.8.3-1", subscribe(b"\xff", 0), MALFORMED, "topic filter is not UTF-8"),
    Case("MQTT-3.8.3-2", packet(0x82, b"\0\1\0"), FORBIDDEN, "no topic filter"),
    Case("MQTT-3.8.3-2:options", packet(0x82, b"\0\1\0", text("a")), MALFORMED, "options"),
    Case("MQTT-3.8.3-4", subscribe("$share/g/a", 4), FORBIDDEN, "No Local"),
    Case("MQTT-3.8.3-5", subscribe("a", 0x40), MALFORMED, "reserved bits"),
    Case("MQTT-3.8.3-5:bit-7", subscribe("a", 0x80), MALFORMED, "reserved bits"),
    Case("3.8.3.1:qos-3", subscribe("a", 3), FORBIDDEN, "QoS is 3"),
    Case("3.8.3.1:retain-handling-3", subscribe("a", 0x30), FORBIDDEN, "retain handling is 3"),
    Case("3.8.2.1.2:identifier-0", subscribe("a", 0, b"\x0b\0"), FORBIDDEN, "is 0"),
    Case("3.8.2.1.2:twice", subscribe("a", 0, SUBSCRIPTION, SUBSCRIPTION), FORBIDDEN, "twice"),
    Case("MQTT-4.7.3-1:SUBSCRIBE", subscribe("", 0), Reason.TOPIC_FILTER_INVALID, "empty"),
    Case("MQTT-4.7.3-2", subscribe("a\0", 0), MALFORMED, "U+0000"),
    Case("MQTT-3.9.3-2", packet(0x90, b"\0\1\0\3"), FORBIDDEN, "SUBACK has the reason code 0x03"),
    Case("3.9.3:no-reason", packet(0x90, b"\0\1\0"), FORBIDDEN, "no reason code"),
    # sections 3.10 and 3.11
    Case("MQTT-3.10.1-1", b"\xa0\6\0\1\0\0\1a", MALFORMED, "UNSUBSCRIBE has the flags 0000"),
    Case("MQTT-3.10.3-1", packet(0xA2, b"\0\1\0", text(b"\xff")), MALFORMED, "not UTF-8"),
    Case("MQTT-3.10.3-2", packet(0xA2, b"\0\1\0"), FORBIDDEN, "no topic filter"),
    Case(
        "MQTT-4.7.3-1:UNSUBSCRIBE", packet(0xA2, b"\0\1\0\0\0"), Reason.TOPIC_FILTER_INVALID, "ty"
    ),
    Case("MQTT-3.11.3-2", packet(0xB0, b"\0\1\0\2"), FORBIDDEN, "reason code 0x02"),
    Case("3.11.3:no-reason", packet(0xB0, b"\0\1\0"), FORBIDDEN, "no reason code"),
    # sections 3.12 to 3.15
    Case("3.12.2:PINGREQ", packet(0xC0, b"a"), MALFORMED, "PINGREQ has 1 more bytes"),
    Case("3.13.2:PINGRESP", packet(0xD0, b"a"), MALFORMED, "PINGRESP has 1 more bytes"),
    Case("MQTT-3.14.1-1", b"\xe2\0", MALFORMED, "DISCONNECT has the flags 0010"),
    Case("MQTT-3.14.2-1", packet(0xE0, b"\1"), FORBIDDEN, "reason code 0x01"),
    Case("3.14.2.2:more", packet(0xE0, b"\0\0\0"), MALFORMED, "1 more bytes"),
    Case("MQTT-3.15.1-1", b"\xf8\0", MALFORMED, "AUTH has the flags 1000"),
    Case("MQTT-3.15.2-1", packet(0xF0, b"\1\0"), FORBIDDEN, "reason code 0x01"),
    Case("3.15.2.2.1:no-property-length", packet(0xF0, b"\x18"), MALFORMED, "property length"),
    Case("3.15.2.2.2:no-method", packet(0xF0, b"\x18\0"), FORBIDDEN, "no authentication method"),
    *(
        Case(
            f"3.14.2.2:twice-{each[0]:02x}",
            packet(0xE0, b"\0", kept(each, each)),
            FORBIDDEN,
            "twice",
        )
        for each in (b"\x11\0\0\0\1", b"\x1c\0\1s", b"\x1f\0\1r")
    ),
    *(
        Case(
            f"3.15.2.2:twice-{each[0]:02x}",
            packet(0xF0, b"\0", kept(each, each)),
            FORBIDDEN,
            "twice",
        )
        for each in (b"\x15\0\1m", b"\x16\0\1d", b"\x1f\0\1r")
    ),
    # section 4.7
    Case(
        "MQTT-4.7.0-1",
        connect(text("c"), b"\0", text("+"), text(""), flags=6),
        Reason.TOPIC_NAME_INVALID,
        "will topic '+' contains the wildcard",
    ),
    Case(
        "MQTT-4.7.3-1:will",
        connect(text("c"), b"\0", text(""), text(""), flags=6),
        Reason.TOPIC_NAME_INVALID,
        "will topic is empty",
    ),
    Case("MQTT-4.7.3-1:response", publish(b"\x08\0\0"), FORBIDDEN, "response topic"),
]


def names(cases: list[Case]) -> list[str]:
    found = [case.name for case in cases]
    assert len(set(found)) == len(found)
    return found


@pytest.mark.parametrize("case", REFUSED_5, ids=names(REFUSED_5))
def test_refused_by_5(case: Case) -> None:
    check_refused(case, MQTT_5)


def check_refused(case: Case, version: int) -> None:
    packets, error = Decoder(version).receive(case.data)
    assert packets == []
    assert error is not None
    assert (error.reason, case.words in str(error)) == (case.reason, True), str(error)


# --- 3.1.1 ---------------------------------------------------------------------------------------

UNSUPPORTED = Reason.UNSUPPORTED_PROTOCOL_VERSION
CONNECT_3 = {"level": MQTT_3_1_1}
WILL_3 = (text("c"), text("w"), text("payload"))

REFUSED_3_1_1 = [
    Case("MQTT-1.5.3-1", packet(0x30, text(b"\xff")), MALFORMED, "topic name is not UTF-8"),
    Case("MQTT-1.5.3-1:surrogate", packet(0x30, text(LONE)), MALFORMED, "not UTF-8"),
    Case("MQTT-1.5.3-2", packet(0x30, text("\0")), MALFORMED, "U+0000"),
    Case("2.2.1:reserved-type-0", b"\0\0", MALFORMED, "reserved type 0"),
    Case("2.2.1:reserved-type-15", b"\xf0\0", MALFORMED, "type 15"),
    Case("2.2.3:five-bytes", b"\xc0\xff\xff\xff\xff\0", MALFORMED, "more than four bytes"),
    *(
        Case(
            f"MQTT-2.2.2-2:{PacketType(kind).name}",
            bytes((kind << 4 | flags, 0)),
            MALFORMED,
            "flags",
        )
        for kind, flags in {
            **dict.fromkeys((1, 2, 4, 5, 7, 9, 11, 12, 13, 14), 1),
            **dict.fromkeys((6, 8, 10), 0),
        }.items()
    ),
    Case("MQTT-2.3.1-1:PUBLISH", packet(0x32, text("a"), b"\0\0"), FORBIDDEN, "identifier 0"),
    Case("MQTT-2.3.1-1:SUBSCRIBE", packet(0x82, b"\0\0", text("a"), b"\0"), FORBIDDEN, "er 0"),
    Case("MQTT-2.3.1-1:UNSUBSCRIBE", packet(0xA2, b"\0\0", text("a")), FORBIDDEN, "identifier 0"),
    *(
        Case(f"MQTT-2.3.1-6:{first >> 4}", packet(first, b"\0\0"), FORBIDDEN, "identifier 0")
        for first in (0x40, 0x50, 0x62, 0x70)
    ),
    Case("MQTT-2.3.1-7:SUBACK", packet(0x90, b"\0\0\0"), FORBIDDEN, "identifier 0"),
    Case("MQTT-2.3.1-7:UNSUBACK", packet(0xB0, b"\0\0"), FORBIDDEN, "identifier 0"),
    Case("MQTT-3.1.2-3", connect(flags=3, **CONNECT_3), MALFORMED, "reserved connect flag"),
    Case("MQTT-3.1.2-9", connect(text("c"), flags=6, **CONNECT_3), MALFORMED, "will topic"),
    Case("MQTT-3.1.2-9:payload", connect(*WILL_3[:2], flags=6, **CONNECT_3), MALFORMED, "will pay"),
    Case("MQTT-3.1.2-11", connect(flags=0x2A, **CONNECT_3), FORBIDDEN, "without a will"),
    Case("MQTT-3.1.2-13", connect(flags=0x0A, **CONNECT_3), FORBIDDEN, "without a will"),
    Case("MQTT-3.1.2-14", connect(*WILL_3, flags=0x1E, **CONNECT_3), MALFORMED, "will QoS 3"),
    Case("MQTT-3.1.2-15", connect(flags=0x22, **CONNECT_3), FORBIDDEN, "without a will"),
    Case("MQTT-3.1.2-18", connect(text("c"), text("u"), **CONNECT_3), MALFORMED, "more bytes"),
    Case("MQTT-3.1.2-19", connect(text("c"), flags=0x82, **CONNECT_3), MALFORMED, "user name"),
    Case(
        "MQTT-3.1.2-20",
        connect(text("c"), text("u"), text("p"), flags=0x82, **CONNECT_3),
        MALFORMED,
        "more bytes",
    ),
    Case(
        "MQTT-3.1.2-21", connect(text("c"), text("u"), flags=0xC2, **CONNECT_3), MALFORMED, "passw"
    ),
    Case(
        "MQTT-3.1.2-22",
        connect(text("c"), text("p"), flags=0x42, **CONNECT_3),
        MALFORMED,
        "without a user name",
    ),
    Case("MQTT-3.1.3-3", packet(0x10, text("MQTT"), b"\4\2\0\0"), MALFORMED, "client identifier"),
    Case("MQTT-3.1.3-4", connect(text(b"\xff"), **CONNECT_3), MALFORMED, "client identifier is"),
    Case(
        "MQTT-3.1.3-7",
        connect(text(""), flags=0, **CONNECT_3),
        Reason.CLIENT_IDENTIFIER_NOT_VALID,
        "set Clean Session",
    ),
    Case(
        "MQTT-3.1.3-10",
        connect(text("c"), text(b"\xff"), text(""), flags=6, **CONNECT_3),
        MALFORMED,
        "will topic is not UTF-8",
    ),
    Case(
        "MQTT-3.1.3-11",
        connect(text("c"), text(b"\xff"), flags=0x82, **CONNECT_3),
        MALFORMED,
        "user name is not UTF-8",
    ),
    Case("MQTT-3.1.4-1", connect(text("c"), b"more", **CONNECT_3), MALFORMED, "4 more bytes"),
    Case("3.2.2.1:flags", packet(0x20, b"\2\0"), MALFORMED, "acknowledge flags"),
    Case("MQTT-3.2.2-4", packet(0x20, b"\1\5"), FORBIDDEN, "Session Present"),
    Case("3.2.2.3:reserved", packet(0x20, b"\0\6"), FORBIDDEN, "reason code 0x06"),
    Case("3.2.3:more", packet(0x20, b"\0\0\0"), MALFORMED, "1 more bytes"),
    Case("MQTT-3.3.1-2", packet(0x38, text("a")), MALFORMED, "DUP with QoS 0"),
    Case("MQTT-3.3.1-4", packet(0x36, text("a"), b"\0\1"), MALFORMED, "QoS 3"),
    Case("MQTT-3.3.2-1", packet(0x30, b"\0\2a"), MALFORMED, "within its topic name"),
    Case("MQTT-3.3.2-2", packet(0x30, text("a/#")), Reason.TOPIC_NAME_INVALID, "wildcard # at"),
    Case("MQTT-4.7.1-1", packet(0x30, text("+")), Reason.TOPIC_NAME_INVALID, "wildcard +"),
    Case("MQTT-4.7.3-1", packet(0x30, text("")), Reason.TOPIC_NAME_INVALID, "empty topic name"),
    Case("MQTT-4.7.3-1:SUBSCRIBE", subscribe_3("", 0), Reason.TOPIC_FILTER_INVALID, "empty"),
    Case("MQTT-4.7.3-2", subscribe_3("\0", 0), MALFORMED, "U+0000"),
    *(
        Case(f"3.{first >> 4}.2:more", packet(first, b"\0\1\0"), MALFORMED, "1 more bytes")
        for first in (0x40, 0x50, 0x62, 0x70)
    ),
    Case("MQTT-3.6.1-1", b"\x60\2\0\1", MALFORMED, "PUBREL has the flags 0000"),
    Case("MQTT-3.8.1-1", b"\x80\6\0\1\0\1a\0", MALFORMED, "SUBSCRIBE has the flags 0000"),
    Case("MQTT-3.8.3-1", subscribe_3(b"\xff", 0), MALFORMED, "topic filter is not UTF-8"),
    Case("MQTT-3.8.3-3", packet(0x82, b"\0\1"), FORBIDDEN, "no topic filter"),
    Case("MQTT-3.8.3-4", subscribe_3("a", 4), MALFORMED, "reserved bits"),
    Case("MQTT-3.8.3-4:qos-3", subscribe_3("a", 3), MALFORMED, "QoS is 3"),
    Case("MQTT-3.9.3-2", packet(0x90, b"\0\1\3"), FORBIDDEN, "reason code 0x03"),
    Case("MQTT-3.10.1-1", b"\xa0\5\0\1\0\1a", MALFORMED, "UNSUBSCRIBE has the flags 0000"),
    Case("MQTT-3.10.3-1", packet(0xA2, b"\0\1", text(b"\xff")), MALFORMED, "not UTF-8"),
    Case("MQTT-3.10.3-2", packet(0xA2, b"\0\1"), FORBIDDEN, "no topic filter"),
    Case("3.11.2:more", packet(0xB0, b"\0\1\0"), MALFORMED, "1 more bytes"),
    Case("3.12.1:more", packet(0xC0, b"a"), MALFORMED, "1 more bytes"),
    Case("3.13.1:more", packet(0xD0, b"a"), MALFORMED, "1 more bytes"),
    Case("MQTT-3.14.1-1", b"\xe1\0", MALFORMED, "DISCONNECT has the flags 0001"),
    Case("3.14.1:more", packet(0xE0, b"\0"), MALFORMED, "1 more bytes"),
]


@pytest.mark.parametrize("case", REFUSED_3_1_1, ids=names(REFUSED_3_1_1))
def test_refused_by_3_1_1(case: Case) -> None:
    check_refused(case, MQTT_3_1_1)


# --- what is accepted ----------------------------------------------------------------------------

METHOD = Properties(authentication_method="m")
ACCEPTED: dict[str, tuple[int, bytes, Packet]] = {
    "MQTT-1.5.4-3": (MQTT_5, publish(topic="\ufeffa"), Publish("\ufeffa", b"payload")),
    "MQTT-1.5.3-3": (MQTT_3_1_1, packet(0x30, text("\ufeffa")), Publish("\ufeffa")),
    "1.5.4:non-characters": (
        MQTT_5,
        publish(topic="\x01\uffff"),
        Publish("\x01\uffff", b"payload"),
    ),
    "2.2.3:longer-than-needed-in-3.1.1": (MQTT_3_1_1, b"\xc0\x80\0", Pingreq()),
    "MQTT-2.2.1-2": (MQTT_5, packet(0x30, text("a"), b"\0\0\1"), Publish("a", b"\0\1")),
    "MQTT-2.3.1-5": (MQTT_3_1_1, packet(0x30, text("a"), b"\0\1"), Publish("a", b"\0\1")),
    "MQTT-2.2.2-1": (MQTT_5, packet(0x30, text("a"), b"\0"), Publish("a")),
    "MQTT-3.1.3-1": (
        MQTT_5,
        connect(*WILL, text("user"), text("password"), flags=0xEE),
        Connect("c", True, 10, Will("w", b"payload", 1, True), "user", b"password"),
    ),
    "MQTT-3.1.3-1:3.1.1": (
        MQTT_3_1_1,
        connect(*WILL_3, text("user"), text("password"), flags=0xF4, level=MQTT_3_1_1),
        Connect("c", False, 10, Will("w", b"payload", 2, True), "user", b"password"),
    ),
    "MQTT-3.1.3-6": (MQTT_5, connect(text(""), flags=0), Connect("", False, 10)),
    "3.1.2.9:password-alone": (
        MQTT_5,
        connect(text("c"), text("p"), flags=0x42),
        Connect("c", True, 10, password=b"p"),
    ),
    "3.1.3.2:will-properties": (
        MQTT_5,
        connect(text("c"), kept(b"\x18\0\0\0\7", USER, USER), *WILL[2:], flags=6),
        Connect(
            "c",
            True,
            10,
            Will(
                "w",
                b"payload",
                properties=Properties(
                    will_delay_interval=7, user_properties=(("a", "b"), ("a", "b"))
                ),
            ),
        ),
    ),
    "MQTT-3.3.2-18": (
        MQTT_5,
        publish(USER, b"\x26" + text("a") + text("a"), USER),
        Publish(
            "a",
            b"payload",
            properties=Properties(user_properties=(("a", "b"), ("a", "a"), ("a", "b"))),
        ),
    ),
    "3.3.2.1:alias-instead-of-name": (
        MQTT_5,
        publish(ALIAS, topic=""),
        Publish("", b"payload", properties=Properties(topic_alias=1)),
    ),
    "3.3.2.3.8:several-identifiers": (
        MQTT_5,
        publish(b"\x0b\xff\xff\xff\x7f", SUBSCRIPTION),
        Publish("a", b"payload", properties=Properties(subscription_identifiers=(268_435_455, 1))),
    ),
    "3.3.3:empty-payload": (
        MQTT_5,
        packet(0x3D, text("a"), b"\0\7\0"),
        Publish("a", b"", 2, True, True, 7),
    ),
    "3.4.2.1:remaining-length-2": (MQTT_5, packet(0x40, b"\0\1"), Puback(1)),
    "3.4.2.2.1:remaining-length-3": (
        MQTT_5,
        packet(0x40, b"\0\1\x10"),
        Puback(1, Reason.NO_MATCHING_SUBSCRIBERS),
    ),
    "3.4.2.2.1:remaining-length-4": (MQTT_5, packet(0x40, b"\0\1\x10\0"), Puback(1, Reason(0x10))),
    "3.5.2.1:remaining-length-2": (MQTT_5, packet(0x50, b"\0\1"), Pubrec(1)),
    "3.5.2.2.1:remaining-length-3": (MQTT_5, packet(0x50, b"\0\1\x97"), Pubrec(1, Reason(0x97))),
    "3.6.2.1:remaining-length-2": (MQTT_5, packet(0x62, b"\0\1"), Pubrel(1)),
    "3.6.2.2.1:remaining-length-3": (MQTT_5, packet(0x62, b"\0\1\x92"), Pubrel(1, Reason(0x92))),
    "3.7.2.1:remaining-length-2": (MQTT_5, packet(0x70, b"\0\1"), Pubcomp(1)),
    "3.7.2.2.1:remaining-length-3": (MQTT_5, packet(0x70, b"\0\1\x92"), Pubcomp(1, Reason(0x92))),
    "3.8.3.1:options": (
        MQTT_5,
        subscribe("a", 0x2E),
        Subscribe(1, (TopicRequest("a", 2, True, True, 2),)),
    ),
    "3.8.3:bad-filters-are-the-server's": (
        MQTT_5,
        subscribe("#/a", 0),
        Subscribe(1, (TopicRequest("#/a"),)),
    ),
    "MQTT-3.9.3-2:3.1.1": (
        MQTT_3_1_1,
        packet(0x90, b"\0\1\0\1\2\x80"),
        Suback(1, (Reason(0), Reason(1), Reason(2), Reason.UNSPECIFIED_ERROR)),
    ),
    "3.11.2:no-payload-in-3.1.1": (MQTT_3_1_1, packet(0xB0, b"\0\1"), Unsuback(1)),
    "3.13:PINGRESP": (MQTT_3_1_1, b"\xd0\0", Pingresp()),
    "3.14.2.1:remaining-length-0": (MQTT_5, b"\xe0\0", Disconnect()),
    "3.14.2.2.1:remaining-length-1": (
        MQTT_5,
        packet(0xE0, b"\4"),
        Disconnect(Reason.DISCONNECT_WITH_WILL_MESSAGE),
    ),
    "3.15.2.1:remaining-length-0": (MQTT_5, b"\xf0\0", Auth()),
    "3.15.2.2.2:method": (
        MQTT_5,
        packet(0xF0, b"\x18\4\x15\0\1m"),
        Auth(Reason.CONTINUE_AUTHENTICATION, METHOD),
    ),
} | {
    f"3.2.2.3:return-code-{code}": (
        MQTT_3_1_1,
        packet(0x20, bytes((0, code))),
        Connack(False, reason),
    )
    for code, reason in enumerate((0x00, 0x84, 0x85, 0x88, 0x86, 0x87))
    for reason in [Reason(reason)]
}


@pytest.mark.parametrize(("version", "data", "expected"), ACCEPTED.values(), ids=list(ACCEPTED))
def test_accepted(version: int, data: bytes, expected: Packet) -> None:
    assert Decoder(version).receive(data) == ([expected], None)


# --- the first packet ----------------------------------------------------------------------------


@pytest.mark.parametrize("level", [MQTT_3_1_1, MQTT_5])
def test_connect_settles_the_version(level: int) -> None:
    decoder = Decoder()
    assert decoder.version is None
    packets, error = decoder.receive(connect(level=level) + encode(Publish("a", b"b"), level))
    assert (packets, error) == ([Connect("c", True, 10), Publish("a", b"b")], None)
    assert decoder.version == level


@pytest.mark.parametrize(
    ("name", "level", "answered_in"),
    [
        pytest.param(b"MQIsdp", 3, MQTT_3_1_1, id="3.1"),
        pytest.param(b"MQIsdp", 5, MQTT_3_1_1, id="MQTT-3.1.2-1:3.1-as-5"),
        pytest.param(b"MQTTT", 5, None, id="MQTT-3.1.2-1"),
        pytest.param(b"MQTT", 3, MQTT_3_1_1, id="MQTT-3.1.2-2:3"),
        pytest.param(b"MQTT", 0x84, MQTT_3_1_1, id="MQTT-3.1.2-2:bridge"),
        pytest.param(b"MQTT", 6, MQTT_5, id="MQTT-3.1.2-2:6"),
    ],
)
def test_unsupported_version(name: bytes, level: int, answered_in: int | None) -> None:
    decoder = Decoder()
    data = packet(0x10, text(name), bytes((level, 2, 0, 10)), text("c"))
    packets, error = decoder.receive(data)
    assert packets == []
    assert error is not None
    assert error.reason is Reason.UNSUPPORTED_PROTOCOL_VERSION
    assert decoder.version == answered_in


def test_malformed_connect_tells_its_version() -> None:
    decoder = Decoder()
    _, error = decoder.receive(connect(flags=3))
    assert (decoder.version, error and error.reason) == (MQTT_5, MALFORMED)


def test_longer_remaining_length_of_a_connect() -> None:
    first, length, body = connect()[:1], connect()[1], connect()[2:]
    longer = first + bytes((length | 0x80, 0)) + body
    _, error = Decoder().receive(longer)
    assert (error and error.reason) == MALFORMED
    longer = longer.replace(b"\5\2\0\x0a\0", b"\4\2\0\x0a")
    longer = first + bytes((length - 1 | 0x80, 0)) + longer[3:]
    assert Decoder().receive(longer) == ([Connect("c", True, 10)], None)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        pytest.param(b"\x30\3\0\1a", "must be CONNECT", id="MQTT-3.1.0-1"),
        pytest.param(b"\x30\x7f", "must be CONNECT", id="MQTT-3.1.0-1:incomplete"),
        pytest.param(b"\xc0\0", "must be CONNECT", id="MQTT-3.1.0-1:PINGREQ"),
    ],
)
def test_first_packet(data: bytes, words: str) -> None:
    _, error = Decoder().receive(data)
    assert error is not None
    assert (error.reason, words in str(error)) == (FORBIDDEN, True)


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"GET / HTTP/1.1\r\n\r\n", "HTTP"), (b"\x16\x03\x01\x02\x00\x01", "TLS")],
)
def test_other_protocols(data: bytes, words: str) -> None:
    _, error = Decoder().receive(data)
    assert error is not None
    assert (error.reason, words in str(error)) == (MALFORMED, True)


# --- reads ---------------------------------------------------------------------------------------


def test_packets_before_an_error_are_returned() -> None:
    decoder = Decoder(MQTT_5)
    packets, error = decoder.receive(publish() + b"\xc0\1a" + publish())
    assert packets == [Publish("a", b"payload")]
    assert isinstance(error, MqttError)
    assert decoder.receive(publish()) == ([], error)


def test_too_large_is_refused_before_it_has_come() -> None:
    decoder = Decoder(MQTT_5, most_bytes=12)
    fitting = packet(0x30, text("a"), b"\0", bytes(6))
    assert len(fitting) == 12
    assert decoder.receive(fitting)[1] is None
    _, error = decoder.receive(b"\x30\x0b")
    assert error is not None
    assert error.reason is Reason.PACKET_TOO_LARGE
    assert "13 bytes" in str(error)


def test_most_bytes_of_the_standard() -> None:
    _, error = Decoder(MQTT_5).receive(b"\x30\xff\xff\xff\x7f")
    assert error is None
    assert MOST_BYTES == 268_435_460


def test_wrong_first_byte_is_refused_before_the_packet_has_come() -> None:
    for version, data in ((MQTT_5, b"\x36\x7f"), (MQTT_5, b"\0\x7f"), (MQTT_3_1_1, b"\xf0\x7f")):
        _, error = Decoder(version).receive(data)
        assert error is not None
        assert error.reason is MALFORMED


def test_every_cut_of_a_packet() -> None:
    data = encode(
        Publish("a/b", bytes(200), 1, packet_id=7, properties=Properties(topic_alias=3)), 5
    )
    expected = Decoder(MQTT_5).receive(data)
    for cut in range(len(data) + 1):
        decoder = Decoder(MQTT_5)
        first, error = decoder.receive(data[:cut])
        assert error is None
        second, error = decoder.receive(data[cut:])
        assert (first + second, error) == expected


def test_every_prefix_waits() -> None:
    for prefix in range(1, len(connect())):
        assert Decoder().receive(connect()[:prefix]) == ([], None)


def test_what_clients_may_send() -> None:
    assert (
        set(PacketType)
        - {
            PacketType.CONNACK,
            PacketType.SUBACK,
            PacketType.UNSUBACK,
            PacketType.PINGRESP,
        }
        == FROM_CLIENTS
    )


def test_sentence_says_where() -> None:
    _, error = Decoder().receive(packet(0x10, text("MQTT"), b"\5\2\0\0\0\0\5c"))
    assert str(error) == (
        "CONNECT ends within the client identifier, which begins at byte 11 behind the fixed "
        "header and needs 7 bytes; send the whole field, or correct the lengths"
    )
    _, error = Decoder(MQTT_5).receive(publish(b"\3\0\5c"))
    assert str(error) == (
        "the property list of PUBLISH ends within the content type, which begins at byte 5 behind "
        "the fixed header and needs 7 bytes; send the whole field, or correct the lengths"
    )

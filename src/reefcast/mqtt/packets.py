"""The control packets of MQTT 5.0 and 3.1.1 (chapter 3 of both), one set of types for both.

A packet of 3.1.1 has no properties, and reasons only where there is a return code that means the
same (see `reasons`). Packets are values: they never change, and may be shared.

`packet_id` is the packet identifier, from 1 to 65 535; 0 in a PUBLISH with QoS 0, which has none.
"""

from __future__ import annotations

from enum import IntEnum
from typing import ClassVar

import msgspec

from reefcast.mqtt.properties import NO_PROPERTIES, Properties
from reefcast.mqtt.reasons import Reason

MQTT_3_1_1, MQTT_5 = 4, 5
"""The protocol levels (5.0: protocol versions) by which a CONNECT names the two standards."""


class PacketType(IntEnum):
    """The types of packets, as in the first four bits of each (table 2-1)."""

    CONNECT = 1
    CONNACK = 2
    PUBLISH = 3
    PUBACK = 4
    PUBREC = 5
    PUBREL = 6
    PUBCOMP = 7
    SUBSCRIBE = 8
    SUBACK = 9
    UNSUBSCRIBE = 10
    UNSUBACK = 11
    PINGREQ = 12
    PINGRESP = 13
    DISCONNECT = 14
    AUTH = 15


FROM_CLIENTS = frozenset(PacketType) - {
    PacketType.CONNACK,
    PacketType.SUBACK,
    PacketType.UNSUBACK,
    PacketType.PINGRESP,
}
"""The packets that a client may send; any other one from a client is a protocol error."""


class Will(msgspec.Struct, frozen=True, gc=False):
    """What the server publishes for a client whose connection ends without a DISCONNECT."""

    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    properties: Properties = NO_PROPERTIES


class Connect(msgspec.Struct, frozen=True, gc=False):
    """The first packet of a client. Its protocol level is that of the connection
    (`Decoder.version`).

    `clean_start` is the Clean Session of 3.1.1; `keep_alive` in seconds, 0 for never;
    `user_name`, `password`: None if there is none."""

    type: ClassVar = PacketType.CONNECT
    client_id: str = ""
    clean_start: bool = True
    keep_alive: int = 0
    will: Will | None = None
    user_name: str | None = None
    password: bytes | None = None
    properties: Properties = NO_PROPERTIES


class Connack(msgspec.Struct, frozen=True, gc=False):
    """The answer to a CONNECT."""

    type: ClassVar = PacketType.CONNACK
    session_present: bool = False
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Publish(msgspec.Struct, frozen=True, gc=False):
    """A publication. `topic` may be empty in 5.0, if there is a topic alias."""

    type: ClassVar = PacketType.PUBLISH
    topic: str
    payload: bytes = b""
    qos: int = 0
    retain: bool = False
    dup: bool = False
    packet_id: int = 0
    properties: Properties = NO_PROPERTIES


class Puback(msgspec.Struct, frozen=True, gc=False):
    """The answer to a PUBLISH with QoS 1."""

    type: ClassVar = PacketType.PUBACK
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Pubrec(msgspec.Struct, frozen=True, gc=False):
    """The answer to a PUBLISH with QoS 2."""

    type: ClassVar = PacketType.PUBREC
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Pubrel(msgspec.Struct, frozen=True, gc=False):
    """The answer to a PUBREC."""

    type: ClassVar = PacketType.PUBREL
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class Pubcomp(msgspec.Struct, frozen=True, gc=False):
    """The answer to a PUBREL."""

    type: ClassVar = PacketType.PUBCOMP
    packet_id: int
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


class TopicRequest(msgspec.Struct, frozen=True, gc=False):
    """A topic filter in a SUBSCRIBE, with its options. 3.1.1 has no option but the QoS.

    `retain_handling`: when retained messages are sent: 0 always, 1 if the subscription is new, 2
    never."""

    topic_filter: str
    qos: int = 0
    no_local: bool = False
    retain_as_published: bool = False
    retain_handling: int = 0


class Subscribe(msgspec.Struct, frozen=True, gc=False):
    """Asks for what is published under some topics."""

    type: ClassVar = PacketType.SUBSCRIBE
    packet_id: int
    requests: tuple[TopicRequest, ...]
    properties: Properties = NO_PROPERTIES


class Suback(msgspec.Struct, frozen=True, gc=False):
    """The answer to a SUBSCRIBE: a reason for each of its topic filters, in their order."""

    type: ClassVar = PacketType.SUBACK
    packet_id: int
    reasons: tuple[Reason, ...]
    properties: Properties = NO_PROPERTIES


class Unsubscribe(msgspec.Struct, frozen=True, gc=False):
    """Ends subscriptions."""

    type: ClassVar = PacketType.UNSUBSCRIBE
    packet_id: int
    topic_filters: tuple[str, ...]
    properties: Properties = NO_PROPERTIES


class Unsuback(msgspec.Struct, frozen=True, gc=False):
    """The answer to an UNSUBSCRIBE: a reason for each of its topic filters, in their order; none in
    3.1.1."""

    type: ClassVar = PacketType.UNSUBACK
    packet_id: int
    reasons: tuple[Reason, ...] = ()
    properties: Properties = NO_PROPERTIES


class Pingreq(msgspec.Struct, frozen=True, gc=False):
    """Asks for a sign of life."""

    type: ClassVar = PacketType.PINGREQ


class Pingresp(msgspec.Struct, frozen=True, gc=False):
    """The answer to a PINGREQ."""

    type: ClassVar = PacketType.PINGRESP


class Disconnect(msgspec.Struct, frozen=True, gc=False):
    """The last packet of either end; in 3.1.1 only of a client, and without a reason."""

    type: ClassVar = PacketType.DISCONNECT
    reason: Reason = Reason.NORMAL_DISCONNECTION
    properties: Properties = NO_PROPERTIES


class Auth(msgspec.Struct, frozen=True, gc=False):
    """A step of an enhanced authentication; 5.0 only."""

    type: ClassVar = PacketType.AUTH
    reason: Reason = Reason.SUCCESS
    properties: Properties = NO_PROPERTIES


Acknowledgement = Puback | Pubrec | Pubrel | Pubcomp
Packet = (
    Connect
    | Connack
    | Publish
    | Acknowledgement
    | Subscribe
    | Suback
    | Unsubscribe
    | Unsuback
    | Pingreq
    | Pingresp
    | Disconnect
    | Auth
)

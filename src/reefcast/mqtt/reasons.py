"""Reason codes (MQTT 5.0, section 2.4), the packets that may carry them, the return codes of 3.1.1
that stand for them, and the error that carries one."""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from types import MappingProxyType

from reefcast.errors import ProtocolError


class Reason(IntEnum):
    """A reason code. From 0x80 up they say that something failed. 0 has three names, because it
    means another thing in DISCONNECT and in SUBACK."""

    SUCCESS = 0x00
    NORMAL_DISCONNECTION = 0x00
    GRANTED_QOS_0 = 0x00
    GRANTED_QOS_1 = 0x01
    GRANTED_QOS_2 = 0x02
    DISCONNECT_WITH_WILL_MESSAGE = 0x04
    NO_MATCHING_SUBSCRIBERS = 0x10
    NO_SUBSCRIPTION_EXISTED = 0x11
    CONTINUE_AUTHENTICATION = 0x18
    REAUTHENTICATE = 0x19
    UNSPECIFIED_ERROR = 0x80
    MALFORMED_PACKET = 0x81
    PROTOCOL_ERROR = 0x82
    IMPLEMENTATION_SPECIFIC_ERROR = 0x83
    UNSUPPORTED_PROTOCOL_VERSION = 0x84
    CLIENT_IDENTIFIER_NOT_VALID = 0x85
    BAD_USER_NAME_OR_PASSWORD = 0x86
    NOT_AUTHORIZED = 0x87
    SERVER_UNAVAILABLE = 0x88
    SERVER_BUSY = 0x89
    BANNED = 0x8A
    SERVER_SHUTTING_DOWN = 0x8B
    BAD_AUTHENTICATION_METHOD = 0x8C
    KEEP_ALIVE_TIMEOUT = 0x8D
    SESSION_TAKEN_OVER = 0x8E
    TOPIC_FILTER_INVALID = 0x8F
    TOPIC_NAME_INVALID = 0x90
    PACKET_IDENTIFIER_IN_USE = 0x91
    PACKET_IDENTIFIER_NOT_FOUND = 0x92
    RECEIVE_MAXIMUM_EXCEEDED = 0x93
    TOPIC_ALIAS_INVALID = 0x94
    PACKET_TOO_LARGE = 0x95
    MESSAGE_RATE_TOO_HIGH = 0x96
    QUOTA_EXCEEDED = 0x97
    ADMINISTRATIVE_ACTION = 0x98
    PAYLOAD_FORMAT_INVALID = 0x99
    RETAIN_NOT_SUPPORTED = 0x9A
    QOS_NOT_SUPPORTED = 0x9B
    USE_ANOTHER_SERVER = 0x9C
    SERVER_MOVED = 0x9D
    SHARED_SUBSCRIPTIONS_NOT_SUPPORTED = 0x9E
    CONNECTION_RATE_EXCEEDED = 0x9F
    MAXIMUM_CONNECT_TIME = 0xA0
    SUBSCRIPTION_IDENTIFIERS_NOT_SUPPORTED = 0xA1
    WILDCARD_SUBSCRIPTIONS_NOT_SUPPORTED = 0xA2

    @property
    def is_failure(self) -> bool:
        return self >= Reason.UNSPECIFIED_ERROR


class MqttError(ProtocolError):
    """The other side sent bytes that are no packet, or a packet that the standard forbids.

    `reason` is the code for the DISCONNECT or CONNACK with which MQTT 5.0 answers; 3.1.1 closes the
    connection without a word, or sends a CONNACK with the return code of `RETURN_CODES`. The text
    is fit for a reason string."""

    def __init__(self, reason: Reason, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


def _named(*codes: int) -> Mapping[int, Reason]:
    return MappingProxyType({code: Reason(code) for code in codes})


CONNACK_REASONS = _named(
    *(0x00, *range(0x80, 0x8B), 0x8C, 0x90, 0x95, 0x97, 0x99, 0x9A, 0x9B, 0x9C, 0x9D, 0x9F)
)
"""The reasons that a CONNACK may carry, by code (table 3-1); likewise for the other packets."""
PUBACK_REASONS = _named(0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99)
"""The reasons of PUBACK and PUBREC (tables 3-4 and 3-5)."""
PUBREL_REASONS = _named(0x00, 0x92)
"""The reasons of PUBREL and PUBCOMP (tables 3-6 and 3-7)."""
SUBACK_REASONS = _named(0x00, 0x01, 0x02, 0x80, 0x83, 0x87, 0x8F, 0x91, 0x97, 0x9E, 0xA1, 0xA2)
UNSUBACK_REASONS = _named(0x00, 0x11, 0x80, 0x83, 0x87, 0x8F, 0x91)
DISCONNECT_REASONS_OF_BOTH = _named(
    0x00, *range(0x80, 0x84), 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99
)
"""What a DISCONNECT of either side may carry (table 3-10)."""
DISCONNECT_REASONS_OF_CLIENTS = _named(*DISCONNECT_REASONS_OF_BOTH, 0x04)
DISCONNECT_REASONS_OF_SERVERS = _named(
    *DISCONNECT_REASONS_OF_BOTH,
    *(0x87, 0x89, 0x8B, 0x8D, 0x8E, 0x8F, 0x9A, 0x9B, 0x9C, 0x9D, 0x9E, 0x9F, 0xA0, 0xA1, 0xA2),
)
DISCONNECT_REASONS = _named(*DISCONNECT_REASONS_OF_CLIENTS, *DISCONNECT_REASONS_OF_SERVERS)
AUTH_REASONS = _named(0x00, 0x18, 0x19)

OF_LIMITS = " in [limits])"
"""How the sentences end with which a broker refuses what exceeds a limit."""


def reason_of_refusal(words: str) -> Reason:
    """Return why a broker refuses a publication or a subscription, with these words."""
    return Reason.QUOTA_EXCEEDED if words.endswith(OF_LIMITS) else Reason.NOT_AUTHORIZED


CONNACK_OF_RETURN_CODE: Mapping[int, Reason] = MappingProxyType(
    {
        0: Reason.SUCCESS,
        1: Reason.UNSUPPORTED_PROTOCOL_VERSION,
        2: Reason.CLIENT_IDENTIFIER_NOT_VALID,
        3: Reason.SERVER_UNAVAILABLE,
        4: Reason.BAD_USER_NAME_OR_PASSWORD,
        5: Reason.NOT_AUTHORIZED,
    }
)
"""What the return codes of a CONNACK of 3.1.1 mean (its table 3.1)."""
RETURN_CODES: Mapping[Reason, int] = MappingProxyType(
    {reason: code for code, reason in CONNACK_OF_RETURN_CODE.items()}
    | {Reason.BANNED: 5, Reason.BAD_AUTHENTICATION_METHOD: 5}
)
"""The return codes of 3.1.1 that say why a client was refused."""
RETURN_CODE_OF_OTHERS = 3
"""Stands for all other reasons: the server is unavailable."""
SUBACK_OF_RETURN_CODE: Mapping[int, Reason] = _named(0x00, 0x01, 0x02, 0x80)
"""What the return codes of a SUBACK of 3.1.1 mean."""

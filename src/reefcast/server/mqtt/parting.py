"""The last packet of a connection that a broker ends."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reefcast.errors import InvalidValueError
from reefcast.mqtt.fitting import fitted
from reefcast.mqtt.packets import MQTT_5, Connack, Disconnect, Packet
from reefcast.mqtt.properties import NO_PROPERTIES, Properties
from reefcast.mqtt.reasons import CONNACK_REASONS, DISCONNECT_REASONS_OF_SERVERS, Reason
from reefcast.mqtt.requests import MOST_WORDS

_OF_CONNACK = {
    Reason.SERVER_SHUTTING_DOWN: Reason.SERVER_UNAVAILABLE,
    Reason.ADMINISTRATIVE_ACTION: Reason.NOT_AUTHORIZED,
}


_WITHOUT_RETURN_CODE = (Reason.MALFORMED_PACKET, Reason.PROTOCOL_ERROR, Reason.PACKET_TOO_LARGE)
"""To these 3.1.1 answers by the end of the connection (its MQTT-3.1.4-1 and MQTT-3.2.2-6)."""


def last_packet(
    reason: Reason,
    words: str,
    server_reference: str,
    version: int,
    encode: Callable[[Packet], bytes],
    most_bytes: int,
    *,
    connected: bool,
) -> bytes:
    """Return the packet that says why, of at most `most_bytes`; empty if the client is told
    nothing. `connected`: it has had its CONNACK, which is the last packet otherwise."""
    if (version < MQTT_5 and connected) or reason is Reason.NORMAL_DISCONNECTION:
        return b""
    if not connected and version < MQTT_5 and reason in _WITHOUT_RETURN_CODE:
        return b""
    said = Properties(
        reason_string=words[:MOST_WORDS] or None, server_reference=server_reference or None
    )
    packet: Packet = Disconnect(_disconnect_reason(reason), said)
    if not connected:
        packet = Connack(session_present=False, reason=_connack_reason(reason), properties=said)
    try:
        return fitted(packet, encode, most_bytes)
    except InvalidValueError:  # words that no packet can contain
        bare = msgspec.structs.replace(packet, properties=NO_PROPERTIES)
        return fitted(bare, encode, most_bytes)


def _connack_reason(reason: Reason) -> Reason:
    """Return the reason as a CONNACK has it."""
    reason = _OF_CONNACK.get(reason, reason)
    return reason if reason in CONNACK_REASONS else Reason.UNSPECIFIED_ERROR


def _disconnect_reason(reason: Reason) -> Reason:
    """Return the reason as a DISCONNECT has it."""
    return reason if reason in DISCONNECT_REASONS_OF_SERVERS else Reason.UNSPECIFIED_ERROR

"""Packets in the size that the other side accepts, with what it asked to be told.

Rules
-----
- Nothing larger than the client's Maximum Packet Size is sent to it (MQTT-3.1.2-24). Reason strings
  and user properties of an answer are left out first (MQTT-3.2.2-19, MQTT-3.4.2-2 and the like).
- A client that wants no problem information gets these in CONNACK, DISCONNECT and PUBLISH only
  (MQTT-3.1.2-29)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reefcast.mqtt.packets import Connack, Disconnect, Packet, Pingreq, Pingresp, Publish

TELL_ALWAYS = (Connack, Disconnect, Publish)
"""The packets that tell of problems whether the client wants it or not."""
_WITHOUT = (Pingreq, Pingresp)
"""The packets without properties."""


def fitted(
    packet: Packet, encode: Callable[[Packet], bytes], most_bytes: int, *, tells: bool = True
) -> bytes:
    """Return the bytes of a packet, in at most `most_bytes`; empty if it does not fit. `tells`:
    the client wants problem information."""
    if not tells and not isinstance(packet, TELL_ALWAYS):
        packet = _terse(packet)
    data = encode(packet)
    if len(data) > most_bytes and not isinstance(packet, Publish):
        data = encode(_terse(packet))
    return data if len(data) <= most_bytes else b""


def _terse(packet: Packet) -> Packet:
    """Return a packet without reason string and user properties."""
    if isinstance(packet, _WITHOUT):
        return packet
    properties = packet.properties
    if properties.reason_string is None and not properties.user_properties:
        return packet
    rest = msgspec.structs.replace(properties, reason_string=None, user_properties=())
    return msgspec.structs.replace(packet, properties=rest)

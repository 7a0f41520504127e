"""As much of MQTT 3.1.1 as the baseline needs: connect, subscribe, publish with QoS 0.

Source: the OASIS standard, sections 2.2 (fixed header), 3.1, 3.3, 3.8.
"""

from __future__ import annotations

TOPIC = "e"
CONNACK_BYTES, SUBACK_BYTES = 4, 5


def _length(n: int) -> bytes:
    """Encode the remaining length: seven bits a byte, the lowest first."""
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _text(text: str) -> bytes:
    data = text.encode()
    return len(data).to_bytes(2, "big") + data


def connect(client_id: str) -> bytes:
    """Return CONNECT with a clean session and no keep-alive."""
    body = _text("MQTT") + bytes([4, 2, 0, 0]) + _text(client_id)
    return b"\x10" + _length(len(body)) + body


def subscribe() -> bytes:
    """Return SUBSCRIBE to the one topic of the measurement."""
    body = b"\x00\x01" + _text(TOPIC) + b"\x00"
    return b"\x82" + _length(len(body)) + body


def publish(payload: bytes) -> bytes:
    """Return PUBLISH with QoS 0."""
    body = _text(TOPIC) + payload
    return b"\x30" + _length(len(body)) + body

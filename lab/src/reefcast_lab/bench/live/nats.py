"""As much of NATS as the baseline needs: connect, subscribe, publish.

Source: https://docs.nats.io/reference/reference-protocols/nats-protocol
"""

from __future__ import annotations

SUBJECT = "e"
CONNECT = b'CONNECT {"verbose":false,"pedantic":false,"lang":"python","version":"0"}\r\n'
PING, PONG = b"PING\r\n", b"PONG\r\n"
ERROR = b"-ERR"
END = b"\r\n"


def subscribe() -> bytes:
    """Return SUB to the one subject of the measurement."""
    return f"SUB {SUBJECT} 1\r\n".encode()


def publish(payload: bytes) -> bytes:
    """Return PUB with this payload."""
    return b"PUB %s %d\r\n%s\r\n" % (SUBJECT.encode(), len(payload), payload)

"""Which connections nobody else can read."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from typing import Any

Shown = Callable[[str], Any]
"""What the transport of a connection knows (`asyncio.BaseTransport.get_extra_info`)."""


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach `host`."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def address_of(shown: Shown) -> str:
    """Return the IP address of the other end, "" if unknown."""
    peer = shown("peername")
    return str(peer[0]) if isinstance(peer, tuple) else ""


def is_private(shown: Shown) -> bool:
    """Return whether nobody else can read the connection: it is encrypted, or does not leave this
    machine."""
    return shown("ssl_object") is not None or is_loopback(address_of(shown))

"""How asyncio is asked for TLS."""

from __future__ import annotations

import ssl
from typing import Any

SHUTDOWN_S = 1.0
"""How long an end waits for the other one's last word of TLS, as for its last frame."""


def over(
    context: ssl.SSLContext | None, within_s: float, server_name: str | None = None
) -> dict[str, Any]:
    """Return the arguments for a connection: of `create_connection`, `connect_accepted_socket` and
    the like. `context`: None for a connection without TLS; `within_s`: seconds for the handshake;
    `server_name`: of the end that is dialled, if not its host."""
    if context is None:
        return {}
    named = {"server_hostname": server_name} if server_name else {}
    return {
        "ssl": context,
        "ssl_handshake_timeout": within_s,
        "ssl_shutdown_timeout": SHUTDOWN_S,
    } | named

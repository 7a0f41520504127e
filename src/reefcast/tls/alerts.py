"""The last words of a handshake that fails.

The end that refuses the other one's certificate says why in an alert (RFC 8446, section 6). asyncio
and uvloop close the connection before they send it, so the other end would see no reason, only the
end. Here an end notes what OpenSSL has to say, and sends it after the failure."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from reefcast.tls.transport import SHUTDOWN_S

_unsaid: ContextVar[list[bytes]] = ContextVar("unsaid")
READ_BYTES = 65536


def note_last_words(context: ssl.SSLContext) -> None:
    """Have the connections of `context` note their alerts for a `LastWords` that is begun in the
    same context of asyncio."""
    wrap = context.wrap_bio

    def wrap_bio(incoming: ssl.MemoryBIO, outgoing: ssl.MemoryBIO, **named: Any) -> ssl.SSLObject:
        made = wrap(incoming, outgoing, **named)
        noted = _unsaid.get(None)
        if noted is not None:
            _note_alert(made, outgoing, noted)
        return made

    context.wrap_bio = wrap_bio  # type: ignore[method-assign,assignment]  # asyncio calls it so


def _note_alert(made: ssl.SSLObject, outgoing: ssl.MemoryBIO, noted: list[bytes]) -> None:
    shake = made.do_handshake

    def do_handshake() -> None:
        try:
            shake()
        except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
            raise
        except ssl.SSLError:
            noted.append(outgoing.read())  # the loop would throw it away
            raise

    made.do_handshake = do_handshake  # type: ignore[method-assign]  # of this connection alone


class LastWords:
    """What is left to say on `connection` when its handshake fails. It has a descriptor of its own,
    because the loop closes the other one."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection.dup()
        self._noted: list[bytes] = []
        _unsaid.set(self._noted)

    async def say(self) -> None:
        """Send what OpenSSL had to say, and wait a while for the other end to read it: closing a
        socket with unread data resets the connection, maybe before that."""
        words = b"".join(self._noted)
        if not words:
            return
        loop, connection = asyncio.get_running_loop(), self._connection
        with suppress(OSError, TimeoutError):
            connection.setblocking(False)
            connection.send(words)
            connection.shutdown(socket.SHUT_WR)
            async with asyncio.timeout(SHUTDOWN_S):
                while await loop.sock_recv(connection, READ_BYTES):
                    pass

    def close(self) -> None:
        self._connection.close()

"""An address on which a broker speaks TLS.

Rules
-----
- What a new connection says first decides: a handshake, with the certificate that the broker has by
  then; or something without TLS, which is refused in words that the other end understands. Until
  one of them it has no protocol, and nothing else is read.
- A connection has `HANDSHAKE_S` for all that. `MOST_HANDSHAKES` may be under way; one more ends the
  one that has waited for the longest time, so that silent ones keep nobody out.
- Without descriptors for more connections nothing is accepted for `PAUSE_S`."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable

from reefcast.server.connection import Connection
from reefcast.server.listeners import BACKLOG, Listener
from reefcast.server.shared import Shared
from reefcast.tls.alerts import LastWords
from reefcast.tls.transport import over

HANDSHAKE_S = 5.0
MOST_HANDSHAKES = 512
PAUSE_S = 1.0
HANDSHAKE = b"\x16"
"""The first byte of TLS (RFC 8446, section 5.1)."""
NO_MORE = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class RefusedConnection(Connection):
    """A connection without TLS, which is told why it is closed, and nothing else."""

    def __init__(self, shared: Shared, reason: str) -> None:
        super().__init__(shared, lambda _, __: None)
        self._reason = reason

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.close(self._reason)


Make = Callable[[], asyncio.BaseProtocol]


class TlsListener(Listener):
    """See the module's docstring. `make`: makes the protocol of a connection with TLS, `refuse`
    that of one without; `context`: returns what is shown now; `failed`: called with the address of
    another end and with why TLS was not agreed on."""

    def __init__(
        self,
        host: str,
        port: int,
        make: Make,
        *,
        refuse: Make,
        context: Callable[[], ssl.SSLContext],
        failed: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(host, port, make)
        self._refuse = refuse
        self._context = context
        self._failed = failed
        self._loop = asyncio.get_running_loop()
        self._sockets: list[socket.socket] = []
        self._under_way: dict[asyncio.Task[None], None] = {}  # the oldest first

    async def _listen(self) -> int:
        found = await self._loop.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM)
        try:
            for family, address in dict.fromkeys((family, at) for family, *_, at in found):
                self._sockets.append(
                    socket.create_server(address[:2], family=family, backlog=BACKLOG)
                )
        except OSError:
            self.close()
            raise
        for each in self._sockets:
            each.setblocking(False)
            self._loop.add_reader(each, self._accept, each)
        port: int = self._sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for task in self._under_way:
            task.cancel()

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(BACKLOG):
            try:
                connection, _ = listening.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in NO_MORE:
                    self._loop.remove_reader(listening)
                    self._loop.call_later(PAUSE_S, self._go_on, listening)
                return
            self._begin(connection)

    def _go_on(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def _begin(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        if len(self._under_way) >= MOST_HANDSHAKES:
            next(iter(self._under_way)).cancel()
        task = self._loop.create_task(self._admit(connection))
        self._under_way[task] = None
        task.add_done_callback(lambda done: self._under_way.pop(done, None))

    async def _admit(self, connection: socket.socket) -> None:
        address = _address(connection)
        try:
            async with asyncio.timeout(HANDSHAKE_S):
                first = await self._first_byte(connection)
                if first == HANDSHAKE:
                    await self._shake_hands(connection)
                elif first:
                    await self._loop.connect_accepted_socket(self._refuse, connection)
                else:
                    connection.close()
        except (OSError, TimeoutError) as error:
            connection.close()
            self._failed(address, error)
        except asyncio.CancelledError:
            connection.close()
            raise

    async def _shake_hands(self, connection: socket.socket) -> None:
        last_words = LastWords(connection)
        try:
            await self._loop.connect_accepted_socket(
                self._make, connection, **over(self._context(), HANDSHAKE_S)
            )
        except ssl.SSLError:
            await last_words.say()
            raise
        finally:
            last_words.close()

    async def _first_byte(self, connection: socket.socket) -> bytes:
        """Return the first byte, and leave it where it is; b"" if there is none."""
        readable = self._loop.create_future()

        def come() -> None:
            if not readable.done():
                readable.set_result(None)

        self._loop.add_reader(connection, come)
        try:
            await readable
        finally:
            self._loop.remove_reader(connection)
        return connection.recv(1, socket.MSG_PEEK)


def _address(connection: socket.socket) -> str:
    try:
        return str(connection.getpeername())
    except OSError:  # it is gone already
        return "?"

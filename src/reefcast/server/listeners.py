"""The addresses on which a broker or a storage listens, each with its protocol."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable

from reefcast.errors import ConfigurationError

BACKLOG = 1024


class Listener:
    """An address, and the protocol of its connections: `make` returns a new one for each
    connection. `port`: the port that it listens on, also if 0 was asked for."""

    def __init__(self, host: str, port: int, make: Callable[[], asyncio.BaseProtocol]) -> None:
        self.host = host
        self.port = port
        self._make = make
        self._server: asyncio.Server | None = None

    async def open(self, who: str) -> None:
        """Listen on the address, for "broker north" or "storage s1". Raises `ConfigurationError`
        if that is not possible."""
        try:
            self.port = await self._listen()
        except OSError as error:
            taken = error.errno == errno.EADDRINUSE
            reason = "another program listens there" if taken else error.strerror or error
            raise ConfigurationError(
                f"{who} cannot listen on {self.host}:{self.port}: {reason}"
            ) from error

    async def _listen(self) -> int:
        """Begin to accept connections; return the port."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._make, self.host, self.port, backlog=BACKLOG)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def close(self) -> None:
        """Stop accepting connections."""
        if self._server is not None:
            self._server.close()

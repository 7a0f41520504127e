"""Asking one broker again and again, over one admin connection that stays while somebody asks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any, Protocol

from reefcast.errors import ConnectionLostError, PeerError, TlsError
from reefcast.model.looks import AnyLook
from reefcast.model.messages import Wish
from reefcast.network.file import NetworkFile
from reefcast.protocol.proofs import Credentials
from reefcast.server.admin import AdminConnection, admin_connection, asking
from reefcast.tls.files import NOTHING, TlsFiles

IDLE_S = 8.0
"""How long a connection stays without a question: less than brokers bear silence."""


class Asker(Protocol):
    """Asks one broker. Its calls raise `PeerError` if it does not answer, and `LocalError` if it
    refuses."""

    async def look(self, look: AnyLook) -> dict[str, Any]:
        """Return what the broker shows."""

    async def wish(self, wish: Wish) -> dict[str, Any]:
        """Have the broker do something; return its status after that."""

    async def close(self) -> None:
        """End what connects to it."""


class BrokerAsker:
    """Asks the broker `name` of a network, over a connection that it makes when it is needed.
    `own`: the certificate of who asks; `credentials`: who that is; `operator`: see
    `admin.asking`."""

    def __init__(
        self,
        network: NetworkFile,
        name: str,
        credentials: Credentials,
        own: TlsFiles = NOTHING,
        *,
        operator: bool = True,
    ) -> None:
        self._network, self._name = network, name
        self._credentials, self._own, self._operator = credentials, own, operator
        self._turn = asyncio.Lock()
        self._open: AsyncExitStack | None = None
        self._connection: AdminConnection | None = None
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Task[None] | None = None

    async def look(self, look: AnyLook) -> dict[str, Any]:
        async def ask(connection: AdminConnection) -> dict[str, Any]:
            return await connection.look(look)

        return await self._ask(ask)

    async def wish(self, wish: Wish) -> dict[str, Any]:
        """Have the broker do something. Over a connection of its own, for a broker closes it when
        it refuses."""
        async with self._dialled() as connection:
            told: dict[str, Any] = await connection.wish(wish)
            return told

    async def _ask(
        self, ask: Callable[[AdminConnection], Awaitable[dict[str, Any]]]
    ) -> dict[str, Any]:
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            again = self._connection is not None
            try:
                return await ask(await self._connected())
            except (PeerError, TlsError, asyncio.CancelledError) as error:
                await self._disconnect()  # an answer that comes late would be that of another
                if not again or not isinstance(error, ConnectionLostError):
                    raise
                return await ask(await self._connected())  # it was closed while nobody asked
            finally:
                loop = asyncio.get_running_loop()
                self._idle = loop.call_later(IDLE_S, self._end_idle)

    def _dialled(self) -> Any:
        tls = asking(self._network, self._name, self._own, operator=self._operator)
        address = self._network.address(self._name)
        return admin_connection(*address, tls, self._credentials)

    async def _connected(self) -> AdminConnection:
        if self._connection is not None:
            return self._connection
        stack = AsyncExitStack()
        connection: AdminConnection = await stack.enter_async_context(self._dialled())
        self._open, self._connection = stack, connection
        return connection

    async def _disconnect(self) -> None:
        stack, self._open, self._connection = self._open, None, None
        if stack is not None:
            await stack.aclose()

    def _end_idle(self) -> None:
        self._closing = asyncio.get_running_loop().create_task(self.close())

    async def close(self) -> None:
        async with self._turn:
            if self._idle is not None:
                self._idle.cancel()
            await self._disconnect()


class OwnAsker:
    """Asks the broker of this process, by calls."""

    def __init__(
        self,
        look: Callable[[AnyLook], Awaitable[dict[str, Any]]],
        wish: Callable[[Wish], dict[str, Any]],
    ) -> None:
        self._look = look
        self._wish = wish

    async def look(self, look: AnyLook) -> dict[str, Any]:
        return await self._look(look)

    async def wish(self, wish: Wish) -> dict[str, Any]:
        return self._wish(wish)

    async def close(self) -> None:
        pass


def askers_of(
    network: NetworkFile,
    credentials: Credentials,
    own: TlsFiles = NOTHING,
    *,
    operator: bool = True,
) -> dict[str, Asker]:
    """Return what asks the brokers of a network file, by name."""
    return {
        name: BrokerAsker(network, name, credentials, own, operator=operator)
        for name in network.names
    }

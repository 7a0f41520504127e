"""Authenticators for tests, and a transport that shows what a connection does with it."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from typing import Any

from reefcast.model import wire
from reefcast.model.messages import ControlMessage, Publish, Unsubscribe
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.frames import FrameReader
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.connection import Connection
from reefcast.server.end import End
from reefcast.server.floods import Floods
from reefcast.server.greeting import Authenticator, Greeting
from reefcast.server.outbox import Flusher
from reefcast.server.shared import Shared

HELLO = wire.encode(FrameKind.HELLO, wire.hello(Role.CLIENT, "c", "", "s"))


def anna(*roles: UserRole) -> Principal:
    return Principal("anna", frozenset(roles), "test")


class Granting(Authenticator):
    """An authenticator that takes everybody for Anna, with these roles."""

    def __init__(self, *roles: UserRole) -> None:
        self._principal = anna(*roles)

    def prove(self, greeting: Greeting) -> Principal:
        return self._principal


class Stepping(Authenticator):
    """An authenticator that runs the coroutine `steps`. `greetings`: those that began; `ended`: how
    many are over."""

    def __init__(self, steps: Callable[[Greeting], Coroutine[Any, Any, Principal]]) -> None:
        self._steps = steps
        self.greetings: list[Greeting] = []
        self.ended = 0

    async def prove(self, greeting: Greeting) -> Principal:
        self.greetings.append(greeting)
        try:
            return await self._steps(greeting)
        finally:
            self.ended += 1


class Transport(asyncio.Transport):
    """A transport that records what was written, whether it is read from, and whether it is
    closed."""

    def __init__(self, peer: str = "127.0.0.1") -> None:
        super().__init__({"peername": (peer, 1)})
        self.written = b""
        self.reading = True
        self.closed = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def frames(self) -> list[tuple[int, bytes]]:
        return list(FrameReader().feed(self.written))

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return False

    def abort(self) -> None:
        self.closed = True


class Noting(End):
    """An end that records what the connection handed to it, in order, and that it was lost."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def publications(self, batch: list[Publish]) -> None:
        self.heard += [publish.publication.seq for publish in batch]

    def control(self, message: ControlMessage) -> None:
        assert isinstance(message, Unsubscribe)
        self.heard.append(f"control {message.token}")

    def lost(self, connection: Connection) -> None:
        self.heard.append("lost")


def connected(authenticator: Authenticator) -> tuple[Connection, Transport, Noting]:
    """Return a connection that has not received a hello yet, with its transport and end."""
    loop = asyncio.get_running_loop()
    floods = Floods(Counter())
    shared = Shared(Flusher(loop), set(), 10, floods, authenticator=authenticator)
    end, transport = Noting(), Transport()
    connection = Connection(shared, lambda connection, hello: end)
    connection.connection_made(transport)
    return connection, transport, end

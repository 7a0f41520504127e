"""Admin connections, which ask a broker for its status, to move a link, or to give up what it keeps
for a neighbour: the broker's end, and the asking side.

Asking for the status, and each kind of wish, needs a right (`model.grants.Right`)."""

from __future__ import annotations

import asyncio
import math
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, ClassVar

from reefcast.errors import ConnectionLostError, LocalError, ProtocolError, RefusedError
from reefcast.model import wire
from reefcast.model.grants import Grants, Right
from reefcast.model.messages import GiveUp, MoveLink, Wish
from reefcast.model.wire import FrameKind, Role, StatusRequest
from reefcast.protocol.link import Link
from reefcast.server.connection import Connection, End
from reefcast.server.rights import require_right, require_status

ANSWER_S = 3.0


class AdminEnd(End):
    """The broker's end of an admin connection."""

    what: ClassVar[str] = "an admin connection"

    def __init__(
        self,
        connection: Connection,
        status: Callable[[StatusRequest], dict[str, object]],
        wish: Callable[[Wish], None],
        grants: Callable[[], Grants],
    ) -> None:
        self.principal = connection.principal
        self._connection = connection
        self._grants = grants
        self._status = status
        self._wish = wish

    def status_wanted(self, request: StatusRequest) -> None:
        require_status(self.principal, self._grants())
        self._tell(request)

    def _tell(self, request: StatusRequest) -> None:
        frame = wire.encode(FrameKind.STATUS, self._status(request))
        self._connection.outbox.push_data(frame)

    def wish_wanted(self, wish: Wish) -> None:
        right = Right.MOVE if isinstance(wish, MoveLink) else Right.DRAIN
        require_right(self.principal, right, self._grants())
        try:
            self._wish(wish)
        except LocalError as error:
            self._connection.close(str(error))
        else:
            self._tell(StatusRequest())


UNASKED = StatusRequest()
"""A request for what a broker tells in any case."""


class AdminConnection:
    """The asking side of an admin connection. Requests raise `ConnectionLostError` if there is no
    answer within `ANSWER_S`, and `ProtocolError` if the other end is no broker."""

    def __init__(
        self, place: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._place = place
        self._reader = reader
        self._writer = writer
        self._link = Link(writer.write)

    def greet(self) -> None:
        self._link.say_hello(wire.hello(Role.ADMIN, "admin", "", secrets.token_hex(8)))

    async def status(self, request: StatusRequest = UNASKED) -> dict[str, Any]:
        return await self._ask(FrameKind.STATUS, request, ProtocolError)

    async def move(self, old: str, new: str) -> dict[str, Any]:
        """Ask the broker to replace its link to `old` by one to `new`; return its status after the
        move. Raises `RefusedError` with the broker's reason if it cannot do that."""
        return await self._ask(FrameKind.WISH, MoveLink(old, new), RefusedError)

    async def give_up(self, neighbour: str, *, reroute: bool) -> dict[str, Any]:
        """Ask the broker to drop what it owes a neighbour that never comes back, or to route it
        again; return its status after that. Raises `RefusedError` with the broker's reason if it
        does not do so."""
        return await self._ask(FrameKind.WISH, GiveUp(neighbour, reroute), RefusedError)

    async def _ask(
        self, kind: FrameKind, what: object, refused: Callable[[str], Exception]
    ) -> dict[str, Any]:
        self._writer.write(wire.encode(kind, what))
        try:
            async with asyncio.timeout(ANSWER_S):
                return await self._answer(refused)
        except TimeoutError:
            reason = f"{self._place} did not answer in {ANSWER_S:g} s"
        except OSError as error:
            reason = f"{self._place} cannot be reached: {error.strerror}"
        raise ConnectionLostError(reason)

    async def _answer(self, refused: Callable[[str], Exception]) -> dict[str, Any]:
        while data := await self._reader.read(65536):
            for kind, frame in self._link.receive(data):
                payload = self._link.handle(kind, frame)
                if kind == FrameKind.HELLO:
                    self._link.admit(math.inf, math.inf, 0.0)
                if kind == FrameKind.CLOSE:
                    raise refused(payload.reason)
                if kind == FrameKind.STATUS:
                    status = wire.decode_any(payload)
                    assert isinstance(status, dict)
                    return status
        raise ConnectionLostError(f"{self._place} closed the connection before it answered")


@asynccontextmanager
async def admin_connection(host: str, port: int) -> AsyncIterator[AdminConnection]:
    """Connect to the broker at this address. Raises `ConnectionLostError` if it cannot be
    reached."""
    place = f"{host}:{port}"
    try:
        async with asyncio.timeout(ANSWER_S):
            reader, writer = await asyncio.open_connection(host, port)
    except TimeoutError as error:
        raise ConnectionLostError(f"{place} did not answer in {ANSWER_S:g} s") from error
    except OSError as error:
        raise ConnectionLostError(f"{place} cannot be reached: {error.strerror}") from error
    try:
        asked = AdminConnection(place, reader, writer)
        asked.greet()
        yield asked
    finally:
        writer.close()


async def ask_status(host: str, port: int, request: StatusRequest = UNASKED) -> dict[str, Any]:
    """Return the status of the broker at this address; raises what `admin_connection` and
    `AdminConnection` raise."""
    async with admin_connection(host, port) as broker:
        return await broker.status(request)

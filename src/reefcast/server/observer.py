"""Asking a broker for its status: the end that is asked, and the side that asks."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Any, ClassVar

from reefcast.errors import ConnectionLostError, ProtocolError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, FrameReader, Hello, Role, StatusRequest
from reefcast.server.connection import Connection, End


class Observer(End):
    """Whoever asks for the status, and for nothing else."""

    what: ClassVar[str] = "an observer"

    def __init__(
        self, connection: Connection, status: Callable[[StatusRequest], dict[str, object]]
    ) -> None:
        self._connection = connection
        self._status = status

    def status_wanted(self, request: StatusRequest) -> None:
        frame = wire.encode(FrameKind.STATUS, self._status(request))
        self._connection.outbox.push_control(frame)


UNASKED = StatusRequest()
"""What a broker tells in any case."""


async def ask_status(
    host: str, port: int, request: StatusRequest = UNASKED, *, timeout_s: float = 3.0
) -> dict[str, Any]:
    """The status of the broker at this address.

    Raises `ConnectionLostError` if nobody answers, `ProtocolError` if it is no broker.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return await _ask(reader, writer, request)
            finally:
                writer.close()
    except TimeoutError as error:
        raise ConnectionLostError(f"{host}:{port} did not answer in {timeout_s:g} s") from error
    except OSError as error:
        raise ConnectionLostError(f"{host}:{port} cannot be reached: {error.strerror}") from error


async def _ask(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: StatusRequest
) -> dict[str, Any]:
    hello = Hello(
        version=wire.VERSION,
        role=Role.OBSERVER,
        name="observer",
        network="",
        session=secrets.token_hex(8),
    )
    writer.write(wire.encode(FrameKind.HELLO, hello) + wire.encode(FrameKind.STATUS, request))
    frames = FrameReader()
    while data := await reader.read(65536):
        for kind, payload in frames.feed(data):
            if kind == FrameKind.GOODBYE:
                raise ProtocolError(wire.decode_goodbye(payload).reason)
            if kind == FrameKind.STATUS:
                status = wire.decode_any(payload)
                assert isinstance(status, dict)
                return status
    raise ConnectionLostError("the broker closed the connection before it answered")

"""Asking a broker for its status: the end that is asked, and the side that asks."""

from __future__ import annotations

import asyncio
import secrets
from typing import Any, ClassVar

from reefcast.errors import ConnectionLostError, ProtocolError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, FrameReader, Hello, Role
from reefcast.server.connection import Connection, End
from reefcast.server.host import Host


class Observer(End):
    """Whoever asks for the status, and for nothing else."""

    what: ClassVar[str] = "an observer"

    def __init__(self, host: Host, connection: Connection) -> None:
        self._host = host
        self._connection = connection
        connection.say_hello(
            Hello(
                version=wire.VERSION,
                role=Role.BROKER,
                name=host.name,
                network=host.network.network.name,
                session=host.session,
            )
        )

    def status_wanted(self) -> None:
        frame = wire.encode(FrameKind.STATUS, self._host.status())
        self._connection.outbox.push_control(frame)


async def ask_status(host: str, port: int, timeout_s: float = 3.0) -> dict[str, Any]:
    """The status of the broker at this address.

    Raises `ConnectionLostError` if nobody answers, `ProtocolError` if it is no broker.
    """
    try:
        async with asyncio.timeout(timeout_s):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                return await _ask(reader, writer)
            finally:
                writer.close()
    except TimeoutError as error:
        raise ConnectionLostError(f"{host}:{port} did not answer in {timeout_s:g} s") from error
    except OSError as error:
        raise ConnectionLostError(f"{host}:{port} cannot be reached: {error.strerror}") from error


async def _ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> dict[str, Any]:
    hello = Hello(
        version=wire.VERSION,
        role=Role.OBSERVER,
        name="observer",
        network="",
        session=secrets.token_hex(8),
    )
    writer.write(wire.encode(FrameKind.HELLO, hello) + wire.encode(FrameKind.STATUS, None))
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

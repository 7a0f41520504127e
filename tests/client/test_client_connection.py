"""One connection, over a transport that behaves as uvloop's does."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import pytest

from reefcast.client.connection import Connection
from reefcast.errors import ConnectionLostError
from reefcast.model.wire import Hello


class Transport(asyncio.Transport):
    """Is gone already: it takes nothing any more."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")


class Handler:
    def on_hello(self, hello: Hello, connection: Connection) -> None:
        pass

    def on_frames(self, frames: Iterable[tuple[int, bytes]]) -> None:
        pass

    def on_writable(self) -> None:
        pass


async def test_what_is_written_before_the_loss_is_noticed_does_no_harm() -> None:
    connection = Connection(Handler())
    connection.connection_made(Transport())
    connection.connection_lost(None)
    connection.write(b"event")
    connection.close()
    assert connection.lost.result() is None
    with pytest.raises(ConnectionLostError):
        connection.opened.result()

"""One connection, over a transport that behaves as uvloop's does."""

from __future__ import annotations

import asyncio

import pytest

from reefcast.client.connection import Connection, Handler
from reefcast.errors import ConnectionLostError


class Transport(asyncio.Transport):
    """Is gone already: it takes nothing any more."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")


async def test_what_is_written_before_the_loss_is_noticed_does_no_harm() -> None:
    connection = Connection(Handler(lambda *_: None, lambda _: None, lambda: None))
    connection.connection_made(Transport())
    connection.connection_lost(None)
    connection.write(b"event")
    connection.close()
    assert connection.lost.result() is None
    with pytest.raises(ConnectionLostError):
        connection.opened.result()

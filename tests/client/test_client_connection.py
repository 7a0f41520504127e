"""One connection, over a transport that behaves as uvloop's does."""

from __future__ import annotations

import asyncio
import time

import pytest

from live_networks import PATIENCE_S
from reefcast.client.connection import Connection, Handler
from reefcast.errors import ConnectionLostError
from reefcast.model.wire import FrameReader


class Transport(asyncio.Transport):
    """Is gone already: it takes nothing any more."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")


def handler(silence_s: float) -> Handler:
    return Handler(lambda *_: None, lambda _: None, lambda: None, silence_s)


async def test_what_is_written_before_the_loss_is_noticed_does_no_harm() -> None:
    connection = Connection(handler(5.0))
    connection.connection_made(Transport())
    connection.connection_lost(None)
    connection.write(b"event")
    connection.close()
    assert connection.lost.result() is None
    with pytest.raises(ConnectionLostError):
        connection.opened.result()


class Silent(Transport):
    """Takes what is written."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass


async def test_a_broker_that_says_nothing_is_left_and_one_that_is_idle_is_not() -> None:
    connection = Connection(handler(0.2))
    connection.connection_made(Silent())
    for _ in range(40):
        connection.data_received(b"\0")  # the beginning of a frame is a sign of life
        connection._reader = FrameReader()
        await asyncio.sleep(0.02)
    assert not connection.lost.done()
    async with asyncio.timeout(PATIENCE_S):
        assert await connection.lost is None
    assert connection.reason == "it said nothing for 0.2 s"
    with pytest.raises(ConnectionLostError):
        connection.opened.result()


async def test_a_program_that_was_busy_does_not_blame_the_broker() -> None:
    connection = Connection(handler(0.2))
    connection.connection_made(Silent())
    time.sleep(0.5)  # noqa: ASYNC251 (nothing else runs meanwhile, which is the point)
    connection._watch_silence()
    assert not connection.lost.done()
    connection.abort()
    with pytest.raises(ConnectionLostError):
        connection.opened.result()

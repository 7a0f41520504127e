"""One connection, over a transport that behaves as uvloop's does."""

from __future__ import annotations

import asyncio
import time
from collections import deque

import pytest

from live_networks import PATIENCE_S
from reefcast.client.connection import Connection, Handler
from reefcast.errors import ConnectionLostError, RefusedError
from reefcast.model import wire
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.proofs import Answer, Method, Question, encode_proof
from reefcast.security.credentials import Nothing, Password


class Transport(asyncio.Transport):
    """A transport that is lost already: it takes nothing any more."""

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        raise RuntimeError("unable to perform operation; the handler is closed")


def handler(silence_s: float) -> Handler:
    return Handler(lambda *_: None, lambda _: None, lambda: None, lambda: 0, silence_s, Nothing())


LONG = wire.frame(FrameKind.DROPPED, bytes(1000))
SAID = wire.hello(Role.CLIENT, "c", "", "session")
HELLO = wire.encode(FrameKind.HELLO, wire.hello(Role.BROKER, "b", "net", "session"))


def greeted(silence_s: float) -> Connection:
    """Return a connection to a broker that has said hello."""
    handler = Handler(
        lambda *_: None,
        lambda frames: deque(frames, 0),
        lambda: None,
        lambda: 0,
        silence_s,
        Nothing(),
    )
    connection = Connection(handler, SAID)
    connection.connection_made(Silent())
    connection.data_received(HELLO)
    assert connection.opened.done()
    return connection


async def test_what_is_written_before_the_loss_is_noticed_does_no_harm() -> None:
    connection = Connection(handler(5.0), SAID)
    connection.connection_made(Transport())
    connection.connection_lost(None)
    connection.write(b"event")
    connection.close("the client has done")
    assert connection.lost.result() is None
    with pytest.raises(ConnectionLostError):
        connection.opened.result()


class Silent(Transport):
    """A transport that takes what is written."""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def abort(self) -> None:
        pass

    def is_closing(self) -> bool:
        return False

    def resume_reading(self) -> None:
        pass


class Noting(Silent):
    """A transport that also keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data


PROOF = wire.frame(
    FrameKind.PROOF, encode_proof(Question("net", "b", ("password", "token"), bytes(32)))
)
NOTHING = wire.frame(FrameKind.PROOF, encode_proof(Answer(Method.NOTHING)))


async def test_a_client_answers_what_a_broker_asks_before_its_hello() -> None:
    connection = Connection(handler(5.0), SAID)
    connection.connection_made(transport := Noting())
    connection.data_received(PROOF + PROOF)
    assert transport.written == 2 * NOTHING
    assert not connection.opened.done()
    connection.data_received(HELLO)
    assert connection.opened.done()
    connection.abort()


async def test_a_client_that_must_not_show_its_proof_says_so_to_its_program() -> None:
    """Nobody knows where the other end of this transport is."""
    secret = handler(5.0)._replace(credentials=Password("anna", lambda: "open sesame"))
    connection = Connection(secret, SAID)
    connection.connection_made(Silent())
    connection.data_received(PROOF)
    with pytest.raises(RefusedError, match="a password is not sent to broker 'b': others can read"):
        connection.opened.result()
    assert isinstance(connection.lost.result(), RefusedError)


async def test_a_broker_that_says_nothing_is_left_and_one_that_is_idle_is_not() -> None:
    connection = greeted(0.2)
    for number in range(40):
        # The beginning of a frame is a sign of life.
        connection.data_received(LONG[:6] if number == 0 else LONG[5 + number : 6 + number])
        await asyncio.sleep(0.02)
    assert not connection.lost.done()
    async with asyncio.timeout(PATIENCE_S):
        assert await connection.lost is None
    assert connection.reason == "it said nothing for 0.2 s"


async def test_a_program_that_was_busy_does_not_blame_the_broker() -> None:
    connection = greeted(0.2)
    time.sleep(0.5)  # noqa: ASYNC251 (nothing else runs meanwhile, which is the point)
    connection._time_passed()
    assert not connection.lost.done()
    connection.abort()

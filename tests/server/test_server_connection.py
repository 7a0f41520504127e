"""One connection, over a transport that behaves as uvloop's does."""

from __future__ import annotations

import asyncio
import errno

from reefcast.model import wire
from reefcast.model.messages import Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.server.connection import Connection, End, Shared
from reefcast.server.outbox import Flusher, Outbox


class Transport(asyncio.Transport):
    """Keeps what is written; raises once it has told its protocol that it is lost."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.lost = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.lost:
            raise RuntimeError("unable to perform operation; the handler is closed")
        self.written += data


def greet(connection: Connection, hello: Hello) -> End:
    return End()


async def test_a_connection_that_is_lost_takes_no_other_with_it():
    """It is lost between being filled and being flushed; those after it are flushed all the same,
    now and later."""
    shared = Shared(Flusher(asyncio.get_running_loop()), set(), 10)
    gone, other = Transport(), Transport()
    connections = [Connection(shared, greet), Connection(shared, greet)]
    for connection, transport in zip(connections, (gone, other), strict=True):
        connection.connection_made(transport)
        connection.outbox.push_data(b"1")
    connections[0].connection_lost(None)
    gone.lost = True
    await asyncio.sleep(0)
    connections[1].outbox.push_data(b"2")
    await asyncio.sleep(0)
    connections[1].connection_lost(None)
    assert (gone.written, other.written) == (b"", b"12")


class Taker(End):
    def publications(self, batch: list[Publish]) -> None:
        pass


async def test_a_few_frames_are_acknowledged_at_once_and_many_together():
    """What is not acknowledged counts as queue, and IDR goes round links with more than ten."""
    shared = Shared(Flusher(asyncio.get_running_loop()), set(), 10)
    connection, transport = Connection(shared, lambda connection, hello: Taker()), Transport()
    connection.connection_made(transport)
    hello = Hello(wire.VERSION, Role.BROKER, "b", "net", "session")
    connection.data_received(wire.encode(FrameKind.HELLO, hello))
    publication = Publication("p", 1, 0, {})
    frame = wire.encode_publish(Publish(publication, body=wire.encode_publication(publication)))
    expected = b""
    for count, acknowledged in ((3, None), (1, 4), (1000, 1004)):
        connection.data_received(frame * count)
        await asyncio.sleep(0)
        expected += b"" if acknowledged is None else wire.encode(FrameKind.ACK, acknowledged)
        assert transport.written == expected
    connection.connection_lost(None)


class Reset(Transport):
    """The other end is gone, but nobody has said so yet; asyncio's own transport then raises."""

    def is_closing(self) -> bool:
        return False

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        raise OSError(errno.ENOTCONN, "Transport endpoint is not connected")


async def test_a_last_word_to_somebody_who_has_just_gone_does_no_harm():
    transport = Reset()
    outbox = Outbox(transport, Flusher(asyncio.get_running_loop()))
    outbox.push_data(b"1")
    outbox.end(b"goodbye")
    assert transport.written == b"1goodbye"

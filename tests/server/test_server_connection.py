"""One connection, over a transport that behaves as uvloop's does."""

from __future__ import annotations

import asyncio
import errno
import time
from collections import Counter

import pytest
from authenticators import Transport as Pausing
from live_brokers import Live

from live_networks import path_network
from reefcast.model import wire
from reefcast.model.messages import ControlMessage, Publish, Unsubscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.protocol.frames import FrameReader
from reefcast.server.connection import Connection
from reefcast.server.end import End
from reefcast.server.floods import Floods
from reefcast.server.outbox import Flusher, Outbox
from reefcast.server.shared import Shared


class Transport(asyncio.Transport):
    """A transport that keeps what is written, and raises once it has told its protocol that it is
    lost."""

    def __init__(self) -> None:
        super().__init__({"peername": ("127.0.0.1", 1)})
        self.written = b""
        self.lost = False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self.lost:
            raise RuntimeError("unable to perform operation; the handler is closed")
        self.written += data

    def is_closing(self) -> bool:
        return self.lost

    def pause_reading(self) -> None:
        """Do nothing. A connection may pause in any test, because a slice takes long on a busy
        machine."""

    def resume_reading(self) -> None:
        pass


def greet(connection: Connection, hello: Hello) -> End:
    return End()


async def test_a_connection_that_is_lost_takes_no_other_with_it():
    """The connection is lost after it was filled and before it was flushed. Those behind it are
    flushed all the same, now and later."""
    shared = Shared(Flusher(asyncio.get_running_loop()), set(), 10, Floods(Counter()))
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


def greeted(end: End, transport: asyncio.Transport) -> Connection:
    """Return a connection to broker b, which has said hello."""
    shared = Shared(Flusher(asyncio.get_running_loop()), set(), 10, Floods(Counter()))
    connection = Connection(shared, lambda connection, hello: end)
    connection.connection_made(transport)
    hello = wire.hello(Role.BROKER, "b", "net", "session")
    connection.data_received(wire.encode(FrameKind.HELLO, hello))
    return connection


async def test_a_few_frames_are_acknowledged_at_once_and_many_together():
    """What is not acknowledged counts as queue, and IDR bypasses links with more than ten
    publications."""
    transport = Transport()
    connection = greeted(Taker(), transport)
    publication = Publication("p", 1, 0, {})
    frame = wire.encode_publish(Publish(publication, body=wire.encode_publication(publication)))
    expected = b""
    for count, acknowledged in ((3, None), (1, 4), (1000, 1004)):
        connection.data_received(frame * count)
        await asyncio.sleep(0)
        expected += b"" if acknowledged is None else wire.encode(FrameKind.ACK, acknowledged)
        assert transport.written == expected
    connection.connection_lost(None)


class Slow(End):
    """An end that takes 10 ms for each message. `taken`: how many it has handled."""

    what = "a test"
    silence_s = 10.0
    ping_s = 10.0

    def __init__(self) -> None:
        self.taken = 0

    def control(self, message: ControlMessage) -> None:
        time.sleep(0.01)
        self.taken += 1


async def test_a_broker_that_was_busy_does_not_blame_the_others() -> None:
    """The broker was suspended, or had a long turn: what was sent meanwhile has yet to be read."""
    end = Taker()
    end.silence_s = 0.2
    connection = greeted(end, Transport())
    for _ in range(3):
        time.sleep(0.5)  # noqa: ASYNC251 (nothing else runs meanwhile, which is the point)
        connection._time_passed()
        assert not connection.link.over
        connection.data_received(wire.encode(FrameKind.PING, 0))
    while not connection.link.over:  # noqa: ASYNC110 (nobody tells)
        await asyncio.sleep(0.01)
    connection.connection_lost(None)


async def test_while_a_broker_is_busy_with_what_it_read_the_other_end_is_not_silent() -> None:
    """What was read at once may take longer than the silence; until then nothing more is read."""
    end = Slow()
    end.silence_s = 0.2
    connection = greeted(end, Pausing())
    many = 100
    connection.data_received(
        b"".join(wire.encode(FrameKind.CONTROL, Unsubscribe(("b", n))) for n in range(many))
    )
    while end.taken < many:
        assert not connection.link.over
        await asyncio.sleep(0.01)
    connection.connection_lost(None)


async def test_neighbours_are_given_up_after_the_silence_of_the_network_file(live: Live) -> None:
    for limits, silence_s in (({}, 5.0), ({"silence_s": 2.5}, 2.5)):
        network = path_network(2, **limits)
        nodes = await live.up(network)
        for node in nodes.values():
            (link,) = node.links.values()
            assert link.connection is not None and link.connection.end is not None
            assert link.connection.end.silence_s == silence_s
            assert link.connection.link.tick_s <= silence_s / 4


async def test_a_client_without_a_session_is_let_in(live: Live) -> None:
    """Other client libraries need not know sessions."""
    node = await live.node(path_network(1), "b1")
    client = await live.client(node, "c", session="")
    await client.subscribe("TRUE")


class Reset(Transport):
    """A transport whose other end is gone, before anybody has said so; asyncio's own transport
    raises then."""

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
    outbox.end(b"close")
    assert transport.written == b"1close"


class Noting(End):
    """An end that records what the connection handed to it, in order, and that it was lost."""

    def __init__(self) -> None:
        self.heard: list[object] = []

    def publications(self, batch: list[Publish]) -> None:
        self.heard.append([publish.publication.seq for publish in batch])

    def control(self, message: ControlMessage) -> None:
        assert isinstance(message, Unsubscribe)
        self.heard.append(message.token)

    def lost(self, connection: Connection) -> None:
        self.heard.append("lost")


HELLO = wire.encode(FrameKind.HELLO, wire.hello(Role.CLIENT, "c", "net", "session"))


def control(token: int) -> bytes:
    return wire.encode(FrameKind.CONTROL, Unsubscribe(("c", 1), token))


def publication(seq: int) -> bytes:
    made = Publication("c", seq, 0, {})
    return wire.encode_publish(Publish(made, body=wire.encode_publication(made)))


def sliced(monkeypatch: pytest.MonkeyPatch) -> tuple[Connection, Pausing, Noting]:
    """Return a connection for which every control message takes a slice's time."""
    monkeypatch.setattr("reefcast.server.connection.SLICE_S", -1.0)
    shared = Shared(Flusher(asyncio.get_running_loop()), set(), 10, Floods(Counter()))
    end, transport = Noting(), Pausing()
    connection = Connection(shared, lambda connection, hello: end)
    connection.connection_made(transport)
    connection.data_received(HELLO)
    return connection, transport, end


async def turns(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_much_work_of_one_connection_is_done_in_slices(monkeypatch: pytest.MonkeyPatch):
    """The loop gets its turn between slices, nothing more is read meanwhile, and the order is
    kept."""
    connection, transport, end = sliced(monkeypatch)
    await turns(2)
    frames = [control(1), publication(1), publication(2), control(2), control(3), publication(3)]
    connection.data_received(b"".join(frames) + control(4)[:7])
    assert (end.heard, transport.reading) == ([1], False)
    await turns(1)
    assert (end.heard, transport.reading) == ([1, [1, 2], 2], False)
    await turns(3)
    assert (end.heard, transport.reading) == ([1, [1, 2], 2, 3, [3]], True)
    connection.data_received(control(4)[7:])
    await turns(2)
    assert end.heard[-1] == 4
    await asyncio.sleep(0.01)
    acknowledged = [payload for kind, payload in FrameReader().feed(transport.written) if kind == 5]
    assert wire.decode_number(acknowledged[-1]) == connection.received == 7
    connection.connection_lost(None)


async def test_what_waits_for_its_turn_goes_with_the_connection(monkeypatch: pytest.MonkeyPatch):
    connection, transport, end = sliced(monkeypatch)
    await turns(2)
    connection.data_received(control(1) + control(2) + control(3))
    connection.connection_lost(None)
    transport.lost = True
    await turns(3)
    assert end.heard == [1, "lost"]
    assert connection.received == 1


async def test_after_a_close_nothing_of_what_waits_is_done(monkeypatch: pytest.MonkeyPatch):
    connection, transport, end = sliced(monkeypatch)
    await turns(2)
    connection.data_received(control(1) + control(2) + control(3))
    connection.close("enough")
    await turns(3)
    assert (end.heard, transport.reading) == ([1, "lost"], True)
    frames = list(FrameReader().feed(transport.written))
    assert frames[-2:] == [(5, b"\x01"), (9, frames[-1][1])]
    connection.connection_lost(None)


async def test_an_error_in_a_later_slice_ends_the_connection_with_its_sentence(
    monkeypatch: pytest.MonkeyPatch,
):
    connection, transport, end = sliced(monkeypatch)
    await turns(2)
    connection.data_received(control(1) + publication(1) + wire.frame(77, b"") + control(2))
    await turns(3)
    assert end.heard == [1, [1], "lost"]
    kind, payload = list(FrameReader().feed(transport.written))[-1]
    assert kind == FrameKind.CLOSE and "kind 77" in wire.decode_close(payload).reason
    connection.connection_lost(None)


async def test_a_broker_that_stops_reads_no_more_after_what_waits(monkeypatch: pytest.MonkeyPatch):
    connection, transport, end = sliced(monkeypatch)
    await turns(2)
    connection.data_received(control(1) + control(2) + control(3))
    connection.stop_reading()
    await turns(4)
    assert (end.heard, transport.reading) == ([1, 2, 3], False)
    connection.connection_lost(None)

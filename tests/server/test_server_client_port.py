"""The port of one client: its queue, and what the client has received, over connections that come
and go."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transports import Transport

from reefcast.errors import ProtocolError
from reefcast.model.messages import Publish, Refused, Settled
from reefcast.model.publication import Publication
from reefcast.model.wire import Dropped, FrameKind, decode_dropped, encode, encode_deliver
from reefcast.protocol.batches import Batch
from reefcast.protocol.frames import FrameReader
from reefcast.server.client_port import MOST_GROUPS
from reefcast.server.native_port import NativePort, SharedFrames
from reefcast.server.outbox import FRAMES_PER_WRITE, Flusher

SETTLED = Settled(1)
SETTLED_FRAME = encode(FrameKind.CONTROL, SETTLED)


class Line:
    def __init__(self) -> None:
        self.transport = Transport()
        self.closings: list[str] = []

    def close(
        self,
        reason: str,
        *,
        retry: bool = False,
        too_slow: bool = False,
        elsewhere: tuple[str, ...] = (),
    ) -> None:
        self.closings.append(reason)


def port_over(line: Line, *, keeps: bool = False) -> NativePort:
    port = NativePort(Flusher(asyncio.get_running_loop()), SharedFrames(), keeps=keeps)
    attach(port, line)
    return port


def attach(port: NativePort, line: Line) -> None:
    port.attach(line)
    line.transport.outbox = port


def delivery(number: int) -> bytes:
    return encode_deliver((number,), b"body")


async def test_messages_and_deliveries_keep_their_order():
    line = Line()
    port = port_over(line)
    port.push_delivery(delivery(1))
    port.tell(SETTLED)
    port.push_delivery(delivery(2))
    assert line.transport.writes == []
    await asyncio.sleep(0)
    assert line.transport.writes == [delivery(1) + SETTLED_FRAME + delivery(2)]


async def test_credit_and_refused_publications_overtake():
    line = Line()
    port = port_over(line)
    port.push_delivery(delivery(1))
    refused = Refused(0, "no", ("p", 1))
    port.tell(refused)
    port.grant(3)
    await asyncio.sleep(0)
    first = encode(FrameKind.CONTROL, refused) + encode(FrameKind.CREDIT, 3)
    assert b"".join(line.transport.writes) == first + delivery(1)


async def test_clients_with_the_same_numbers_share_a_frame():
    flusher, shared = Flusher(asyncio.get_running_loop()), SharedFrames()
    ports = [NativePort(flusher, shared, keeps=False) for _ in range(3)]
    for n in (1, 2):
        publish = Publish(Publication("p", n, 0, {}), body=b"body%d" % n)
        for port, numbers in zip(ports, ([7], (7,), [8]), strict=True):
            port.deliver(numbers, publish)
    one, other, third = (list(port._frames) for port in ports)
    assert one == [encode_deliver((7,), b"body1"), encode_deliver((7,), b"body2")]
    assert [a is b for a, b in zip(one, other, strict=True)] == [True, True]
    assert third == [encode_deliver((8,), b"body1"), encode_deliver((8,), b"body2")]


async def test_a_long_queue_goes_in_slices_until_the_socket_has_enough():
    line = Line()
    port = port_over(line)
    line.transport.room = 2
    for n in range(3 * FRAMES_PER_WRITE):
        port.push_delivery(delivery(n))
    await asyncio.sleep(0)
    assert len(line.transport.writes) == 2
    assert port.queue_len == FRAMES_PER_WRITE
    line.transport.room = 100
    port.resume()
    assert port.empty
    everything = b"".join(delivery(n) for n in range(3 * FRAMES_PER_WRITE))
    assert b"".join(line.transport.writes) == everything


async def test_a_burst_that_the_socket_takes_is_not_a_full_queue():
    port = port_over(Line())
    port.limit = 10
    crowded = []
    port.on_crowded = lambda: crowded.append(1)
    for n in range(100):
        port.push_delivery(delivery(n))
    assert not crowded


async def test_crowded_and_drained():
    line = Line()
    port = port_over(line)
    port.paused = True
    port.limit = 4
    events = []
    port.on_crowded = lambda: events.append(f"crowded at {port.queue_len}")
    port.on_drained = lambda: events.append("drained")
    for n in range(4):
        port.push_delivery(delivery(n))
        port.tell(SETTLED)
    assert events == []
    port.push_delivery(delivery(4))
    assert events == ["crowded at 5"]
    port.resume()
    assert events == ["crowded at 5", "drained"]


def dropped_frame(count: int, *groups: tuple[tuple[int, ...], int]) -> bytes:
    return encode(FrameKind.DROPPED, Dropped(count, groups))


async def test_the_oldest_delivery_goes_and_control_messages_stay():
    """The client is told of the drop at its place in the order, before anything later."""
    line = Line()
    port = port_over(line)
    port.paused = True
    port.limit = 2
    port.on_crowded = port.drop_oldest
    port.tell(SETTLED)
    for n in (1, 2, 1, 3, 4):
        port.push_delivery(delivery(n))
    port.tell(SETTLED)
    assert (port.queue_len, port.dropped) == (2, 3)
    port.resume()
    told = dropped_frame(3, ((1,), 2), ((2,), 1))
    assert (
        b"".join(line.transport.writes)
        == told + SETTLED_FRAME + delivery(3) + delivery(4) + SETTLED_FRAME
    )
    port.push_delivery(delivery(5))
    port.flush()
    assert line.transport.writes[-1] == delivery(5)  # it is told once


async def test_many_groups_of_subscriptions_are_not_told_apart():
    line = Line()
    port = port_over(line)
    port.paused = True
    port.limit = 1
    port.on_crowded = port.drop_oldest
    for n in range(MOST_GROUPS + 51):
        port.push_delivery(delivery(n))
    assert not port.empty
    port.resume()
    groups = [((n,), 1) for n in range(MOST_GROUPS)]
    told = dropped_frame(MOST_GROUPS + 50, *groups)
    assert b"".join(line.transport.writes) == told + delivery(MOST_GROUPS + 50)
    assert port.empty


async def test_dropping_takes_no_longer_where_many_messages_wait():
    """No message is looked at twice."""
    port = port_over(Line())
    port.paused = True
    port.limit = 1
    port.on_crowded = port.drop_oldest
    looked_at = 0
    is_delivery = NativePort.is_delivery

    class Counting(NativePort):
        __slots__ = ()

        def is_delivery(self, frame: bytes) -> bool:
            nonlocal looked_at
            looked_at += 1
            return is_delivery(self, frame)

    port.__class__ = Counting
    for _ in range(1000):
        port.tell(SETTLED)
    for n in range(1001):
        port.push_delivery(delivery(n))
    assert (port.queue_len, port.dropped, looked_at) == (1, 1000, 2000)


async def test_nobody_acknowledges_what_was_not_sent():
    line = Line()
    port = port_over(line, keeps=True)
    port.push_delivery(delivery(1))
    port.flush()
    port.acknowledged(1)
    with pytest.raises(ProtocolError, match="frame 2, but only 1 were sent"):
        port.acknowledged(2)
    port.detach()
    with pytest.raises(
        ProtocolError, match="claims to have 0 frames, but it was sent 1, and has acknowledged 1"
    ):
        port.check(0)


async def test_without_a_line_nothing_is_granted_and_nobody_told():
    line = Line()
    port = port_over(line, keeps=True)
    port.detach()
    port.grant(5)
    port.close("nobody hears it")
    attach(port, again := Line())
    port.flush()
    assert (again.transport.writes, line.closings) == ([], [])


async def test_of_what_overtakes_only_credit_goes_with_the_line():
    port = port_over(Line(), keeps=True)
    port.paused = True
    refused = Refused(0, "no", ("p", 1))
    port.tell(refused)
    port.grant(5)
    port.detach()
    attach(port, again := Line())
    port.flush()
    assert again.transport.writes == [encode(FrameKind.CONTROL, refused)]
    port.acknowledged(1)


class Client:
    """What one client has received of a port, over several connections: numbers of deliveries,
    "settled" and ("dropped", how many). `taken`: how many frames."""

    def __init__(self) -> None:
        self.has: list[object] = []
        self.taken = 0

    def take(self, written: list[bytes], count: int) -> None:
        """Take the first `count` frames of what was written to a connection; the others are lost
        with it."""
        frames = FrameReader()
        for kind, payload in list(frames.feed(b"".join(written)))[:count]:
            if kind == FrameKind.CREDIT:
                continue
            self.taken += 1
            if kind == FrameKind.DELIVER:
                self.has.append(payload[-1])
            elif kind == FrameKind.DROPPED:
                self.has.append(("dropped", decode_dropped(payload).count))
            else:
                self.has.append("settled")


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.integers(1, 5)),
        st.tuples(st.just("tell"), st.just(0)),
        st.tuples(st.just("grant"), st.integers(1, 5)),
        st.tuples(st.just("flush"), st.integers(0, 3)),
        st.tuples(st.just("acknowledge"), st.integers(0, 20)),
        st.tuples(st.just("cut"), st.integers(0, 30)),
        st.tuples(st.just("come_back"), st.just(0)),
    ),
    max_size=40,
)


class Story:
    """A port, and a client whose connection breaks now and then."""

    def __init__(self, limit: int) -> None:
        self.line: Line | None = Line()
        self.port = port_over(self.line, keeps=True)
        self.port.limit, self.port.on_crowded = limit, self.port.drop_oldest
        self.client, self.pushed, self.told = Client(), 0, 0

    def deliver(self, count: int) -> None:
        for _ in range(count):
            self.pushed += 1
            self.port.push_delivery(encode_deliver((1,), bytes([self.pushed % 256])))

    def tell(self, _: int) -> None:
        self.told += 1
        self.port.tell(SETTLED)

    def grant(self, count: int) -> None:
        self.port.grant(count)

    def flush(self, room: int) -> None:
        """Let the socket take `writes` writes."""
        if self.line is not None:
            self.line.transport.room, self.port.paused = room, room == 0
            self.port.flush()

    def acknowledge(self, _: int) -> None:
        """Let the client take everything that was written, and acknowledge it."""
        if self.line is not None:
            self.client.take(self.line.transport.writes, 1000)
            self.line.transport.writes.clear()
            self.port.acknowledged(self.client.taken)

    def cut(self, count: int) -> None:
        """Break the connection when the client has taken `count` of the frames written."""
        if self.line is not None:
            self.line.transport.closing = True
            self.port.detach()
            self.client.take(self.line.transport.writes, count)
            self.line = None

    def come_back(self, _: int) -> None:
        if self.line is None:
            self.line = Line()
            self.port.again_from(self.client.taken)
            attach(self.port, self.line)


class WeighedStory(Story):
    """A story whose port also gets batches, and is weighed now and then."""

    def batch(self, count: int) -> None:
        frames = [encode_deliver((1,), b"x" * size) for size in range(1, count + 1)]
        self.port.push_batch(Batch(b"".join(frames), count))

    def withdraw(self, size: int) -> None:
        """Let the client see only bodies below this size."""
        self.port.withdraw(lambda body: len(body) < size)

    def weigh(self, _: int) -> None:
        port = self.port
        waiting = sum(len(item if isinstance(item, bytes) else item.data) for item in port._frames)
        assert port.queue_bytes == waiting
        unacknowledged = sum(map(len, port._unacknowledged()))
        more = port.held_bytes - waiting - sum(map(len, port._resend)) - unacknowledged
        assert more >= 0  # of a write that is acknowledged in part
        if not port._sent_sizes:
            assert more == 0


WEIGHED_STEPS = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["deliver", "batch", "withdraw"]), st.sampled_from([1, 5, 700])),
        st.tuples(st.sampled_from(["tell", "weigh", "acknowledge", "come_back"]), st.just(0)),
        st.tuples(st.just("flush"), st.integers(0, 3)),
        st.tuples(st.just("cut"), st.integers(0, 30)),
    ),
    max_size=40,
)


@given(WEIGHED_STEPS, st.sampled_from([3, 900, 100_000]))
def test_a_port_knows_how_many_bytes_it_keeps(script: list[tuple[str, int]], limit: int) -> None:
    asyncio.run(_weigh(script, limit))


async def _weigh(script: list[tuple[str, int]], limit: int) -> None:
    story = WeighedStory(limit)
    for step, n in script:
        getattr(story, step)(n)
    story.weigh(0)


@given(STEPS, st.sampled_from([3, 1000]))
def test_whatever_is_cut_everything_comes_once_and_in_order(
    script: list[tuple[str, int]], limit: int
) -> None:
    asyncio.run(_tell(script, limit))


async def _tell(script: list[tuple[str, int]], limit: int) -> None:
    story = Story(limit)
    for step, n in script:
        getattr(story, step)(n)
    story.come_back(0)
    story.flush(1000)
    story.acknowledge(0)
    has = story.client.has
    came = [each for each in has if isinstance(each, int)]
    lost = sum(each[1] for each in has if isinstance(each, tuple))
    assert came == sorted(set(came))
    assert len(came) + lost == story.pushed
    assert lost == story.port.dropped
    assert has.count("settled") == story.told
    if limit == 1000:
        assert lost == 0

"""What waits to be written, over a transport that is a list."""

from __future__ import annotations

import asyncio

from reefcast.model.wire import Dropped, FrameKind, encode, encode_deliver
from reefcast.server.outbox import FRAMES_PER_WRITE, MOST_GROUPS, Flusher, Outbox

CONTROL = encode(FrameKind.CONTROL, 1)


class Transport:
    """Takes `room` writes, then pauses the outbox."""

    def __init__(self) -> None:
        self.writes: list[bytes] = []
        self.room = 1_000_000
        self.outbox: Outbox | None = None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        self.writes.append(data)
        self.room -= 1
        if self.room <= 0 and self.outbox is not None:
            self.outbox.paused = True


def outbox_over(transport: Transport) -> Outbox:
    outbox = Outbox(transport, Flusher(asyncio.get_running_loop()))
    transport.outbox = outbox
    return outbox


def delivery(number: int) -> bytes:
    return encode_deliver((number,), b"body")


async def test_one_write_for_all_frames_of_a_turn():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.push_data(delivery(1))
    outbox.push_control(CONTROL)
    outbox.push_data(delivery(2))
    assert transport.writes == []
    await asyncio.sleep(0)
    assert transport.writes == [delivery(1) + CONTROL + delivery(2)]


async def test_urgent_frames_overtake():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.push_data(delivery(1))
    outbox.push_urgent(b"urgent")
    await asyncio.sleep(0)
    assert b"".join(transport.writes) == b"urgent" + delivery(1)


async def test_a_long_queue_goes_in_slices_until_the_socket_has_enough():
    transport = Transport()
    outbox = outbox_over(transport)
    transport.room = 2
    for n in range(3 * FRAMES_PER_WRITE):
        outbox.push_data(delivery(n))
    await asyncio.sleep(0)
    assert len(transport.writes) == 2
    assert outbox.queue_len == FRAMES_PER_WRITE
    transport.room = 100
    outbox.resume()
    assert outbox.empty
    assert b"".join(transport.writes) == b"".join(delivery(n) for n in range(3 * FRAMES_PER_WRITE))


async def test_a_burst_that_the_socket_takes_is_not_a_full_queue():
    outbox = outbox_over(Transport())
    outbox.limit = 10
    crowded = []
    outbox.on_crowded = lambda: crowded.append(1)
    for n in range(100):
        outbox.push_data(delivery(n))
    assert not crowded


async def test_crowded_and_drained():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.paused = True
    outbox.limit = 4
    events = []
    outbox.on_crowded = lambda: events.append(f"crowded at {outbox.queue_len}")
    outbox.on_drained = lambda: events.append("drained")
    for n in range(4):
        outbox.push_data(delivery(n))
        outbox.push_control(CONTROL)
    assert events == []
    outbox.push_data(delivery(4))
    assert events == ["crowded at 5"]
    outbox.resume()
    assert events == ["crowded at 5", "drained"]


def dropped_frame(count: int, *groups: tuple[tuple[int, ...], int]) -> bytes:
    return encode(FrameKind.DROPPED, Dropped(count, groups))


async def test_the_oldest_delivery_goes_and_control_messages_stay():
    """What was dropped is told where it would have come, and before what tells of later things."""
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.paused = True
    outbox.limit = 2
    outbox.on_crowded = outbox.drop_oldest
    outbox.push_control(CONTROL)
    for n in (1, 2, 1, 3, 4):
        outbox.push_data(delivery(n))
    outbox.push_control(CONTROL)
    assert (outbox.queue_len, outbox.dropped) == (2, 3)
    outbox.resume()
    told = dropped_frame(3, ((1,), 2), ((2,), 1))
    assert b"".join(transport.writes) == told + CONTROL + delivery(3) + delivery(4) + CONTROL
    outbox.push_data(delivery(5))
    outbox.flush()
    assert transport.writes[-1] == delivery(5)  # it is told once


async def test_many_groups_of_subscriptions_are_not_told_apart():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.paused = True
    outbox.limit = 1
    outbox.on_crowded = outbox.drop_oldest
    for n in range(MOST_GROUPS + 51):
        outbox.push_data(delivery(n))
    assert not outbox.empty
    outbox.resume()
    groups = [((n,), 1) for n in range(MOST_GROUPS)]
    told = dropped_frame(MOST_GROUPS + 50, *groups)
    assert b"".join(transport.writes) == told + delivery(MOST_GROUPS + 50)
    assert outbox.empty


async def test_dropping_takes_no_longer_where_many_control_messages_wait():
    """Nothing is looked at twice."""
    outbox = outbox_over(Transport())
    outbox.paused = True
    outbox.limit = 1
    outbox.on_crowded = outbox.drop_oldest
    looked_at = 0

    class Frame(bytes):
        def __getitem__(self, at):
            nonlocal looked_at
            looked_at += 1
            return super().__getitem__(at)

    for _ in range(1000):
        outbox.push_control(Frame(CONTROL))
    for n in range(1001):
        outbox.push_data(delivery(n))
    assert (outbox.queue_len, outbox.dropped, looked_at) == (1, 1000, 1000)

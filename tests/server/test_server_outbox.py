"""What waits to be written, over a transport that is a list."""

from __future__ import annotations

import asyncio

from transports import Transport

from reefcast.server.outbox import FRAMES_PER_WRITE, Flusher, Outbox


def outbox_over(transport: Transport) -> Outbox:
    outbox = Outbox(transport, Flusher(asyncio.get_running_loop()))
    transport.outbox = outbox
    return outbox


async def test_one_write_for_all_frames_of_a_turn():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.push_data(b"1")
    outbox.push_data(b"2")
    assert transport.writes == []
    await asyncio.sleep(0)
    assert transport.writes == [b"12"]


async def test_urgent_frames_overtake():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.push_data(b"1")
    outbox.push_urgent(b"urgent")
    await asyncio.sleep(0)
    assert b"".join(transport.writes) == b"urgent1"


async def test_a_long_queue_goes_in_slices_until_the_socket_has_enough():
    transport = Transport()
    outbox = outbox_over(transport)
    transport.room = 2
    for _ in range(3 * FRAMES_PER_WRITE):
        outbox.push_data(b"x")
    await asyncio.sleep(0)
    assert len(transport.writes) == 2
    assert outbox.waits
    transport.room = 100
    outbox.resume()
    assert not outbox.waits
    assert b"".join(transport.writes) == b"x" * 3 * FRAMES_PER_WRITE


async def test_nothing_is_written_to_a_connection_that_is_gone():
    transport = Transport()
    outbox = outbox_over(transport)
    outbox.push_data(b"1")
    outbox.discard()
    outbox.push_data(b"2")
    await asyncio.sleep(0)
    assert transport.writes == []

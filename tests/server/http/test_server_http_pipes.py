"""Connections within a process: they behave as those of TCP do."""

from __future__ import annotations

import asyncio
import random

import pytest

from reefcast.server.http.pipes import HIGH_BYTES, Pipe, pipe


class End(asyncio.Protocol):
    """Notes what happens to it."""

    def __init__(self) -> None:
        self.read = b""
        self.paused = False
        self.lost = 0

    def data_received(self, data: bytes) -> None:
        assert data and not self.lost
        self.read += data

    def pause_writing(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_writing(self) -> None:
        assert self.paused
        self.paused = False

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost += 1


def connected() -> tuple[Pipe, End, Pipe, End]:
    near, far = pipe({"peername": ("10.0.0.1", 5)})
    one, other = End(), End()
    far.begin(other)
    near.begin(one)
    assert far.get_extra_info("peername") == ("10.0.0.1", 5)
    assert near.get_extra_info("peername") is None
    return near, one, far, other


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_bytes_keep_their_order_and_come_in_another_turn() -> None:
    near, one, far, other = connected()
    near.write(b"a")
    near.write(b"b")
    far.write(b"c")
    assert (one.read, other.read, near.get_write_buffer_size()) == (b"", b"", 2)
    await turns()
    assert (one.read, other.read, near.get_write_buffer_size()) == (b"c", b"ab", 0)


async def test_who_reads_nothing_pauses_who_writes() -> None:
    near, one, far, other = connected()
    far.pause_reading()
    near.write(bytes(HIGH_BYTES))
    assert not one.paused
    near.write(b"1")
    assert one.paused
    await turns()
    assert not other.read
    far.resume_reading()
    await turns()
    assert (len(other.read), one.paused) == (HIGH_BYTES + 1, False)


async def test_what_was_written_before_the_end_arrives() -> None:
    near, one, far, other = connected()
    far.pause_reading()
    near.write(b"last words")
    near.close()
    near.write(b"too late")
    assert near.is_closing()
    await turns()
    assert (one.lost, other.lost, other.read) == (1, 0, b"")
    far.resume_reading()
    await turns()
    assert (other.read, other.lost) == (b"last words", 1)


async def test_who_aborts_takes_back_what_was_not_read() -> None:
    near, one, _, other = connected()
    near.write(b"x")
    near.abort()
    await turns()
    assert (other.read, one.lost, other.lost) == (b"", 1, 1)


@pytest.mark.parametrize("seed", range(30))
async def test_any_order_of_things(seed: int) -> None:
    """Each end has what the other one wrote, and learns of the end once."""
    rng = random.Random(seed)
    near, one, far, other = connected()
    ends = [(near, one, other), (far, other, one)]
    written = {near: b"", far: b""}
    for _ in range(200):
        transport, _, _ = rng.choice(ends)
        wish = rng.random()
        if wish < 0.6:
            data = rng.randbytes(rng.choice((1, 10, HIGH_BYTES // 3)))
            if not transport.is_closing() and not transport.other._lost:
                written[transport] += data
            transport.write(data)
        elif wish < 0.75:
            transport.pause_reading()
        elif wish < 0.9:
            transport.resume_reading()
        else:
            await turns(1)
    near.close()
    for transport, _, _ in ends:
        transport.resume_reading()
    await turns(5)
    assert other.read == written[near]
    assert written[far].startswith(one.read)
    assert (one.lost, other.lost) == (1, 1)

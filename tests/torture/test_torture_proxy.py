"""The proxy does what it says, to the byte."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from live_networks import PATIENCE_S, until
from torture.proxy import Proxy


class Listener:
    """A server that records what comes, and can answer."""

    def __init__(self) -> None:
        self.came = b""
        self.ends = self.breaks = 0
        self.writers: list[asyncio.StreamWriter] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        try:
            while data := await reader.read(1000):
                self.came += data
            self.ends += 1
        except ConnectionError:
            self.breaks += 1


Way = tuple[Proxy, Listener, asyncio.StreamReader, asyncio.StreamWriter]


@pytest.fixture
async def way() -> AsyncIterator[Way]:
    """Yield a connection through a proxy."""
    listener = Listener()
    server = await asyncio.start_server(listener.serve, "127.0.0.1", 0)
    proxy = Proxy(server.sockets[0].getsockname()[:2])
    await proxy.start()
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    await until(lambda: listener.writers)
    yield proxy, listener, reader, writer
    await proxy.stop()
    server.close()
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def read(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(PATIENCE_S):
        return await reader.read(1000)


async def test_it_passes_both_ways_and_the_end(way: Way) -> None:
    _, listener, reader, writer = way
    writer.write(b"there")
    await until(lambda: listener.came == b"there")
    listener.writers[0].write(b"back")
    assert await read(reader) == b"back"
    writer.close()
    await until(lambda: listener.ends == 1)


async def test_what_hangs_passes_later_and_in_order(way: Way) -> None:
    proxy, listener, reader, writer = way
    proxy.hang(True)
    writer.write(b"a" * 100_000)
    listener.writers[0].write(b"back")
    again = asyncio.create_task(asyncio.open_connection("127.0.0.1", proxy.port))
    await again  # the kernel answers; the other end hears nothing of it
    await asyncio.sleep(0.05)
    assert listener.came == b"" and len(listener.writers) == 1
    writer.write(b"b")
    proxy.hang(False)
    await until(lambda: listener.came == b"a" * 100_000 + b"b")
    assert await read(reader) == b"back"
    await until(lambda: len(listener.writers) == 2)
    again.result()[1].close()


async def test_it_cuts_after_any_byte(way: Way) -> None:
    proxy, listener, reader, writer = way
    proxy.cut_after(7, forward=True)
    writer.write(b"0123")
    await until(lambda: listener.came == b"0123")
    writer.write(b"456789")
    await until(lambda: listener.ends + listener.breaks == 1)
    assert listener.came == b"0123456" and proxy.cuts == 1
    with suppress(ConnectionError):
        assert await read(reader) == b""


async def test_it_cuts_the_other_direction(way: Way) -> None:
    proxy, listener, reader, writer = way
    proxy.cut_after(3, forward=False)
    writer.write(b"this passes")
    await until(lambda: listener.came == b"this passes")
    listener.writers[0].write(b"45678")
    assert await read(reader) == b"456"
    with suppress(ConnectionError):
        assert await read(reader) == b""


async def test_a_half_closed_connection_goes_on_in_the_other_direction(way: Way) -> None:
    proxy, listener, reader, writer = way
    proxy.half_close(forward=False)
    assert await read(reader) == b""
    writer.write(b"still there")
    await until(lambda: listener.came == b"still there")


async def test_what_is_delayed_comes_later_and_in_order(way: Way) -> None:
    proxy, listener, _, writer = way
    loop = asyncio.get_running_loop()
    proxy.delay_s = 0.05
    sent_s = loop.time()
    for letter in b"abc":
        writer.write(bytes([letter]))
        await asyncio.sleep(0.005)
    await until(lambda: listener.came == b"abc")
    assert loop.time() - sent_s >= 0.05


async def test_a_reset_breaks_both_ends_and_new_ones_are_refused(way: Way) -> None:
    proxy, listener, reader, _ = way
    proxy.refuses = True
    proxy.reset()
    await until(lambda: listener.ends + listener.breaks == 1)
    with suppress(ConnectionError):
        assert await read(reader) == b""
    again, other = await asyncio.open_connection("127.0.0.1", proxy.port)
    with suppress(ConnectionError):
        assert await read(again) == b""
    other.close()
    assert len(listener.writers) == 1 and not proxy.pairs

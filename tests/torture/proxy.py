"""A TCP proxy that does to a connection what networks do: hang, cut, half close, delay, reset.

It stands between two brokers; a connection is a `Pair` of ends, one towards the dialling broker and
one towards the dialled one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import cast


class EndOfPair(asyncio.Protocol):
    """One end of a connection; what arrives here goes to `other`."""

    other: EndOfPair

    def __init__(self, proxy: Proxy, pair: Pair) -> None:
        self._proxy = proxy
        self._pair = pair
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()
        self._ended = self._over = self._said_end = False
        self._loop = asyncio.get_running_loop()
        self.paused = False
        self.left: int | None = None

    # --- from this end ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport = cast(asyncio.Transport, transport)
        if self._over:
            transport.abort()
            return
        self.hold(self._proxy.hangs)
        self._write_due()

    def data_received(self, data: bytes) -> None:
        if self.left is not None:
            data, self.left = data[: self.left], self.left - len(data)
        self.other.put(data)
        if self.left is not None and self.left <= 0:
            self._proxy.cuts += 1
            self._pair.close()

    def eof_received(self) -> bool:
        self.other.put(b"")
        return True

    def connection_lost(self, _: Exception | None) -> None:
        self._over = True
        self.other.put(b"")
        self.other.finish()
        self._proxy.pairs.discard(self._pair)

    def pause_writing(self) -> None:
        self.other.hold_reading(True)

    def resume_writing(self) -> None:
        self.other.hold_reading(self._proxy.hangs)

    # --- to this end ------------------------------------------------------------------------------

    def put(self, data: bytes) -> None:
        """Write data after the proxy's delay; no data means the end."""
        self._waiting.append((self._loop.time() + self._proxy.delay_s, data))
        if self._proxy.delay_s:
            self._loop.call_later(self._proxy.delay_s, self._write_due)
        self._write_due()

    def _write_due(self) -> None:
        transport = self._transport
        if transport is None or self.paused:
            return
        now_s = self._loop.time() + 0.001
        while self._waiting and (self._waiting[0][0] <= now_s or not self._proxy.delay_s):
            _, data = self._waiting.popleft()
            if not (data or self._said_end or transport.is_closing()):
                self._said_end = True
                with suppress(OSError):  # reset by the other side meanwhile
                    transport.write_eof()
            elif data and not (self._said_end or transport.is_closing()):
                transport.write(data)
        if self._ended and not self._waiting:
            transport.close()

    def finish(self) -> None:
        """End this side when what waits has been written."""
        self._ended = True
        self._write_due()

    # --- faults -----------------------------------------------------------------------------------

    def hold(self, held: bool) -> None:
        """Stop reading and writing while `held` is set."""
        self.paused = held
        self.hold_reading(held)
        self._write_due()

    def hold_reading(self, held: bool) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        if held:
            transport.pause_reading()
        else:
            transport.resume_reading()

    def half_close(self) -> None:
        """Tell this end that nothing more comes; it may go on to send."""
        self.put(b"")

    def abort(self) -> None:
        self._over = True
        if self._transport is not None:
            self._transport.abort()

    def close(self) -> None:
        """Close this end; what was passed on so far arrives."""
        self._over = True
        if self._transport is not None:
            self._transport.close()


class Pair:
    """One connection through the proxy."""

    def __init__(self, proxy: Proxy) -> None:
        self.near, self.far = EndOfPair(proxy, self), EndOfPair(proxy, self)
        self.near.other, self.far.other = self.far, self.near

    @property
    def ends(self) -> tuple[EndOfPair, EndOfPair]:
        return self.near, self.far

    def abort(self) -> None:
        for end in self.ends:
            end.abort()

    def close(self) -> None:
        for end in self.ends:
            end.close()


class Proxy:
    """A proxy from whoever dials `port` to `target`. `hangs`: nothing passes, but nothing breaks;
    `refuses`: new connections are reset; `delay_s`: that of each piece; `cuts`: how often
    `cut_after` has cut."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.port = 0
        self.hangs = self.refuses = False
        self.delay_s = 0.0
        self.cuts = 0
        self.pairs: set[Pair] = set()
        self._dialling: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    def _accept(self) -> EndOfPair:
        pair = Pair(self)
        self.pairs.add(pair)
        task = asyncio.get_running_loop().create_task(self._connect(pair))
        self._dialling.add(task)
        task.add_done_callback(self._dialling.discard)
        return pair.near

    async def _connect(self, pair: Pair) -> None:
        while self.hangs:  # noqa: ASYNC110 (a flag that is looked at here only)
            await asyncio.sleep(0.01)
        if self.refuses:
            pair.abort()
            self.pairs.discard(pair)
            return
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: pair.far, *self.target)
        except OSError:
            pair.abort()
            self.pairs.discard(pair)

    # --- faults -----------------------------------------------------------------------------------

    def hang(self, hangs: bool) -> None:
        self.hangs = hangs
        for pair in list(self.pairs):
            for end in pair.ends:
                end.hold(hangs)

    def reset(self) -> None:
        """Break all connections at once; what is under way is lost."""
        for pair in list(self.pairs):
            pair.abort()

    def cut_after(self, count: int, *, forward: bool) -> None:
        """Close each connection when so many more bytes have passed in one direction."""
        for pair in self.pairs:
            (pair.near if forward else pair.far).left = count

    def half_close(self, *, forward: bool) -> None:
        for pair in list(self.pairs):
            (pair.far if forward else pair.near).half_close()

    async def stop(self) -> None:
        self.hangs, self.refuses = False, True
        if self._server is not None:
            self._server.close()
        for task in self._dialling:
            task.cancel()
        await asyncio.gather(*self._dialling, return_exceptions=True)
        self.reset()

"""One connection to a broker: bytes in and out, the hello, silence. It knows nothing of events."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, cast

from reefcast.client.address import Address
from reefcast.errors import (
    ConnectionLostError,
    ProtocolError,
    RefusedError,
    SlowConsumerError,
)
from reefcast.model import wire
from reefcast.model.versions import Agreed, agree
from reefcast.model.wire import FrameKind, FrameReader, Goodbye, Hello

TICKS_OF_SILENCE = 10
WRITE_BUFFER_BYTES = 256 * 1024


class Handler(NamedTuple):
    """What the user of the connection has it call. `on_hello` comes first; an exception of it or of
    `on_frames` ends the connection. `silence_s`: seconds without a word after which it is lost."""

    on_hello: Callable[[Hello, Connection], None]
    on_frames: Callable[[Iterable[tuple[int, bytes]]], None]
    on_writable: Callable[[], None]
    silence_s: float


class Connection(asyncio.Protocol):
    """`opened` is done after the broker's hello; `lost` when the connection is gone, with None if
    another attempt is worth it, else with the error that must end the client. `reason` says then
    why it went."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader()
        self._transport: asyncio.Transport | None = None
        self._reading = True
        self._heard, self._silent_ticks = True, 0
        self._wrote_at_s = self._loop.time()
        self._goodbye: Goodbye | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.writable = True
        self.reason = ""
        self.agreed = Agreed(0, frozenset())
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[Exception | None] = self._loop.create_future()

    # --- called by the client ---------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self._wrote_at_s = self._loop.time()
            self._transport.write(data)

    def read(self, on: bool) -> None:
        """Goes on reading, or stops."""
        if self._transport is None or self._reading is on or self._transport.is_closing():
            return
        self._reading = on
        if on:
            self._silent_ticks = 0
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def close(self) -> None:
        """Sends what is buffered, then closes."""
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception | None = None, reason: str = "") -> None:
        """Closes at once; with `error` if no other attempt makes sense."""
        self._finish(error, reason)
        if self._transport is not None:
            self._transport.abort()

    # --- called by the loop -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        self._watch_silence()

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return
        self._heard = True
        try:
            frames = self._until_goodbye(self._reader.feed(data))
            if not self.opened.done():
                self._expect_hello(frames)
            self._handler.on_frames(frames)
        except Exception as error:  # the protocol was broken, or the application's receiver failed
            self.abort(error)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None  # uvloop raises if a transport that is gone is written to
        if self._timer is not None:
            self._timer.cancel()
        goodbye = self._goodbye
        if goodbye is None or goodbye.retry:
            self._finish(None, goodbye.reason if goodbye else str(error or "end of stream"))
        elif goodbye.too_slow:
            self._finish(SlowConsumerError(f"the broker ended the connection: {goodbye.reason}"))
        elif self.opened.done():
            self._finish(ConnectionLostError(f"the broker ended the connection: {goodbye.reason}"))
        else:
            self._finish(RefusedError(f"the broker refused the connection: {goodbye.reason}"))

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._handler.on_writable()

    # --- inside -----------------------------------------------------------------------------------

    def _expect_hello(self, frames: Iterator[tuple[int, bytes]]) -> None:
        for kind, payload in frames:
            if kind != FrameKind.HELLO:
                raise ProtocolError(f"the broker's first frame is of kind {kind}, not a hello")
            self.agreed = agree(wire.OFFER, wire.decode_offer(payload))
            self._handler.on_hello(wire.decode_hello(payload), self)
            self.opened.set_result(None)
            return

    def _until_goodbye(self, frames: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, bytes]]:
        for kind, payload in frames:
            if kind == FrameKind.GOODBYE:
                self._goodbye = wire.decode_goodbye(payload)
                self.close()
                return
            yield kind, payload

    def _finish(self, error: Exception | None, reason: str = "") -> None:
        if not self.lost.done():
            self.reason = reason or str(error or "")
            self.lost.set_result(error)
        if not self.opened.done():
            closed = ConnectionLostError(f"the broker closed the connection: {reason}")
            self.opened.set_exception(error or closed)

    def _watch_silence(self) -> None:
        """Says something if nothing was said for a while, and gives up a broker that is silent,
        unless it is we who do not listen. Ticks are counted, not seconds: a program that was busy
        with something else does not blame the broker."""
        silence_s = self._handler.silence_s
        self._silent_ticks = 0 if self._heard or not self._reading else self._silent_ticks + 1
        self._heard = False
        if self._silent_ticks >= TICKS_OF_SILENCE:
            self.abort(reason=f"it said nothing for {silence_s:g} s")
            return
        if self.opened.done() and self._loop.time() - self._wrote_at_s >= wire.PING_INTERVAL_S:
            self.write(wire.encode(FrameKind.PING, 0))
        self._timer = self._loop.call_later(silence_s / TICKS_OF_SILENCE, self._watch_silence)


async def open_connection(
    address: Address, handler: Handler, hello: bytes, timeout_s: float
) -> Connection:
    """Connects, says hello and waits for the broker's; all that within `timeout_s`.

    Raises `OSError`, `TimeoutError` or `ConnectionLostError` where another attempt may help, and
    `RefusedError`, `SlowConsumerError` or `ProtocolError` where it will not.
    """
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(timeout_s):
        _, connection = await loop.create_connection(
            lambda: Connection(handler), address.host, address.port
        )
        try:
            connection.write(hello)
            await connection.opened
        except BaseException:
            connection.abort()
            raise
    return connection

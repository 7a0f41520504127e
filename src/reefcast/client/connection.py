"""One connection to a broker: a link (`protocol.link`) on a socket. It knows nothing of events."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import Any, NamedTuple, cast

from reefcast.client.address import Address
from reefcast.client.secure import Security
from reefcast.errors import (
    ConfigurationError,
    ConnectionLostError,
    ReefcastError,
    RefusedError,
    SlowConsumerError,
    TlsError,
)
from reefcast.model import wire
from reefcast.model.wire import Close, FrameKind, Hello
from reefcast.protocol.link import Link, Overdue
from reefcast.protocol.proofs import Answer, Credentials, Respondent, encode_proof
from reefcast.security.showing import circumstances
from reefcast.tls.wording import in_words, of_tls

WRITE_BUFFER_BYTES = 256 * 1024
ACK_EVERY, ACK_EVERY_BYTES, ACK_DELAY_S = 1024, 256 * 1024, 1.0
"""How often frames from the broker are acknowledged. An acknowledgement only lets the broker forget
them: after a reconnect, the hello says which frames have arrived. It costs a broker 5 us, which
should be little beside the deliveries."""
Connect = Callable[..., Awaitable[tuple[Any, Any]]]
"""What connects, with the arguments and the result of `loop.create_connection`."""
_DELIVER = int(FrameKind.DELIVER)
_log = logging.getLogger("reefcast.client")


class Handler(NamedTuple):
    """The callbacks of a connection. `on_hello` comes first; if it or `on_frames` raises, the
    connection ends. `taken`: the number of numbered frames processed from this broker. `silence_s`:
    seconds of silence after which the connection is lost. `credentials`: what is shown to brokers
    that ask who the client is. `on_elsewhere`: called with the brokers that this one names instead
    of itself (`Close.elsewhere`)."""

    on_hello: Callable[[Hello, Connection], None]
    on_frames: Callable[[Iterable[tuple[int, Any]]], None]
    on_writable: Callable[[], None]
    taken: Callable[[], int]
    silence_s: float
    credentials: Credentials
    on_elsewhere: Callable[[tuple[str, ...]], None] = lambda brokers: None


class Connection(asyncio.Protocol):
    """`hello`: what the client says first. `opened` is done after the broker's hello; `lost` when
    the connection is gone, with None if another attempt is worthwhile, else with the error that
    must end the client. `reason` then says why it is gone. `secure`: the address of the broker, if
    there is TLS."""

    def __init__(self, handler: Handler, hello: Hello, secure: Address | None = None) -> None:
        self._handler = handler
        self._hello = hello
        self._secure = secure
        self._loop = asyncio.get_running_loop()
        self.link = Link(
            self.write, answer=self._answer, ack_every=ACK_EVERY, ack_delay_s=ACK_DELAY_S
        )
        self._unacknowledged_bytes = 0
        self._transport: asyncio.Transport | None = None
        self._respondent: Respondent
        self._answering: asyncio.Task[None] | None = None
        self._close_frame: Close | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._numbered = False
        self.writable = True
        self.reason = ""
        self.opened: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[Exception | None] = self._loop.create_future()

    @property
    def closed(self) -> bool:
        """Whether the broker has said that it closes the connection."""
        return self._close_frame is not None

    # --- called by the client ---------------------------------------------------------------------

    def write(self, data: bytes) -> None:
        if self._transport is not None and data:
            self.link.wrote = True
            self._transport.write(data)

    def read(self, on: bool) -> None:
        """Resume reading from the socket, or pause it."""
        gone = self._transport is None or self._transport.is_closing() or self.link.over
        if self._transport is None or gone or self.link.listening is on:
            return
        self.link.listening = on
        if on:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    def close(self, reason: str) -> None:
        """Send CLOSE, and disconnect when the broker has closed the connection or after `LINGER_S`.
        Closing a socket with unread data resets it, maybe before the broker has read the CLOSE."""
        if self._transport is None or self.link.over:
            self._close_transport()
            return
        self.write(self.link.close(Close(reason), self._loop.time()))
        if not self._transport.is_closing():
            self._transport.resume_reading()
        self._set_timer()

    def _close_transport(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self, error: Exception | None = None, reason: str = "") -> None:
        """Disconnect at once; pass `error` if it makes no sense to try again."""
        self._finish(error, reason)
        if self._transport is not None:
            self._transport.abort()

    # --- called by the loop -----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_BYTES)
        shown = transport.get_extra_info
        self._known = shown("ssl_object") is not None
        self._respondent = Respondent(self._handler.credentials, circumstances(self._hello, shown))

    def data_received(self, data: bytes) -> None:
        if self.lost.done():
            return
        try:
            frames = self._heard(self.link.receive(data))
            if not self.opened.done():
                self._expect_hello(frames)
            self._handler.on_frames(frames)
            if self._numbered:
                self._acknowledge(len(data))
        except Exception as error:  # the protocol was broken, or the application's receiver failed
            self._finish(error)
            self.close("the client has ended by an error")

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None  # uvloop raises if a transport that is gone is written to
        if self._answering is not None:
            self._answering.cancel()
        self.link.lost()
        if self._timer is not None:
            self._timer.cancel()
        close = self._close_frame
        if close is not None and close.elsewhere:
            self._handler.on_elsewhere(close.elsewhere)
        if self._secure and close is None and error is not None and not self.opened.done():
            self._finish(_no_tls(self._secure, error))
        elif close is None or close.retry:
            self._finish(None, close.reason if close else str(error or "end of stream"))
        elif close.too_slow:
            self._finish(SlowConsumerError(f"the broker ended the connection: {close.reason}"))
        elif self.opened.done():
            self._finish(ConnectionLostError(f"the broker ended the connection: {close.reason}"))
        else:
            self._finish(RefusedError(f"the broker refused the connection: {close.reason}"))

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        self._handler.on_writable()

    # --- inside -----------------------------------------------------------------------------------

    def _expect_hello(self, frames: Iterator[tuple[int, Any]]) -> None:
        for _, hello in frames:  # a link passes nothing else before that
            self._respondent.check(hello, known=self._known)
            self._handler.on_hello(hello, self)
            most = wire.MAX_FRAME_BYTES + wire.AROUND_BYTES
            self.link.admit(self._handler.silence_s, wire.PING_INTERVAL_S, self._loop.time(), most)
            self._numbered = wire.RESUME in self.link.agreed.features
            self._set_timer()
            self.opened.set_result(None)
            return

    def _answer(self, question: bytes) -> bytes | None:
        """Answer a broker that asks who the client is, now or, if the answer takes time, later."""
        try:
            answer = self._respondent.respond(question)
        except Exception as error:
            self._not_answered(error)
            return None
        if isinstance(answer, bytes | None):
            return answer
        self._answering = self._loop.create_task(self._answer_later(answer))
        return None

    async def _answer_later(self, answer: Awaitable[Answer]) -> None:
        try:
            self.link.prove(encode_proof(await answer))
        except Exception as error:
            self._not_answered(error)

    def _not_answered(self, error: Exception) -> None:
        """Handle that there is no answer: an open connection goes on as long as the broker lets
        it, and what the network does wrong is worth another attempt."""
        if self.opened.done():
            _log.warning("the broker asks for a newer proof, and there is none: %s", error)
        else:
            again = isinstance(error, OSError | TimeoutError)
            if not isinstance(error, ReefcastError):  # from the program's own function
                reason = f"there is no proof of who this client is: {error!r}"
                error = ConfigurationError(reason)
            self.abort(None if again else error, str(error))

    def _acknowledge(self, size: int) -> None:
        """Acknowledge frames, of which `size` bytes have been handled."""
        link = self.link
        link.taken.count = self._handler.taken()
        self._unacknowledged_bytes += size
        if self._unacknowledged_bytes >= ACK_EVERY_BYTES:
            self._unacknowledged_bytes = 0
            link.acknowledge_now()
        elif link.acknowledge_soon(self._loop.time()):
            self._set_timer()

    def _heard(self, frames: Iterator[tuple[int, bytes]]) -> Iterator[tuple[int, Any]]:
        """Yield the frames for the user, until the broker closes or this end has left."""
        opened, handle = self.opened.done(), self.link.handle
        for kind, payload in frames:
            if opened and kind == _DELIVER:
                yield kind, payload
                continue
            if self.link.over:
                return
            message = handle(kind, payload)
            if kind == FrameKind.CLOSE:
                self._close_frame = message
                self._close_transport()
                return
            if message is not None:
                yield kind, message

    def _finish(self, error: Exception | None, reason: str = "") -> None:
        if not self.lost.done():
            self.reason = reason or str(error or "")
            self.lost.set_result(error)
        if not self.opened.done():
            closed = ConnectionLostError(f"the broker closed the connection: {reason}")
            self.opened.set_exception(error or closed)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self.link.due_s < math.inf:
            self._timer = self._loop.call_at(self.link.due_s, self._time_passed)

    def _time_passed(self) -> None:
        """Send a PING if nothing was sent for a while, and give up a broker that is silent."""
        overdue = self.link.time_passed(self._loop.time())
        if overdue is Overdue.END:
            self.abort()
        elif overdue is Overdue.WORD:
            self.abort(reason=f"it said nothing for {self._handler.silence_s:g} s")
        else:
            self._set_timer()


async def open_connection(
    address: Address,
    handler: Handler,
    hello: Hello,
    timeout_s: float,
    security: Security | None = None,
    connect: Connect | None = None,
) -> Connection:
    """Connect, send the hello and wait for the broker's; all within `timeout_s`. `security`: for an
    address with TLS; `connect`: what connects, if not the loop by TCP.

    Raises `OSError`, `TimeoutError` or `ConnectionLostError` where another attempt may help
    (`TlsError` where somebody must change something first), and `RefusedError`, `SlowConsumerError`
    or `ProtocolError` where it will not.
    """
    loop = asyncio.get_running_loop()
    tls: dict[str, Any] = {}
    if address.tls:
        assert security is not None, "it was made for these addresses"
        tls = security.arguments(timeout_s)
    async with asyncio.timeout(timeout_s):
        try:
            _, connection = await (connect or loop.create_connection)(
                lambda: Connection(handler, hello, address if tls else None),
                address.host,
                address.port,
                **tls,
            )
        except OSError as error:
            if of_tls(error):
                raise _no_tls(address, error) from error
            raise
        try:
            connection.write(wire.encode(FrameKind.HELLO, hello))
            await connection.opened
        except BaseException:
            connection.abort()
            raise
    return connection


def _no_tls(address: Address, error: Exception) -> TlsError:
    broker = f"the broker at {address.host}:{address.port}"
    return TlsError(f"no connection to {address}: {in_words(error, broker)}")

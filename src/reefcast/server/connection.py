"""One connection: bytes to frames, frames to whoever is at the other end (`End`).

Rules
-----
- The first frame must be HELLO, within `HELLO_S`; `greet` decides what the other end is.
- The publications of one read are handed over together, in order with the control messages.
- What came in one read may be much work. After `SLICE_S` the other connections get their turn, and
  nothing more is read from this one until all that came is handled. So what one sends delays the
  others by a slice at a time; and as handling it waits for nobody, brokers go on reading from
  brokers.
- Whatever goes wrong with one input ends with GOODBYE and a sentence, for this connection alone:
  `SAID_TO_PEER` from anywhere below bring that sentence along.
- After GOODBYE the other side gets `LINGER_S` to read it; what it still sends is thrown away.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import ClassVar, NamedTuple, cast

from reefcast.errors import InternalError, ProtocolError
from reefcast.model import wire
from reefcast.model.messages import ControlMessage, MoveLink, Publish
from reefcast.model.versions import Agreed, Offer, agree
from reefcast.model.wire import (
    Codec,
    Congestion,
    FrameKind,
    FrameReader,
    Goodbye,
    Hello,
    StatusRequest,
)
from reefcast.server.floods import Floods
from reefcast.server.outbox import Flusher, Outbox

HELLO_S = 5.0
LINGER_S = 1.0
ACK_EVERY = 4
"""Frames of one side that make an acknowledgement due at once. Well below OctopiA's threshold of a
queue (10), for what is not acknowledged counts as queue: with 256, a link that carried 6000 a
second without effort looked overloaded a third of the time. A read of many frames is acknowledged
once, so that it costs a fast connection nothing."""
ACK_DELAY_S = 0.002
TICK_S = 1.0
TICKS_OF_SILENCE = 10
"""At least, so that the end of a silence is found to a tenth."""
PING = wire.encode(FrameKind.PING, 0)
SLICE_S = 0.005
SAID_TO_PEER = (ProtocolError, InternalError)
"""The other side broke the protocol; this broker failed on what it sent, and has logged how."""
_PUBLISH, _PUBLISH_AGAIN = int(FrameKind.PUBLISH), int(FrameKind.PUBLISH_AGAIN)

log = logging.getLogger(__name__)


class End:
    """Whoever is at the other end; a kind of frame that it must not send is a `ProtocolError`."""

    what: ClassVar[str] = "connection"
    codec: Codec = wire.CLIENT_CODEC
    silence_s: float = wire.SILENCE_S
    """After how long without a word the connection is given up."""
    ping_s: float = wire.BROKER_PING_S
    """After how long without another word this side says one."""

    def publications(self, batch: list[Publish]) -> None:
        raise self._out_of_place("PUBLISH")

    def control(self, message: ControlMessage) -> None:
        raise self._out_of_place("CONTROL")

    def acknowledged(self, number: int) -> None:
        raise self._out_of_place("ACK")

    def congestion(self, notice: Congestion) -> None:
        raise self._out_of_place("CONGESTION")

    def done(self) -> None:
        """The other side sends nothing more."""
        raise self._out_of_place("DONE")

    def status_wanted(self, request: StatusRequest) -> None:
        raise self._out_of_place("STATUS")

    def move_wanted(self, move: MoveLink) -> None:
        raise self._out_of_place("MOVE")

    def lost(self, connection: Connection) -> None:
        """The connection is gone, or as good as gone."""

    def _out_of_place(self, kind: str) -> ProtocolError:
        return ProtocolError(f"a {kind} frame is out of place from {self.what}")


class Shared(NamedTuple):
    """What all connections of a broker have in common: `all` holds those that are not closed;
    when there are more than `limit`, a new one is turned away. `offer`: what the broker speaks."""

    flusher: Flusher
    all: set[Connection]
    limit: int
    floods: Floods
    offer: Offer = wire.OFFER


Greet = Callable[["Connection", Hello], End | None]
"""None: it was told goodbye."""


class Connection(asyncio.Protocol):
    """`first`: the hello to send when the connection is made (the side that dialled). `refusal`:
    what it was told instead of a hello, if so. `agreed`: what is spoken, once it is `greeted`."""

    def __init__(self, shared: Shared, greet: Greet, first: Callable[[], Hello] | None = None):
        self._shared = shared
        self._greet = greet
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._reader = FrameReader(wire.MAX_HELLO_BYTES)
        self._frames: Iterator[tuple[int, bytes]] | None = None
        self._slicing = self._stopped_reading = False
        self._heard = False
        self._silent_ticks = self._idle_ticks = 0
        self._tick_s = TICK_S
        self._received = self._told = 0
        self._ack_timer: asyncio.TimerHandle | None = None
        self._tick_timer: asyncio.TimerHandle | None = None
        self.end: End | None = None
        self.saying_goodbye = False
        self.greeted = False
        self.refusal = ""
        self.agreed = Agreed(0, frozenset())
        self.closed = asyncio.Event()
        self.outbox: Outbox
        self.transport: asyncio.Transport
        self.peer = "?"

    # --- asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.transport = transport
        self.peer = str(transport.get_extra_info("peername"))
        self.outbox = Outbox(transport, self._shared.flusher)
        self._shared.all.add(self)
        self._tick_timer = self._loop.call_later(HELLO_S, self._no_hello)
        if self._first is not None:
            self.say_hello(self._first())
        elif len(self._shared.all) > self._shared.limit:
            self.goodbye("this broker has all the connections that it can bear", retry=True)

    def data_received(self, data: bytes) -> None:
        if self.saying_goodbye:
            return
        self._handle(self._reader.feed(data))

    def _go_on(self) -> None:
        """The others had their turn."""
        frames, self._frames = self._frames, None
        if frames is not None:
            self._handle(frames)

    def _handle(self, frames: Iterator[tuple[int, bytes]]) -> None:
        self._heard = True
        batch: list[Publish] = []
        until_s = time.monotonic() + SLICE_S
        try:
            for kind, payload in frames:
                if kind == _PUBLISH and self.end is not None:
                    batch.append(self.end.codec.decode_publish(payload))
                    continue
                if kind == _PUBLISH_AGAIN and self.end is not None:
                    batch.append(self.end.codec.decode_publish(payload, True))
                    continue
                if batch:
                    whole, batch = batch, []
                    self._hand_over(whole)
                if not self.saying_goodbye:
                    self._take(kind, payload)
                if self.saying_goodbye:
                    return
                if time.monotonic() > until_s:
                    self._go_on_later(frames)
                    return
            whole, batch = batch, []
            if whole:
                self._hand_over(whole)
        except SAID_TO_PEER as error:
            self._refuse(str(error), batch)
        except Exception:
            words = "error while handling input from %s"
            self.note("failures", words, self.peer, level=logging.ERROR, traceback=True)
            self.goodbye("the broker failed on this input; its log says how")
        if self._slicing and not self.saying_goodbye:
            self._slicing = False
            if not (self._stopped_reading or self.transport.is_closing()):
                self.transport.resume_reading()

    def _go_on_later(self, frames: Iterator[tuple[int, bytes]]) -> None:
        self._frames = frames
        self._loop.call_soon(self._go_on)
        if not self._slicing:
            self._slicing = True
            if not self.transport.is_closing():
                self.transport.pause_reading()

    def _refuse(self, reason: str, batch: list[Publish]) -> None:
        """What came whole before the error, and was not handed over yet, still counts."""
        if batch and self.end is not None:
            try:
                self._hand_over(batch)
            except SAID_TO_PEER as error:
                reason = str(error)
        self.goodbye(reason)

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_timers()
        self.outbox.discard()
        self._detach()
        self._shared.all.discard(self)
        self.closed.set()

    def given_up(self) -> None:
        """Who dialled was cancelled just as the connection was made: uvloop closes it then, and
        says nothing of that here."""
        if self in self._shared.all:
            self.connection_lost(None)

    def pause_writing(self) -> None:
        self.outbox.paused = True

    def resume_writing(self) -> None:
        self.outbox.resume()

    # --- frames -----------------------------------------------------------------------------------

    def _hand_over(self, batch: list[Publish]) -> None:
        """It counts as taken over first: whoever is told meanwhile that the connection is lost must
        know of it. It is acknowledged last: a publisher that waits for that must have heard before
        of what was refused."""
        assert self.end is not None
        self._received += len(batch)
        self.end.publications(batch)
        self._acknowledge_soon()

    def _take(self, kind: int, payload: bytes) -> None:
        if self.end is None:
            self._take_hello(kind, payload)
        elif kind == FrameKind.ACK:
            self.end.acknowledged(wire.decode_number(payload))
        elif kind == FrameKind.CONTROL:
            message = self.end.codec.decode_control(payload)
            self._took(1)
            self.end.control(message)
        elif kind == FrameKind.CONGESTION:
            self.end.congestion(wire.decode_congestion(payload))
        elif kind == FrameKind.DONE:
            self.end.done()
        elif kind == FrameKind.STATUS:
            self.end.status_wanted(wire.decode_status_request(payload))
        elif kind == FrameKind.MOVE:
            self.end.move_wanted(wire.decode_move(payload))
        elif kind == FrameKind.GOODBYE:
            reason = wire.decode_goodbye(payload).reason
            self.note("goodbyes_heard", "%s said goodbye: %s", self.peer, reason)
            self.close()
        elif kind != FrameKind.PING:
            raise ProtocolError(f"frame of kind {kind}, which has no place here")

    def _take_hello(self, kind: int, payload: bytes) -> None:
        if kind == FrameKind.GOODBYE:
            self.refusal = wire.decode_goodbye(payload).reason
            self.close()
            return
        if kind != FrameKind.HELLO:
            raise ProtocolError(f"the first frame must be HELLO, but it is of kind {kind}")
        self.agreed = agree(self._shared.offer, wire.decode_offer(payload))
        end = self._greet(self, wire.decode_hello(payload))
        if self.saying_goodbye:
            return
        self.end = end
        self.greeted = True
        self._reader.max_bytes = wire.MAX_FRAME_BYTES
        self._stop_timers()
        if end is not None:
            self._tick_s = min(TICK_S, end.silence_s / TICKS_OF_SILENCE)
            self._tick_timer = self._loop.call_later(self._tick_s, self._tick, end)

    def say_hello(self, hello: Hello) -> None:
        """Also sets what is acknowledged: the frames after those that the hello counts."""
        self._received = self._told = hello.received
        self.outbox.push_urgent(wire.encode(FrameKind.HELLO, hello))

    # --- acknowledgements -------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """Numbered frames taken over from the other's session."""
        return self._received

    def forget_received(self) -> None:
        """The other end starts to count anew."""
        self._received = self._told = 0

    def _took(self, count: int) -> None:
        self._received += count
        self._acknowledge_soon()

    def _acknowledge_soon(self) -> None:
        if self.saying_goodbye:
            return
        if self._received - self._told >= ACK_EVERY:
            self._acknowledge()
        elif self._ack_timer is None:
            self._ack_timer = self._loop.call_later(ACK_DELAY_S, self._acknowledge_late)

    def _acknowledge_late(self) -> None:
        self._ack_timer = None
        if self._received > self._told and not self.saying_goodbye:
            self._acknowledge()

    def _acknowledge(self) -> None:
        self._told = self._received
        self.outbox.push_urgent(wire.encode(FrameKind.ACK, self._received))

    # --- keeping alive, ending --------------------------------------------------------------------

    def _no_hello(self) -> None:
        self.goodbye(f"no hello within {HELLO_S:g} s", kind="no_hello")

    def _tick(self, end: End) -> None:
        """Ticks are counted, not seconds: a broker that was suspended does not blame the others.
        What came last came before the first silent tick, maybe a whole tick before."""
        self._tick_timer = self._loop.call_later(self._tick_s, self._tick, end)
        self._silent_ticks = 0 if self._heard else self._silent_ticks + 1
        self._idle_ticks = 0 if self.outbox.wrote else self._idle_ticks + 1
        self._heard = self.outbox.wrote = False
        if (self._silent_ticks + 1) * self._tick_s >= end.silence_s:
            self.goodbye(f"nothing was heard for {end.silence_s:g} s", retry=True)
        elif (self._idle_ticks + 1) * self._tick_s >= end.ping_s:
            self.outbox.push_urgent(PING)

    def stop_reading(self) -> None:
        self._stopped_reading = True
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def goodbye(
        self, reason: str, *, retry: bool = False, too_slow: bool = False, kind: str = ""
    ) -> None:
        """Tell the other side why, then close; its end is told at once that it is lost. `kind`: as
        what it is counted."""
        if self.saying_goodbye:
            return
        self.saying_goodbye = True
        kind = kind or ("goodbyes" if self.greeted else "turned_away")
        self.note(kind, "goodbye to %s: %s", self.peer, reason)
        self._stop_timers()
        if self._received > self._told:
            self._acknowledge()
        self.outbox.end(wire.encode(FrameKind.GOODBYE, Goodbye(reason, retry, too_slow)))
        self._detach()
        self.transport.resume_reading()  # or the other side's end would not be seen
        self._loop.call_later(LINGER_S, self.transport.abort)

    def close(self) -> None:
        """Close without a word: the other side knows, or is gone."""
        self.saying_goodbye = True
        self._stop_timers()
        self._detach()
        self.transport.abort()

    def _detach(self) -> None:
        end, self.end = self.end, None
        self.saying_goodbye = True
        self._frames = None
        if end is not None:
            end.lost(self)

    def note(
        self,
        kind: str,
        message: str,
        *args: object,
        level: int = logging.INFO,
        traceback: bool = False,
    ) -> None:
        """Log what happened on this connection, unless there is too much of its kind."""
        self._shared.floods.log(log, level, kind, message, *args, traceback=traceback)

    def _stop_timers(self) -> None:
        for timer in (self._ack_timer, self._tick_timer):
            if timer is not None:
                timer.cancel()
        self._ack_timer = self._tick_timer = None

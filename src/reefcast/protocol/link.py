"""One end of one connection as a state machine: bytes in, frames out; messages in, bytes out.

Rules
-----
- The first frame in either direction is HELLO. It settles the version (`model.versions`). The user
  of the link decides what the other end is, and whether it is admitted (`admit` or `close`). Until
  then it may exchange PROOF frames with the other end, which answers each before it gets a hello.
  An end that has an `answer` goes on answering while the link is open.
- Numbered frames that were taken over are acknowledged: several at once, or a few after a short
  delay.
- An end that has sent nothing for `ping_s` sends PING. An end from which nothing came for
  `silence_s` is given up. Ticks are counted, not seconds: a program that was suspended or busy does
  not blame the other end. The last frame came before the first silent tick, up to a whole tick
  before it.
- CLOSE is the last frame. After that the other end has `LINGER_S` to read it; what it still sends
  is discarded.

The user passes the bytes that it reads to `receive`, and the frames that this returns to `handle`;
it calls `time_passed` at `due_s`, and `lost` when the connection is gone. The link passes its own
frames to `write`; the user writes its own frames itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from enum import Enum, auto
from typing import Any

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.versions import Agreed, Offer, agree
from reefcast.model.wire import MAX_FRAME_BYTES, MAX_HELLO_BYTES, Close, FrameKind, Hello
from reefcast.protocol.frames import Cutter, FrameReader
from reefcast.protocol.numbered import ACK_DELAY_S, ACK_EVERY, Taken
from reefcast.protocol.states import State, Step, after

LINGER_S = 1.0
TICK_S = 1.0
TICKS_OF_SILENCE = 10
"""The least number of ticks in `silence_s`, so that a silence is noticed within a tenth of it."""
EARLY_S = 0.0005
"""By how much timers may come too early: uvloop counts whole milliseconds, and times are rounded.
Set again for the rest, they would come at once, again and again until the millisecond is over."""
PING = wire.encode(FrameKind.PING, 0)


class Overdue(Enum):
    """What the other end did not do in time: say hello, send anything, or leave."""

    HELLO = auto()
    WORD = auto()
    END = auto()


class Link:
    """One end of a connection; see the module's docstring. `offer`: the versions and features of
    this end; `answer`, only of an end that dialled: answers a PROOF, or returns None if there is no
    answer now; `ack_every`, `ack_delay_s`: after how many numbered frames an acknowledgement goes
    at once, and how long it waits for so many.

    `agreed`: the version and features of both ends, once there was a hello. `taken`: counts the
    other end's numbered frames. `over`: whether nothing more is received. `wrote`: set by whoever
    writes. `listening`: whether this end reads; one that does not, because it stops or is still
    busy with what it read, cannot blame the other for silence. `due_s`: when to call `time_passed`,
    by the clock that the caller passes in."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        offer: Offer = wire.OFFER,
        answer: Callable[[bytes], bytes | None] | None = None,
        *,
        ack_every: int = ACK_EVERY,
        ack_delay_s: float = ACK_DELAY_S,
    ) -> None:
        self.state = State.WAITING
        self.over = False
        self.agreed = Agreed(0, frozenset())
        self.taken = Taken()
        self.wrote = False
        self.listening = True
        self.tick_s = TICK_S
        self._write = write
        self._offer = offer
        self.answer = answer
        self._ack_every, self._ack_delay_s = ack_every, ack_delay_s
        self._reader = FrameReader(MAX_HELLO_BYTES)
        self._heard = False
        self._silent_ticks = self._idle_ticks = 0
        self._silence_s = self._ping_s = math.inf
        self._next_s = math.inf

    @property
    def due_s(self) -> float:
        return min(self._next_s, self.taken.due_s)

    def _take(self, step: Step) -> None:
        self.state = after(self.state, step)
        self.over = self.state in (State.CLOSING, State.CLOSED)

    # --- what comes -------------------------------------------------------------------------------

    def await_hello(self, until_s: float) -> None:
        """Wait until `until_s` for the other end's hello."""
        self._next_s = until_s

    def cut_publications(self, cutter: Cutter | None) -> None:
        """Have `cutter` take publications, which then come as `RUN`s; None: they come one by
        one."""
        self._reader.cutter = cutter

    def receive_run(self, data: bytes) -> tuple[Any, bytes]:
        """Return the run that these bytes begin with, or None, and the bytes behind it, which are
        to be passed to `receive` (see `FrameReader.begin_run`)."""
        self._heard = True
        return self._reader.begin_run(data)

    def receive(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """Return the frames that are complete; pass each to `handle`, as long as the link is not
        `over`. On an open link, the caller may handle the many frames that do not concern the link
        itself. Raises `ProtocolError` for bytes that are no frame."""
        self._heard = True
        return self._reader.feed(data)

    def handle(self, kind: int, payload: bytes) -> Any:
        """Return the part of a frame that concerns the user: of a HELLO the `Hello`, of a CLOSE the
        `Close`, of an ACK the number, of a PING None, of a PROOF that this end has answered None,
        of any other frame the payload. Raises `ProtocolError` for a frame that must not come
        now."""
        if kind == FrameKind.CLOSE:
            close = wire.decode_close(payload)
            self._take(Step.PEER_CLOSED)
            return close
        if self.state is not State.OPEN:
            return self._handle_early(kind, payload)
        if kind == FrameKind.PING:
            return None
        if kind == FrameKind.PROOF and self.answer is not None:
            return self._handle_question(payload, self.answer)
        return wire.decode_number(payload) if kind == FrameKind.ACK else payload

    def _handle_early(self, kind: int, payload: bytes) -> Any:
        """Handle a frame that came before the other end was admitted."""
        if self.state is State.GREETING:
            return self._handle_proof(kind, payload)
        if kind == FrameKind.PROOF and self.answer is not None:
            return self._handle_question(payload, self.answer)
        return self._handle_hello(kind, payload)

    def _handle_question(self, payload: bytes, answer: Callable[[bytes], bytes | None]) -> None:
        answered = answer(payload)
        if answered is not None:
            self.prove(answered)

    def prove(self, payload: bytes) -> None:
        """Send an answer to a PROOF frame."""
        self._write(wire.frame(FrameKind.PROOF, payload))

    @staticmethod
    def _handle_proof(kind: int, payload: bytes) -> bytes:
        if kind != FrameKind.PROOF:
            raise ProtocolError(f"a frame of kind {kind} came where only PROOF is allowed")
        return payload

    def _handle_hello(self, kind: int, payload: bytes) -> Hello:
        if kind != FrameKind.HELLO:
            raise ProtocolError(f"the first frame must be HELLO, but it is of kind {kind}")
        self.agreed = agree(self._offer, wire.decode_offer(payload))
        hello = wire.decode_hello(payload)
        self._take(Step.HELLO)
        return hello

    def admit(
        self, silence_s: float, ping_s: float, now: float, max_bytes: int = MAX_FRAME_BYTES
    ) -> None:
        """Admit the other end. `silence_s`: seconds of silence after which it is given up;
        `ping_s`: seconds without another frame after which this end sends a PING; `max_bytes`: of
        a frame that it sends."""
        self._take(Step.ADMIT)
        self._reader.max_bytes = max_bytes
        self._silence_s, self._ping_s = silence_s, ping_s
        self.tick_s = min(TICK_S, silence_s / TICKS_OF_SILENCE)
        self._next_s = now + self.tick_s

    # --- what goes --------------------------------------------------------------------------------

    def say_hello(self, hello: Hello) -> None:
        """Send the hello, and acknowledge the frames after those that it counts."""
        self.taken.begin(hello.received)
        self._write(wire.encode(FrameKind.HELLO, hello))

    def took(self, count: int) -> None:
        """Count this many more numbered frames as processed; see `acknowledge_soon`."""
        self.taken.count += count

    def acknowledge_soon(self, now: float) -> bool:
        """Acknowledge the frames processed so far, soon; return whether this makes `due_s` earlier.
        A time once set stays, also if there is nothing left to acknowledge: setting a timer for
        each frame would cost more."""
        if self.state is not State.OPEN:
            return False
        taken = self.taken
        if taken.count - taken.told >= self._ack_every:
            self.acknowledge()
        elif taken.due_s == math.inf:
            taken.due_s = now + self._ack_delay_s
            return True
        return False

    def acknowledge_now(self) -> None:
        """Acknowledge the frames processed so far, if there are any."""
        if self.state is State.OPEN and self.taken.untold:
            self.acknowledge()

    def acknowledge(self) -> None:
        self._write(wire.encode(FrameKind.ACK, self.taken.tell()))

    def close(self, close: Close, now: float) -> bytes:
        """Close this end; return the last frame, to be written after all others."""
        self._take(Step.CLOSE)
        if self.taken.untold:
            self.acknowledge()
        self._next_s = now + LINGER_S
        return wire.encode(FrameKind.CLOSE, close)

    def lost(self) -> None:
        """Note that the connection is gone."""
        self._take(Step.LOSE)
        self._next_s = self.taken.due_s = math.inf

    # --- time -------------------------------------------------------------------------------------

    def time_passed(self, now: float) -> Overdue | None:
        """Do what is due; return what is overdue, or None."""
        until_s = now + EARLY_S
        if until_s >= self.taken.due_s:
            self.acknowledge_now()
            self.taken.due_s = math.inf
        if until_s < self._next_s:
            return None
        self._next_s = math.inf
        if self.state is State.OPEN:
            return self._tick(now)
        return Overdue.END if self.state is State.CLOSING else Overdue.HELLO

    def _tick(self, now: float) -> Overdue | None:
        self._next_s = now + self.tick_s
        self._silent_ticks = 0 if self._heard or not self.listening else self._silent_ticks + 1
        self._idle_ticks = 0 if self.wrote else self._idle_ticks + 1
        self._heard = self.wrote = False
        if (self._silent_ticks + 1) * self.tick_s >= self._silence_s:
            return Overdue.WORD
        if (self._idle_ticks + 1) * self.tick_s >= self._ping_s:
            self._write(PING)
        return None

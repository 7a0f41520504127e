"""One end of one connection as a state machine: bytes in, frames out; messages in, bytes out.

Rules
-----
- The first frame in either direction is HELLO. Which version is spoken is found out here
  (`model.versions`); what the other end is, and whether it is let in, decides the user of the link
  (`admit`, or `close`). Until then it may exchange PROOF frames with the other end, which
  answers each before it hears a hello.
- Numbered frames that are taken over are acknowledged: several at once, a few a little later.
- Who says nothing for `ping_s` says PING. Who is not heard for `silence_s` is given up. Ticks are
  counted, not seconds: a program that was suspended, or had much to do, does not blame the other
  end. What came last came before the first silent tick, maybe a whole tick before.
- CLOSE is the last frame. After that the other end gets `LINGER_S` to read it; what it still
  sends is thrown away.

The user feeds what is read to `receive`, and its frames to `handle`; calls `time_passed` when
`due_s` has come, and `lost` when the connection is gone. The link gives what is to be written to
`write`; frames of the user's own go past it."""

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
"""At least, so that the end of a silence is found to a tenth."""
PING = wire.encode(FrameKind.PING, 0)


class Overdue(Enum):
    """What did not happen in time: the hello of the other end, a word of it, its leaving."""

    HELLO = auto()
    WORD = auto()
    END = auto()


class Link:
    """See the module's docstring. `offer`: what this end speaks; `answer`, of one that dialled:
    what it says to a PROOF before the other's hello; `ack_every`, `ack_delay_s`: after how many
    numbered frames an acknowledgement goes at once, and how long it waits for so many.

    `agreed`: what both speak, once there was a hello. `taken`: of the other end's numbered frames.
    `over`: whether nothing more is heard of the other end. `wrote`: set by whoever writes.
    `listening`: whether this end reads; one that does not cannot blame the other for silence.
    `due_s`: when `time_passed` is to be called, by the clock that is given to it."""

    def __init__(
        self,
        write: Callable[[bytes], None],
        offer: Offer = wire.OFFER,
        answer: Callable[[bytes], bytes] | None = None,
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
        self._answer = answer
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
        """Wait for the other end's hello until then."""
        self._next_s = until_s

    def cut_publications(self, cutter: Cutter | None) -> None:
        """Have publications come as `RUN`s, as `cutter` makes them; None: one by one."""
        self._reader.cutter = cutter

    def receive(self, data: bytes) -> Iterator[tuple[int, Any]]:
        """Return the frames that are whole now; each is to be passed to `handle`, as long as the
        link is not `over`. Frames of kinds that are no business of this link may be taken past it
        when it is open: there are many of these. Raises `ProtocolError` for what is no frame."""
        self._heard = True
        return self._reader.feed(data)

    def handle(self, kind: int, payload: bytes) -> Any:
        """Return what of a frame is for the user: of a HELLO the `Hello`, of a CLOSE the `Close`,
        of an ACK the number, of a PING None, of a PROOF that this end has answered None, of all
        others the payload. Raises `ProtocolError` for a frame out of place."""
        if kind == FrameKind.CLOSE:
            close = wire.decode_close(payload)
            self._take(Step.PEER_CLOSED)
            return close
        if self.state is not State.OPEN:
            return self._handle_early(kind, payload)
        if kind == FrameKind.PING:
            return None
        return wire.decode_number(payload) if kind == FrameKind.ACK else payload

    def _handle_early(self, kind: int, payload: bytes) -> Any:
        """Before the other end was let in."""
        if self.state is State.GREETING:
            return self._handle_proof(kind, payload)
        if kind == FrameKind.PROOF and self._answer is not None:
            self._write(wire.frame(FrameKind.PROOF, self._answer(payload)))
            return None
        return self._handle_hello(kind, payload)

    @staticmethod
    def _handle_proof(kind: int, payload: bytes) -> bytes:
        if kind != FrameKind.PROOF:
            raise ProtocolError(f"a frame of kind {kind} came where only PROOF has its place")
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
        """Count so many more numbered frames as processed; see `acknowledge_soon`."""
        self.taken.count += count

    def acknowledge_soon(self, now: float) -> bool:
        """Acknowledge the frames processed so far, soon; return whether `due_s` is sooner by that.
        A time once set stays, also where there is nothing to tell any more: to set a timer for each
        frame would cost more."""
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
        """Close this end; return the last frame, which goes behind all that was written."""
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
        """Do what is due; return what is overdue, if something is."""
        if now >= self.taken.due_s:
            self.acknowledge_now()
            self.taken.due_s = math.inf
        if now < self._next_s:
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

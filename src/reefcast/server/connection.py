"""One connection: bytes to a `protocol.link`, its frames to whoever is at the other end (`End`).

Rules
-----
- The first frame must come within `HELLO_S`, and so must the end of the greeting: an authenticator
  proves who the other end is (`greeting`), and `greet` decides what it is. What came behind the
  hello is handled after that, in its order.
- The publications of one read are handed over together, in order with the control messages.
- What came in one read may be much work. After `SLICE_S` the other connections get their turn, and
  nothing more is read from this one until all that came is handled. So what one sends delays the
  others by a slice at a time; and as handling it waits for nobody, brokers go on reading from
  brokers.
- Whatever goes wrong with one input ends with CLOSE and a sentence, for this connection alone:
  `SAID_TO_PEER` from anywhere below bring that sentence along.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import chain
from typing import Any, cast

from reefcast.errors import BusyError, InternalError, LocalError, ProtocolError
from reefcast.logs import part
from reefcast.model import wire
from reefcast.model.messages import Publish
from reefcast.model.wire import Close, FrameKind, Hello
from reefcast.protocol.frames import RUN
from reefcast.protocol.link import Link, Overdue
from reefcast.protocol.principal import NOBODY, Principal
from reefcast.protocol.proofs import Respondent
from reefcast.server.auditing import said_of, who
from reefcast.server.end import End
from reefcast.server.greeting import Greeting, role_wanted
from reefcast.server.outbox import Flusher, Outbox
from reefcast.server.passage import Run
from reefcast.server.renewing import Renewing
from reefcast.server.shared import Shared
from reefcast.timing import MACHINE

HELLO_S = 5.0
SLICE_S = 0.005
SAID_TO_PEER = (ProtocolError, InternalError)
"""The other side broke the protocol; this broker failed on what it sent, and has logged how."""
_PUBLICATIONS = tuple(
    int(kind) for kind in (FrameKind.PUBLISH, FrameKind.PUBLISH_AGAIN, FrameKind.PUBLISH_CONFIRM)
)

log = part("connections")


Frame = tuple[int, Any]
Greet = Callable[["Connection", Hello], End | None]
"""Returns None if the connection was told to close."""


class Connection(asyncio.Protocol):
    """`first`: the hello to send when the connection is made (by the side that dialled). `refusal`:
    what it was told instead of a hello, if so. `hello`: what the other end said; `greeted`: whether
    both ends were admitted. `principal`: who the other end is, once proved. `left`: whether one of
    them closed it for good."""

    def __init__(self, shared: Shared, greet: Greet, first: Callable[[], Hello] | None = None):
        self._shared = shared
        self._greet = greet
        self._first = first
        self._loop = asyncio.get_running_loop()
        self._frames: Iterator[Frame] | None = None
        self._held: Frame | None = None
        self._paused = self._stopped_reading = False
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = math.inf
        self._greeting: Greeting | None = None
        self._proving: asyncio.Task[Principal] | None = None
        self._renewing: Renewing | None = None
        self._respondent: Respondent | None = None
        self.end: End | None = None
        self.hello: Hello | None = None
        self.tried = ""
        self.principal = NOBODY
        self.greeted = False
        self.left = False
        self.refusal = ""
        self.closed = asyncio.Event()
        self.link: Link
        self.outbox: Outbox
        self.transport: asyncio.Transport
        self.peer = "?"

    # --- asyncio ----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass
        self.transport = transport
        self.peer = str(transport.get_extra_info("peername"))
        self.outbox = self._own_outbox = Outbox(transport, self.flusher)
        answer = None if self._first is None else self._answer
        self.link = Link(self._push, self._shared.offer, answer)
        self._shared.all.add(self)
        self.link.await_hello(self._loop.time() + HELLO_S)
        self._set_timer()
        if self._first is not None:
            hello = self._first()
            shown = transport.get_extra_info
            self._respondent = self._shared.authenticator.respond(hello, shown, self._shared.dials)
            self.say_hello(hello)
        elif len(self._shared.all) > self._shared.limit:
            reason = f"this broker has {self._shared.limit} connections already, which is the most "
            self.close(f"{reason}(max_connections in [limits])", retry=True)
        elif self._shared.greetings is not None:
            self._shared.greetings.began(self)

    def data_received(self, data: bytes) -> None:
        link, run = self.link, None
        if link.over:
            return
        if self.end is not None and self.end.path is not None and not self._paused:
            link.cut_publications(self.end.path.cutter)
            run, data = link.receive_run(data)
        if run is None:
            self._handle(link.receive(data))
        elif data:
            self._handle(link.receive(data), (RUN, run))
        else:
            self._handle_run(run)

    def _go_on(self) -> None:
        """Continue after the other connections had their turn, or after the greeting took a
        step."""
        frames, self._frames = self._frames, None
        if frames is not None:
            self._handle(frames, self._held)

    def _handle(self, frames: Iterator[Frame], first: Frame | None = None) -> None:
        batch: list[Publish] = []
        stopwatch_s = MACHINE.get().stopwatch_s
        until_s = stopwatch_s() + SLICE_S
        try:
            for kind, payload in frames if first is None else chain((first,), frames):
                if kind in _PUBLICATIONS and self.end is not None:
                    batch.append(self.end.codec.decode_publish(payload, kind))
                    continue
                if batch:
                    whole, batch = batch, []
                    self._hand_over(whole)
                if kind == RUN:
                    self._pass_on(payload)
                    continue
                if self._greeting is not None and self._must_wait(kind, self._greeting):
                    self._wait(frames, (kind, payload))
                    return
                if not self.link.over:
                    self._take(kind, self.link.handle(kind, payload))
                if self.link.over:
                    return
                if stopwatch_s() > until_s:
                    self._go_on_later(frames)
                    return
            whole, batch = batch, []
            if whole:
                self._hand_over(whole)
        except SAID_TO_PEER as error:
            self._refuse(str(error), batch)
        except Exception:
            self._failed()
        if self._paused and not self.link.over:
            self._read_on()

    def _handle_run(self, run: Run) -> None:
        """Handle a read that is a run and nothing else, as `_handle` does."""
        try:
            self._pass_on(run)
        except SAID_TO_PEER as error:
            self._refuse(str(error), [])
        except Exception:
            self._failed()

    def _read_on(self) -> None:
        self._paused = False
        self.link.listening = not self._stopped_reading
        if not (self._stopped_reading or self.transport.is_closing()):
            self.transport.resume_reading()

    def _failed(self) -> None:
        words = "error while handling input from %s"
        self.note("failures", words, self.peer, level=logging.ERROR, traceback=True)
        self.close("the broker failed on this input; its log says how")

    def _go_on_later(self, frames: Iterator[Frame]) -> None:
        self._wait(frames)
        self._loop.call_soon(self._go_on)

    def _wait(self, frames: Iterator[Frame], first: Frame | None = None) -> None:
        """Hold these frames, `first` before the others, and stop reading until `_go_on`."""
        self._frames, self._held = frames, first
        if not self._paused:
            self._paused = True
            self.link.listening = False
            if not self.transport.is_closing():
                self.transport.pause_reading()

    def _refuse(self, reason: str, batch: list[Publish]) -> None:
        """Refuse what the other side sent; publications that came whole before the error, and were
        not handed over yet, still count."""
        if batch and self.end is not None:
            try:
                self._hand_over(batch)
            except SAID_TO_PEER as error:
                reason = str(error)
        self.close(reason)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self.greeted:
            self._shared.audit.limited("disconnected", **who(self))
        self.link.lost()
        self._stop_timer()
        self._detach()
        self.outbox.discard()
        self._shared.all.discard(self)
        self.closed.set()

    def given_up(self) -> None:
        """Handle that the dialling task was cancelled just as the connection was made: uvloop
        closes it then, and does not report that here."""
        if self in self._shared.all:
            self.connection_lost(None)

    @property
    def over(self) -> bool:
        """Whether it is closing, or closed."""
        return self.link.over

    @property
    def flusher(self) -> Flusher:
        return self._shared.flusher

    def use(self, outbox: Outbox) -> None:
        """Write what waits in the own outbox, and use another one while there is an end."""
        self._own_outbox.flush()
        self.outbox = outbox

    def _push(self, frame: bytes) -> None:
        self.outbox.push_urgent(frame)

    def pause_writing(self) -> None:
        self.outbox.paused = True

    def resume_writing(self) -> None:
        self.outbox.resume()

    # --- frames -----------------------------------------------------------------------------------

    def _hand_over(self, batch: list[Publish]) -> None:
        """Hand publications over. They count as taken over first: whoever is told meanwhile that
        the connection is lost must know of it. They are acknowledged last: a publisher that waits
        for that must learn first of refusals."""
        assert self.end is not None
        self.link.took(len(batch))
        if self.end.path is not None:
            self.end.path.rested(len(batch))
        self.end.publications(batch)
        self._acknowledge_soon()

    def _pass_on(self, run: Run) -> None:
        """Hand a run over by the compiled path, as `_hand_over` does; publications that came whole
        before an error still count."""
        end = self.end
        if run.count and end is not None:
            self.link.took(run.count)
            end.run(run)
            self._acknowledge_soon()
        if run.error is not None:
            raise run.error

    def _take(self, kind: int, payload: Any) -> None:
        if kind == FrameKind.CLOSE:
            self._peer_closed(payload)
        elif self.end is None:
            self._take_early(kind, payload)
        elif kind == FrameKind.ACK:
            self.end.acknowledged(payload)
        elif kind == FrameKind.CONTROL:
            message = self.end.codec.decode_control(payload)
            self.link.took(1)
            self._acknowledge_soon()
            self.end.control(message)
        elif kind == FrameKind.CONGESTION:
            self.end.congestion(wire.decode_congestion(payload))
        elif kind == FrameKind.DONE:
            self.end.done()
        elif kind == FrameKind.STATUS:
            self.end.status_wanted(wire.decode_status_request(payload))
        elif kind == FrameKind.LOOK:
            self.end.look_wanted(wire.decode_look(payload))
        elif kind == FrameKind.WISH:
            self.end.wish_wanted(wire.decode_wish(payload))
        elif kind == FrameKind.PROOF and self._renewing is not None:
            self._renewing.proof_came(payload)
        elif kind != FrameKind.PING:
            raise ProtocolError(f"frame of kind {kind}, which has no place here")

    def _take_early(self, kind: int, payload: Any) -> None:
        if kind == FrameKind.HELLO:
            self._take_hello(payload)
        elif self._greeting is not None:
            self._greeting.proof_came(payload)

    def _answer(self, question: bytes) -> bytes | None:
        """Return the answer to a PROOF frame of the broker that this one dialled."""
        assert self._respondent is not None
        try:
            answer = self._respondent.respond(question)
        except LocalError as error:
            raise ProtocolError(str(error)) from error
        assert not isinstance(answer, Awaitable), "a broker has its credentials at hand"
        return answer

    def _take_hello(self, hello: Hello) -> None:
        self.hello = hello
        shown, write = self.transport.get_extra_info, self.outbox.push_urgent
        greeting = Greeting(
            hello, shown=shown, write=write, go_on=self._go_on, respondent=self._respondent
        )
        proved = self._shared.authenticator.prove(greeting)
        if isinstance(proved, Principal):
            self._let_in(hello, proved)
            return
        self._greeting = greeting
        self._proving = self._loop.create_task(proved)
        self._proving.add_done_callback(partial(self._proved, hello))

    @staticmethod
    def _must_wait(kind: int, greeting: Greeting) -> bool:
        """Return whether a frame that came during the greeting is handled later."""
        return kind != FrameKind.CLOSE and not greeting.awaits_proof

    def _proved(self, hello: Hello, proving: asyncio.Task[Principal]) -> None:
        if proving is not self._proving:  # it was cancelled, and may have failed at that
            _ = proving.cancelled() or proving.exception()
            return
        tried = "" if self._greeting is None else self._greeting.tried
        self._greeting = self._proving = None
        try:
            self._let_in(hello, proving.result())
        except SAID_TO_PEER as error:
            self.tried = tried
            self.close(str(error), retry=isinstance(error, BusyError))
        except (Exception, asyncio.CancelledError):
            self._failed()
        self._go_on()

    def _let_in(self, hello: Hello, principal: Principal) -> None:
        role = role_wanted(hello, self._shared.brokers)
        if role is not None:
            principal.require(role)
        self.principal = principal
        end = self._greet(self, hello)
        if end is None or self.link.over:
            return
        self.end = end
        self.link.cut_publications(None if end.path is None else end.path.cut)
        self.greeted = True
        self.link.answer = None
        self.link.admit(end.silence_s, end.ping_s, self._loop.time())
        self._set_timer()
        self._shared.audit.limited("connected", **who(self))
        said = hello.role.name.lower()
        self.note("connected", "%s %s is connected from %s", said, hello.name, self.peer)
        if principal.expires_at_s < math.inf:
            self._renewing = Renewing(self, self._shared.authenticator, self._shared.audit)

    def prove_again(self, principal: Principal) -> None:
        """Accept a newer proof of the same user."""
        self.principal = principal
        self._shared.audit.limited("proved_again", **who(self))
        if self.end is not None:
            self.end.proved_again(principal)

    def _peer_closed(self, close: Close) -> None:
        if self.greeted:
            words, reason = "%s closed the connection: %s", close.reason
            self.note("peers_closed", words, self.peer, reason, reason=reason)
        else:
            self.refusal = close.reason
        self.left = True
        self.abort()

    def say_hello(self, hello: Hello) -> None:
        self.link.say_hello(hello)

    # --- acknowledgements -------------------------------------------------------------------------

    @property
    def received(self) -> int:
        """Numbered frames taken over from the other's session."""
        return self.link.taken.count

    def forget_received(self) -> None:
        self.link.taken.begin(0)  # the other end starts to count anew

    def _acknowledge_soon(self) -> None:
        if self.link.acknowledge_soon(self._loop.time()):
            self._set_timer()

    # --- time, ending -----------------------------------------------------------------------------

    def _set_timer(self) -> None:
        self._stop_timer()
        self._due_s = self.link.due_s
        if self._due_s < math.inf:
            self._timer = self._loop.call_at(self._due_s, self._time_passed)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due_s = math.inf

    def _time_passed(self) -> None:
        self._timer = None
        self.link.wrote |= self.outbox.wrote
        self.outbox.wrote = False
        overdue = self.link.time_passed(self._loop.time())
        if overdue is Overdue.HELLO:
            late = "no hello" if self._greeting is None else "no end of the greeting"
            self.close(f"{late} within {HELLO_S:g} s", kind="no_hello")
        elif overdue is Overdue.WORD and self.end is not None:
            self.close(f"nothing was heard for {self.end.silence_s:g} s", retry=True)
        elif overdue is Overdue.END:
            self.transport.abort()
        else:
            self._set_timer()

    def stop_reading(self) -> None:
        self._stopped_reading = True
        self.link.listening = False
        if not self.transport.is_closing():
            self.transport.pause_reading()

    def close(
        self,
        reason: str,
        *,
        retry: bool = False,
        too_slow: bool = False,
        elsewhere: tuple[str, ...] = (),
        kind: str = "",
    ) -> None:
        """Tell the other side why, then close; its end is told at once. `kind`: how it counts."""
        if self.link.over:
            return
        kind = kind or ("closed" if self.greeted else "turned_away")
        self.note(kind, "closed the connection to %s: %s", self.peer, reason, reason=reason)
        if kind != "closed" or not retry:  # as when the broker stops, or heard nothing
            event = "refused" if kind == "turned_away" else kind
            self._shared.audit.limited(event, **who(self), reason=reason)
        self.left = not retry
        last = self.link.close(Close(reason, retry, too_slow, elsewhere), self._loop.time())
        self._detach()
        self.outbox.end(last)
        self._set_timer()
        self.transport.resume_reading()  # or the other side's end would not be seen

    def abort(self) -> None:
        """Close without a word: the other side knows, or is gone."""
        self.link.lost()
        self._stop_timer()
        self._detach()
        self.transport.abort()

    def _detach(self) -> None:
        end, self.end = self.end, None
        self.link.cut_publications(None)
        if self._renewing is not None:
            self._renewing.stop()
            self._renewing = None
        proving, self._proving = self._proving, None
        self._frames = self._held = self._greeting = None
        if proving is not None:
            proving.cancel()
        if end is not None:
            end.lost(self)
        self.outbox = self._own_outbox

    def note(
        self,
        kind: str,
        message: str,
        *args: object,
        level: int = logging.INFO,
        reason: str = "",
        traceback: bool = False,
    ) -> None:
        """Log what happened on this connection, unless there is too much of its kind."""
        about = {**said_of(self), "reason": reason}
        self._shared.floods.log(log, level, kind, message, *args, about=about, traceback=traceback)

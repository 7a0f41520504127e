"""A client's side of durable sessions as a state machine: what it asks, and its consumers. No I/O,
no clock.

Rules
-----
- If the way from the broker to the session's home breaks, that says so (`again`). What was asked is
  asked again, and a consumer attaches again, as after a reconnect: at once, or, while the home
  cannot be reached, after a pause. After `MOST_TRIES` who asked is told why; but a consumer that
  was attached once goes on.
- What is asked about a session (`Call`) is answered once. If the connection breaks before that, it
  is asked again of a broker that knows nothing of it; so what is asked may be asked twice.
- The home detaches a consumer whose connection is gone, and owes again what that had. So after each
  reconnect a consumer attaches under a new number, and says again what it acknowledged and was not
  answered. What it said on the old connection may arrive only now: so the old number is detached
  once more, or the home would hand events to nobody.
- What the home hands out again then, the application may have: what it acknowledged, and what it
  has in its hands since before the connection broke, is not given to it a second time. What it had
  not read is dropped here: it comes again, or goes to another consumer.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from reefcast.client.signal import Signal
from reefcast.errors import ReefcastError, RefusedError
from reefcast.model.messages import ControlMessage, ServiceMessage
from reefcast.sessions.messages import (
    FROM_HOMES,
    MOST_POSITIONS,
    Acknowledge,
    Asked,
    Attach,
    ConsumerEnded,
    Detach,
    Done,
    Failed,
    Handed,
    Letters,
    Notes,
    Owed,
    Reject,
    Resize,
    Sessions,
)

Answer = Done | Sessions | Letters | Notes
MOST_TRIES = 20
"""How often something is asked again because a broker could not be asked: in ten seconds brokers
that start together find each other."""
Later = Callable[[Callable[[], None]], object]
"""Calls what it is given after a pause."""


class Call:
    """Something asked about a session. `answer`: None until it comes; `error`: why it failed;
    `notes`: what has come of an answer that takes several messages."""

    __slots__ = ("answer", "changed", "error", "message", "notes", "tries")

    def __init__(self, message: Asked) -> None:
        self.message = message
        self.changed = Signal()
        self.answer: Answer | None = None
        self.error: ReefcastError | None = None
        self.notes: dict[str, str] = {}
        self.tries = 0

    @property
    def over(self) -> bool:
        """Whether it was answered, or never will be."""
        return self.answer is not None or self.error is not None

    def finish(self, answer: Answer | ReefcastError) -> None:
        """Note the answer, or why there is none."""
        if isinstance(answer, ReefcastError):
            self.error = answer
        else:
            self.answer = answer
        self.changed.fire()


class Attachment:
    """One consumer of a session, over all of its connections. `window`: see `Attach`, as all other
    arguments. `waiting`: events that the application has not read, by position; `in_hand`:
    positions of those that it has read and neither acknowledged nor rejected, in this order.
    `changed` fires when events or answers come, and at the end; `error` says why it ended."""

    def __init__(
        self, consuming: Consuming, session: str, owner: str, window: int, filter: str
    ) -> None:
        self.window = window
        self.waiting: OrderedDict[int, Owed] = OrderedDict()
        self.in_hand: dict[int, None] = {}
        self.changed = Signal()
        self.ended = self.was_attached = False
        self.tries = 0
        self.error: ReefcastError | None = None
        self._consuming = consuming
        self._session, self._owner, self._filter = session, owner, filter
        self._number = 0  # 0 without a connection
        self._acknowledging: dict[int, int] = {}  # position -> token; 0 if it is to be said
        self._held_over: set[int] = set()
        self._failure: ReefcastError | None = None
        consuming.attach(self)

    # --- what the application does ----------------------------------------------------------------

    def pop(self) -> Owed:
        """Remove the oldest event that waits and return it; the application has it in its hands
        from now on."""
        position, owed = self.waiting.popitem(last=False)
        self.in_hand[position] = None
        return owed

    def acknowledge(self, positions: Iterable[int]) -> None:
        """Acknowledge events; nothing happens for those that were acknowledged before."""
        fresh = [each for each in positions if each not in self._acknowledging]
        for position in fresh:
            self.in_hand.pop(position, None)
            self._held_over.discard(position)
            self.waiting.pop(position, None)  # it took too long, and was handed out again
        if fresh:
            self._say_acknowledged(fresh)

    def in_hand_up_to(self, position: int) -> list[int]:
        """Return the positions in the application's hands that it got no later than this one."""
        positions: list[int] = []
        for each in self.in_hand:
            positions.append(each)
            if each == position:
                return positions
        return [position]

    def reject(self, position: int, delay_s: float) -> None:
        """Give an event back; nothing happens if the home has it back already."""
        if position in self.in_hand and not self.ended:
            del self.in_hand[position]
            held_over = position in self._held_over
            self._held_over.discard(position)
            if self._number and not held_over:
                message = Reject(
                    token=self._consuming.next_token(),
                    consumer=self._number,
                    position=position,
                    delay_s=delay_s,
                )
                self._consuming.say(message, self)

    def resize(self, window: int) -> None:
        """Ask for another window."""
        self.window = window
        if self._number and not self.ended:
            token = self._consuming.next_token()
            self._consuming.say(Resize(token=token, consumer=self._number, window=window), self)

    def detach(self) -> None:
        """Leave the session, if it has not ended."""
        if not self.ended:
            self._consuming.leave(self, self._number)
        self.end()

    @property
    def unanswered(self) -> int:
        """How many acknowledgements the home has not answered."""
        return len(self._acknowledging)

    def is_acknowledged(self, positions: Iterable[int] | None = None) -> bool:
        """Return whether the home has answered the acknowledgements of these events; None: all."""
        if positions is None:
            return not self._acknowledging
        return self._acknowledging.keys().isdisjoint(positions)

    def take_failure(self) -> ReefcastError | None:
        """Return why an acknowledgement failed, and forget it; None if none failed."""
        failure, self._failure = self._failure, None
        return failure

    # --- what the client does ---------------------------------------------------------------------

    def begin(self, number: int) -> None:
        """Attach under a new number, on a new connection."""
        self._number = number
        attach = Attach(
            token=self._consuming.next_token(),
            session=self._session,
            owner=self._owner,
            consumer=number,
            window=self.window,
            filter=self._filter,
        )
        self._consuming.say(attach, self)
        if self._acknowledging:
            self._say_acknowledged(list(self._acknowledging))

    def lost(self) -> None:
        """Note that the connection is gone, and the consumer with it."""
        self._number = 0
        self.waiting.clear()
        self._held_over = set(self.in_hand)

    def put(self, events: Iterable[Owed]) -> None:
        """Take what the home handed out, but for what the application has."""
        for owed in events:
            if owed.position in self._held_over:
                self._held_over.discard(owed.position)
            elif owed.position not in self._acknowledging:
                self.waiting[owed.position] = owed
        self.changed.fire()

    def answered(self, message: Asked, error: ReefcastError | None) -> None:
        """Handle the answer to a message of this consumer's."""
        if isinstance(message, Acknowledge):
            for position in message.positions:
                if self._acknowledging.get(position) == message.token:
                    del self._acknowledging[position]
            self._failure = self._failure or error
        elif isinstance(message, Attach) and error is not None:
            self.end(error)
        elif isinstance(message, Attach):
            self.was_attached = True
        self.changed.fire()

    def end(self, error: ReefcastError | None = None) -> None:
        """End it: nothing more arrives. What the application did not read, others get."""
        self.ended = True
        self.error = self.error or error
        self.waiting.clear()
        self.changed.fire()

    def _say_acknowledged(self, positions: Sequence[int]) -> None:
        for first in range(0, len(positions), MOST_POSITIONS):
            some = tuple(positions[first : first + MOST_POSITIONS])
            token = self._consuming.next_token() if self._number and not self.ended else 0
            self._acknowledging.update(dict.fromkeys(some, token))
            if token:
                message = Acknowledge(token=token, consumer=self._number, positions=some)
                self._consuming.say(message, self)


class Consuming:
    """All calls and consumers of one client. `tell`: sends a message to the broker, or keeps it for
    one that has this client's session still; `later`: calls what it is given after a pause."""

    def __init__(self, tell: Callable[[ControlMessage], None], later: Later) -> None:
        self._tell = tell
        self._later = later
        self._connected = False
        self._ended: ReefcastError | None = None
        self._closed = False
        self._calls: dict[int, Call] = {}
        self._consumers: dict[int, Attachment] = {}
        self._said: dict[int, tuple[Asked, Attachment]] = {}  # by consumers, on this connection
        self._numbers: dict[int, None] = {}  # under which consumers attached, and have not left
        self._last_token = self._last_consumer = 0

    def next_token(self) -> int:
        """Return a token that no message had."""
        self._last_token += 1
        return self._last_token

    def ask(self, message: Asked) -> Call:
        """Ask something about a session."""
        call = self._calls[message.token] = Call(message)
        if self._ended is not None:
            call.finish(self._ended)
        else:
            self._tell(message)
        return call

    def say(self, message: Asked, attachment: Attachment) -> None:
        """Send a consumer's message, which is valid on this connection only."""
        self._said[message.token] = (message, attachment)
        if isinstance(message, Attach):
            self._numbers[message.consumer] = None
        elif isinstance(message, Detach):
            self._numbers.pop(message.consumer, None)
        self._tell(message)

    def attach(self, attachment: Attachment) -> None:
        """Let a consumer attach, now and after each reconnect."""
        self._last_consumer += 1
        self._consumers[self._last_consumer] = attachment
        if self._ended is not None:
            attachment.end(None if self._closed else self._ended)
        elif self._connected:
            attachment.begin(self._last_consumer)

    @property
    def consumers(self) -> list[Attachment]:
        """Return the attachments that have not left."""
        return list(self._consumers.values())

    @property
    def unanswered(self) -> int:
        """How many acknowledgements no home has answered."""
        return sum(attachment.unanswered for attachment in self._consumers.values())

    def leave(self, attachment: Attachment, number: int) -> None:
        """Let a consumer leave that has this number, or none."""
        self._consumers = {n: each for n, each in self._consumers.items() if each is not attachment}
        if number:
            self.say(Detach(token=self.next_token(), consumer=number), attachment)

    def established(self, *, resumed: bool) -> None:
        """Go on after the broker's hello; `resumed`: it has had, or gets now, what was said."""
        self._connected = True
        numbers, self._numbers = self._numbers, {}
        if resumed:
            for number in numbers:
                self._tell(Detach(token=self.next_token(), consumer=number))
        else:
            for call in self._calls.values():
                call.notes = {}
                self._tell(call.message)
        consumers, self._consumers = self._consumers, {}
        for attachment in consumers.values():
            self.attach(attachment)

    def lost(self) -> None:
        """Note that the connection is gone."""
        self._connected = False
        self._said.clear()
        for attachment in self._consumers.values():
            attachment.lost()

    def end(self, why: ReefcastError, *, closed: bool) -> None:
        """End all calls and consumers, for the client ended. `closed`: by the application, so that
        this is no error for who waits for events."""
        self._ended, self._closed = why, closed
        for call in self._calls.values():
            call.finish(why)
        for attachment in self._consumers.values():
            attachment.end(None if closed else why)
        self._calls, self._consumers = {}, {}

    def handle(self, message: ServiceMessage) -> None:
        """Handle what the home said; what comes for nobody any more is ignored."""
        if isinstance(message, Handed):
            attachment = self._consumers.get(message.consumer)
            if attachment is not None:
                attachment.put(message.events)
        elif isinstance(message, ConsumerEnded):
            attachment = self._ended_as(message.consumer)
            if attachment is not None and message.again:
                self._attach_again(attachment, now=True)
            elif attachment is not None:
                attachment.end(RefusedError(message.reason))
        elif isinstance(message, Notes):
            self._noted(message)
        elif isinstance(message, Done | Failed | Sessions | Letters):
            self._answered(message)

    def _noted(self, message: Notes) -> None:
        """Handle a part of a session's notes; the last one is the answer, with all of them."""
        call = self._calls.get(message.token)
        if call is not None:
            call.notes |= message.notes
            if not message.more:
                self._answered(Notes(token=message.token, notes=call.notes))

    def _ended_as(self, number: int) -> Attachment | None:
        """Forget the consumer that attached under this number."""
        self._numbers.pop(number, None)
        return self._consumers.pop(number, None)

    def _attach_again(self, attachment: Attachment, *, now: bool) -> None:
        """Attach a consumer under a new number, now or after a pause."""
        attachment.lost()
        self._said = {t: said for t, said in self._said.items() if said[1] is not attachment}
        self._last_consumer += 1
        number = self._last_consumer
        self._consumers[number] = attachment
        if now:
            self._begin(number)
        else:
            self._later(partial(self._begin, number))

    def _ask_again(self, token: int) -> None:
        """Ask what has not been answered. Without a connection, that waits for one to a broker that
        remembers this client; another one is asked everything anyway."""
        if token in self._calls:
            self._calls[token].notes = {}
            self._tell(self._calls[token].message)

    def _begin(self, number: int) -> None:
        """Attach the consumer that has this number, unless it has another one by now."""
        if number in self._consumers and self._connected:
            self._consumers[number].begin(number)

    def _answered(self, answer: Answer | Failed) -> None:
        if isinstance(answer, Failed) and answer.again and self._goes_on(answer):
            return
        result: Answer | RefusedError
        if isinstance(answer, Failed):
            result = RefusedError(answer.reason, gone=answer.gone)
        else:
            result = answer
        call = self._calls.pop(answer.token, None)
        if call is not None:
            call.finish(result)
        elif answer.token in self._said:
            message, attachment = self._said.pop(answer.token)
            error = result if isinstance(result, RefusedError) else None
            if isinstance(message, Attach) and error is not None:
                self._ended_as(message.consumer)
            attachment.answered(message, error)

    def _goes_on(self, failed: Failed) -> bool:
        """Ask or attach again after the way to a home broke, or could not be found; return False if
        that was tried often enough."""
        now = failed.again == "now"
        call = self._calls.get(failed.token)
        if call is not None:
            call.tries += not now
            if call.tries > MOST_TRIES:
                return False
            if now:
                self._ask_again(failed.token)
            else:
                self._later(partial(self._ask_again, failed.token))
            return True
        if failed.token not in self._said:
            return True
        message, attachment = self._said[failed.token]
        if not isinstance(message, Attach) or attachment.ended:
            del self._said[failed.token]  # its consumer says it again, or has left
            return True
        attachment.tries += not now
        if attachment.tries > MOST_TRIES and not attachment.was_attached:
            return False
        self._ended_as(message.consumer)
        self._attach_again(attachment, now=now)
        return True


def about_sessions(message: ServiceMessage) -> bool:
    """Return whether a message of the broker is about durable sessions."""
    return isinstance(message, FROM_HOMES)

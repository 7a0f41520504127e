"""A client's side of the protocol as a state machine: frames in, frames out. No I/O, no clock.

The driver (`client`) makes connections, feeds their frames into `on_frames`, and writes what
`outbox.drain()` gives. Everything that must outlive a connection is here: the publications that the
broker has not taken over (`outbox`), the filters that it must keep (`registrations`), the events
that the application has not read yet (each subscription's `Inbox`), and what durable sessions need
(`consuming`).

A broker that is reached again after a cut has kept the session: each end sends again what the other
has not taken over (`taken` counts on this side), and nothing is lost or doubled. Any other broker
is told everything again.

Publications that a broker sends again, because another one failed, are marked. The client remembers
the latest publications, and drops those that it has had.

Reading stops while some inbox is full, so that the broker sees a slow client and applies its queue
policy. It continues while a call waits for an answer of the broker (`awaiting_answer`): that answer
comes behind the events, and the program that waits for it may be the one that reads them."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from reefcast.client.address import Address
from reefcast.client.batches import Published
from reefcast.client.consuming import Consuming, Later, about_sessions
from reefcast.client.event import Event, Replier
from reefcast.client.inbox import Holding, Inbox
from reefcast.client.moving import Left, Moving, Owners
from reefcast.client.outbox import Outbox
from reefcast.client.recalling import Retaining
from reefcast.client.recent import RecentDeliveries
from reefcast.client.refusals import BATCHES_KEPT, refused
from reefcast.client.settings import Options, call_application, hand_over
from reefcast.client.signal import Signal
from reefcast.client.unconfirmed import Unconfirmed
from reefcast.errors import LocalError, ProtocolError, ReefcastError, RefusedError
from reefcast.history.asking import Asking, Numbers
from reefcast.history.messages import CLIENT_CODEC, Cancel, More, Request
from reefcast.model import wire
from reefcast.model.messages import Confirmed, ControlMessage, Refused, ServiceMessage, Settled
from reefcast.model.wire import FrameKind, Hello, Role
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.registrations import Registration, Registrations, State
from reefcast.protocol.replies import reply_address
from reefcast.retaining.messages import TO_CLIENTS

if TYPE_CHECKING:
    from reefcast.client.storing import Storing

_log = logging.getLogger("reefcast.client")

_DELIVER, _DELIVER_AGAIN = int(FrameKind.DELIVER), int(FrameKind.DELIVER_AGAIN)
_NUMBERED = (int(FrameKind.CONTROL), int(FrameKind.DROPPED))
"""Kinds of numbered frames, beside deliveries."""
ASKED = (Request, More, Cancel)  # of storages


class Serving(Protocol):
    """A storage, as the session sees it."""

    def connected(self) -> None: ...

    def disconnected(self) -> None: ...

    def handle(self, message: ServiceMessage) -> None: ...


class Session:
    """`identity`: the client's id, and its secret; `key`: the random text that its hello calls
    session. `wake`: called when there is output and there was none before; `watch_reading`: called
    when `may_read` may have changed. `later`: calls what it is given after a pause.

    `stored`: the outbox file, if there is one. `moving`: moves to other brokers.

    `taken`: numbered frames that were taken over from the broker, while it has this session.

    `refusals`: the numbers of refused publications that have not been reported yet, with the
    broker's reasons. `awaited`: by number, the publications whose caller waits for more than their
    departure; it is told the reason itself.

    `replier`, `event_type`: who replies to events, and the type of the application's events.

    Signals: `room` when publishing may go on, `acknowledged` when the broker took something over;
    both also when the session ends."""

    def __init__(
        self,
        identity: Identity,
        key: str,
        settings: Options,
        wake: Callable[[], None],
        watch_reading: Callable[[], None],
        later: Later,
        stored: Storing | None = None,
    ) -> None:
        self.client_id = client_id = identity.id
        self.settings = settings
        self.outbox = Outbox(client_id, wake)
        self.unconfirmed = Unconfirmed()
        last_number = 0
        if stored is not None:
            last_number = stored.last_registration
            self.outbox.continue_from(stored.left.last_seq)
            self.unconfirmed.load(stored.left.frames, attempt=last_number)
            self.unconfirmed.on_done = stored.writer.done
        self.registrations: Registrations[Holding] = Registrations(client_id, last_number)
        self.connected = False
        self.ended = False
        self.error: ReefcastError | None = None
        self.room = Signal()
        self.acknowledged = Signal()
        self.refusals: list[tuple[int, str]] = []
        self.awaited: dict[int, Callable[[str], None]] = {}
        self.replier: Replier | None = None
        self.event_type: type[Event] = Event
        self._batches: deque[Published] = deque(maxlen=BATCHES_KEPT)
        self.taken = 0
        self.moving = Moving(self._put_moved, self.awaiting_answer)
        self._secret, self._key = identity.secret, key
        self._broker_session = self._ticket = ""
        self._attempts = 0
        self._watch_reading = watch_reading
        self.numbers = Numbers(client_id)
        self._asking: dict[Asking[Any], Signal] = {}
        self._serving: Serving | None = None
        self.consuming = Consuming(self._tell, later)
        self.retaining = Retaining(self._tell)
        self._recent = RecentDeliveries()
        self._holdings: dict[Holding, None] = {}
        self._full: set[Inbox] = set()
        self._awaiting = 0
        self._warned = False
        self._handlers: dict[int, Callable[[Any], None]] = {
            FrameKind.ACK: self._on_ack,
            FrameKind.CREDIT: self._on_credit,
            FrameKind.CONTROL: self._on_control,
            FrameKind.DROPPED: self._on_dropped,
        }

    # --- connections ------------------------------------------------------------------------------

    @property
    def reply_address(self) -> str:
        """The address for replies to this client."""
        return reply_address(self.client_id, self._key)

    def hello(self) -> Hello:
        """Return the first frame of each connection."""
        settings = self.settings
        hello = wire.hello(
            Role.CLIENT,
            self.client_id,
            settings["network"],
            self._key,
            peer_session=self._broker_session,
            received=self.taken,
            ticket=self._ticket,
            attempt=self._attempts,
            secret=self._secret,
            queue_policy=settings["queue_policy"],
            queue_limit=settings["queue_limit"],
        )
        self._attempts += 1
        return hello

    def leaves(self, address: Address) -> None:
        """Note that the broker at this address sends the client to another one."""
        said = self._broker_session, self._ticket, self.taken, self.registrations.by_number
        if self.connected:
            self.moving.leaves(Left(address, *said))

    def established(self, hello: Hello) -> None:
        """Resume after the broker's hello: send again what it has not acknowledged, and everything
        to a broker that no longer has this session."""
        known = hello.peer_session == self._key
        if hello.resumed:
            self.outbox.go_on(hello.received, hello.credit)
            self.registrations.go_on()
        else:
            self.outbox.begin(
                hello.received if known else 0,
                hello.credit,
                same_broker=known and hello.session == self._broker_session,
                controls=[*self.registrations.renew(), *self.retaining.again()],
                asked=self.unconfirmed.again(),
            )
            self.taken = 0
        self._broker_session, self._ticket = hello.session, hello.ticket
        self.connected = True
        self.moving.arrived(self.registrations.by_number.values())
        if not hello.resumed:
            for asking in self._asking:
                self.say(asking.start())
        self.consuming.established(resumed=hello.resumed)
        if self._serving is not None:
            self._serving.connected()
        self.room.fire()
        self.acknowledged.fire()

    def lost(self) -> None:
        """Note that the connection is gone."""
        self.connected = False
        self.moving.lost()
        if self._serving is not None:
            self._serving.disconnected()
        self.consuming.lost()
        self.outbox.disconnect()
        self.registrations.disconnect()

    def end(self, error: ReefcastError | None = None) -> None:
        """End the session: there will be no more connections, and everything that waits is told."""
        if self.ended:
            return
        self.ended, self.error = True, error
        self.lost()
        self.moving.end()
        for holding in list(self._holdings):
            holding.end(error)
        self.consuming.end(self.ending(), closed=error is None)
        self.retaining.end(self.ending())
        for changed in self._asking.values():
            changed.fire()
        self.unconfirmed.fail(self.ending())
        self.room.fire()
        self.acknowledged.fire()

    # --- frames -----------------------------------------------------------------------------------

    def on_frames(self, frames: Iterable[tuple[int, Any]]) -> None:
        """Handle the frames after the hello. Raises `ProtocolError`."""
        run: list[bytes] = []
        unread: list[bytes] = []
        try:
            for kind, payload in frames:
                if kind == _DELIVER:
                    run.append(payload)
                    continue
                self._take(run, unread)
                if kind == _DELIVER_AGAIN:
                    self._take_again(payload, unread)
                else:
                    self._handle_message(kind, payload)
        finally:
            self._take(run, unread)
        receiver = self.settings["on_deliveries"]
        if unread and receiver is not None:
            hand_over(receiver, unread)

    def _take(self, run: list[bytes], unread: list[bytes]) -> None:
        """Take over consecutive deliveries, and empty the list. Deliveries for the application's
        own receiver go to `unread`, others to inboxes."""
        if not run:
            return
        self.taken += len(run)
        if self.moving.held is not None:
            self.moving.held += run
        elif self.moving.check > 0:
            self.moving.check -= len(run)
            self._put_moved(run)
        elif self.settings["on_deliveries"] is not None:
            self._recent.note(wire.delivery_keys(run))
            unread += run
        else:
            heads, bodies = wire.split_deliveries(run)
            self._recent.note(wire.body_keys(bodies))
            self._put(heads, bodies)
        run.clear()

    def _take_again(self, payload: bytes, unread: list[bytes]) -> None:
        """Take over a delivery that may have come before."""
        self.taken += 1
        if self.moving.held is not None:
            self.moving.held.append(payload)
            return
        if not self._recent.is_new(payload):
            return
        if self.settings["on_deliveries"] is not None:
            unread.append(payload)
        else:
            self._put(*wire.split_deliveries([payload]))

    def _put_moved(self, payloads: Iterable[bytes], owners: Owners | None = None) -> None:
        """Put deliveries that may have come before; `owners`: as another broker knew them."""
        fresh = [each for each in payloads if self._recent.is_new(each)]
        receiver = self.settings["on_deliveries"]
        if receiver is not None and fresh and owners is None:
            hand_over(receiver, fresh)
        elif receiver is None and fresh:
            self._put(*wire.split_deliveries(fresh), owners)

    def _handle_message(self, kind: int, payload: Any) -> None:
        self.taken += kind in _NUMBERED
        handler = self._handlers.get(kind)
        if handler is None:
            raise ProtocolError(f"the broker sent a frame of kind {kind}, which may not come here")
        handler(payload)

    def _put(self, heads: list[bytes], bodies: list[bytes], owners: Owners | None = None) -> None:
        """Put bodies into the inboxes of the subscriptions whose numbers are in the heads. Equal
        heads are looked up once: most reads have only one."""
        if heads.count(heads[0]) == len(heads):
            for owner in self._owners(heads[0], owners):
                owner.put(bodies)
            return
        found: dict[Holding, list[bytes]] = {}
        lists: dict[bytes, list[list[bytes]]] = {}
        for head, body in zip(heads, bodies, strict=True):
            if head not in lists:
                lists[head] = [found.setdefault(owner, []) for owner in self._owners(head, owners)]
            for each in lists[head]:
                each.append(body)
        for owner, its in found.items():
            owner.put(its)

    def _owners(self, head: bytes, by_number: Owners | None) -> Iterable[Holding]:
        """Return the owners of the numbers in a delivery's head, each once."""
        by_number = self.registrations.by_number if by_number is None else by_number
        numbers = wire.decode_numbers(head)
        return dict.fromkeys(by_number[n].owner for n in numbers if n in by_number)

    def _on_ack(self, number: int) -> None:
        self.outbox.acknowledge(number)
        self.acknowledged.fire()

    def _on_credit(self, payload: bytes) -> None:
        self.outbox.grant(wire.decode_number(payload))
        self.room.fire()

    def _on_dropped(self, payload: bytes) -> None:
        told = wire.decode_dropped(payload)
        if not told.count:  # in the place of what it may not see any more
            return
        by_number = self.registrations.by_number
        for numbers, count in told.groups:
            for owner in dict.fromkeys(by_number[n].owner for n in numbers if n in by_number):
                owner.lack(count)
        call_application(self.settings["on_dropped"], told.count)
        if self.settings["on_dropped"] is None and not self._warned:
            self._warned = True
            _log.warning(
                "the broker drops events of client %s, which does not keep up; "
                "subscription.dropped says how many, and on_dropped is called if there is one",
                self.client_id,
            )

    def _on_control(self, payload: bytes) -> None:
        message = CLIENT_CODEC.decode_control(payload)
        if isinstance(message, ServiceMessage):
            if about_sessions(message):
                self.consuming.handle(message)
            elif isinstance(message, TO_CLIENTS):
                self.retaining.handle(message)
            else:
                self._about_history(message)
        elif isinstance(message, Settled):
            self.registrations.settled(message.token)
            self.moving.answered()
        elif isinstance(message, Confirmed):
            self.unconfirmed.answered(message)
        elif isinstance(message, Refused) and message.publication is not None:
            self._publication_refused(message)
        elif isinstance(message, Refused):
            self.registrations.refused(message.token, message.reason)
            self.moving.answered()
        else:
            raise ProtocolError(
                f"the broker sent {type(message).__name__}, which is not for clients"
            )

    def _about_history(self, message: ServiceMessage) -> None:
        if isinstance(message, ASKED):
            if self._serving is not None:
                self._serving.handle(message)
            return
        for asking, changed in list(self._asking.items()):
            heard = asking.heard
            self.say(asking.handle(message))
            if asking.heard != heard:
                changed.fire()

    def _publication_refused(self, message: Refused) -> None:
        assert message.publication is not None
        seq = message.publication[1]
        told = self.unconfirmed.refused(seq, message.reason)
        tell = self.awaited.get(seq)
        if tell is not None:
            tell(message.reason)
        if told or tell is not None:
            return
        if self.settings["on_refused"] is not None:
            call_application(self.settings["on_refused"], message.publication, message.reason)
            return
        self.refusals.append((message.publication[1], message.reason))

    # --- what calls of the application need -------------------------------------------------------

    def check(self) -> None:
        """Raise what publishers must learn: the session's end, or refused publications."""
        if self.ended:
            raise self.ending()
        if self.refusals:
            refusals, self.refusals = self.refusals, []
            raise self.refused(refusals)

    def refused(self, refusals: Sequence[tuple[int, str]]) -> RefusedError:
        """Return the error for refused publications: numbers and reasons."""
        return refused(self.client_id, refusals, self._batches)

    def note_batch(self, batch: Published) -> None:
        """Remember which publications are rows of a batch, to name the rows if they are refused."""
        self._batches.append(batch)

    def ending(self) -> ReefcastError:
        """Return the error that says why the session has ended."""
        return self.error or LocalError("this client has been closed")

    def register(self, registration: Registration[Holding]) -> None:
        if self.ended:
            raise self.ending()
        self._tell(self.registrations.add(registration))

    def withdraw(self, registration: Registration[Holding]) -> None:
        """Withdraw a registration, whatever its state."""
        if registration.state not in (State.PENDING, State.SETTLED):
            return
        message = self.registrations.end(registration)
        self._tell(message)
        if not self.connected:
            self.registrations.disconnect()

    def serve(self, serving: Serving | None) -> None:
        """Make this client a storage, or with None an ordinary client again."""
        self._serving = serving

    def ask(self, asking: Asking[Any], changed: Signal) -> None:
        """Send the question of `asking`; from now on it gets the answers, and is asked again after
        a reconnect."""
        if self.ended:
            raise self.ending()
        self._asking[asking] = changed
        self.say(asking.start())

    def forget(self, asking: Asking[Any]) -> None:
        """Cancel the question of `asking`."""
        if self._asking.pop(asking, None) is not None:
            self.say(asking.cancel())

    def say(self, messages: Iterable[ServiceMessage]) -> None:
        for message in messages:
            self._tell(message)

    def _tell(self, message: ControlMessage) -> None:
        """Send a message; without a connection it waits for one to a broker that still has this
        session."""
        self.outbox.send_control(message)

    # --- reading and its limits -------------------------------------------------------------------

    @property
    def may_read(self) -> bool:
        return not self._full or self._awaiting > 0

    @contextmanager
    def awaiting_answer(self) -> Iterator[None]:
        """Keep reading from the socket inside the `with` block, even if an inbox is full: the block
        waits for the broker."""
        self._awaiting += 1
        self._watch_reading()
        try:
            yield
        finally:
            self._awaiting -= 1
            self._watch_reading()

    def hold(self, holding: Holding) -> None:
        self._holdings[holding] = None

    def release(self, holding: Holding) -> None:
        """Release a holding that the application no longer wants, and withdraw its
        registrations."""
        for registration in list(holding.registrations):
            self.withdraw(registration)
        self._holdings.pop(holding, None)
        holding.end()
        if isinstance(holding, Inbox):
            holding.pop_all()

    def inbox_is_full(self, inbox: Inbox) -> None:
        self._full.add(inbox)
        self._watch_reading()

    def inbox_has_room(self, inbox: Inbox) -> None:
        self._full.discard(inbox)
        self._watch_reading()

"""What durable sessions hand to one MQTT client, and how they learn that it has it.

Rules
-----
- The client's own session owes an event until PUBACK or PUBCOMP. Before PUBREL its notes have that
  the client has received it: it must not come again as a new one, whoever dies.
- A shared subscription owes an event with QoS 2 until it is sent; before that, the client's own
  session takes it over, if there is one. With QoS 1 it goes to another member if this one goes, and
  to the own session if the client unsubscribes.
- A retained value in answer to a SUBSCRIBE is sent before any newer one, and noted: in the same
  turn with QoS 1, before it is sent with QoS 2. If no note can be so long, the note of QoS 2 is
  that the client has received it, for the identifier must be known (`RELEASED`); then it is lost
  if the broker dies first.
- When subscriptions change, what has begun goes on as it began (`begun`). Nothing of the client's
  own session begins before its disk knows the change.

Source: MQTT 5.0, sections 4.3, 4.4 and 4.8.2."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from reefcast.model.wire import decode_publication, encode_publication
from reefcast.mqtt.asking import Asking
from reefcast.mqtt.begun import Begun, Changes
from reefcast.mqtt.delivering import Delivering, begun_us, delivery_note
from reefcast.mqtt.lasting import DELIVERY, RELEASED, LastingSession, SessionFailed
from reefcast.mqtt.outgoing import Delivery, Outgoing, State, own_id
from reefcast.mqtt.packets import Packet, Pubrec, Pubrel
from reefcast.mqtt.reasons import Reason
from reefcast.mqtt.subscriptions import Match, Subscription, Way
from reefcast.sessions.home import TAKEN_OVER
from reefcast.sessions.messages import MOST_TEXT_BYTES, ConsumerEnded, Handed, Owed

AGAIN_S = 1.0
"""After how long a session is asked for again whose home cannot be reached."""


class Surroundings(Protocol):
    """What of the broker this needs (`gateway.Broker`)."""

    def send(self, packet: bytes) -> None: ...

    def end(self, reason: Reason, words: str) -> None: ...

    def now_us(self) -> int: ...

    def later(self, delay_s: float, call: Callable[[], None]) -> None: ...


class Handing:
    """The deliveries of one connection. `most`: how many the client may have unacknowledged, of all
    sessions; `window`: of each; `write` sends a packet. `lasting`: the client's own session, None
    if it has none. `is_taken_over`: another connection is its consumer now."""

    def __init__(
        self,
        broker: Surroundings,
        asking: Asking,
        most: int,
        window: int,
        make_delivering: Callable[[Outgoing], Delivering],
        write: Callable[[Packet], None],
    ) -> None:
        self._broker = broker
        self._asking = asking
        self._window = window
        self._write = write
        self._consumers = itertools.count(1)
        self._attached: dict[int, LastingSession] = {}
        self._owed: dict[tuple[int, int], Delivery] = {}
        self._known: set[int] = set()
        self._options = Begun()
        self._to_note: Changes = {}
        self._last_us = 0
        self._held: list[Owed] | None = None
        self.outgoing = Outgoing(most, broker.send, self._delivered, self._begun, self._note_first)
        self.delivering = make_delivering(self.outgoing)
        self.lasting: LastingSession | None = None
        self.is_taken_over = False

    @property
    def sessions(self) -> Iterable[LastingSession]:
        """The sessions that the client consumes."""
        return self._attached.values()

    # --- sessions ---------------------------------------------------------------------------------

    def resume(self, session: LastingSession, notes: Mapping[str, str]) -> None:
        """Send again what a former connection left: PUBREL packets whose PUBCOMP is missing, and
        what no session owes (MQTT-4.4.0-1)."""
        self._options.resume(notes)
        for key, note in notes.items():
            if key.startswith(RELEASED):
                self._restore(session, int(key.removeprefix(RELEASED)), int(note))
        self._send_noted(session, notes)

    def _send_noted(self, session: LastingSession, notes: Mapping[str, str]) -> None:
        """Send again what no session owes, in the order in which it was sent."""
        found = [(key, note) for key, note in notes.items() if key.startswith(DELIVERY)]
        for key, note in sorted(found, key=lambda each: begun_us(each[1])):
            packet_id = self.outgoing.reserve(int(key.removeprefix(DELIVERY)))
            delivery = self.delivering.noted(note) if packet_id else None
            if delivery is None:
                self.outgoing.give_back(packet_id)
                session.note_later({key: None})
            else:
                delivery.packet_id = packet_id
                self.outgoing.send(delivery)

    def _restore(self, session: LastingSession, packet_id: int, position: int) -> None:
        """Send a PUBREL again whose PUBCOMP is missing (MQTT-4.4.0-1)."""
        own = position > 0
        delivery = Delivery(_nothing, 2, session.source if own else 0, position, own=own)
        self.outgoing.restore(delivery, packet_id)
        if own:
            self._owed[session.source, position] = delivery
            self._known.add(position)
        self._write(Pubrel(packet_id))

    def owes_nothing(self) -> None:
        """Note that the client's own session owed nothing when this connection began."""
        self._options.nothing_owed()
        self.flush()

    async def attach(self, session: LastingSession) -> None:
        """Become a consumer of a session, whose events come from now on. Raises `SessionFailed`."""
        consumer = next(self._consumers)
        self._attached[consumer] = session
        own = session is self.lasting
        try:
            await session.attach(consumer, self._window, alone=own)
        except SessionFailed:
            self._attached.pop(consumer, None)
            session.consumer = 0
            raise

    async def join(self, session: LastingSession, *, again: bool = False) -> None:
        """Become a consumer of a session, as soon as its home can be reached; `again`: the way to
        it broke. A user who may see nothing is none of his own session, and may publish all the
        same."""
        if session.consumer:
            return  # a subscription has come before
        own = session is self.lasting
        try:
            await self.attach(session)
        except SessionFailed as error:
            if error.again:
                self._broker.later(
                    AGAIN_S, lambda: self._asking.begin(self.join(session, again=again))
                )
            elif error.gone or not own:
                self._broker.end(Reason.ADMINISTRATIVE_ACTION, str(error))
            return
        session.flush()
        if own:
            if again:
                self._note_again()
            for position in [
                each for each in self._known if (session.source, each) not in self._owed
            ]:
                self._asking.begin(self._forget(session, own_id(position), position))

    def ended(self, ended: ConsumerEnded) -> None:
        """Handle that the client is no longer a consumer of a session."""
        session = self._attached.pop(ended.consumer, None)
        if session is None or session.consumer != ended.consumer:
            return
        session.consumer = 0
        if ended.again:
            self._asking.begin(self.join(session, again=True))
        elif session is self.lasting:
            taken_over = ended.reason == TAKEN_OVER
            reason = Reason.SESSION_TAKEN_OVER if taken_over else Reason.ADMINISTRATIVE_ACTION
            self.is_taken_over = taken_over
            self._broker.end(reason, ended.reason)

    # --- what they hand out -----------------------------------------------------------------------

    def handed(self, handed: Handed) -> None:
        """Handle events of a session."""
        session = self._attached.get(handed.consumer)
        if session is None:
            return
        own = session is self.lasting
        for owed in handed.events:
            if self._is_owed(session, owed):
                continue
            if own and owed.position in self._known:
                session.acknowledge(owed.position)  # completed since
            elif own and self._held is not None:
                self._held.append(owed)
            else:
                self._hand_over(session, owed, own=own)
        self.flush()
        session.flush()

    def _is_owed(self, session: LastingSession, owed: Owed) -> bool:
        """Return whether an event is on its way, or released: the connection stands."""
        return (session.source, owed.position) in self._owed

    def _hand_over(self, session: LastingSession, owed: Owed, *, own: bool) -> None:
        if self._is_owed(session, owed):
            return
        delivery = self.delivering.owed(session.source, owed, self._options if own else None)
        if delivery is None:
            session.acknowledge(owed.position)
            self._options.over(owed.position if own else 0)
            return
        self._owed[session.source, owed.position] = delivery
        if delivery.qos == 2 and not own and self.lasting is not None:
            self._asking.begin(self._take(session, self.lasting, delivery, owed.body))
        else:
            self.outgoing.send(delivery)

    def send_retained(self, values: Iterable[bytes], match: Match) -> None:
        """Send retained values, as they are encoded, in answer to a SUBSCRIBE."""
        for value in values:
            keep = value if self.lasting is not None else b""
            self.delivering.send(decode_publication(value), match, keep=keep)
        self.flush()

    def flush(self) -> None:
        """Have the client's own session note what it is to know of the deliveries that were begun,
        or are over."""
        if self.lasting is not None:
            notes, self._to_note = self._to_note | self._options.take(), {}
            self.lasting.note_later(notes)

    def _note_again(self) -> None:
        """Have the session note what it may not have heard, for the way to its home broke."""
        for delivery in self.outgoing.sent:
            if delivery.kept and delivery.state is State.SENT:
                self._note(delivery, delivery.kept)
        self.flush()

    def _note(self, delivery: Delivery, body: bytes) -> None:
        """Have the session note a delivery that was begun, unless no note can be so long."""
        delivery.noted = True
        note = delivery_note(delivery, body, self._now_us())
        if len(note.encode()) <= MOST_TEXT_BYTES:
            self._to_note[f"{DELIVERY}{delivery.packet_id}"] = note

    def _note_first(self, delivery: Delivery, packet: bytes) -> None:
        """Have the session note a delivery before its packet is sent."""
        assert self.lasting is not None
        self._asking.begin(self._note_and_send(self.lasting, delivery, packet))

    async def _note_and_send(
        self, session: LastingSession, delivery: Delivery, packet: bytes
    ) -> None:
        note, id = delivery_note(delivery, delivery.kept, self._now_us()), delivery.packet_id
        fits = len(note.encode()) <= MOST_TEXT_BYTES
        try:
            await session.note({f"{DELIVERY}{id}": note} if fits else {f"{RELEASED}{id}": "0"})
        except SessionFailed as error:
            self._broker.end(Reason.UNSPECIFIED_ERROR, str(error))
            return
        delivery.noted = True
        self.outgoing.noted(delivery, packet)
        self.flush()  # of what waited for it

    def _now_us(self) -> int:
        """Return the time, later than before: it tells the order of deliveries."""
        self._last_us = max(self._broker.now_us(), self._last_us + 1)
        return self._last_us

    def change(self, former: Subscription | None, change: Callable[[], object]) -> Changes:
        """Change the subscriptions: `former` ends, if there is one. Return what the client's own
        session is to note of the deliveries that have begun; `changed` follows when it has."""
        if self.lasting is not None:
            self._held = []
        if former is None or self.lasting is None:
            change()
            return {}
        if former.way is Way.OWED:
            self._options.ends(former.served[1], self.delivering.said_by(former))
        change()
        own = [each for each in self._owed.values() if each.own]
        self._options.changed(own, self.delivering.says)
        if former.way is Way.SHARED and self.delivering.said_by(former) is None:
            self._adopt(former.served[0])
        notes, self._to_note = self._to_note | self._options.take(), {}
        return notes

    def changed(self) -> None:
        """Hand over the events that were held during a change of subscriptions, which is noted now
        or was taken back."""
        held, self._held = self._held, None
        if held and self.lasting is not None:
            for owed in held:
                self._hand_over(self.lasting, owed, own=True)
            self.flush()
            self.lasting.flush()

    def _adopt(self, source: int) -> None:
        """Have the client's own session take over what has begun of a shared subscription that the
        client leaves (MQTT-3.10.4-3)."""
        for delivery in [each for each in self._owed.values() if each.source == source]:
            if delivery.state is State.SENT and delivery.event is not None:
                self._acknowledge_owed(delivery)
                delivery.position = 0
                self._note(delivery, encode_publication(delivery.event))

    async def _take(
        self, shared: LastingSession, own: LastingSession, delivery: Delivery, body: bytes
    ) -> None:
        """Have the client's own session take over a delivery of a shared one, and send it."""
        packet_id = self.outgoing.reserve()
        if packet_id:
            try:
                note = delivery_note(delivery, body, self._now_us())
                await own.note({f"{DELIVERY}{packet_id}": note})
            except SessionFailed:  # it is too large: the shared session goes on to owe it
                self.outgoing.give_back(packet_id)
            else:
                delivery.packet_id, delivery.noted = packet_id, True
                self._acknowledge_owed(delivery)
                delivery.position = 0
                shared.flush()
        self.outgoing.send(delivery)

    def _begun(self, delivery: Delivery) -> None:
        """Handle that a delivery was sent. Note one that no session owes, unless it is noted
        already. With QoS 2, acknowledge one of a shared session: it goes to no other client any
        more."""
        if delivery.kept and not delivery.noted:
            self._note(delivery, delivery.kept)
        if delivery.qos == 2 and delivery.position and not delivery.own:
            self._acknowledge_owed(delivery)

    def _delivered(self, delivery: Delivery) -> None:
        """Finish a delivery: acknowledge it to the session that owes it, or remove the notes about
        it."""
        if delivery.position:
            self._acknowledge_owed(delivery)
            self._options.over(delivery.position if delivery.own else 0)
        elif delivery.noted and delivery.state is not State.RELEASED:
            self._to_note[f"{DELIVERY}{delivery.packet_id}"] = None
            if delivery.qos == 2:
                self._to_note[f"{RELEASED}{delivery.packet_id}"] = None
        if delivery.state is State.RELEASED and self.lasting is not None:
            position = delivery.position if delivery.own else 0
            self._asking.begin(self._forget(self.lasting, delivery.packet_id, position))

    async def _forget(self, session: LastingSession, packet_id: int, position: int) -> None:
        """Have the session forget that the client has received a delivery, which is over: its
        event first, which must not come again as a new one."""
        if position and not session.consumer:
            return  # the event cannot be acknowledged now
        try:
            await session.note({f"{RELEASED}{packet_id}": None})
        except SessionFailed:
            return  # it is known as long as the connection lasts; then its PUBREL comes again
        self._known.discard(position)

    def _acknowledge_owed(self, delivery: Delivery) -> None:
        if self._owed.pop((delivery.source, delivery.position), None) is None:
            return
        for session in self._attached.values():
            if session.source == delivery.source:
                session.acknowledge(delivery.position)

    # --- QoS 2 ------------------------------------------------------------------------------------

    def received(self, packet: Pubrec) -> None:
        """Handle a PUBREC."""
        try:
            delivery = self.outgoing.received(packet)
        except KeyError:
            self._write(Pubrel(packet.packet_id, Reason.PACKET_IDENTIFIER_NOT_FOUND))
            return
        if delivery is None:
            return
        if self.lasting is not None and delivery.state is State.RELEASING:
            self._asking.begin(self._release_later(self.lasting, delivery))
        else:
            self._release(delivery)

    async def _release_later(self, session: LastingSession, delivery: Delivery) -> None:
        """Release a delivery once the session's disk knows that the client has received it. Its
        home answers in order, so PUBREL packets have that of PUBREC packets (MQTT-4.6.0-4)."""
        position = delivery.position if delivery.own else 0
        try:
            notes: dict[str, str | None] = {f"{RELEASED}{delivery.packet_id}": str(position)}
            if delivery.noted:
                notes[f"{DELIVERY}{delivery.packet_id}"] = None
            await session.note(notes)
        except SessionFailed as error:
            self._broker.end(Reason.UNSPECIFIED_ERROR, str(error))
            return
        if delivery.own:
            self._known.add(delivery.position)
        else:
            self._acknowledge_owed(delivery)
        self._release(delivery)

    def _release(self, delivery: Delivery) -> None:
        delivery.state = State.RELEASED
        self._write(Pubrel(delivery.packet_id))


def _nothing(packet_id: int, again: bool) -> bytes:
    return b""

"""What durable sessions hand to one MQTT client, and how they learn that it has it.

Rules
-----
- The client's own session owes an event until PUBACK or PUBCOMP. Before PUBREL its notes have that
  the client has received it: it must not come again as a new one, whoever dies.
- A shared subscription owes an event with QoS 2 until it is sent; before that, the client's own
  session takes it over, if there is one. With QoS 1 it goes to another member if this one goes.

Source: MQTT 5.0, sections 4.3, 4.4 and 4.8.2."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from reefcast.mqtt.asking import Asking
from reefcast.mqtt.delivering import Delivering, delivery_note
from reefcast.mqtt.lasting import DELIVERY, RELEASED, LastingSession, SessionFailed
from reefcast.mqtt.outgoing import Delivery, Outgoing, State, own_id
from reefcast.mqtt.packets import Packet, Pubrec, Pubrel
from reefcast.mqtt.reasons import Reason
from reefcast.sessions.home import TAKEN_OVER
from reefcast.sessions.messages import ConsumerEnded, Handed

AGAIN_S = 1.0
"""After how long a session is asked for again whose home cannot be reached."""


class Surroundings(Protocol):
    """What of the broker this needs (`gateway.Broker`)."""

    def send(self, packet: bytes) -> None: ...

    def end(self, reason: Reason, words: str) -> None: ...

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
        self.outgoing = Outgoing(most, broker.send, self._delivered, self._begun)
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
        what shared subscriptions have handed over to the session (MQTT-4.4.0-1)."""
        for key, note in notes.items():
            if key.startswith(RELEASED):
                self._restore(session, int(key.removeprefix(RELEASED)), int(note))
        self._send_noted(session, notes)

    def _send_noted(self, session: LastingSession, notes: Mapping[str, str]) -> None:
        """Send again what a shared subscription has handed over to the session."""
        for key, note in notes.items():
            if not key.startswith(DELIVERY):
                continue
            packet_id = self.outgoing.reserve(int(key.removeprefix(DELIVERY)))
            delivery = self.delivering.noted(note) if packet_id else None
            if delivery is None:
                self.outgoing.give_back(packet_id)
                session.note_later(key, None)
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

    async def join(self, session: LastingSession) -> None:
        """Become a consumer of a session, as soon as its home can be reached. A user who may see
        nothing is none of his own session, and may publish all the same."""
        if session.consumer:
            return  # a subscription has come before
        own = session is self.lasting
        try:
            await self.attach(session)
        except SessionFailed as error:
            if error.again:
                self._broker.later(AGAIN_S, lambda: self._asking.begin(self.join(session)))
            elif error.gone or not own:
                self._broker.end(Reason.ADMINISTRATIVE_ACTION, str(error))
            return
        session.flush()
        if own:
            for position in [
                each for each in self._known if (session.source, each) not in self._owed
            ]:
                self._asking.begin(self._forget(session, own_id(position), position))

    def ended(self, ended: ConsumerEnded) -> None:
        """Handle that the client is a consumer of a session no more."""
        session = self._attached.pop(ended.consumer, None)
        if session is None or session.consumer != ended.consumer:
            return
        session.consumer = 0
        if ended.again:
            self._asking.begin(self.join(session))
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
            if (session.source, owed.position) in self._owed:
                continue  # on its way, or released: the connection stands
            known = own and owed.position in self._known  # and completed since
            delivery = None if known else self.delivering.owed(session.source, owed, own=own)
            if delivery is None:
                session.acknowledge(owed.position)
            else:
                self._owed[session.source, owed.position] = delivery
                if delivery.qos == 2 and not own and self.lasting is not None:
                    self._asking.begin(self._take(session, self.lasting, delivery, owed.body))
                else:
                    self.outgoing.send(delivery)
        session.flush()

    async def _take(
        self, shared: LastingSession, own: LastingSession, delivery: Delivery, body: bytes
    ) -> None:
        """Have the client's own session take over a delivery of a shared one, and send it."""
        packet_id = self.outgoing.reserve()
        if packet_id:
            try:
                await own.note({f"{DELIVERY}{packet_id}": delivery_note(delivery, body)})
            except SessionFailed:  # it is too large: the shared session goes on to owe it
                self.outgoing.give_back(packet_id)
            else:
                delivery.packet_id, delivery.noted = packet_id, True
                self._acknowledge_owed(delivery)
                delivery.position = 0
                shared.flush()
        self.outgoing.send(delivery)

    def _begun(self, delivery: Delivery) -> None:
        """Have done with a delivery of a shared session that goes to nobody else any more."""
        if delivery.qos == 2 and delivery.position and not delivery.own:
            self._acknowledge_owed(delivery)

    def _delivered(self, delivery: Delivery) -> None:
        """Have done with a delivery: what owed it forgets it."""
        if delivery.position:
            self._acknowledge_owed(delivery)
        elif delivery.noted and delivery.state is not State.RELEASED and self.lasting is not None:
            self.lasting.note_later(f"{DELIVERY}{delivery.packet_id}", None)
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

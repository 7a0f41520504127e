"""The deliveries to one MQTT client with QoS 1 and 2, until it has acknowledged them.

Rules
-----
- At most `receive_maximum` of them are unacknowledged (section 4.9); the others wait, in order.
- An event of the client's own durable session has a packet identifier that follows from its
  position there. So it has the same one if it is sent again after the death of a broker, and a
  client knows a QoS 2 message that it has received already. All other deliveries have identifiers
  from another range.
- An event with QoS 2 of a shared subscription goes to nobody else once it is sent, whatever becomes
  of its client (MQTT-4.8.2-4 to -6). If the client's session outlives the connection, it gets the
  event first, into its notes, with the packet identifier.
- A retained value in answer to a SUBSCRIBE is owed by nobody. The client's own session notes it
  with its packet identifier, so that it is sent again over the next connection (MQTT-4.4.0-1):
  with QoS 1 when it is sent, with QoS 2 before, since whoever takes over must not use this
  identifier for another event, which the client would take for a repetition. No more of them are
  unacknowledged than its notes have room for. Nothing overtakes one that waits for its note, or an
  event with QoS 0 one that waits for its turn: it may be a newer value.
- A delivery with QoS 2 is *released* by the client's PUBREC: it is never sent again, but its PUBREL
  is until PUBCOMP.

Source: MQTT 5.0, sections 2.2.1, 4.3, 4.4 and 4.9."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import IntEnum

from reefcast.model.publication import Publication
from reefcast.mqtt.packets import Puback, Pubcomp, Pubrec
from reefcast.mqtt.subscriptions import Match

HALF = 1 << 15
"""The first packet identifier of events of the client's own session; those below are for others."""
MOST_KEPT_BYTES = 4 << 20
"""Bytes of unacknowledged events in the notes of the client's session, unless it is a single one:
encoded, and with as many of a former connection, they fit there (`MOST_NOTES_BYTES`)."""
Make = Callable[[int, bool], bytes]
"""Makes the packet with a packet identifier, marked as sent before (DUP) or not; empty if the
client cannot be sent it: it is too large, or has expired."""


def own_id(position: int) -> int:
    """Return the packet identifier of the event at a position of the client's own session."""
    return HALF + position % HALF


class State(IntEnum):
    """What a delivery waits for: its turn, its note on the session's disk, a PUBACK or PUBREC, the
    disk before its PUBREL, or a PUBCOMP."""

    WAITING = 0
    NOTING = 1
    SENT = 2
    RELEASING = 3
    RELEASED = 4


class Delivery:
    """One delivery. `source`, `position`: where it is owed, 0 for a subscription that lasts as
    long as the connection. `event`: what is delivered. `own`: it is owed by the client's own
    session. `again`: it may have been sent before. `packet_id`: 0 while it waits, unless one is
    reserved for it. `noted`: the client's session has it in its notes. `kept`: the encoded event,
    if these have it as long as it is unacknowledged. `match`: what the subscriptions say of it;
    `numbers`: those of the session's that match. `retained`: it is a retained value for a new
    subscription."""

    __slots__ = (
        *("again", "event", "kept", "make", "match", "noted", "numbers", "own", "packet_id"),
        *("position", "qos", "retained", "source", "state"),
    )

    def __init__(
        self, make: Make, qos: int, source: int = 0, position: int = 0, *, own: bool = False
    ) -> None:
        self.make = make
        self.event: Publication | None = None
        self.match: Match | None = None
        self.numbers: tuple[int, ...] = ()
        self.kept = b""
        self.qos = qos
        self.source, self.position, self.own = source, position, own
        self.again = self.noted = self.retained = False
        self.packet_id = 0
        self.state = State.WAITING


class Outgoing:
    """The deliveries of one connection. `write` sends a packet; `begun` is told of each delivery
    that is sent, `done` of each that is over, so that what it was owed by can forget it. `note` is
    to have a delivery noted, and then to call `noted` with its packet."""

    def __init__(
        self,
        receive_maximum: int,
        write: Callable[[bytes], None],
        done: Callable[[Delivery], None],
        begun: Callable[[Delivery], None],
        note: Callable[[Delivery, bytes], None],
    ) -> None:
        self.receive_maximum = receive_maximum
        self._write = write
        self._done = done
        self._begun = begun
        self._note = note
        self._waiting: list[Delivery] = []  # as in `asking`; few have to wait
        self._sent: dict[int, Delivery] = {}
        self._reserved: set[int] = set()
        self._last = self._kept_bytes = self._noting = 0

    def __len__(self) -> int:
        """Return how many are not over."""
        return len(self._waiting) + len(self._sent)

    @property
    def sent(self) -> Iterable[Delivery]:
        """The deliveries that are sent and not over."""
        return self._sent.values()

    @property
    def waiting(self) -> int:
        return len(self._waiting)

    def send(self, delivery: Delivery) -> None:
        """Send a delivery when it is its turn."""
        if self._waiting or not self._try(delivery):
            self._waiting.append(delivery)

    def send_unacknowledged(self, delivery: Delivery) -> None:
        """Send a delivery with QoS 0 at once, but behind a retained value that waits."""
        if self._noting or any(each.retained for each in self._waiting):
            self._waiting.append(delivery)
        else:
            self._write_unacknowledged(delivery)

    def noted(self, delivery: Delivery, packet: bytes) -> None:
        """Send a delivery that is noted now, and what had to wait for that."""
        self._noting -= 1
        self._sent_as(delivery, packet)
        self._go_on()

    def reserve(self, packet_id: int = 0) -> int:
        """Reserve this packet identifier, or any that is free, for a delivery; return it, 0 if none
        is free."""
        packet_id = packet_id or self._next_id()
        if self._is_used(packet_id):
            return 0
        self._reserved.add(packet_id)
        return packet_id

    def give_back(self, packet_id: int) -> None:
        """Release a reserved packet identifier."""
        self._reserved.discard(packet_id)

    def restore(self, delivery: Delivery, packet_id: int) -> None:
        """Note a delivery that was released in a former connection."""
        delivery.packet_id, delivery.state = packet_id, State.RELEASED
        self._sent[packet_id] = delivery

    def drop_oldest(self) -> Delivery | None:
        """Drop the delivery that has waited longest; return it, None if none waits."""
        for at, each in enumerate(self._waiting):
            if (
                not each.position and not each.noted
            ):  # what a session owes does not wait for lack of room here
                del self._waiting[at]
                return each
        return None

    def take_back(self, keeps: Callable[[Publication], bool]) -> int:
        """Drop the waiting deliveries whose events are not to be sent any more; return how many."""
        gone = [each for each in self._waiting if each.event and not keeps(each.event)]
        self._waiting = [each for each in self._waiting if each not in gone]
        for each in gone:
            self._over(each)
        return len(gone)

    # --- what the client answers ------------------------------------------------------------------

    def acknowledged(self, packet: Puback) -> None:
        """Handle a PUBACK. One for which nothing waits is ignored: its delivery may be over."""
        delivery = self._sent.get(packet.packet_id)
        if delivery is not None and delivery.qos == 1 and delivery.state is State.SENT:
            self._end(delivery)

    def received(self, packet: Pubrec) -> Delivery | None:
        """Handle a PUBREC; return the delivery that is to be released now. Raises `KeyError` for an
        identifier that nothing has."""
        delivery = self._sent[packet.packet_id]
        if delivery.state is State.NOTING:
            raise KeyError(packet.packet_id)
        if delivery.qos != 2 or delivery.state is State.RELEASING:
            return None
        if packet.reason.is_failure and delivery.state is State.SENT:
            self._end(delivery)
            return None
        if delivery.state is State.SENT:
            delivery.state = State.RELEASING
        return delivery

    def completed(self, packet: Pubcomp) -> None:
        """Handle a PUBCOMP. One for which nothing waits is ignored."""
        delivery = self._sent.get(packet.packet_id)
        if delivery is not None and delivery.state is State.RELEASED:
            self._end(delivery)

    def not_sent(self, packet_id: int) -> None:
        """Have done with a delivery whose packet was not written after all."""
        delivery = self._sent.get(packet_id)
        if delivery is not None:
            self._end(delivery)

    def _end(self, delivery: Delivery) -> None:
        del self._sent[delivery.packet_id]
        self._kept_bytes -= len(delivery.kept)
        self._over(delivery)
        self._go_on()

    def _go_on(self) -> None:
        """Send what waits, as far as there is room."""
        while self._waiting:
            following = self._waiting.pop(0)  # before it is written, which may drop others
            if not self._try(following):
                self._waiting.insert(0, following)
                break

    def _over(self, delivery: Delivery) -> None:
        if delivery.noted:
            self._reserved.discard(delivery.packet_id)
        self._done(delivery)

    # --- sending ----------------------------------------------------------------------------------

    def _try(self, delivery: Delivery) -> bool:
        """Send a delivery if there is room for it; return whether it need not wait any more."""
        is_noted_first = delivery.kept != b"" and delivery.qos == 2 and not delivery.noted
        if self._noting and not is_noted_first:
            return False
        if not delivery.qos:
            self._write_unacknowledged(delivery)
            return True
        if len(self._sent) >= self.receive_maximum:
            return False
        if delivery.kept and 0 < self._kept_bytes > MOST_KEPT_BYTES - len(delivery.kept):
            return False
        if delivery.noted:
            packet_id = delivery.packet_id
        else:
            packet_id = own_id(delivery.position) if delivery.own else self._next_id()
            if self._is_used(packet_id):
                return False
        packet = delivery.make(packet_id, delivery.again)
        if not packet:
            self._over(delivery)
            return True
        delivery.packet_id = packet_id
        self._sent[packet_id] = delivery
        self._kept_bytes += len(delivery.kept)
        if is_noted_first:
            delivery.state = State.NOTING
            self._noting += 1
            self._note(delivery, packet)
        else:
            self._sent_as(delivery, packet)
        return True

    def _sent_as(self, delivery: Delivery, packet: bytes) -> None:
        delivery.state = State.SENT
        self._write(packet)
        self._begun(delivery)

    def _write_unacknowledged(self, delivery: Delivery) -> None:
        if packet := delivery.make(0, False):
            self._write(packet)

    def _is_used(self, packet_id: int) -> bool:
        return packet_id in self._sent or packet_id in self._reserved

    def _next_id(self) -> int:
        """Return an identifier of no delivery, or one that is taken if all are."""
        for _ in range(HALF - 1):
            self._last = self._last % (HALF - 1) + 1
            if not self._is_used(self._last):
                break
        return self._last

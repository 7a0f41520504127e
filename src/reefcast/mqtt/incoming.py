"""The publications of one MQTT client with QoS 1 and 2, until the broker has acknowledged them.

Rules
-----
- They are confirmed publications (`routing.confirming`): PUBACK and PUBREC say that the event is
  where it must be. A retained one is answered when its value is kept as well.
- PUBACK and PUBREC come in the order of the publications (MQTT-4.6.0-2, MQTT-4.6.0-3).
- A client that sends a QoS 2 publication again after its PUBREC gets another PUBREC, and nothing is
  published (MQTT-4.3.3-10).
- What a former connection left counts for the Receive Maximum when it comes again, not before: the
  client begins each connection with all of it (section 4.9).
- A QoS 2 publication has the number (`Publication.seq`) that its packet identifier had first, until
  the client has released it by PUBREL. A client that sends it again, also after a broker died, does
  not publish it twice: whoever has it knows it by this number. The number is on the
  session's disk before the event is published; only sessions that outlive a connection need it.

Source: MQTT 5.0, sections 3.3.4, 4.3, 4.6 and 4.9."""

from __future__ import annotations

from collections.abc import Callable
from enum import Flag, auto

from reefcast.mqtt.packets import Puback, Pubcomp, Publish, Pubrec, Pubrel
from reefcast.mqtt.reasons import MqttError, Reason

Answer = Puback | Pubrec | Pubcomp


class Wait(Flag):
    """What the acknowledgement of a publication waits for: that it is where it must be, that its
    value is retained, that its number is on disk."""

    NOTHING = 0
    CONFIRMED = auto()
    RETAINED = auto()
    NOTED = auto()


class Arrival:
    """A publication that is not acknowledged. `seq`: its number; `waits`: what is to come before it
    is; `reason`, `words`: what the client is told."""

    __slots__ = ("packet_id", "qos", "reason", "seq", "waits", "words")

    def __init__(self, packet_id: int, qos: int, seq: int, waits: Wait) -> None:
        self.packet_id, self.qos, self.seq = packet_id, qos, seq
        self.waits = waits
        self.reason, self.words = Reason.SUCCESS, ""


class Incoming:
    """What one client has published. `most`: how many may be unacknowledged (the Receive Maximum of
    this broker). `answer` sends an acknowledgement, with a sentence. `taken`: the numbers of QoS 2
    publications that are not released, by packet identifiers; `told`: the identifiers of those that
    were answered by PUBREC."""

    def __init__(self, most: int, answer: Callable[[Answer, str], None]) -> None:
        self._most = most
        self._answer = answer
        self._arrivals: dict[int, Arrival] = {}  # by their numbers, in the order in which they came
        self.taken: dict[int, int] = {}
        self.told: set[int] = set()
        self._open: set[int] = set()
        self._open_of_qos_1 = 0

    def __len__(self) -> int:
        """Return how many publications wait for the broker's answer."""
        return len(self._arrivals)

    def restore(self, packet_id: int, seq: int, *, told: bool) -> None:
        """Note a QoS 2 publication of a former connection that is not released."""
        self.taken[packet_id] = seq
        if told:
            self.told.add(packet_id)

    def number_of(self, packet: Publish, fresh: int) -> int:
        """Return the number of a publication: `fresh`, or the one that it had before; 0 if the
        broker is about to answer it anyway. Raises `MqttError` if there are too many."""
        id = packet.packet_id
        known = self.taken.get(id) if packet.qos == 2 else None
        if known in self._arrivals:
            return 0
        if known is not None and id in self._open:
            return self._tell_again(packet, known)
        if len(self._open) + self._open_of_qos_1 >= self._most:
            raise MqttError(
                Reason.RECEIVE_MAXIMUM_EXCEEDED,
                f"more than {self._most} publications are not acknowledged, the Receive Maximum",
            )
        if packet.qos == 2:
            self._open.add(id)
        else:
            self._open_of_qos_1 += 1
        if known is None:
            return fresh
        return self._tell_again(packet, known) if id in self.told else known

    def _tell_again(self, packet: Publish, seq: int) -> int:
        self.begin(packet, seq, Wait.NOTHING)
        self._tell()
        return 0

    def begin(self, packet: Publish, seq: int, waits: Wait) -> None:
        """Note a publication, and what is to come before it is acknowledged."""
        arrival = Arrival(packet.packet_id, packet.qos, seq, waits)
        self._arrivals[seq] = arrival
        if packet.qos == 2:
            self.taken[packet.packet_id] = seq

    def answered(self, seq: int, what: Wait) -> None:
        """Handle what has come for the publication with this number."""
        arrival = self._arrivals.get(seq)
        if arrival is not None:
            arrival.waits &= ~what
            self._tell()

    def refused(self, seq: int, reason: Reason, words: str) -> bool:
        """Handle that the broker refuses a publication; return whether it is one of these."""
        arrival = self._arrivals.get(seq)
        if arrival is None:
            return False
        arrival.waits, arrival.reason, arrival.words = Wait.NOTHING, reason, words
        self._tell()
        return True

    def release(self, packet: Pubrel) -> bool:
        """Handle a PUBREL; return whether it is of a publication whose PUBREC was sent."""
        seq = self.taken.get(packet.packet_id)
        if seq is None or seq in self._arrivals:
            return False
        del self.taken[packet.packet_id]
        self._open.discard(packet.packet_id)
        self.told.discard(packet.packet_id)
        return True

    def _tell(self) -> None:
        """Acknowledge all publications that come first and have their answers."""
        arrivals = self._arrivals
        while arrivals and not (arrival := next(iter(arrivals.values()))).waits:
            del arrivals[arrival.seq]
            id, failed = arrival.packet_id, arrival.reason.is_failure
            if arrival.qos == 1:
                self._open_of_qos_1 -= 1
            elif failed:
                self._open.discard(id)
                self.taken.pop(id, None)
            make = Puback if arrival.qos == 1 else Pubrec
            self._answer(make(id, arrival.reason), arrival.words)
            if arrival.qos == 2 and not failed:
                self.told.add(id)

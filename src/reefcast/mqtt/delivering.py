"""Events on their way to one MQTT client: which QoS, which flags, which packet.

Rules
-----
- The QoS of a delivery is the lower one of the event's and of the highest that the matching
  subscriptions were granted (MQTT-3.8.4-8, MQTT-3.3.4-2). An event that did not come by MQTT has
  the granted one.
- An event that several subscriptions of a client match is delivered once, with all their
  identifiers (MQTT-3.3.4-3 to -5).
- A retained value that is sent because of a new subscription has the RETAIN flag; an event that is
  published now has it only if the subscription wants it as published (MQTT-3.3.1-8 to -13).
- What the client cannot take, because it is larger than its Maximum Packet Size or has expired, is
  not sent, and counts as done (MQTT-3.1.2-24, MQTT-3.1.2-25, MQTT-3.3.2-5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication
from reefcast.mqtt.content import QOS, RETAIN, packet_of
from reefcast.mqtt.encoding import encode, numbered
from reefcast.mqtt.outgoing import Delivery, Outgoing
from reefcast.mqtt.packets import Publish
from reefcast.mqtt.subscriptions import Match, Subscriptions
from reefcast.sessions.messages import Owed

NO_LIMIT = 1 << 28
"""More bytes than a packet has."""


class Renderer:
    """Makes PUBLISH packets. The packets of the event that is being delivered are kept: clients
    whose subscriptions ask for the same get the same bytes."""

    __slots__ = ("_made", "_of")

    def __init__(self) -> None:
        self._of: Publication | None = None
        self._made: dict[tuple[object, ...], bytes] = {}

    def packet(
        self, event: Publication, match: Match, qos: int, version: int, now_us: int, *, retain: bool
    ) -> bytes:
        """Return the packet of an event, with packet identifier 1 if it has one; empty if the event
        has expired."""
        if self._of is not event:
            self._of = event
            self._made.clear()
        key = (match.topic_filter, qos, version, retain, match.identifiers)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(event, match, qos, version, now_us, retain)
        return made

    def _make(
        self, event: Publication, match: Match, qos: int, version: int, now_us: int, retain: bool
    ) -> bytes:
        packet = packet_of(
            event,
            match.topic_filter,
            now_us,
            qos=qos,
            retain=retain,
            packet_id=1 if qos else 0,
            identifiers=match.identifiers,
        )
        return b"" if packet is None else encode(packet, version)


class Delivering:
    """The deliveries of one connection. `me`: returns whether an event is the client's own;
    `write`: sends what need not be acknowledged, `send`: what does."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        outgoing: Outgoing,
        renderer: Renderer,
        version: int,
        most_bytes: int,
        write: Callable[[bytes], None],
        now_us: Callable[[], int],
        own: Callable[[str], bool],
    ) -> None:
        self._subscriptions = subscriptions
        self._outgoing = outgoing
        self._renderer = renderer
        self._version = version
        self._most_bytes = most_bytes
        self._write = write
        self._now_us = now_us
        self._own = own

    def deliver(self, numbers: Sequence[int], event: Publication) -> None:
        """Deliver an event to passing subscriptions."""
        match = self._subscriptions.matched(0, numbers, own=self._own(event.publisher))
        if match is not None:
            retain = match.as_published and event.attributes.get(RETAIN) is True
            self.send(event, match, retain=retain)

    def owed(self, source: int, owed: Owed, *, own: bool) -> Delivery | None:
        """Return the delivery of an event that a session owes (`own`: that of the client), None if
        it is done."""
        event = decode_publication(owed.body)
        is_own = self._own(event.publisher)
        match = self._subscriptions.matched(source, owed.subscriptions, own=is_own)
        if match is None:
            return None
        retain = match.as_published and event.attributes.get(RETAIN) is True
        qos = granted_qos(event, match)
        if not qos:
            self.send(event, match, retain=retain)
            return None
        make = partial(self._packet, event, match, qos, retain)
        delivery = Delivery(make, qos, source, owed.position, own=own)
        delivery.again = owed.tries > 1
        return delivery

    def send(self, event: Publication, match: Match, *, retain: bool) -> None:
        """Send an event that no session owes."""
        qos = granted_qos(event, match)
        if qos:
            self._outgoing.send(Delivery(partial(self._packet, event, match, qos, retain), qos))
        elif packet := self._packet(event, match, 0, retain, 0, False):
            self._write(packet)

    def send_system(self, packet: Publish) -> None:
        """Send what a broker says of itself."""
        self._write(encode(packet, self._version))

    def _packet(
        self, event: Publication, match: Match, qos: int, retain: bool, packet_id: int, again: bool
    ) -> bytes:
        version = self._version
        made = self._renderer.packet(event, match, qos, version, self._now_us(), retain=retain)
        if len(made) > self._most_bytes:
            return b""
        return numbered(made, packet_id, again) if qos and made else made


def granted_qos(event: Publication, match: Match) -> int:
    """Return the QoS of a delivery."""
    published = event.attributes.get(QOS)
    return min(published, match.qos) if type(published) is int else match.qos

"""Events on their way to one MQTT client: which QoS, which flags, which packet.

Rules
-----
- The QoS of a delivery is the lower one of the event's and of the highest that the matching
  subscriptions were granted (`content.delivered_qos`).
- An event that several subscriptions of a client match is delivered once, with all their
  identifiers (MQTT-3.3.4-3 to -5).
- A retained value that is sent because of a new subscription has the RETAIN flag; an event that is
  published now has it only if the subscription wants it as published (MQTT-3.3.1-8 to -13).
- What was sent before is sent again although it has expired since (MQTT-4.3.3-7).
- Most deliveries are of plain events to single subscriptions; the port makes them by itself
  (`Renderer.plain`), with the same bytes.
- What the client cannot take, because it is larger than its Maximum Packet Size or has expired, is
  not sent, and counts as done (MQTT-3.1.2-24, MQTT-3.1.2-25, MQTT-3.3.2-5)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import msgspec

from reefcast.model.messages import Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication
from reefcast.mqtt.begun import Begun
from reefcast.mqtt.content import (
    PLAIN,
    Outbound,
    delivered_qos,
    is_topic_name,
    last_us,
    outbound_of,
    packet_of,
    same_until_us,
    topic_for,
)
from reefcast.mqtt.encoding import publish_parts
from reefcast.mqtt.outgoing import Delivery, Outgoing
from reefcast.mqtt.subscriptions import Match, Subscription, Subscriptions
from reefcast.sessions.messages import Owed

if TYPE_CHECKING:
    from reefcast.matching.packets import Packets

NO_LIMIT = 1 << 28
"""More bytes than a packet has."""
MOST_TOGETHER = 256
"""Packets in one piece: a port writes some pieces at once, and is to split none of them."""
DUP = 0x08
"""The bit of a PUBLISH that was sent before, in its first byte."""
Parts = tuple[bytes, bytes]
"""The bytes of a PUBLISH before and behind its packet identifier."""
Key = tuple[Match, int, bool]
"""What the packets of one event may differ in: what the subscriptions say, the version, and the
RETAIN flag."""
Shape = tuple[int, bool, tuple[int, ...]]
"""What the packets of one plain event may differ in: the version, whether the RETAIN flag stays as
it was published, the identifiers of the subscription. A *plain* event was published with QoS 0
under one topic."""
Made = tuple[bytes, int, int]
"""Packets, how many they are, and where their frames ended."""
Wrap = Callable[[bytes, Publication, int], bytes]
"""Returns the bytes of a packet, and remembers for which event and packet identifier."""


class Renderer:
    """Makes PUBLISH packets, as `wrap` returns them. Those of the event that is being delivered are
    kept: clients whose subscriptions ask for the same get the same bytes."""

    __slots__ = (
        *("_content", "_made", "_made_of", "_of", "_packets", "_parts", "_plain", "_plain_content"),
        *("_plain_of", "_until_us", "_wholes", "_wrap"),
    )

    def __init__(self, wrap: Wrap = lambda data, event, packet_id: data) -> None:
        self._wrap = wrap
        self._packets: Packets | None = None
        self._made_of = b""
        self._made: dict[tuple[int, int, int], Made] = {}
        self._plain_of: object = None
        self._plain: dict[Shape, bytes] | None = None
        self._plain_content: Outbound | None = None
        self._of: Publication | None = None
        self._content: Outbound | None = None
        self._until_us = 0
        self._parts: dict[Key, Parts | None] = {}
        self._wholes: dict[Key, bytes] = {}

    @property
    def packets(self) -> Packets:
        """The kernels, loaded at the first use."""
        if self._packets is None:
            from reefcast.matching.packets import Packets

            self._packets = Packets(PLAIN)
        return self._packets

    def from_frames(self, data: bytes, start: int, version: int, most_bytes: int) -> Made:
        """Return the packets of plain DELIVER frames from `start` on, in compiled code; how many
        they are; where they end. Clients that get the same bytes share what is made of them."""
        if data is not self._made_of:
            self._made_of = data
            self._made.clear()
        key = (start, version, most_bytes)
        made = self._made.get(key)
        if made is None:
            made = self.packets.packets(data, start, version, most_bytes, MOST_TOGETHER)
            self._made[key] = made
        return made

    def plain(self, publish: Publish, now_us: Callable[[], int]) -> dict[Shape, bytes] | None:
        """Return the packets of an event by their shapes, as far as they are made; None for an
        event that is not plain."""
        if self._plain_of is not publish:
            self._plain_of = publish
            event = publish.publication
            content = self.content(event, now_us()) if len(event.topics) == 1 else None
            is_plain = content is not None and content.qos == 0 and is_topic_name(event.topics[0])
            self._plain = {} if is_plain else None
            self._plain_content = content
        return self._plain

    def plain_packet(self, publish: Publish, shape: Shape) -> bytes:
        """Make the packet of a plain event, which `plain` has returned last."""
        content, packets = self._plain_content, self._plain
        assert content is not None and packets is not None
        version, as_published, identifiers = shape
        event = publish.publication
        packet = packet_of(
            content,
            event.topics[0],
            0,
            version,
            retain=as_published and content.retain,
            subscription_identifiers=identifiers,
        )
        packets[shape] = whole = self._wrap(b"".join(publish_parts(packet, version)), event, 0)
        return whole

    def content(self, event: Publication, now_us: int) -> Outbound | None:
        """Return what subscribers get of an event at this time; None if it has expired."""
        if self._of is not event or now_us >= self._until_us:
            self._of = event
            self._content = outbound_of(event, now_us)
            self._until_us = same_until_us(event, now_us)
            self._parts.clear()
            self._wholes.clear()
        return self._content

    def packet(
        self,
        event: Publication,
        content: Outbound,
        key: Key,
        packet_id: int,
        *,
        again: bool,
    ) -> bytes:
        """Return the packet of an event, with QoS 0 if there is no packet identifier; empty if MQTT
        has no name for its topic."""
        if not packet_id:
            whole = self._wholes.get(key)
            if whole is None:
                parts = self._parts_of(event, content, key)
                whole = b"" if parts is None else self._wrap(parts[0] + parts[1], event, 0)
                self._wholes[key] = whole
            return whole
        parts = self._parts_of(event, content, key)
        if parts is None:
            return b""
        head, tail = parts
        if again:
            head = bytes((head[0] | DUP,)) + head[1:]
        return self._wrap(b"".join((head, packet_id.to_bytes(2), tail)), event, packet_id)

    def _parts_of(self, event: Publication, content: Outbound, key: Key) -> Parts | None:
        if key in self._parts:
            return self._parts[key]
        match, version, retain = key
        topic = topic_for(event, match.pattern)
        parts = None
        if topic is not None:
            packet = packet_of(
                content,
                topic,
                match.qos,
                version,
                retain=retain,
                packet_id=1,
                subscription_identifiers=match.identifiers,
            )
            parts = publish_parts(packet, version)
        self._parts[key] = parts
        return parts


class Delivering:
    """The deliveries of one connection. `write` sends a packet that is not acknowledged;
    `is_own(publisher)` returns whether an event is the client's own."""

    def __init__(
        self,
        subscriptions: Subscriptions,
        outgoing: Outgoing,
        renderer: Renderer,
        version: int,
        most_bytes: int,
        write: Callable[[bytes], None],
        now_us: Callable[[], int],
        is_own: Callable[[str], bool],
    ) -> None:
        self._subscriptions = subscriptions
        self._outgoing = outgoing
        self._renderer = renderer
        self._version = version
        self._most_bytes = most_bytes
        self._write = write
        self._now_us = now_us
        self._is_own = is_own

    def deliver(self, numbers: Sequence[int], event: Publication) -> None:
        """Deliver an event to passing subscriptions."""
        match = self._subscriptions.matched(0, numbers, own=self._is_own(event.publisher))
        if match is not None:
            self.send(event, match)

    def send(self, event: Publication, match: Match, *, keep: bytes | None = None) -> None:
        """Send an event that no session owes; `keep`: it is a retained value for a new
        subscription, of which the client's session is to keep these bytes, if any."""
        delivery = self._delivery(event, match, 0, 0, retained=keep is not None)
        if delivery is None:
            return
        if delivery.qos:
            delivery.kept = keep or b""
            self._outgoing.send(delivery)
        elif packet := delivery.make(0, False):
            self._write(packet)

    def owed(self, source: int, owed: Owed, begun: Begun | None) -> Delivery | None:
        """Return the delivery of an event that a session owes, None if nothing is to be
        acknowledged: it is sent, or the client does not want it any more. `begun`: how deliveries
        of the client's own session were begun, None for another session."""
        event = decode_publication(owed.body)
        is_own = self._is_own(event.publisher)
        says = partial(self._subscriptions.matched, source, own=is_own)
        match = says(owed.subscriptions) if begun is None else begun.match_of(owed, says)
        if match is None:
            return None
        again = begun is not None and owed.tries > 1
        delivery = self._delivery(event, match, source, owed.position, retained=False, again=again)
        if delivery is None:
            return None
        if not delivery.qos:
            self._outgoing.send_unacknowledged(delivery)
            return None
        delivery.own, delivery.again = begun is not None, again
        delivery.numbers = owed.subscriptions
        return delivery

    def says(self, delivery: Delivery) -> Match | None:
        """Return what the subscriptions say now of an event that a session owes."""
        assert delivery.event is not None
        is_own = self._is_own(delivery.event.publisher)
        return self._subscriptions.matched(delivery.source, delivery.numbers, own=is_own)

    def said_by(self, subscription: Subscription) -> Match | None:
        """Return what those subscriptions say whose events come from where this one's do."""
        source, number = subscription.served
        return self._subscriptions.matched(source, (number,), own=False)

    def noted(self, note: str) -> Delivery | None:
        """Return the delivery of a note that `delivery_note` has made, to be sent again. None if
        its event cannot be delivered."""
        kept = _read_note(note)
        match = Match(kept.pattern, kept.qos, kept.as_published, kept.identifiers)
        event = decode_publication(kept.body)
        delivery = self._delivery(event, match, 0, 0, retained=kept.retained, again=True)
        if delivery is not None:
            delivery.again = delivery.noted = True
            delivery.kept = kept.body
        return delivery

    def _delivery(
        self,
        event: Publication,
        match: Match,
        source: int,
        position: int,
        *,
        retained: bool,
        again: bool = False,
    ) -> Delivery | None:
        content = self._content(event, again=again)
        if content is None:
            return None
        qos = delivered_qos(content, match.qos)
        retain = retained or (match.as_published and content.retain)
        make = partial(self._packet, event, (match, self._version, retain))
        delivery = Delivery(make, qos, source, position)
        delivery.event, delivery.match = event, match
        delivery.retained = retained
        return delivery

    def _packet(self, event: Publication, key: Key, packet_id: int, again: bool) -> bytes:
        """Return a packet; empty if the client cannot have it."""
        content = self._content(event, again=again)
        if content is None:
            return b""
        packet = self._renderer.packet(event, content, key, packet_id, again=again)
        return packet if len(packet) <= self._most_bytes else b""

    def _content(self, event: Publication, *, again: bool) -> Outbound | None:
        now_us = self._now_us()
        return self._renderer.content(event, min(now_us, last_us(event)) if again else now_us)


class _Note(msgspec.Struct, frozen=True, array_like=True):
    """A delivery as the notes of a durable session have it. `at_us`: when it was begun; `retained`:
    it is a retained value for a new subscription."""

    pattern: str
    qos: int
    as_published: bool
    identifiers: tuple[int, ...]
    at_us: int
    retained: bool
    body: bytes


_encode_note = msgspec.json.Encoder().encode
_read_note = msgspec.json.Decoder(_Note).decode


def delivery_note(delivery: Delivery, body: bytes, now_us: int) -> str:
    """Return the note of a delivery that is begun now, whose event is encoded in `body`."""
    assert delivery.match is not None
    return _encode_note(_Note(*delivery.match, now_us, delivery.retained, body)).decode()


def begun_us(note: str) -> int:
    """Return when the delivery of this note was begun."""
    return _read_note(note).at_us

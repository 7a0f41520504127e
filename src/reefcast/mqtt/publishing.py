"""What one MQTT client publishes, on its way into the network.

Rules
-----
- A publication with QoS 0 is passed on, and that is all. With QoS 1 and 2 it is a confirmed one
  (`incoming`).
- A retained one is first said to be the last value of its topic (`retaining`), then published;
  with an empty payload it clears the topic (MQTT-3.3.1-5 to -7).
- Numbers are microseconds of the clock, but for those that were given already: an MQTT session has
  one id in all its lives, and its numbers only go up, though nobody remembers the last one."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from reefcast.model import messages
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication
from reefcast.mqtt.asking import Asking
from reefcast.mqtt.content import ContentOptions, encode_body, plain_publication
from reefcast.mqtt.incoming import Incoming, Wait
from reefcast.mqtt.lasting import TAKEN, LastingSession, SessionFailed
from reefcast.mqtt.packets import Packet, Publish, Will
from reefcast.mqtt.properties import NO_PROPERTIES
from reefcast.mqtt.reasons import MqttError, Reason, reason_of_refusal
from reefcast.retaining.messages import NotRetained, Retain

if TYPE_CHECKING:
    from reefcast.matching.packets import Packets

SYSTEM = "$SYS/"
MAY_NOT = "topics that begin with '$SYS/' are for what brokers say of themselves"


class Aliases:
    """The topic aliases of one connection, from client to broker; at most `most`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._topics: dict[int, str] = {}

    def topic_of(self, packet: Publish) -> str:
        """Return the topic of a publication. Raises `MqttError` for an alias that is out of place
        (MQTT-3.3.2-8 to -12)."""
        alias = packet.properties.topic_alias
        if alias is None:
            return packet.topic
        if not 1 <= alias <= self._most:
            raise MqttError(
                Reason.TOPIC_ALIAS_INVALID,
                f"PUBLISH: the topic alias {alias} is not from 1 to {self._most}, the Topic Alias "
                "Maximum of this broker",
            )
        if packet.topic:
            self._topics[alias] = packet.topic
        elif alias not in self._topics:
            raise MqttError(
                Reason.PROTOCOL_ERROR, f"PUBLISH: nothing is known of the topic alias {alias}"
            )
        return self._topics[alias]


class Taken(NamedTuple):
    """PUBLISH frames; how many; where their packets end in the bytes of the read; how many bytes
    from there on the next packet needs to have, 0 if it is no plain one or there is none."""

    frames: bytes
    number: int
    end: int
    need: int


NOTHING = Taken(b"", 0, 0, 0)


class Publishing:
    """The publications of one connection. `publisher`: the client's id in the network; `content`:
    how payloads become attributes; `publish` passes publications on, `unspent` is called
    for each one of the client's that is not passed on, `count` counts by name.
    `packets`: returns the kernels. `lasting`: the session that remembers QoS 2, None if that ends
    with the connection."""

    def __init__(
        self,
        publisher: str,
        content: ContentOptions,
        incoming: Incoming,
        aliases: Aliases,
        asking: Asking,
        publish: Callable[[list[messages.Publish]], None],
        unspent: Callable[[], None],
        now_us: Callable[[], int],
        count: Callable[[str], None],
        packets: Callable[[], Packets],
    ) -> None:
        self._publisher = publisher
        self._encoded = msgspec.msgpack.encode(publisher)
        self._packets = packets
        self._content = content
        self._incoming = incoming
        self._aliases = aliases
        self._asking = asking
        self._publish = publish
        self._unspent = unspent
        self._now_us = now_us
        self._count = count
        self._last = 0
        self._attempt = now_us()
        self._batch: list[messages.Publish] = []
        self.lasting: LastingSession | None = None

    def handle(self, packet: Publish) -> None:
        """Handle a PUBLISH of the client. Raises `MqttError`."""
        topic = self._aliases.topic_of(packet)
        if not packet.qos:
            if topic.startswith(SYSTEM):
                self._count("mqtt_refused")
                self._unspent()
            else:
                self._pass_on(packet, topic, self._next_seq(), confirm=0)
            return
        seq = self._incoming.number_of(packet, self._next_seq())
        if not seq:
            self._unspent()
            return
        if (
            packet.qos == 2
            and self.lasting is not None
            and (self._incoming.taken.get(packet.packet_id) != seq)
        ):
            self._incoming.begin(packet, seq, _waits(packet) | Wait.NOTED)
            self._asking.begin(self._note_first(packet, topic, seq, self.lasting))
            return
        self._incoming.begin(packet, seq, _waits(packet))
        self._confirmed(packet, topic, seq)

    def take_plain(self, packets: deque[Packet], most: int) -> int:
        """Take the first packets, as far as they are publications with QoS 0 that have nothing but
        a topic and a payload, and at most so many; return how many. They are most of all packets:
        this has the same result as `handle` for each, in a third of the time."""
        if self._content.json:
            return 0
        now_us, publisher, last, count = self._now_us(), self._publisher, self._last, 0
        while packets and count < most:
            packet = packets[0]
            if type(packet) is not Publish or packet.qos or packet.retain:
                break
            topic = packet.topic
            if packet.properties is not NO_PROPERTIES or topic.startswith(SYSTEM):
                break
            packets.popleft()
            last = max(last + 1, now_us)
            event, body = plain_publication(publisher, last, now_us, topic, packet.payload)
            self._batch.append(messages.Publish(event, body=body))
            count += 1
        self._last = last
        return count

    def take_frames(self, data: bytes, version: int, most_bytes: int, most: int) -> Taken:
        """Do as `take_plain` for the packets that the bytes of a read begin with, in compiled
        code."""
        if self._content.json or self._batch:
            return NOTHING
        frames, count, end, need, self._last = self._packets().frames(
            *(data, version, most_bytes, self._encoded, self._last, self._now_us(), most)
        )
        return Taken(frames, count, end, need)

    def publish_will(self, will: Will) -> None:
        """Publish a will; nobody waits for its answer."""
        packet = Publish(
            will.topic, will.payload, will.qos, will.retain, properties=will.properties
        )
        if not will.topic.startswith(SYSTEM):
            confirm = self._attempt if will.qos else 0
            self._pass_on(packet, will.topic, self._next_seq(), confirm=confirm)
        self.flush()

    def flush(self) -> None:
        """Pass on what was gathered."""
        if self._batch:
            batch, self._batch = self._batch, []
            self._publish(batch)

    def _next_seq(self) -> int:
        self._last = max(self._last + 1, self._now_us())
        return self._last

    async def _note_first(
        self, packet: Publish, topic: str, seq: int, lasting: LastingSession
    ) -> None:
        """Publish once the session's disk knows the number."""
        try:
            await lasting.note({f"{TAKEN}{packet.packet_id}": str(seq)})
        except SessionFailed as error:
            self._incoming.refused(seq, Reason.UNSPECIFIED_ERROR, str(error))
            self._unspent()
            return
        self._incoming.answered(seq, Wait.NOTED)
        self._confirmed(packet, topic, seq)
        self.flush()

    def _confirmed(self, packet: Publish, topic: str, seq: int) -> None:
        if topic.startswith(SYSTEM):
            self._incoming.refused(seq, Reason.NOT_AUTHORIZED, MAY_NOT)
            self._unspent()
            return
        self._pass_on(packet, topic, seq, confirm=self._attempt)

    def _pass_on(self, packet: Publish, topic: str, seq: int, *, confirm: int) -> None:
        body, unreadable = encode_body(
            self._publisher, seq, self._now_us(), topic, packet, self._content
        )
        if unreadable:
            self._count("mqtt_unreadable")
        event = decode_publication(body)
        if packet.retain:
            self.flush()
            self._asking.begin(self._retain(event, body, packet))
        self._batch.append(messages.Publish(event, body=body, confirm=confirm))

    async def _retain(self, event: Publication, body: bytes, packet: Publish) -> None:
        clear = not packet.payload
        answer = await self._asking.ask(lambda token: Retain(token=token, body=body, clear=clear))
        if isinstance(answer, NotRetained):
            if packet.qos:
                self._incoming.refused(event.seq, Reason.QUOTA_EXCEEDED, answer.reason)
            else:
                self._count("mqtt_refused")
        elif packet.qos:
            self._incoming.answered(event.seq, Wait.RETAINED)

    # --- what the broker says ---------------------------------------------------------------------

    def confirmed(self, answer: messages.Confirmed) -> None:
        """Handle that publications are where they must be, or that a session refused them."""
        for each in answer.each():
            if each.refused:
                self._incoming.refused(each.seq, Reason.QUOTA_EXCEEDED, each.refused)
            else:
                self._incoming.answered(each.seq, Wait.CONFIRMED)

    def refused(self, answer: messages.Refused) -> None:
        """Handle that the broker does not take a publication."""
        assert answer.publication is not None
        reason = reason_of_refusal(answer.reason)
        if not self._incoming.refused(answer.publication[1], reason, answer.reason):
            self._count("mqtt_refused")


def _waits(packet: Publish) -> Wait:
    return Wait.CONFIRMED | Wait.RETAINED if packet.retain else Wait.CONFIRMED

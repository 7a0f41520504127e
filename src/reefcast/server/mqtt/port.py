"""The port of a client that speaks MQTT.

What the core says goes to the client's gateway (`reefcast.mqtt.gateway`), which makes packets of
it; deliveries among these wait here like those of any client, within the policy of its queue. MQTT
has no words for credit (the broker stops reading instead), and none for a gap."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from reefcast.model.messages import ControlMessage, Publish
from reefcast.model.publication import Publication
from reefcast.model.wire import (
    HEAD,
    HEAD_BYTES,
    LENGTH_BYTES,
    Dropped,
    FrameKind,
    decode_numbers,
    decode_publication,
    encode_publication,
    split_parts,
)
from reefcast.mqtt import packets
from reefcast.mqtt.content import plain_publication
from reefcast.mqtt.decoding import Decoder
from reefcast.mqtt.delivering import Renderer, Shape
from reefcast.mqtt.gateway import Gateway
from reefcast.mqtt.packets import PacketType
from reefcast.protocol.batches import Batch
from reefcast.server.client_port import ClientPort, Numbers
from reefcast.server.outbox import Flusher
from reefcast.timing import now_us


class PacketBatch(Batch, frozen=True):
    """Several PUBLISH packets in one bytes object."""

    def frames(self) -> Iterator[bytes]:
        data, start = self.data, 0
        while start < len(data):
            end = packet_end(data, start)
            yield data[start:end]
            start = end

    def cut(self, count: int) -> tuple[Batch, Batch]:
        data, end = self.data, 0
        for _ in range(count):
            end = packet_end(data, end)
        return PacketBatch(data[:end], count), PacketBatch(data[end:], self.count - count)


def packet_end(data: bytes, start: int) -> int:
    """Return where the packet that begins at `start` ends."""
    length, at = 0, start + 1
    while True:
        length |= (data[at] & 0x7F) << 7 * (at - start - 1)
        at += 1
        if data[at - 1] < 0x80:
            return at + length


class DeliveryPacket(bytes):
    """The PUBLISH packet of an event. `packet_id`: 0 with QoS 0."""

    event: Publication
    packet_id: int


class MqttPort(ClientPort):
    """`gateway`: of the connection, see `serve`. `on_credit` is called with the credit that the
    client has got."""

    __slots__ = ("_most_bytes", "_renderer", "_shapes", "gateway", "on_credit")

    def __init__(
        self, flusher: Flusher, renderer: Renderer, on_credit: Callable[[int], None]
    ) -> None:
        super().__init__(flusher, keeps=False)
        self._renderer = renderer
        self._shapes: dict[int, Shape] = {}
        self._most_bytes = 0
        self.gateway: Gateway
        self.on_credit = on_credit

    def serve(self, gateway: Gateway) -> None:
        """Serve this connection's client."""
        self.gateway = gateway
        self._shapes, self._most_bytes = gateway.shapes, gateway.most_bytes

    # --- what the core says -----------------------------------------------------------------------

    def deliver(self, numbers: Sequence[int], publish: Publish) -> None:
        shape = self._shapes.get(numbers[0]) if len(numbers) == 1 else None
        if shape is not None:
            packets = self._renderer.plain(publish, now_us)
            if packets is not None:
                packet = packets.get(shape) or self._renderer.plain_packet(publish, shape)
                if len(packet) <= self._most_bytes:
                    self.push_delivery(packet)
                return
        self.gateway.deliver(numbers, publish.publication)
        if self.queue_len > self.limit:
            self._over_limit()

    def tell(self, message: ControlMessage) -> int:
        self.gateway.answer(message)
        return 0

    def grant(self, count: int) -> None:
        self.on_credit(count)

    @property
    def takes_frames(self) -> bool:  # type: ignore[override]  # that changes with subscriptions
        """Whether it takes batches of the compiled path: most of what they bring is plain."""
        return self.gateway.is_plain

    def push_batch(self, batch: Batch) -> bool:
        """Queue what a batch of DELIVER frames brings. It applies the limit of the queue itself."""
        data, at, version = batch.data, 0, self.gateway.version
        has_room = len(self._frames) + self._surplus + batch.count <= self.limit
        while at < len(data):
            if has_room and self.gateway.is_plain:
                made, count, at = self._renderer.from_frames(*(data, at, version, self._most_bytes))
                if count:
                    self._frames.append(made if count == 1 else PacketBatch(made, count))
                    self._surplus += count - 1
                    if not self._dirty:
                        self._mark()
            if at < len(data):
                at = self._push_frame(data, at)
        return True

    def _push_frame(self, data: bytes, at: int) -> int:
        """Queue the delivery of the frame that begins there; return where it ends."""
        length, kind = HEAD.unpack_from(data, at)
        end = at + LENGTH_BYTES + int(length)
        head, rest = split_parts(data[at + HEAD_BYTES : end])
        numbers, body = decode_numbers(bytes(head)), bytes(rest)
        again = kind == FrameKind.DELIVER_AGAIN
        self.deliver(numbers, Publish(decode_publication(body), body=body, again=again))
        return end

    # --- packets ----------------------------------------------------------------------------------

    def push_packet(self, packet: bytes) -> None:
        """Queue a packet that is no delivery, behind the deliveries before it."""
        self._controls += 1
        self.push_data(packet)

    @property
    def queue_len(self) -> int:
        """Deliveries that wait for the socket, or for acknowledgements of earlier ones."""
        return len(self._frames) + self._surplus - self._controls + self.gateway.waiting

    def drop_oldest(self) -> bytes:
        """Drop the oldest delivery, which must exist. MQTT cannot tell the client."""
        dropped = self.gateway.drop_oldest()
        if dropped is None:
            oldest = super().drop_oldest()
            self._gap.clear()
            self._untold = 0
            self._sent_nothing(oldest)
            return oldest
        self.dropped += 1
        return dropped_packet(dropped)

    def _may_go(self, frame: bytes, sees: Callable[[bytes], bool]) -> bool:
        goes = super()._may_go(frame, sees)
        if not goes:
            self._sent_nothing(frame)
        return goes

    def withdraw(self, sees: Callable[[bytes], bool]) -> int:
        dropped = self.gateway.take_back(lambda event: sees(encode_publication(event)))
        return dropped + super().withdraw(sees)

    def _sent_nothing(self, delivery: bytes) -> None:
        """Tell the gateway that a packet is not written, so that it waits for no
        acknowledgement."""
        if isinstance(delivery, DeliveryPacket) and delivery.packet_id:
            self.gateway.not_sent(delivery.packet_id)

    def delivery(self, numbers: Sequence[int], publish: Publish) -> bytes:
        return dropped_packet(publish.publication)

    def message(self, message: ControlMessage) -> bytes:
        return b""

    def credit(self, count: int) -> bytes:
        return b""

    def gap(self, dropped: Dropped) -> bytes:
        return b""

    def is_delivery(self, frame: bytes) -> bool:
        return frame[0] >> 4 == PacketType.PUBLISH

    def is_numbered(self, frame: bytes) -> bool:
        return False

    def numbers_of(self, delivery: bytes) -> Numbers:
        return ()

    def body_of(self, delivery: bytes) -> bytes:
        if isinstance(delivery, DeliveryPacket):
            return encode_publication(delivery.event)
        ((packet,), _) = Decoder(self.gateway.version).receive(delivery)
        assert isinstance(packet, packets.Publish)
        return plain_publication("", 0, 0, packet.topic, packet.payload)[1]


def packet_of(data: bytes, event: Publication, packet_id: int) -> DeliveryPacket:
    """Return a packet that knows which event it delivers."""
    packet = DeliveryPacket(data)
    packet.event, packet.packet_id = event, packet_id
    return packet


def dropped_packet(event: Publication) -> bytes:
    """Return an empty packet for an event whose PUBLISH packet was never made."""
    return packet_of(b"", event, 0)

"""The port of clients that speak the native protocol (`model.wire`)."""

from __future__ import annotations

from collections.abc import Sequence

from reefcast.model import wire
from reefcast.model.messages import ControlMessage, Publish
from reefcast.model.wire import HEAD_BYTES, KIND_AT, Dropped, FrameKind
from reefcast.server.client_port import ClientPort, Numbers
from reefcast.server.outbox import Flusher

_DELIVERIES = (int(FrameKind.DELIVER), int(FrameKind.DELIVER_AGAIN))
_UNNUMBERED = tuple(
    int(kind) for kind in (FrameKind.ACK, FrameKind.CREDIT, FrameKind.PING, FrameKind.CLOSE)
)


class SharedFrames:
    """The frames of the publication that is being delivered: clients with the same subscription
    numbers share one. The key of a single number is the number: most clients have one, and a tuple
    costs as much as all the rest."""

    __slots__ = ("by_numbers", "publish")

    def __init__(self) -> None:
        self.publish: Publish | None = None
        self.by_numbers: dict[int | Numbers, bytes] = {}


class NativePort(ClientPort):
    takes_frames = True

    __slots__ = ("_shared",)

    def __init__(self, flusher: Flusher, shared: SharedFrames, *, keeps: bool) -> None:
        super().__init__(flusher, keeps=keeps)
        self._shared = shared

    def deliver(self, numbers: Sequence[int], publish: Publish) -> None:
        shared, frames = self._shared, self._frames
        key = numbers[0] if len(numbers) == 1 else tuple(numbers)
        if shared.publish is publish:
            frame = shared.by_numbers.get(key)
        else:
            shared.publish, shared.by_numbers, frame = publish, {}, None
        if frame is None:
            frame = wire.encode_deliver(numbers, publish.body, publish.again)
            shared.by_numbers[key] = frame
        # As `push_delivery`, without a call: this is the hottest place of a broker.
        frames.append(frame)
        if not self._dirty:
            self._dirty = True
            self._flusher.add(self)
        if len(frames) + self._surplus > self.limit:
            self._over_limit()

    def delivery(self, numbers: Sequence[int], publish: Publish) -> bytes:
        return wire.encode_deliver(numbers, publish.body, publish.again)

    def message(self, message: ControlMessage) -> bytes:
        return wire.encode(FrameKind.CONTROL, message)

    def credit(self, count: int) -> bytes:
        return wire.encode(FrameKind.CREDIT, count)

    def gap(self, dropped: Dropped) -> bytes:
        return wire.encode(FrameKind.DROPPED, dropped)

    def is_delivery(self, frame: bytes) -> bool:
        return frame[KIND_AT] in _DELIVERIES

    def is_numbered(self, frame: bytes) -> bool:
        return frame[KIND_AT] not in _UNNUMBERED

    def numbers_of(self, delivery: bytes) -> Numbers:
        return wire.decode_numbers(wire.numbers_of(delivery))

    def body_of(self, delivery: bytes) -> bytes:
        return bytes(wire.split_parts(delivery[HEAD_BYTES:])[1])

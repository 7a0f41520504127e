"""The port of a client: the core's messages come in, bytes of the client's protocol go out.

A port lives as long as its client's session, through any number of connections (`Line`). It queues
frames for the client in the client's protocol. There is a class for each protocol (`native_port` is
ours), which encodes the messages.

Rules
-----
- Deliveries and messages keep their order, so that `Settled` of an `Unsubscribe` comes after the
  last delivery. Credit overtakes; so does a refused publication, since its acknowledgement must not
  come first.
- Only deliveries count for the limit of the queue; messages always pass.
- The oldest deliveries are dropped, so the gap is always before the first frame that waits. A
  message there says how many are missing (`gap`).
- If the client acknowledges (`keeps`), all frames but those of credit are numbered in the order in
  which they are first written, and kept until the client has taken them over. Frames that it has
  not taken over are sent again over the next line, before anything else. They do not count for the
  queue's limit.
- Deliveries may come as a batch, in one piece. The port splits it only where single deliveries
  matter: if the queue may get too full, if some are dropped, or if some are sent again."""

from __future__ import annotations

import asyncio
import sys
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Collection, Sequence
from itertools import islice
from typing import Any, ClassVar, Protocol

from reefcast.errors import ProtocolError
from reefcast.model.messages import ControlMessage, Publish, Refused
from reefcast.model.wire import Dropped
from reefcast.protocol.batches import Batch, each_frame
from reefcast.protocol.numbered import Unacknowledged
from reefcast.protocol.principal import Principal
from reefcast.server.outbox import FRAMES_PER_WRITE, Flusher, Outbox

MOST_GROUPS = 1000
"""How many groups of dropped deliveries, by their subscriptions, are counted apart between two
writes."""
MOST_UNACKNOWLEDGED, MOST_MESSAGES = 500_000, 10_000
"""Frames: more than sockets hold of small ones; messages: more than any program waits for."""
Numbers = tuple[int, ...]
Places = tuple[str, ...]


class Line(Protocol):
    """One connection of a client, as its port and its session see it. `transport`: where to write
    bytes; `principal`: who is at the other end; `closed`: set when the connection is gone."""

    transport: asyncio.Transport
    principal: Principal
    closed: asyncio.Event

    def stop_reading(self) -> None: ...

    def close(
        self, reason: str, *, retry: bool = False, too_slow: bool = False, elsewhere: Places = ()
    ) -> None:
        """Tell the client the reason, and close; `retry`: it may come back to the same session;
        `too_slow`, `elsewhere`: see `wire.Close`."""

    def prove_again(self, principal: Principal) -> None:
        """Accept a newer proof of the same user, for the session, too."""


class Memory(Protocol):
    """The memory of all queues together; see `queue_memory`."""

    def weigh(self, port: ClientPort) -> None:
        """Learn how much is kept for a client to which nothing can be written now."""


def _nothing(*_: object) -> None:
    pass


class ClientPort(Outbox, ABC):
    """The queue of one client, in its protocol; it starts without a line.

    While more than `limit` deliveries wait, each further one calls `on_crowded`; when half of them
    are left, `on_drained` is called. `on_overdue` is called when far too much is kept:
    unacknowledged frames, or messages for a client that is away; `on_refused` when the core refuses
    something. `memory` weighs what is kept for all clients: it keeps `weight`, what it knows of
    this one, and calls `on_overfull` when this one is to give way. `dropped`: deliveries dropped so
    far. `takes_frames`: whether the client's protocol is that of `model.wire`."""

    takes_frames: ClassVar[bool] = False

    __slots__ = (
        "_controls",
        "_counted",
        "_counted_bytes",
        "_crowded",
        "_gap",
        "_line",
        "_resend",
        "_resend_bytes",
        "_sent",
        "_sent_bytes",
        "_sent_sizes",
        "_surplus",
        "_untold",
        "dropped",
        "keeps",
        "limit",
        "memory",
        "on_crowded",
        "on_drained",
        "on_overdue",
        "on_overfull",
        "on_refused",
        "weight",
    )

    def __init__(self, flusher: Flusher, *, keeps: bool) -> None:
        super().__init__(None, flusher)
        self._line: Line | None = None
        self._frames: deque[Any] = deque()  # bytes, one frame each, and batches
        self._surplus = 0  # waiting frames, beyond one for each item of `_frames`
        self._controls = 0
        self._gap: dict[Numbers, int] = {}
        self._untold = 0
        self._crowded = False
        self._sent: Unacknowledged[bytes | Batch] = Unacknowledged()
        self._sent_sizes: deque[tuple[int, int]] = deque()  # of each write: its last frame, bytes
        self._sent_bytes = 0
        self._counted = self._counted_bytes = 0  # of the items that have waited longest
        self._resend: deque[bytes] = deque()
        self._resend_bytes = 0
        self.keeps = keeps
        self.dropped = 0
        self.limit = sys.maxsize
        self.on_crowded: Callable[[], None] = _nothing
        self.on_drained: Callable[[], None] = _nothing
        self.on_overdue: Callable[[], None] = _nothing
        self.on_refused: Callable[[ControlMessage], None] = _nothing
        self.on_overfull: Callable[[], None] = _nothing
        self.memory: Memory | None = None
        self.weight = 0

    # --- the words of a protocol ------------------------------------------------------------------

    @abstractmethod
    def delivery(self, numbers: Sequence[int], publish: Publish) -> bytes:
        """Return the frame of a publication for these subscriptions of the client."""

    @abstractmethod
    def message(self, message: ControlMessage) -> bytes: ...

    @abstractmethod
    def credit(self, count: int) -> bytes:
        """Return the message that grants this much credit."""

    @abstractmethod
    def gap(self, dropped: Dropped) -> bytes:
        """Return the message that says what was dropped."""

    @abstractmethod
    def is_delivery(self, frame: bytes) -> bool: ...

    @abstractmethod
    def is_numbered(self, frame: bytes) -> bool:
        """Return whether an urgent frame is numbered."""

    @abstractmethod
    def numbers_of(self, delivery: bytes) -> Numbers: ...

    @abstractmethod
    def body_of(self, delivery: bytes) -> bytes:
        """Return the publication's body, as brokers encode it."""

    # --- what the core says -----------------------------------------------------------------------

    def deliver(self, numbers: Sequence[int], publish: Publish) -> None:
        self.push_delivery(self.delivery(numbers, publish))

    def push_delivery(self, frame: bytes) -> None:
        """Queue a delivery, and apply the limit of the queue."""
        self._frames.append(frame)
        if not self._dirty:
            self._mark()
        if len(self._frames) + self._surplus > self.limit:
            self._over_limit()

    def push_batch(self, batch: Batch) -> bool:
        """Queue a batch of deliveries, as `push_delivery` does for each; return False, and do
        nothing, if one of them might exceed the limit."""
        if len(self._frames) + self._surplus + batch.count > self.limit:
            return False
        self._frames.append(batch.data if batch.count == 1 else batch)
        self._surplus += batch.count - 1
        if not self._dirty:
            self._mark()
        return True

    def tell(self, message: ControlMessage) -> int:
        """Send a control message; return the size of the frame in bytes."""
        frame = self.message(message)
        if isinstance(message, Refused) and message.publication is not None:
            self.push_urgent(frame)  # the acknowledgement must not overtake it
        else:
            self._controls += 1
            self.push_data(frame)
            if self._line is None and self._controls > MOST_MESSAGES:
                self.on_overdue()
        return len(frame)

    def grant(self, count: int) -> None:
        """Grant credit; without a line do nothing: the next one starts with full credit."""
        if self._line is not None:
            self.push_urgent(self.credit(count))

    def close(self, reason: str, *, retry: bool = False, **how: Any) -> None:
        """End the connection, and tell the client why. Without `retry` the session ends, too."""
        if self._line is not None:
            self._line.close(reason, retry=retry, **how)

    # --- lines ------------------------------------------------------------------------------------

    @property
    def line(self) -> Line | None:
        return self._line

    def attach(self, line: Line, *, paused: bool = False) -> None:
        """Attach a connection to a client that has been welcomed."""
        self._line, self._transport, self.paused = line, line.transport, paused
        if self.waits:
            self._mark()

    def detach(self) -> None:
        """Detach the line: nothing more is written to it."""
        if self._transport is not None and not self._transport.is_closing():
            self.flush()
        self.discard()

    def discard(self) -> None:
        """Discard the connection, which is gone. Frames that are kept for the client wait for the
        next one."""
        self._line = self._transport = None
        self._urgent = [frame for frame in self._urgent if self.is_numbered(frame)]

    def check(self, received: int) -> None:
        """Raise `ProtocolError` if the client cannot have taken over this number of frames."""
        acknowledged, last = self._sent.acknowledged, self._sent.last + len(self._resend)
        if not acknowledged <= received <= last:
            raise ProtocolError(
                f"the client claims to have {received} frames, but it was sent {last}, and has "
                f"acknowledged {acknowledged}"
            )

    def again_from(self, received: int) -> None:
        """Send all frames after the first `received` again, for a client that comes back (see
        `check`). It may have some that were to be sent again over a line that it had left by
        then."""
        before = self._sent.acknowledged
        kept = [*self._unacknowledged(), *self._resend]
        self._sent.begin(received)
        self._sent_sizes.clear()
        self._sent_bytes = 0
        self._resend = deque(kept[received - before :])
        self._resend_bytes = sum(map(len, self._resend))

    def acknowledged(self, number: int) -> None:
        """Forget all frames up to `number`, which the client has taken over. Raise `ProtocolError`
        if fewer were sent."""
        self._sent.acknowledge(number)
        sizes = self._sent_sizes
        while sizes and sizes[0][0] <= number:
            self._sent_bytes -= sizes.popleft()[1]

    def _unacknowledged(self) -> list[bytes]:
        return each_frame(list(self._sent))[self._sent.partly :]

    # --- writing ----------------------------------------------------------------------------------

    @property
    def queue_len(self) -> int:
        """Deliveries that wait for the socket, including those of this turn."""
        return len(self._frames) + self._surplus - self._controls

    @property
    def kept(self) -> int:
        """Deliveries that the client may not have."""
        return self.unwritten + sum(map(self.is_delivery, self._unacknowledged()))

    @property
    def unwritten(self) -> int:
        """Deliveries that the operating system does not have."""
        return self.queue_len + sum(map(self.is_delivery, self._resend))

    @property
    def waits(self) -> bool:
        return bool(self._frames or self._urgent or self._untold or self._resend)

    @property
    def empty(self) -> bool:
        """Whether the operating system has everything, or there is no line to write to."""
        transport = self._transport
        return transport is None or not (self.waits or transport.get_write_buffer_size())

    def flush(self) -> None:
        self._dirty = False
        transport, frames = self._transport, self._frames
        if self.paused or transport is None:
            self._waits_on()
            return
        if self._resend or self._urgent or self._untold:
            self._flush_first(transport)
        while frames and not self.paused:
            if len(frames) + self._surplus > FRAMES_PER_WRITE:
                before = len(frames)
                size = self._write(transport, self._pop_some())
                self._uncount(before - len(frames), size)
                continue
            if self._surplus:
                self._write(transport, list(frames))
            else:
                self._write_frames(transport, frames)
            frames.clear()
            self._surplus = self._controls = self._counted = self._counted_bytes = 0
        self.wrote = True
        if len(self._sent) > MOST_UNACKNOWLEDGED:
            self.on_overdue()
        if self._crowded and self.queue_len <= self.limit // 2:
            self._crowded = False
            self.on_drained()

    def _flush_first(self, transport: asyncio.WriteTransport) -> None:
        """Write the frames that go before the queue."""
        resend = self._resend
        while resend and not self.paused:
            some = [resend.popleft() for _ in range(min(len(resend), FRAMES_PER_WRITE))]
            self._resend_bytes -= self._write_frames(transport, some)
        if self.paused:
            return
        first, self._urgent = self._urgent, []
        if self._untold:
            first.insert(0, self._word_of_gap())
        if first:
            transport.write(b"".join(first))
            if self.keeps:
                numbered = [frame for frame in first if self.is_numbered(frame)]
                self._sent.add_all(numbered)
                self._note_sent(sum(map(len, numbered)))

    def _write_frames(self, transport: asyncio.WriteTransport, frames: Collection[bytes]) -> int:
        """Write frames; return the size in bytes."""
        data = b"".join(frames)
        transport.write(data)
        if self.keeps:
            self._sent.add_all(frames)
            self._note_sent(len(data))
        return len(data)

    def _write(self, transport: asyncio.WriteTransport, items: Collection[bytes | Batch]) -> int:
        """Write items, some of which may be batches; return the size in bytes."""
        data = b"".join([item if isinstance(item, bytes) else item.data for item in items])
        transport.write(data)
        if self.keeps:
            for item in items:
                self._sent.add(item, 1 if isinstance(item, bytes) else item.count)
            self._note_sent(len(data))
        return len(data)

    def _note_sent(self, size: int) -> None:
        self._sent_sizes.append((self._sent.last, size))
        self._sent_bytes += size

    def _pop_some(self) -> list[bytes | Batch]:
        """Remove as many frames as one write takes; more remain."""
        left, some = FRAMES_PER_WRITE, list[bytes | Batch]()
        while left:
            item = self._frames.popleft()
            if isinstance(item, bytes):
                if self._controls and not self.is_delivery(item):
                    self._controls -= 1
                left -= 1
            else:
                self._surplus -= item.count - 1
                if item.count > left:
                    item, rest = item.cut(left)
                    self._put_first(rest)
                left -= item.count
            some.append(item)
        return some

    def _put_first(self, rest: Batch) -> None:
        self._frames.appendleft(rest.data if rest.count == 1 else rest)
        self._surplus += rest.count - 1

    def _open_first(self) -> None:
        """Split the first item that waits into single frames."""
        first = self._frames[0]
        if not isinstance(first, bytes):
            self._frames.popleft()
            self._frames.extendleft(reversed(list(first.frames())))
            self._surplus -= first.count - 1
            if self._counted:
                self._counted += first.count - 1

    # --- memory -----------------------------------------------------------------------------------

    def _waits_on(self) -> None:
        """Have what is kept weighed while nothing can be written, or report that it is overdue."""
        if len(self._urgent) > MOST_MESSAGES and self._line is not None:
            self.on_overdue()
        elif self.memory is not None:
            self.memory.weigh(self)

    @property
    def queue_bytes(self) -> int:
        """The bytes of all frames that wait for the socket. Only those that came since this was
        last asked are looked at."""
        fresh = len(self._frames) - self._counted
        for item in islice(reversed(self._frames), fresh):
            self._counted_bytes += len(item if isinstance(item, bytes) else item.data)
        self._counted += fresh
        return self._counted_bytes

    @property
    def held_bytes(self) -> int:
        """The bytes of all frames that are kept for the client, those too that it has not
        acknowledged. Frames that several clients share count for each of them."""
        return self.queue_bytes + self._sent_bytes + self._resend_bytes

    def _uncount(self, items: int, size: int) -> None:
        """Note that the first items are gone, which had this size together."""
        if items < self._counted:
            self._counted -= items
            self._counted_bytes -= size
        else:
            self._counted = self._counted_bytes = 0

    # --- what it must not see any more ------------------------------------------------------------

    def withdraw(self, sees: Callable[[bytes], bool]) -> int:
        """Drop the deliveries whose bodies the client must not see any more, as far as they have
        not been written; return how many. Of those that were written, and would be sent again over
        the next line, only the numbers are."""
        waiting = each_frame(list(self._frames))
        kept = [frame for frame in waiting if self._may_go(frame, sees)]
        dropped = len(waiting) - len(kept)
        self._frames, self._surplus = deque(kept), 0
        self._counted = self._counted_bytes = 0
        again = [*self._unacknowledged(), *self._resend]
        unsent = len(self._resend)
        blank = self.gap(Dropped(0, ()))
        again = [frame if self._may_go(frame, sees) else blank for frame in again]
        sent = again[: len(again) - unsent]
        self.again_from(self._sent.acknowledged)
        self._resend = deque(again[len(sent) :])
        self._resend_bytes = sum(map(len, self._resend))
        self._sent.add_all(sent)
        self._note_sent(sum(map(len, sent)))
        if self._crowded and self.queue_len <= self.limit // 2:
            self._crowded = False
            self.on_drained()
        return dropped

    def _may_go(self, frame: bytes, sees: Callable[[bytes], bool]) -> bool:
        return not self.is_delivery(frame) or sees(self.body_of(frame))

    # --- a full queue -----------------------------------------------------------------------------

    def _over_limit(self) -> None:
        if not self.paused:
            self.flush()
        if self.queue_len > self.limit:
            self._crowded = True
            self.on_crowded()

    def drop_oldest(self) -> bytes:
        """Drop the oldest delivery, which must exist; the client will be told. Messages before it
        are written first from then on: no delivery is left before them."""
        self._open_first()
        while not self.is_delivery(self._frames[0]):
            self._urgent.append(self._frames.popleft())
            self._uncount(1, len(self._urgent[-1]))
            self._controls -= 1
            self._open_first()
        oldest: bytes = self._frames.popleft()
        self._uncount(1, len(oldest))
        self.dropped += 1
        self._untold += 1
        numbers, gap = self.numbers_of(oldest), self._gap
        if numbers in gap:
            gap[numbers] += 1
        elif len(gap) < MOST_GROUPS:
            gap[numbers] = 1
        return oldest

    def _word_of_gap(self) -> bytes:
        """Return the frame that says what was dropped since the last such frame."""
        told = Dropped(self._untold, tuple(self._gap.items()))
        self._gap.clear()
        self._untold = 0
        return self.gap(told)

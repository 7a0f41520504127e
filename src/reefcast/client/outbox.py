"""The frames for the broker, and those that it has not acknowledged yet. No I/O.

Rules
-----
- Publications and control messages are *numbered* by their order; the broker acknowledges them
  cumulatively, and they are kept until then, also if there was no connection when they were sent.
- `go_on` starts a connection to a broker that still has the session: frames that it has not taken
  over are sent again, unchanged.
- `begin` starts a connection to any other broker. The client registers again there (see
  `Registrations`), so that only publications are sent again. If it is the process that acknowledged
  some of them, each arrives exactly once; if it is another one, they are marked, so that
  subscribers drop those that they have had.
- Publications from before the first advertisement are sent again before it, because they may lie
  outside of it.
- Publications that asked for confirmation and were acknowledged are sent again first, as a
  `Repeat`: these count for credit, but not for the acknowledgement.
- Each publication takes one of the broker's credits, resent ones too; those without a credit wait
  in `_unsent`, and nothing new may be published before them. So does the rest of a batch.
- With `withholds`, publications also wait there until they are on disk (`written`).
- Frames collect in the output until the driver takes them, once per turn of its loop."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import islice

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import Advertise, ControlMessage
from reefcast.model.wire import FrameKind
from reefcast.protocol.numbered import Unacknowledged

_CONTROL = int(FrameKind.CONTROL)
NOTHING_ASKED: Mapping[int, bytes] = {}


class Repeat(bytes):
    """The frame of a publication that a broker has acknowledged before."""


class Outbox:
    """`credit`: publications that may be sent now. `seq`: the number of the last publication;
    `acknowledged_seq`: that of the last one that the broker has taken over. `advertised`: whether
    the client ever advertised. `wake` is called when there is output and there was none before.
    `_controls`: the numbers of the control frames that the broker has not taken over."""

    def __init__(self, publisher: str, wake: Callable[[], None]) -> None:
        self.publisher = publisher
        self.credit = 0
        self.seq = 0
        self.acknowledged_seq = 0
        self.output_bytes = 0
        self._wake = wake
        self._output: list[bytes] = []
        self.advertised = False
        self._unasked_seq = 0
        self._unacknowledged: Unacknowledged[bytes] = Unacknowledged()
        self._controls: deque[int] = deque()
        self._unsent: deque[bytes] = deque()
        self._repeats = (
            0  # that are not acknowledged; among them, and the first of it, in `_unsent`:
        )
        self._unsent_repeats = 0
        self.withholds = False
        self._unwritten = 0  # at the end of `_unsent`

    def number_from(self, first: int) -> None:
        """Begin with this number; nothing has been published."""
        self.seq = self.acknowledged_seq = first - 1

    def continue_from(self, seq: int) -> None:
        """Go on behind a former life of the publisher, whose last number was `seq`: what of it is
        not done is among those `asked` for (see `begin`)."""
        self.number_from(seq + 1)
        self.withholds = True

    def written(self, count: int) -> None:
        """Handle that the next `count` publications are on disk: they may be sent."""
        self._unwritten -= count
        self._send_unsent()

    @property
    def written_seq(self) -> int:
        """The number of the last publication that need not wait for the disk."""
        return self.seq - self._unwritten

    @property
    def has_room(self) -> bool:
        return self.credit > 0 and not self._unsent

    def publish(self, frame: bytes) -> None:
        """Queue a publication under the next number; there must be room for it, and it must not
        have to wait for the disk."""
        self.seq += 1
        self.credit -= 1
        self._unacknowledged.add(frame)
        self._put(frame)

    def publish_all(self, frames: Sequence[bytes]) -> None:
        """Queue publications under the next numbers; those without a credit wait for one."""
        self.seq += len(frames)
        self._unsent.extend(frames)
        if self.withholds:
            self._unwritten += len(frames)
        self._send_unsent()

    @property
    def sent_seq(self) -> int:
        """The number of the last publication that does not wait for credit."""
        return self.seq - len(self._unsent) + self._unsent_repeats

    def send_control(self, message: ControlMessage) -> None:
        if isinstance(message, Advertise) and not self.advertised:
            self.advertised, self._unasked_seq = True, self.seq
        frame = wire.encode(FrameKind.CONTROL, message)
        self._unacknowledged.add(frame)
        self._controls.append(self._unacknowledged.last)
        self._put(frame)

    def acknowledge(self, number: int) -> None:
        """Forget the numbered frames up to `number`: the broker has acknowledged them."""
        frames = self._unacknowledged.acknowledge(number)
        done = len(frames)
        if self._repeats:
            repeats = sum(isinstance(frame, Repeat) for frame in frames)
            self._repeats -= repeats
            done -= repeats
        while self._controls and self._controls[0] <= number:
            self._controls.popleft()
            done -= 1
        self.acknowledged_seq += done

    def grant(self, credit: int) -> None:
        """Add `credit`: the broker allows this many more publications."""
        if credit < 0:
            raise ProtocolError(f"the broker granted a credit of {credit}, which is negative")
        self.credit += credit
        self._send_unsent()

    def disconnect(self) -> None:
        """Forget the credit and the output of the connection that is gone; frames not yet written
        from the output keep their numbers."""
        self.credit = 0
        self._output.clear()
        self.output_bytes = 0

    def go_on(self, received: int, credit: int) -> None:
        """Resume on a connection to the broker that still has this session. Its credit already
        counts the frames that it has not processed; it acknowledges them once it has repeated what
        belongs before that."""
        skip = received - self._unacknowledged.acknowledged
        if not 0 <= skip <= len(self._unacknowledged):
            raise ProtocolError(
                f"the broker claims to have {received} frames of this client, which has sent "
                f"{self._unacknowledged.last}"
            )
        self.disconnect()
        for frame in islice(self._unacknowledged, skip, None):
            self.credit -= _is_publication(frame)
            self._put(frame)
        self.grant(credit)

    def begin(
        self,
        received: int,
        credit: int,
        *,
        same_broker: bool,
        controls: Iterable[ControlMessage],
        asked: Mapping[int, bytes] = NOTHING_ASKED,
    ) -> None:
        """Begin on a new connection: first what was published before any advertisement, then
        `controls`, then the publications that were not acknowledged. `same_broker`: the process
        that acknowledged frames so far. `asked`: those that are not confirmed, as they go again, by
        number."""
        if same_broker:
            self.acknowledge(received)
        self.disconnect()
        self._forget_repeats()
        unsure = [frame for frame in self._unacknowledged.begin(received) if _counts(frame)]
        self._controls.clear()
        if not same_broker:
            unsure = [wire.again(frame) for frame in unsure]
        sent = enumerate(unsure, self.acknowledged_seq + 1)
        unsure = [asked.get(seq, frame) for seq, frame in sent]
        repeats = [Repeat(asked[seq]) for seq in asked if seq <= self.acknowledged_seq]
        self._unsent.extendleft(reversed(repeats + unsure))
        self._repeats = self._unsent_repeats = len(repeats)
        early = sum(seq <= min(self._unasked_seq, self.acknowledged_seq) for seq in asked)
        unasked = min(credit, early + max(self._unasked_seq - self.acknowledged_seq, 0))
        self.grant(unasked)
        for message in controls:
            self.send_control(message)
        self.grant(credit - unasked)

    def _forget_repeats(self) -> None:
        """Forget those that wait for credit; they are asked for anew."""
        for _ in range(self._unsent_repeats):
            self._unsent.popleft()
        self._repeats = self._unsent_repeats = 0

    def drain(self) -> bytes:
        """Return all bytes to be written now, and empty the output."""
        data = b"".join(self._output)
        self._output.clear()
        self.output_bytes = 0
        return data

    def _send_unsent(self) -> None:
        count = min(self.credit, len(self._unsent) - self._unwritten)
        if count <= 0:
            return
        frames = [self._unsent.popleft() for _ in range(count)]
        self.credit -= count
        self._unsent_repeats = max(0, self._unsent_repeats - count)
        self._unacknowledged.add_all(frames)
        if not self._output:
            self._wake()
        self._output += frames
        self.output_bytes += sum(map(len, frames))

    def _put(self, frame: bytes) -> None:
        if not self._output:
            self._wake()
        self._output.append(frame)
        self.output_bytes += len(frame)


def _counts(frame: bytes) -> bool:
    return _is_publication(frame) and not isinstance(frame, Repeat)


def _is_publication(frame: bytes) -> bool:
    return frame[wire.KIND_AT] != _CONTROL

"""What a client has to say to its broker, and what the broker has not taken over yet. No I/O.

Rules
-----
- Publications and control messages are *numbered* by their order; the broker acknowledges them
  cumulatively. A publication is kept until then, a control message is not: after a reconnect the
  client registers anew (see `registrations`).
- `resume` starts a connection: the broker's hello said how many numbered frames it has taken over
  from this client. Is it the very process that had them, these are forgotten and every
  publication arrives exactly once; is it another one, all that was not acknowledged is sent again,
  marked so that subscribers drop what they have had.
- What was published before the first advertisement was asked for is sent again before that one, for
  it may lie outside of it.
- Each publication takes one of the broker's credits, resent ones too; those without a credit wait
  in `_unsent`, and nothing new may be published before them.
- Frames collect in the output until the driver takes them, once per turn of its loop.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.messages import Advertise, ControlMessage
from reefcast.model.wire import FrameKind
from reefcast.protocol.numbered import Unacknowledged

_CONTROL = b""
"""Stands for a control message among the unacknowledged frames."""


class Outbox:
    """`credit`: publications that may be sent now. `seq`: number of the last publication;
    `acknowledged_seq`: of the last one that the broker has taken over. `wake` is called when there
    is something to take and nothing was there before."""

    def __init__(self, publisher: str, wake: Callable[[], None]) -> None:
        self.publisher = publisher
        self.credit = 0
        self.seq = 0
        self.acknowledged_seq = 0
        self.output_bytes = 0
        self._wake = wake
        self._output: list[bytes] = []
        self._advertised = False
        self._unasked_seq = 0
        self._unacknowledged: Unacknowledged[bytes] = Unacknowledged()
        self._unsent: deque[bytes] = deque()

    @property
    def has_room(self) -> bool:
        return self.credit > 0 and not self._unsent

    def publish(self, frame: bytes) -> None:
        """Queues the publication with the next number, for which there must be room."""
        self.seq += 1
        self._send_publication(frame)

    def send_control(self, message: ControlMessage) -> None:
        if isinstance(message, Advertise) and not self._advertised:
            self._advertised, self._unasked_seq = True, self.seq
        self._unacknowledged.add(_CONTROL)
        self._put(wire.encode(FrameKind.CONTROL, message))

    def acknowledge(self, number: int) -> None:
        """The broker has taken over all numbered frames up to `number`."""
        done = self._unacknowledged.acknowledge(number)
        self.acknowledged_seq += sum(1 for frame in done if frame is not _CONTROL)

    def grant(self, credit: int) -> None:
        """The broker allows `credit` more publications."""
        if credit < 0:
            raise ProtocolError(f"the broker granted a credit of {credit}")
        self.credit += credit
        self._send_unsent()

    def disconnect(self) -> None:
        """The connection is gone, and with it what was not yet taken from the output."""
        self.credit = 0
        self._output.clear()
        self.output_bytes = 0

    def resume(
        self, received: int, credit: int, *, same_broker: bool, controls: Iterable[ControlMessage]
    ) -> None:
        """A connection is there; `controls` go first, but for what was published before any
        advertisement, then what was published but not taken over. `same_broker`: the process that
        acknowledged so far."""
        if same_broker:
            self.acknowledge(received)
        unsure = [frame for frame in self._unacknowledged.begin(received) if frame is not _CONTROL]
        if not same_broker:
            unsure = [wire.again(frame) for frame in unsure]
        self._unsent.extendleft(reversed(unsure))
        unasked = min(credit, max(self._unasked_seq - self.acknowledged_seq, 0))
        self.grant(unasked)
        for message in controls:
            self.send_control(message)
        self.grant(credit - unasked)

    def take(self) -> bytes:
        """All that is to be written now."""
        data = b"".join(self._output)
        self._output.clear()
        self.output_bytes = 0
        return data

    def _send_unsent(self) -> None:
        while self.credit > 0 and self._unsent:
            self._send_publication(self._unsent.popleft())

    def _send_publication(self, frame: bytes) -> None:
        self.credit -= 1
        self._unacknowledged.add(frame)
        self._put(frame)

    def _put(self, frame: bytes) -> None:
        if not self._output:
            self._wake()
        self._output.append(frame)
        self.output_bytes += len(frame)

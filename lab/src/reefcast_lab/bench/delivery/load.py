"""The load: publishers that keep a window of publications unconfirmed, consumers that acknowledge,
all in this thread; what it does for each publication is a few microseconds, in any protocol.
"""

from __future__ import annotations

import selectors
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from reefcast.errors import PeerError
from reefcast_lab.bench.delivery.wires import READ_BYTES, Consumer, Publisher

STALLED_S = 60.0
"""Without anything happening; then something is broken."""
CLOSED = "the broker closed a connection"
AT_ONCE = 1000
"""The most publications made before the answers are looked at."""


@dataclass
class Measured:
    """`confirmed`, `delivered`: how many; `confirming_s`, `delivering_s`: from the first
    publication (or the beginning, without publishers) to the last one. `delays_s`: from when each
    publication was made to its confirmation."""

    confirmed: int = 0
    delivered: int = 0
    confirming_s: float = 0.0
    delivering_s: float = 0.0
    delays_s: list[float] = field(default_factory=list)

    def percentile_us(self, share: float) -> float | None:
        """Return the delay that this share of the publications did not exceed."""
        if not self.delays_s:
            return None
        ordered = sorted(self.delays_s)
        return round(1e6 * ordered[min(int(share * len(ordered)), len(ordered) - 1)], 1)


class _Line:
    """A connection that does not block, and what waits to be written to it."""

    def __init__(self, end: Publisher | Consumer) -> None:
        self.end = end
        self.waiting = bytearray()
        end.socket.setblocking(False)

    def write(self, data: bytes = b"") -> None:
        self.waiting += data
        if not self.waiting:
            return
        try:
            sent = self.end.socket.send(self.waiting)
        except BlockingIOError:
            return
        except ConnectionError as error:
            raise PeerError(CLOSED) from error
        del self.waiting[:sent]

    def read(self) -> bytes:
        try:
            data = self.end.socket.recv(READ_BYTES)
        except BlockingIOError:
            return b""
        except ConnectionError as error:
            raise PeerError(CLOSED) from error
        if not data:
            raise PeerError(CLOSED)
        return data


class _Publishing(_Line):
    """`most`: the number of its last publication."""

    end: Publisher

    def __init__(self, end: Publisher, window: int, most: int, measured: Measured) -> None:
        super().__init__(end)
        self.most = most
        self._window = window
        self._measured = measured
        self._last = 0
        self._made: dict[int, float] = {}

    @property
    def done(self) -> bool:
        return not self._made and self._last >= self.most

    def stop(self) -> None:
        """Stop publishing."""
        self.most = self._last

    def fill(self) -> None:
        """Publish as much as window and credit allow."""
        room = min(self._window - len(self._made), self.most - self._last, AT_ONCE)
        if self.end.credit is not None:
            room = min(room, self.end.credit)
        if room > 0 and not self.waiting:
            now = time.perf_counter()
            first = self._last + 1
            self._last += room
            self._made.update(dict.fromkeys(range(first, first + room), now))
            self.write(self.end.publish(first, room))

    def came(self) -> int:
        numbers, answer = self.end.confirmed(self.read())
        now = time.perf_counter()
        measured = self._measured
        measured.delays_s += [now - self._made.pop(number) for number in numbers]
        measured.confirmed += len(numbers)
        self.write(answer)
        return len(numbers)


class _Consuming(_Line):
    end: Consumer

    def __init__(self, end: Consumer, measured: Measured) -> None:
        super().__init__(end)
        self._measured = measured

    def came(self) -> int:
        count, answer = self.end.take(self.read())
        self._measured.delivered += count
        self.write(answer)
        return count


def run(
    publishers: Sequence[Publisher],
    consumers: Sequence[Consumer],
    *,
    window: int = 1,
    seconds: float = 0.0,
    count: int = 0,
    backlog: int = 0,
) -> Measured:
    """Publish for so many `seconds`, or so many publications (`count`, by each publisher), and wait
    until all are confirmed and every consumer has them; consumers besides have a `backlog` to get.

    Raises `PeerError` if the broker refuses something, or nothing happens for a minute."""
    measured = Measured()
    publishing = [_Publishing(each, window, count or 1 << 62, measured) for each in publishers]
    consuming = [_Consuming(each, measured) for each in consumers]
    with selectors.DefaultSelector() as selector:
        lines: list[_Publishing | _Consuming] = [*publishing, *consuming]
        for line in lines:
            selector.register(line.end.socket, selectors.EVENT_READ, line)
        began = moved = time.perf_counter()
        while True:
            for each in publishing:
                each.fill()
            owed = (measured.confirmed + backlog) * len(consuming)
            if all(each.done for each in publishing) and measured.delivered >= owed:
                break
            _select(selector, measured, began)
            now = time.perf_counter()
            moved = max(moved, began + measured.confirming_s, began + measured.delivering_s)
            if now - moved > STALLED_S:
                raise PeerError(f"nothing has happened for {STALLED_S:g} s")
            if seconds and now - began > seconds:
                for each in publishing:
                    each.stop()
    for line in lines:
        line.end.socket.close()
    return measured


def _select(selector: selectors.BaseSelector, measured: Measured, began: float) -> None:
    """Handle what the brokers sent, and write what waits."""
    for key, _ in selector.select(0.1):
        line: _Publishing | _Consuming = key.data
        count = line.came()
        if count and isinstance(line, _Publishing):
            measured.confirming_s = time.perf_counter() - began
        elif count:
            measured.delivering_s = time.perf_counter() - began
    for key in selector.get_map().values():
        if key.data.waiting:
            key.data.write()

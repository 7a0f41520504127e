"""The receiving process, which has all connections of subscribers in one loop (`native`).

A connection subscribes and waits until its subscriptions are settled. Then its deliveries are
counted and acknowledged as often as a client does it. The counts lie in shared memory, so that
reading them costs the receiver nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from ctypes import Array, c_longlong

import numpy as np

from reefcast_lab.bench.live import native
from reefcast_lab.bench.live.native import Longs, Subscribers
from reefcast_lab.bench.live.points import Point
from reefcast_lab.bench.live.wires import WIRES, Subscriber, Wire

PING_S, ACK_S = 3.0, 1.0
IDLE_S = 0.5


class Receiver:
    """The receiver as a `worker.Work`. `shared`: the counts, see `native`."""

    def __init__(self, shared: Array[c_longlong]) -> None:
        self._counts: Longs = np.ctypeslib.as_array(shared)
        self._wire: Wire
        self._connections: list[socket.socket] = []
        self._subscribers: Subscribers | None = None
        self._pinged_s = self._acknowledged_s = 0.0
        native.compile_all(self._counts)

    def open(self, broker: str, port: int, point: Point) -> None:
        """Connect the subscribers of this point to a broker; return when all are settled."""
        self.close()  # connections are left over when something failed
        self._wire = WIRES[broker]()
        self._counts[:] = 0
        taken = []
        for i, filters in enumerate(point.filters()):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            who = Subscriber(connection, f"r{i}", filters, self._ping)
            taken.append(self._wire.subscribe(who))
        wide = point.fanout if self._wire.knows_conditions else len(self._connections)
        self._subscribers = Subscribers(
            self._wire.number, self._connections, wide, taken, self._counts
        )

    def close(self) -> None:
        """Close all connections."""
        self._subscribers = None
        while self._connections:
            self._connections.pop().close()

    def begin_run(self, every: int, pause: bool) -> None:
        """Note the delay of each `every`th delivery from now on; `pause`: see `Subscribers`."""
        if self._subscribers is not None:
            self._subscribers.begin_run(every, pause)

    def delays_us(self, *shares: float) -> list[float]:
        """Return these quantiles of the noted delays; an empty list if there are none."""
        assert self._subscribers is not None
        delays = self._subscribers.delays_us
        return [float(each) for each in np.quantile(delays, shares)] if delays.size else []

    def wait(self, asked: Callable[[float], bool]) -> None:
        if self._subscribers is None:
            asked(IDLE_S)
            return
        while not asked(0):
            self._subscribers.receive()
            if self._wire.ping and time.monotonic() > self._acknowledged_s + ACK_S:
                self._acknowledged_s = time.monotonic()
                self._subscribers.acknowledge()  # also what is little
            self._ping()

    def _ping(self) -> None:
        """Send a PING on every connection when it is time."""
        if self._wire.ping and time.monotonic() > self._pinged_s + PING_S:
            self._pinged_s = time.monotonic()
            for connection in self._connections:
                connection.sendall(self._wire.ping)

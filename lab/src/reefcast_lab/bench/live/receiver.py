"""The receiving process: all connections that subscribe to something, in one loop (`native`).

A connection says hello and subscribes, waits until all that is settled, then counts, acknowledges
as often as a client does, and says something from time to time. Counts go through shared memory, so
that asking for them costs the receiver nothing.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from ctypes import Array, c_longlong

import numpy as np

from reefcast_lab.bench.live.native import Longs, Subscribers
from reefcast_lab.bench.live.points import Point
from reefcast_lab.bench.live.wires import WIRES, Wire

PING_S, ACK_S = 3.0, 1.0
IDLE_S = 0.5


class Receiver:
    """The work of the process (`worker.Work`). `shared`: the counts, see `native`."""

    def __init__(self, shared: Array[c_longlong]) -> None:
        self._counts: Longs = np.ctypeslib.as_array(shared)
        self._wire: Wire
        self._connections: list[socket.socket] = []
        self._subscribers: Subscribers | None = None
        self._pinged_s = self._acknowledged_s = 0.0

    def open(self, broker: str, port: int, point: Point) -> None:
        """Connect to a broker as the subscribers of this point; returns when all is settled."""
        self.close()  # if something failed before
        self._wire = WIRES[broker]()
        self._counts[:] = 0
        taken = []
        for i, filters in enumerate(point.filters()):
            connection = socket.create_connection(("127.0.0.1", port))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connections.append(connection)
            taken.append(self._wire.subscribe(connection, f"r{i}", filters, self._ping))
        wide = point.fanout if self._wire.knows_conditions else len(self._connections)
        self._subscribers = Subscribers(
            self._wire.number, self._connections, wide, taken, self._counts
        )

    def close(self) -> None:
        """Leave the broker."""
        self._subscribers = None
        while self._connections:
            self._connections.pop().close()

    def begin_run(self, every: int, pause: bool) -> None:
        """From now on note how long each `every`th delivery took; `pause`: see `Subscribers`."""
        if self._subscribers is not None:
            self._subscribers.begin_run(every, pause)

    def delays_us(self, *shares: float) -> list[float]:
        """What those shares of the noted deliveries took at most; nothing if there are none."""
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
                self._subscribers.acknowledge()  # what was left because it was little
            self._ping()

    def _ping(self) -> None:
        """Let the broker hear something of every connection from time to time."""
        if self._wire.ping and time.monotonic() > self._pinged_s + PING_S:
            self._pinged_s = time.monotonic()
            for connection in self._connections:
                connection.sendall(self._wire.ping)

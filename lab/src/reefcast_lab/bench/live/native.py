"""Receive from many connections in compiled code: one call polls, reads, counts and acknowledges
for a while.

Of an event only its arrival is counted, and of some the delay. Of a frame that is not whole yet
only the head is kept until the rest has come.

The compiled functions contain those of `heads`. Numba does not notice when those change, and keeps
what it compiled as long as this file is the same: whoever changes them changes this file, too.
"""

from __future__ import annotations

import select
import socket
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import types

from reefcast.client.connection import ACK_EVERY, ACK_EVERY_BYTES
from reefcast.errors import PeerError
from reefcast.matching.kernel_cache import njit
from reefcast.model import wire
from reefcast.model.wire import FrameKind
from reefcast_lab.bench.live import heads
from reefcast_lab.bench.live.heads import CUT, DELIVERY, NUMBERED, QUESTION, Bytes, head, number_at
from reefcast_lab.bench.live.nats import PONG

DELIVERIES, WIDE, LAST_US = 0, 1, 2
"""What is counted, in shared memory: deliveries, those to connections that want everything, and
when the last one came."""
COUNTS = 3
READ_BYTES = 256 * 1024
HEAD_BYTES = 16 * 1024
"""Room for the head of a frame."""
DELAYS = 1_000_000
"""The most delays that are kept of one run."""
WAIT_MS, SLICE_US = 10, 10_000
PAUSE_US = 200
"""A receiver that waits for each event is woken by the broker, at the broker's cost, unless it is
still busy with the event before. With that CPU times would differ by a factor of three, depending
on what else runs. A receiver that pauses never waits, so the broker pays for sending alone."""
_BAD = select.POLLERR | select.POLLHUP | select.POLLNVAL
_ACK_HEAD = np.frombuffer(wire.HEAD.pack(6, FrameKind.ACK) + b"\xce" + bytes(4), np.uint8)
_ACK_BYTES = _ACK_HEAD.size
_PONG = np.frombuffer(PONG, np.uint8)

Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Shorts = npt.NDArray[np.int16]

_poll: Any = types.ExternalFunction("poll", types.int32(types.uintp, types.uint64, types.int32))
_recv: Any = types.ExternalFunction(
    "recv", types.int64(types.int32, types.uintp, types.uint64, types.int32)
)
_send: Any = types.ExternalFunction(
    "send", types.int64(types.int32, types.uintp, types.uint64, types.int32)
)
_usleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))
_clock: Any = types.ExternalFunction("clock_gettime", types.int32(types.int32, types.uintp))
# The columns of `state`, a row for each connection.
_REST, _SKIP, _STAMP, _TAKEN, _ACKNOWLEDGED, _UNACKNOWLEDGED_BYTES = range(6)
_COLUMNS = 6
# The fields of `run`: delays noted, deliveries of the run, every which one is noted, pause (us).
_NOTED, _DELIVERED, _EVERY, _PAUSE = range(4)


@njit(cache=True)
def now_us(time: Longs) -> Any:
    """Return microseconds since 1970; `time` is room for seconds and nanoseconds."""
    _clock(np.int32(0), time.ctypes.data)
    return time[0] * 1_000_000 + time[1] // 1000


@njit(cache=True)
def _count(counts: Longs, delays: Longs, run: Longs, wide: bool, sent_us: Any, now: Any) -> None:
    """Count a delivery that has come completely."""
    counts[DELIVERIES] += 1
    counts[LAST_US] = now
    if wide:
        counts[WIDE] += 1
    run[_DELIVERED] += 1
    if run[_DELIVERED] % run[_EVERY] == 0 and run[_NOTED] < delays.size:
        delays[run[_NOTED]] = now - sent_us
        run[_NOTED] += 1


@njit(cache=True)
def walk(
    protocol: int,
    data: Bytes,
    size: Any,
    state: Longs,
    rest: Bytes,
    counts: Longs,
    delays: Longs,
    run: Longs,
    wide: bool,
    now: Any,
) -> int:
    """Count the frames of one connection in the first `size` bytes of `data`. What is left of a
    frame that is not whole goes into `rest`. Return how many frames must be answered; -1 if `rest`
    is too small."""
    start, questions = state[_SKIP], 0
    if start and start <= size and state[_STAMP]:
        _count(counts, delays, run, wide, state[_STAMP], now)
    while start < size:
        kind, stamp, end = head(protocol, data, start, size)
        if kind == CUT:
            break
        if kind in (DELIVERY, NUMBERED):
            state[_TAKEN] += 1
        state[_STAMP] = 0
        if kind == DELIVERY:
            state[_STAMP] = number_at(data, stamp, 8)
            if end <= size:
                _count(counts, delays, run, wide, state[_STAMP], now)
        elif kind == QUESTION:
            questions += 1
        start = end
    state[_SKIP] = max(start - size, 0)
    state[_REST] = max(size - start, 0)
    if state[_REST] > rest.size:
        return -1
    for k in range(state[_REST]):
        rest[k] = data[start + k]
    return questions


@njit(cache=True)
def _acknowledge(fd: Any, state: Longs, ack: Bytes) -> None:
    """Acknowledge all numbered frames of a connection that have come."""
    for k in range(4):
        ack[_ACK_BYTES - 4 + k] = state[_TAKEN] >> (24 - 8 * k) & 255
    _send(fd, ack.ctypes.data, np.uint64(_ACK_BYTES), np.int32(0))
    state[_ACKNOWLEDGED] = state[_TAKEN]
    state[_UNACKNOWLEDGED_BYTES] = 0


@njit(cache=True)
def acknowledge_all(fds: Ints, states: Longs, ack: Bytes) -> None:
    """Acknowledge on all connections what is not acknowledged yet."""
    for i in range(fds.size):
        if states[i, _TAKEN] > states[i, _ACKNOWLEDGED]:
            _acknowledge(fds[i], states[i], ack)


@njit(cache=True)
def receive(
    protocol: int,
    polled: Shorts,
    fds: Ints,
    wide: int,
    states: Longs,
    rests: Bytes,
    data: Bytes,
    ack: Bytes,
    pong: Bytes,
    counts: Longs,
    delays: Longs,
    run: Longs,
    time: Longs,
) -> int:
    """Receive for `SLICE_US`; return -1, or the number of a connection that is closed."""
    until = now_us(time) + SLICE_US
    now = until - SLICE_US
    wait_ms = np.int32(0 if run[_PAUSE] else WAIT_MS)
    most = np.int64(0)
    while now < until:
        if run[_PAUSE] and most < data.size // 2:
            _usleep(np.uint32(run[_PAUSE]))
        most = np.int64(0)
        ready = _poll(polled.ctypes.data, np.uint64(fds.size), wait_ms)
        now = now_us(time)
        for i in range(fds.size if ready > 0 else 0):
            if polled[i, 3] == 0:
                continue
            state = states[i]
            had = state[_REST]
            data[:had] = rests[i, :had]
            room = np.uint64(data.size - had)
            got = _recv(fds[i], data[had:].ctypes.data, room, np.int32(0))
            if got == 0 or (got < 0 and polled[i, 3] & _BAD):
                return i
            if got < 0:
                continue
            now = now_us(time)
            most = max(most, got)
            asked = walk(
                protocol, data, had + got, state, rests[i], counts, delays, run, i < wide, now
            )
            if asked < 0:
                return i
            for _ in range(asked):
                _send(fds[i], pong.ctypes.data, np.uint64(pong.size), np.int32(0))
            state[_UNACKNOWLEDGED_BYTES] += got
            due = state[_TAKEN] - state[_ACKNOWLEDGED] >= ACK_EVERY
            if protocol == heads.REEFCAST and (
                due or state[_UNACKNOWLEDGED_BYTES] >= ACK_EVERY_BYTES
            ):
                _acknowledge(fds[i], state, ack)
    return -1


class Subscribers:
    """The connections of subscribers, of which the first `wide` want everything. `taken`: the
    number of numbered frames that have come on each. `counts`: where deliveries are counted."""

    def __init__(
        self,
        protocol: int,
        connections: Sequence[socket.socket],
        wide: int,
        taken: Sequence[int],
        counts: Longs,
    ) -> None:
        self.delays: Longs = np.empty(DELAYS, np.int64)
        self._protocol = protocol
        self._wide = wide
        self._fds = np.array([each.fileno() for each in connections], np.int32)
        self._polled = np.zeros((len(connections), 4), np.int16)  # struct pollfd
        self._polled.view(np.int32)[:, 0] = self._fds
        self._polled[:, 2] = select.POLLIN
        self._states = np.zeros((len(connections), _COLUMNS), np.int64)
        self._states[:, _TAKEN] = self._states[:, _ACKNOWLEDGED] = taken
        self._rests = np.empty((len(connections), HEAD_BYTES), np.uint8)
        self._data = np.empty(READ_BYTES + HEAD_BYTES, np.uint8)
        self._ack, self._pong = _ACK_HEAD.copy(), _PONG.copy()
        self._counts = counts
        self._run = np.array([0, 0, 1, 0])
        self._time = np.zeros(2, np.int64)
        for connection in connections:
            connection.setblocking(False)

    def begin_run(self, every: int, pause: bool) -> None:
        """Keep the delay of each `every`th delivery from now on, and forget those from before.
        `pause`: whether to let `PAUSE_US` pass between two looks at the connections."""
        self._run[:] = 0, 0, every, PAUSE_US if pause else 0

    @property
    def delays_us(self) -> Longs:
        """The delays of this run."""
        return self.delays[: self._run[_NOTED]]

    def receive(self) -> None:
        """Receive for a moment; raise `PeerError` if the broker closed a connection."""
        gone = receive(
            self._protocol,
            self._polled,
            self._fds,
            self._wide,
            self._states,
            self._rests,
            self._data,
            self._ack,
            self._pong,
            self._counts,
            self.delays,
            self._run,
            self._time,
        )
        if gone >= 0:
            raise PeerError(f"the broker closed the connection of subscriber {gone}")

    def acknowledge(self) -> None:
        """Acknowledge what is not acknowledged yet."""
        acknowledge_all(self._fds, self._states, self._ack)


def compile_all(counts: Longs) -> None:
    """Compile what receives, before anything is connected: a broker closes a connection on which
    nothing comes meanwhile."""
    nobody = Subscribers(heads.REEFCAST, [], 0, [], counts)
    nobody.receive()
    nobody.acknowledge()

"""The receiving side of the live measurement: one process with many connections.

Each connection is a bare socket that says hello and subscribes, waits until all that is settled,
then counts, and acknowledges as often as a client does; every hundredth event is decoded for its
delay. Counts go through shared memory, so that asking for them costs the receiver nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.sharedctypes import SynchronizedArray
from typing import Any, NamedTuple, cast

import numpy as np

from reefcast.client.connection import ACK_EVERY
from reefcast.model import wire
from reefcast.model.messages import Subscribe
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.frames import FrameReader
from reefcast_lab.bench import frames, mqtt

DELIVERIES, LAST_NS = 0, 1
PING_S = 3.0


class Receiver(asyncio.Protocol):
    """One connection; `opening` is what it says first, to which it gets so many `answers`.
    `counts`: [deliveries, time of the last]."""

    def __init__(
        self, opening: bytes, answers: int, walk: Callable[..., tuple[int, int, int]], counts: Any
    ) -> None:
        self._opening = opening
        self._missing = answers
        self._answers = FrameReader()
        self._walk = walk
        self._is_ours = walk is frames.walk_reefcast
        self._counts = counts
        self._rest = b""
        self._count = self._acknowledged = 0
        self._places = np.empty(20_000, np.int64)
        self.delays_us: list[int] = []
        self.answered = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.transport.write(self._opening)

    def data_received(self, data: bytes) -> None:
        if not self.answered.done():
            self._settle(data)
            return
        data = self._rest + data if self._rest else data
        view = np.frombuffer(data, np.uint8)
        count, noted, used = self._walk(view, self._count, self._places)
        self._rest = data[used:]
        if count > self._count:
            now_ns = time.time_ns()
            self._counts[DELIVERIES] += count - self._count
            self._counts[LAST_NS] = now_ns
            self._count = count
            for i in range(0, noted, 2):
                self._decode(data[self._places[i] : self._places[i + 1]], now_ns)
            if self._is_ours and count >= self._acknowledged + ACK_EVERY:
                self._acknowledged = count
                self.transport.write(wire.encode(FrameKind.ACK, count))

    def _settle(self, data: bytes) -> None:
        """Nothing is published yet."""
        if self._is_ours:
            kinds = [kind for kind, _ in self._answers.feed(data)]
            self._missing -= len(kinds) - kinds.count(FrameKind.PING)
        if self._missing <= 0 or not self._is_ours:
            self.answered.set_result(None)

    def _decode(self, payload: bytes, now_ns: int) -> None:
        body = wire.split_parts(payload)[1] if self._is_ours else payload
        self.delays_us.append(now_ns // 1000 - wire.decode_publication(body).time_us)


def _reefcast_opening(name: str, filters: list[str]) -> bytes:
    hello = wire.hello(Role.CLIENT, name, "", name, queue_policy="block")
    said = [wire.encode(FrameKind.HELLO, hello)]
    for number, filter in enumerate(filters, 1):
        said.append(wire.encode(FrameKind.CONTROL, Subscribe((name, number), filter, number)))
    return b"".join(said)


def _mqtt_opening(name: str, filters: list[str]) -> bytes:
    """The filters stay at home: mosquitto knows none, every connection gets everything."""
    return mqtt.connect(name) + mqtt.subscribe()


class Job(NamedTuple):
    """What the receiving process is told: the filters of each connection to the broker, "reefcast"
    or another; and where counts (`shared`) and delays (`pipe`) go."""

    broker: str
    port: int
    connections: list[list[str]]
    pipe: Connection
    shared: SynchronizedArray[int]


async def _receive(job: Job) -> None:
    is_ours = job.broker == "reefcast"
    opening = _reefcast_opening if is_ours else _mqtt_opening
    walk = frames.walk_reefcast if is_ours else frames.walk_mqtt
    walk(np.zeros(1, np.uint8), 0, np.zeros(2, np.int64))  # compiled before it counts
    loop = asyncio.get_running_loop()
    receivers: list[Receiver] = []
    counts = job.shared.get_obj()
    for i, filters in enumerate(job.connections):
        make = partial(Receiver, opening(f"r{i}", filters), 1 + len(filters), walk, counts)
        _, receiver = await loop.create_connection(make, "127.0.0.1", job.port)
        receivers.append(receiver)
        await receiver.answered
    job.pipe.send("connected")
    told = asyncio.Event()
    loop.add_reader(job.pipe.fileno(), told.set)
    while not told.is_set():
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(told.wait(), PING_S)
        if is_ours:
            for receiver in receivers:
                receiver.transport.write(wire.encode(FrameKind.PING, 0))
    loop.remove_reader(job.pipe.fileno())
    job.pipe.recv()
    job.pipe.send([delay for receiver in receivers for delay in receiver.delays_us])


def run(job: Job) -> None:
    """The receiving process: says "connected", counts until it is told to end, sends the delays."""
    import uvloop

    uvloop.run(_receive(job))

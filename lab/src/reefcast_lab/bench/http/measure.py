"""Measure each load for the bare server and for our broker.

A row is the median of several runs against one fresh server, behind runs that warm it up and show
how many requests a run needs. CPU is what the server used in a run; what it uses while nothing
happens is little, and not taken off."""

from __future__ import annotations

import selectors
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from statistics import median
from urllib.parse import quote

from reefcast.matching import warm_up as compile_index
from reefcast_lab.bench.http import servers
from reefcast_lab.bench.http.clients import Publisher, Reader, post
from reefcast_lab.bench.live.brokers import OURS
from reefcast_lab.bench.mqtt.brokers import Running

CPU_S, LONGEST_S = 0.3, 4.0
"""A run is so long that the server uses so much CPU time, but not longer than `LONGEST_S`."""
FIRST, MOST = 50, 100_000
"""Requests of the first run, and the most of one."""
STALLED_S = 60.0
BATCH = 100
PUBLISHERS = 8
EVENT = b'{"price": 101.25, "volume": 3000, "symbol": "IBM", "desk": {"name": "fx"}}'
FILTER = "price > 100 AND desk.name = 'fx'"


@dataclass(frozen=True, slots=True)
class Load:
    """`publishers` post requests of `batch` events, one at a time each; `confirmed`: each waits
    until its events are confirmed. `fanout`: streams that get every event."""

    name: str
    publishers: int = PUBLISHERS
    batch: int = 1
    confirmed: bool = False
    fanout: int = 0


LOADS = (
    Load("in, single"),
    Load("in, batched", batch=BATCH),
    Load("in, single, confirmed", confirmed=True),
    Load("in, batched, confirmed", batch=BATCH, confirmed=True),
    Load("out, server-sent", publishers=1, batch=BATCH, fanout=1),
    Load("out, server-sent", publishers=1, batch=BATCH, fanout=100),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpFigures:
    """A row: one server under one load. `cpu_us_per_event`: the server's CPU time in microseconds
    for each event that comes in, or where there are streams, for each that goes out;
    `cpu_spread`: the difference between the runs with the most and the least, divided by the
    median; `events_per_s`: of those events; `missing`: those that never came; `ratio`: the CPU time
    of the baseline over that of this server: 2 is twice as good. The baseline confirms nothing."""

    load: str
    server: str
    publishers: int
    batch: int
    fanout: int
    cpu_us_per_event: float
    cpu_spread: float
    events_per_s: int
    missing: int
    ratio: float


def measure(
    loads: Sequence[Load], repeat: int, tell: Callable[[str], None]
) -> Iterator[HttpFigures]:
    """Yield a row for each load and server. Raises `PeerError` where a server fails."""
    compile_index()  # once, here; the broker loads what is kept
    for number, load in enumerate(loads, 1):
        baseline = 0.0
        for server in servers.SERVERS:
            tell(f"{number} of {len(loads)}: {server}, {load.name}, fan-out {load.fanout}")
            with servers.running(server) as running, Session(running, server, load) as session:
                runs = session.measured(repeat)
            each_us = [1e6 * run.cpu_s / run.events for run in runs]
            baseline = baseline or median(each_us)
            yield HttpFigures(
                load=load.name,
                server=server,
                publishers=load.publishers,
                batch=load.batch,
                fanout=load.fanout,
                cpu_us_per_event=round(median(each_us), 2),
                cpu_spread=round((max(each_us) - min(each_us)) / median(each_us), 3),
                events_per_s=round(median(run.events / run.seconds for run in runs)),
                missing=sum(run.missing for run in runs),
                ratio=round(baseline / median(each_us), 3),
            )


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of one run."""

    events: int
    missing: int
    seconds: float
    cpu_s: float


class Session:
    """The runs of one load against one server."""

    def __init__(self, running: Running, server: str, load: Load) -> None:
        self._running, self._load = running, load
        self._open = ExitStack()
        self._selector = self._open.enter_context(selectors.DefaultSelector())
        path = "/v1/events"
        asked = f"{path}?filter={quote(FILTER)}&queue_policy=block" if server == OURS else path
        self._readers = [Reader(running.port, asked) for _ in range(load.fanout)]
        path = f"{path}?confirm=true" if load.confirmed and server == OURS else path
        body = b"[%s]" % b",".join([EVENT] * load.batch) if load.batch > 1 else EVENT
        request = post(path, body)
        self._publishers = [Publisher(running.port, request) for _ in range(load.publishers)]
        for client in (*self._readers, *self._publishers):
            self._open.callback(client.socket.close)
            self._selector.register(client.socket, selectors.EVENT_READ, client)

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def measured(self, repeat: int) -> list[Run]:
        """Return `repeat` runs, behind those that warm the server up."""
        count = FIRST
        self.run(count)  # its time says nothing: much happens for the first time
        while True:
            run = self.run(count)
            times = min(CPU_S / max(run.cpu_s, 1e-6), LONGEST_S / run.seconds)
            if times < 1.25 or count == MOST:
                return [self.run(count) for _ in range(repeat)]
            count = min(int(count * min(times, 10.0)), MOST)

    def run(self, requests: int) -> Run:
        """Send so many requests, or a few more, so that each publisher has as many as the others;
        return when all that they bring has come, or nothing happens any more."""
        each = -(-requests // len(self._publishers))
        events = each * len(self._publishers) * self._load.batch
        expected = events * max(self._load.fanout, 1)
        had, used_s, since = self._out(), self._running.cpu_s(), time.monotonic()
        for publisher in self._publishers:
            publisher.left += each
        self._carry(had + events * self._load.fanout)
        seconds, cpu_s = time.monotonic() - since, self._running.cpu_s() - used_s
        missing = had + events * self._load.fanout - self._out()
        return Run(expected, missing, seconds, cpu_s)

    def _out(self) -> int:
        return sum(reader.count for reader in self._readers)

    def _carry(self, expected: int) -> None:
        """Post and read until so many events have come, and each request is answered."""
        state, moved = (-1, -1), time.monotonic()
        while True:
            for publisher in self._publishers:
                publisher.post()
            for key, _ in self._selector.select(0.02):
                key.data.came()
            answered = sum(publisher.count for publisher in self._publishers)
            if all(publisher.is_done for publisher in self._publishers) and self._out() >= expected:
                return
            if (now := (answered, self._out())) != state:
                state, moved = now, time.monotonic()
            elif time.monotonic() - moved > STALLED_S:
                return

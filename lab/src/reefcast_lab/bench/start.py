"""What a broker costs before anything is published: its start, its memory, connections,
subscriptions.

The broker is a process of its own, with the defaults of a network file. A client that speaks the
protocol on a bare socket has it do one thing at a time; what that took is read from the kernel,
which counts nanoseconds of processor time for each thread.
"""

from __future__ import annotations

import contextlib
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection, socket
from statistics import median
from typing import Any

from reefcast.errors import LocalError, PeerError
from reefcast.matching import warm_up
from reefcast.model import wire
from reefcast.model.messages import Advertise, Subscribe, TableChange, Unsubscribe
from reefcast.model.publication import Publication
from reefcast.model.wire import FrameKind, Role
from reefcast.protocol.frames import FrameReader
from reefcast_lab.bench import quotes

STARTS = 5
BARE = "import resource, numpy, uvloop; print(resource.getrusage(resource.RUSAGE_SELF).ru_utime)"
"""A program that does no more than to load the two libraries that no broker is without."""
CHUNK = 1 << 16
PATIENCE_S = 300.0
AT_ONCE = 200
"""Messages that are under way at a time: what both ends' buffers hold."""
NUMBERED = frozenset((FrameKind.CONTROL, FrameKind.DELIVER))
"""What a client acknowledges."""
KIB = 1024
IDLE_S = 10.0
OTHER_FILES = 256
"""Files of this process that are no connection."""


@dataclass(frozen=True, slots=True)
class StartRow:
    """Seconds of processor time: of a bare Python program with numpy and uvloop (the baseline), of
    a broker until it listens, and until it has delivered its first publication; MB that it has in
    memory then. All are the median of some starts. Microseconds of processor time for a
    subscription, and for taking it back; MB for all of the `subscriptions`, no two alike.
    Microseconds for a connection of a client, MB for all of the `connections`, and milliseconds of
    processor time that they take in a second while nothing but pings passes."""

    bare_cpu_s: float
    listens_cpu_s: float
    delivers_cpu_s: float
    idle_mb: float
    subscriptions: int
    subscribe_cpu_us: float
    unsubscribe_cpu_us: float
    subscriptions_mb: float
    connections: int
    connect_cpu_us: float
    connections_mb: float
    idle_cpu_ms_per_s: float


def bench(subscriptions: int, connections: int, tell: Callable[[str], None]) -> Iterator[StartRow]:
    """Start brokers, and give one of them this many subscriptions, and one this many connections.
    Raises `LocalError` where this process may not open so many."""
    _allow_files(connections)
    warm_up()  # compiled once, here; brokers load what is kept
    tell(f"{STARTS} starts")
    bare = median(_bare() for _ in range(STARTS))
    listens, delivers, idle = map(median, zip(*(_start() for _ in range(STARTS)), strict=True))
    tell(f"{subscriptions:,} subscriptions")
    subscribe, unsubscribe, held = _subscriptions(subscriptions)
    tell(f"{connections:,} connections, idle for {IDLE_S:g} s")
    connect, connected_mb, idle_s = _connections(connections)
    yield StartRow(
        round(bare, 3),
        round(listens, 3),
        round(delivers, 3),
        round(idle, 1),
        subscriptions,
        round(1e6 * subscribe / subscriptions, 1),
        round(1e6 * unsubscribe / subscriptions, 1),
        round(held, 1),
        connections,
        round(1e6 * connect / connections, 1),
        round(connected_mb, 1),
        round(1e3 * idle_s, 1),
    )


def _bare() -> float:
    return float(
        subprocess.run([sys.executable, "-c", BARE], capture_output=True, check=True).stdout
    )


def _start() -> tuple[float, float, float]:
    with _broker() as broker:
        listens = broker.cpu_s()
        with broker.connected() as client:
            client.carry_one()
            return listens, broker.cpu_s(), broker.memory_mb()


def _subscriptions(count: int) -> tuple[float, float, float]:
    """Return the seconds to subscribe all of them and to unsubscribe them, and their MB."""
    with _broker() as broker, broker.connected() as client:
        client.carry_one()
        before_s, before_mb = broker.cpu_s(), broker.memory_mb()
        client.subscribe(quotes.distinct_filters(count))
        subscribed_s, subscribed_mb = broker.cpu_s(), broker.memory_mb()
        client.unsubscribe(count)
        unsubscribed_s = broker.cpu_s()
    return subscribed_s - before_s, unsubscribed_s - subscribed_s, subscribed_mb - before_mb


def _allow_files(connections: int) -> None:
    """Let this process, and the brokers that it starts, open as many files as the machine lets
    it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if hard != resource.RLIM_INFINITY and connections + OTHER_FILES > hard:
        raise LocalError(
            f"{connections:,} connections need {connections + OTHER_FILES:,} files, and a process "
            f"may open {hard:,} here: raise the limit (ulimit -Hn), or measure fewer"
        )


def _connections(count: int) -> tuple[float, float, float]:
    """Return the seconds to connect all of them, their MB, and the seconds that they take in each
    second of idleness."""
    with _broker() as broker, contextlib.ExitStack() as connections:
        with broker.connected() as client:
            client.carry_one()
        before_s, before_mb = broker.cpu_s(), broker.memory_mb()
        clients = [
            connections.enter_context(broker.connected(f"client{number}"))
            for number in range(count)
        ]
        connected_s, connected_mb = broker.cpu_s(), broker.memory_mb()
        began = now = time.monotonic()
        while now < began + IDLE_S:
            for each in clients:
                each.ping()
            time.sleep(max(0.0, now + wire.PING_INTERVAL_S - time.monotonic()))
            now = time.monotonic()
        idle_s = (broker.cpu_s() - connected_s) / (now - began)
    return connected_s - before_s, connected_mb - before_mb, idle_s


class _Broker:
    def __init__(self, process: subprocess.Popen[bytes], address: tuple[str, int]) -> None:
        self._folder = Path(f"/proc/{process.pid}")
        self._address = address

    def cpu_s(self) -> float:
        """Return the CPU time of all its threads."""
        files = (self._folder / "task").glob("*/schedstat")
        return sum(int(file.read_text().split()[0]) for file in files) / 1e9

    def memory_mb(self) -> float:
        """Return the resident memory, shared libraries included."""
        lines = (self._folder / "status").read_text().splitlines()
        (resident,) = (line for line in lines if line.startswith("VmRSS"))
        return int(resident.split()[1]) * KIB / 1e6

    @contextlib.contextmanager
    def connected(self, name: str = "client") -> Iterator[_Client]:
        with create_connection(self._address, PATIENCE_S) as connection:
            yield _Client(connection, name)


@contextlib.contextmanager
def _broker() -> Iterator[_Broker]:
    command = [sys.executable, "-m", "reefcast", "broker", "--port", "0", "--json", "--until-eof"]
    pipe, none = subprocess.PIPE, subprocess.DEVNULL
    pipes: dict[str, Any] = {"stdin": pipe, "stdout": pipe, "stderr": none}
    with subprocess.Popen(command, **pipes) as process:
        try:
            told = process.stdout.readline() if process.stdout is not None else b""
            if not told:
                raise PeerError("the broker did not start")
            host, port = json.loads(told)["listen"].rsplit(":", 1)
            yield _Broker(process, (host, int(port)))
        finally:
            process.terminate()


class _Client:
    """A client that sends what it is told, and waits until the broker has answered all of it."""

    def __init__(self, connection: socket, name: str) -> None:
        self._connection = connection
        self._name = name
        self._frames = FrameReader()
        self._numbers = self._taken = 0
        hello = wire.hello(Role.CLIENT, self._name, "", self._name, queue_policy="block")
        self._say([wire.encode(FrameKind.HELLO, hello)])
        self._await(1, FrameKind.HELLO)

    def carry_one(self) -> None:
        """Subscribe, and wait for a publication that comes back."""
        self._numbers += 1
        self._control([Advertise((self._name, self._numbers), "TRUE", self._numbers)])
        self.subscribe([quotes.EVERYTHING])
        event = quotes.events(1)[0]
        body = wire.encode_publication(Publication(self._name, 1, time.time_ns() // 1000, event))
        self._say([wire.encode_parts(FrameKind.PUBLISH, (0,), body)])
        self._await(1, FrameKind.DELIVER)
        self._say([wire.encode(FrameKind.ACK, self._taken)])

    def subscribe(self, filters: Sequence[str]) -> None:
        first, self._numbers = self._numbers + 1, self._numbers + len(filters)
        self._control(
            [
                Subscribe((self._name, number), filter, number)
                for number, filter in enumerate(filters, first)
            ]
        )

    def unsubscribe(self, count: int) -> None:
        """Unsubscribe the latest ones."""
        first = self._numbers - count + 1
        numbers = range(first, first + count)
        self._control([Unsubscribe((self._name, number), number + count) for number in numbers])

    def ping(self) -> None:
        self._say([wire.encode(FrameKind.PING, 0)])

    def _control(self, messages: Sequence[TableChange]) -> None:
        frames = [wire.encode(FrameKind.CONTROL, message) for message in messages]
        for first in range(0, len(frames), AT_ONCE):
            some = frames[first : first + AT_ONCE]
            self._say(some)
            self._await(len(some), FrameKind.CONTROL)
            self._say([wire.encode(FrameKind.ACK, self._taken)])

    def _say(self, frames: Sequence[bytes]) -> None:
        self._connection.sendall(b"".join(frames))

    def _await(self, count: int, kind: FrameKind) -> None:
        while count > 0:
            data = self._connection.recv(CHUNK)
            if not data:
                raise PeerError("the broker closed the connection")
            kinds = [each for each, _ in self._frames.feed(data)]
            self._taken += sum(each in NUMBERED for each in kinds)
            count -= kinds.count(kind)

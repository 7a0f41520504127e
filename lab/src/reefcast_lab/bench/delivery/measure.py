"""What is measured of each broker, and the rows.

- *confirm*: publishers keep windows of publications unconfirmed, for one session without consumer.
- *deliver*: one publisher, and a consumer for each session, which gets all and acknowledges it.
- *drain*: a session is owed a backlog when its consumer comes.
- *idle*: memory with many sessions to which nothing is published.

Fairness: all brokers carry the same bytes, over connections of loopback, and are asked by the same
loop in one process of Python, which spends a few microseconds for each publication in any of the
protocols: rates above some 100 000 a second are this loop's. The CPU time is the broker's alone.
Consumers acknowledge what came together with one message, where the protocol has one for that. What
is on disk when a broker confirms differs; rows say it (`syncs`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from reefcast_lab.bench.delivery import brokers, load
from reefcast_lab.bench.delivery.brokers import BROKERS, Running
from reefcast_lab.bench.delivery.wires import Wire
from reefcast_lab.bench.live.cpu import used_s

CONFIRMING = ((1, 1), (1, 1000), (100, 1), (100, 1000))
"""Publishers, and the window of each."""
SESSIONS = (1, 10, 100)
WINDOW = 1000
"""The window of the one publisher of all other rows."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """`window`: unconfirmed publications of each publisher. `confirmed_per_s`: by the wall clock;
    `p50_us`, `p99_us`: of a confirmation. `delivered_per_s`: deliveries to all sessions.
    `broker_cpu_us`: CPU time of the broker for each publication (drain: for each delivery).
    `memory_mb`: of the broker, with so many sessions; `more_mb`: what came with them."""

    what: str
    broker: str
    syncs: str
    publishers: int = 0
    window: int = 0
    sessions: int = 0
    confirmed_per_s: int | None = None
    p50_us: float | None = None
    p99_us: float | None = None
    delivered_per_s: int | None = None
    broker_cpu_us: float | None = None
    memory_mb: float | None = None
    more_mb: float | None = None


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured: `seconds` of publishing for each row, events of the `backlog`, `idle`
    sessions."""

    seconds: float
    backlog: int
    idle: int


def bench(names: Sequence[str], sizes: Sizes, tell: Callable[[str], None]) -> Iterator[Delivery]:
    """Measure these brokers. Raises `PeerError` if one refuses something or does not go on."""
    for name in names:
        tell(f"{name}: starting")
        with brokers.running(name) as running:
            yield from _Bench(name, running, sizes, tell).rows()
        if sizes.idle:
            with brokers.running(name) as running:
                tell(f"{name}: {sizes.idle:,} idle sessions")
                yield _idle(name, running, sizes.idle)


class _Bench:
    """The rows of one running broker."""

    def __init__(
        self, name: str, running: Running, sizes: Sizes, tell: Callable[[str], None]
    ) -> None:
        self._name = name
        self._running = running
        self._sizes = sizes
        self._tell = tell
        self._runs = count(1)
        self._wire: Wire = BROKERS[name].wire(running.port)

    def rows(self) -> Iterator[Delivery]:
        """Measure it all; a first run warms it up."""
        self._confirm(1, WINDOW)
        for publishers, window in CONFIRMING:
            self._tell(f"{self._name}: {publishers} publishers with windows of {window:,}")
            yield self._confirm(publishers, window)
        for sessions in SESSIONS:
            self._tell(f"{self._name}: delivery to {sessions} sessions")
            yield self._deliver(sessions)
        if self._sizes.backlog:
            self._tell(f"{self._name}: draining {self._sizes.backlog:,}")
            yield self._drain(self._sizes.backlog)

    def _confirm(self, publishers: int, window: int) -> Delivery:
        run = next(self._runs)
        self._wire.prepare(run, 1)
        ends = [self._wire.publisher(run, number) for number in range(publishers)]
        began_s = self._cpu_s()
        measured = load.run(ends, (), window=window, seconds=self._sizes.seconds)
        return self._row("confirm", measured, began_s, publishers, window, 1)

    def _deliver(self, sessions: int) -> Delivery:
        run = next(self._runs)
        self._wire.prepare(run, sessions)
        consumers = [self._wire.consumer(run, session) for session in range(sessions)]
        publisher = self._wire.publisher(run, 0)
        began_s = self._cpu_s()
        measured = load.run([publisher], consumers, window=WINDOW, seconds=self._sizes.seconds)
        return self._row("deliver", measured, began_s, 1, WINDOW, sessions)

    def _drain(self, backlog: int) -> Delivery:
        run = next(self._runs)
        self._wire.prepare(run, 1)
        load.run([self._wire.publisher(run, 0)], (), window=WINDOW, count=backlog)
        began_s = self._cpu_s()
        measured = load.run((), [self._wire.consumer(run, 0)], backlog=backlog)
        return self._row("drain", measured, began_s, 0, 0, 1)

    def _cpu_s(self) -> float:
        return used_s(self._running.pid) or 0.0

    def _row(
        self,
        what: str,
        measured: load.Measured,
        began_s: float,
        publishers: int,
        window: int,
        sessions: int,
    ) -> Delivery:
        done = measured.confirmed or measured.delivered
        return Delivery(
            what,
            self._name,
            BROKERS[self._name].syncs,
            publishers,
            window,
            sessions,
            _rate(measured.confirmed, measured.confirming_s),
            measured.percentile_us(0.5),
            measured.percentile_us(0.99),
            _rate(measured.delivered, measured.delivering_s),
            round(1e6 * (self._cpu_s() - began_s) / done, 2) if done else None,
        )


def _rate(done: int, seconds: float) -> int | None:
    return round(done / seconds) if done and seconds else None


def _idle(name: str, running: Running, sessions: int) -> Delivery:
    wire = BROKERS[name].wire(running.port)
    before = running.memory_mb()
    wire.make_idle(sessions)
    memory = running.memory_mb()
    return Delivery(
        "idle",
        name,
        BROKERS[name].syncs,
        sessions=sessions,
        memory_mb=memory,
        more_mb=round(memory - before, 1),
    )

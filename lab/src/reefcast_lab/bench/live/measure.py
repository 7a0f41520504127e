"""Measure each point for every broker.

For a row, the subscribers and the publisher connect to a fresh broker. Then follow

- runs that warm the broker up, each longer than the one before, until it is clear how many events a
  run needs;
- a pause, in which the CPU use of the idle broker is measured;
- several runs at full speed. The CPU time of a run is what the broker used from before the first
  event until the last delivery, minus its use when idle. The row has the medians;
- one run at half of that rate, for the delays.
"""

from __future__ import annotations

import json
import multiprocessing
import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, Self

from reefcast.errors import PeerError
from reefcast.matching import warm_up as compile_index
from reefcast_lab.bench import profiling
from reefcast_lab.bench.live import brokers, cpu
from reefcast_lab.bench.live.brokers import OURS, Running
from reefcast_lab.bench.live.native import COUNTS, DELAYS, DELIVERIES, LAST_US, WIDE
from reefcast_lab.bench.live.points import DIRECT, Point
from reefcast_lab.bench.live.publisher import Publisher
from reefcast_lab.bench.live.receiver import Receiver
from reefcast_lab.bench.live.wires import WIRES
from reefcast_lab.bench.live.worker import Worker

RUN_S, HALF_S, IDLE_S, IDLE_LOOKS = 0.7, 1.5, 0.2, 3
CPU_S, LONGEST_S = 0.3, 2.0
"""On a busy machine a run is longer than `RUN_S`, so that the broker uses at least `CPU_S` of CPU
time; but not longer than `LONGEST_S`."""
FIRST_EVENTS = 16
"""Events of the first run."""
LOOK_S = 0.01
QUIET_S = 0.2
"""A run with narrow subscriptions ends when nothing has arrived for so long: how many deliveries
they cause is not known."""
LOST_S = 20.0
"""Deliveries that are missing count as lost when nothing has arrived for so long."""
PROFILED_RUNS = 8
"""A profile covers as many events as so many runs."""
SHARES = (0.50, 0.99)

Figures = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFigures:
    """A row: one broker under one load.

    `cpu_us_per_publication`, `cpu_us_per_delivery`: the broker's CPU time at full speed, in
    microseconds; None where the system does not tell it. `cpu_spread`: the difference between the
    runs with the most and the least CPU per publication, divided by the median. `busy`: CPU time
    over wall time, so 1 for a thread that never waits. `missing`: deliveries that never arrived at
    the connections that want everything. The delays are those at half of the rate. `ratio`:
    publications per second, divided by those of the first baseline that is installed.
    `selectivity`: None without others. `brokers`: how many stand in a chain; CPU times and `busy`
    are those of the one that used most. `way`, `grants`, `scraped`: see `Point`.
    """

    broker: str
    subscriptions: int
    fanout: int
    payload_bytes: int
    attributes: int
    others: int
    selectivity: float | None
    brokers: int
    way: str
    grants: int
    scraped: int
    publications_per_s: int
    deliveries_per_s: int
    deliveries_per_publication: float
    cpu_us_per_publication: float | None
    cpu_us_per_delivery: float | None
    cpu_spread: float | None
    busy: float | None
    missing: int
    delay_p50_us: int | None
    delay_p99_us: int | None
    ratio: float


@dataclass(frozen=True, slots=True)
class Load:
    """The outcome of one run. `cpu_s`: CPU time of the broker, without its use when idle; None if
    the system does not tell it. `missing`: deliveries that never arrived at the connections that
    want everything."""

    publications: int
    deliveries: int
    missing: int
    seconds: float
    cpu_s: float | None

    @property
    def per_s(self) -> float:
        return self.publications / self.seconds

    @property
    def times_fitting(self) -> float:
        """Return the factor for the number of publications with which a run lasts `RUN_S`, or as
        long as the broker needs to use `CPU_S`, but at most `LONGEST_S`."""
        longer = CPU_S / self.cpu_s if self.cpu_s else 0.0
        return min(max(RUN_S / self.seconds, longer), LONGEST_S / self.seconds)


class Bench:
    """The publishing and the receiving process; a context manager that starts and ends them."""

    def __init__(self) -> None:
        self.counts = multiprocessing.get_context("spawn").RawArray("q", COUNTS)
        self.receiver = Worker("receiver", Receiver, self.counts)
        self.publisher = Worker("publisher", Publisher)
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        compile_index()  # here, once; the brokers load the result from the cache
        self._stack.enter_context(self.receiver)
        self._stack.enter_context(self.publisher)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextmanager
    def connected(
        self, broker: str, point: Point, profile: Path | None = None
    ) -> Iterator[Session]:
        """Start a broker, or a chain of them, and connect the subscribers and the publisher of
        this point to it."""
        with brokers.running(
            *(broker, profile, point.brokers, point.way),
            granted=bool(point.grants),
            scraped=bool(point.scraped),
        ) as running:
            try:
                self.receiver.ask("open", broker, running.ports[-1], point)
                self.publisher.ask("open", broker, running.ports[0], point)
                yield Session(self, broker, point, running)
            except Exception:
                for worker in (self.publisher, self.receiver):
                    with suppress(PeerError):  # the next point must not be told of it
                        worker.ask("close")
                raise
            self.publisher.ask("close")
            self.receiver.ask("close")


class Session:
    """The runs of one point through one broker, or a chain of them. `process`: the first one."""

    def __init__(self, bench: Bench, broker: str, point: Point, running: Running) -> None:
        self.process = running.processes[0]
        self._pids = [process.pid for process in running.processes]
        self._bench = bench
        self._wide = point.fanout if WIRES[broker].knows_conditions else point.connections
        self._counted = WIRES[broker].knows_conditions and point.others > 0
        self._idle_shares = [0.0] * len(self._pids)

    def rest(self) -> None:
        """Measure how much CPU the broker uses while nothing is published: the least of some looks,
        for it may still tidy up after the runs that warmed it up."""
        looks = []
        for _ in range(IDLE_LOOKS):
            before, since = self._used_s(), time.monotonic()
            time.sleep(IDLE_S)
            after, passed = self._used_s(), time.monotonic() - since
            pairs = zip(before, after, strict=False)
            looks.append([(last - first) / passed for first, last in pairs])
        self._idle_shares = [min(shares) for shares in zip(*looks, strict=False)]

    def _used_s(self) -> list[float]:
        """Return the CPU time of each broker so far; an empty list if the system does not report
        it."""
        used = [cpu.used_s(pid) for pid in self._pids]
        return [each for each in used if each is not None]

    def _most_used_s(self, before: Sequence[float], passed: float) -> float | None:
        """Return the CPU time since then of the broker that used most, without its use when idle;
        None if it is not known."""
        after = self._used_s()
        if not before or not after:
            return None
        each = zip(before, after, self._idle_shares, strict=True)
        most = max(last - first - share * passed for first, last, share in each)
        return most if most > 0 else None

    def run(self, count: int, rate_per_s: float = 0) -> Load:
        """Publish `count` events at a rate, 0: at full speed; return when all have arrived."""
        bench = self._bench
        expected = count * self._wide
        bench.receiver.ask("begin_run", -(-expected // DELAYS), not rate_per_s)
        had = list(bench.counts)
        before, since = self._used_s(), time.monotonic()
        bench.publisher.begin("publish", count, rate_per_s)
        missing = self._wait(had[WIDE] + expected)
        passed = time.monotonic() - since
        used_s = self._most_used_s(before, passed)
        start_us = bench.publisher.result()
        return Load(
            publications=count,
            deliveries=bench.counts[DELIVERIES] - had[DELIVERIES],
            missing=missing,
            seconds=max((bench.counts[LAST_US] - start_us) / 1e6, 1e-6),
            cpu_s=used_s,
        )

    def _wait(self, expected: int) -> int:
        """Wait for the expected deliveries, or until nothing arrives any more; return how many are
        missing."""
        before, since = -1, time.monotonic()
        while True:
            time.sleep(LOOK_S)
            counts = list(self._bench.counts)
            if counts[DELIVERIES] != before:
                before, since = counts[DELIVERIES], time.monotonic()
            missing = expected - counts[WIDE]
            patience_s = LOST_S if missing else QUIET_S if self._counted else 0.0
            if time.monotonic() - since >= patience_s:
                return int(missing)

    def warm_up(self, most: int) -> int:
        """Run until it is clear how many events a run needs; return that number, at most `most`."""
        count = min(FIRST_EVENTS, most)
        self.run(count)  # its time says nothing: much happens for the first time
        while True:
            load = self.run(count)
            fitting = int(count * load.times_fitting)
            if load.seconds > RUN_S / 2 or count == most:
                return max(1, min(fitting, most))
            count = min(count * 10, max(fitting, count + 1), most)

    def delays_us(self) -> list[int | None]:
        """Return the quantiles `SHARES` of the last run's delays."""
        delays_us = self._bench.receiver.ask("delays_us", *SHARES)
        return [round(each) for each in delays_us] or [None] * len(SHARES)


def measure(
    points: Sequence[Point], most: int, repeat: int, progress: Callable[[str], None]
) -> Iterator[BrokerFigures]:
    """Yield a row for each point and broker. A run has at most `most` events; `repeat` runs are at
    full speed."""
    known: dict[tuple[str, Point], Figures] = {}
    with Bench() as bench:
        for i, point in enumerate(points, 1):
            baseline = None
            alone = point.brokers > 1 or point.way != DIRECT or point.grants or point.scraped
            for broker in [OURS] if alone else brokers.installed():
                load = point if WIRES[broker].knows_conditions else point.topic_load
                if (broker, load) not in known:
                    progress(f"{i} of {len(points)}: {broker}, {point}")
                    known[broker, load] = _measured(bench, broker, load, most, repeat)
                figures = known[broker, load]
                baseline = baseline or figures["publications_per_s"]
                ratio = round(figures["publications_per_s"] / baseline, 3)
                yield BrokerFigures(**_of(broker, point), **figures, ratio=ratio)


def _of(broker: str, point: Point) -> dict[str, Any]:
    """Return the fields of a row that describe the load."""
    return {
        "broker": broker,
        "subscriptions": point.fanout + point.others,
        "fanout": point.fanout,
        "payload_bytes": point.payload,
        "attributes": point.attributes,
        "others": point.others,
        "selectivity": point.selectivity if point.others else None,
        "brokers": point.brokers,
        "way": point.way,
        "grants": point.grants,
        "scraped": point.scraped,
    }


def _measured(bench: Bench, broker: str, point: Point, most: int, repeat: int) -> Figures:
    """Measure one broker; return the fields of its row."""
    with bench.connected(broker, point) as session:
        count = session.warm_up(most)
        session.rest()
        loads = [session.run(count) for _ in range(repeat)]
        rate_per_s = median(load.per_s for load in loads) / 2
        session.run(max(1, min(most, int(rate_per_s * HALF_S))), rate_per_s)
        p50_us, p99_us = session.delays_us()
    return {**medians(loads), "delay_p50_us": p50_us, "delay_p99_us": p99_us}


def medians(loads: Sequence[Load]) -> Figures:
    """Return the medians of several runs of one load."""
    used = [(load, load.cpu_s) for load in loads if load.cpu_s is not None]
    cpu_us = [cpu_s / load.publications * 1e6 for load, cpu_s in used]
    each_us = [cpu_s / load.deliveries * 1e6 for load, cpu_s in used if load.deliveries]
    busy = [cpu_s / load.seconds for load, cpu_s in used]
    spread = (max(cpu_us) - min(cpu_us)) / (median(cpu_us) or 1) if cpu_us else None
    return {
        "publications_per_s": round(median(load.per_s for load in loads)),
        "deliveries_per_s": round(median(load.deliveries / load.seconds for load in loads)),
        "deliveries_per_publication": _median(
            [load.deliveries / load.publications for load in loads], 2
        ),
        "cpu_us_per_publication": _median(cpu_us, 3),
        "cpu_us_per_delivery": _median(each_us, 4),
        "cpu_spread": spread if spread is None else round(spread, 3),
        "busy": _median(busy, 2),
        "missing": sum(load.missing for load in loads),
    }


def _median(values: Sequence[float], digits: int) -> float | None:
    return round(median(values), digits) if values else None


def profile(
    points: Sequence[Point], most: int, progress: Callable[[str], None]
) -> list[profiling.Cost]:
    """Return the largest costs of the broker process, for each point at full speed."""
    costs = []
    for point in points:
        progress(str(point))
        seconds, count = functions(point, most)
        costs += profiling.largest(str(point), seconds, count)
    return costs


def functions(point: Point, most: int) -> tuple[dict[str, float], int]:
    """Return seconds of CPU time by function of the broker, and the number of events, which is at
    most `most`."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "profile.json"
        with Bench() as bench, bench.connected(OURS, point, file) as session:
            count = min(most, session.warm_up(most) * PROFILED_RUNS)
            session.process.send_signal(signal.SIGUSR1)
            session.run(count)
        seconds: dict[str, float] = json.loads(file.read_text())
        return seconds, count

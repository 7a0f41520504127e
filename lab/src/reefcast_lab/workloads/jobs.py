"""Workloads as jobs: make, write, measure what was written.

A folder gets `events.parquet`, `subscriptions.parquet` or `advertisements.parquet`, and
`measured.parquet`: `measure`, `asked` (NULL for what was not) and `reached`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast_lab.datasets.filter_text import equals
from reefcast_lab.datasets.jobs import (
    ADVERTISEMENTS,
    EVENTS,
    SUBSCRIPTIONS,
    Written,
    write_as_it_is,
    write_table,
)
from reefcast_lab.datasets.numbering import numbered_by_hash
from reefcast_lab.workloads import measures
from reefcast_lab.workloads.advertising import advertisements
from reefcast_lab.workloads.boxes import Boxes, box_filters
from reefcast_lab.workloads.covered import Covered, covered_filters
from reefcast_lab.workloads.draws import uniform, whole
from reefcast_lab.workloads.interests import Grid, correlated, interests
from reefcast_lab.workloads.synthetic import Stream, synthetic_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MEASURED = "measured"
CONFIDENCE = 95
"""Percent, at which interests shall be correlated."""

EVENTS_MEASURED = 100_000
"""Events of equally popular classes that measure the selectivity of filters of a covering
degree."""

_MEASURED_SCHEMA = "measure STRING, asked DOUBLE, reached DOUBLE"


class Measured(NamedTuple):
    """One figure; `asked` is None for what nobody asked for."""

    measure: str
    asked: float | None
    reached: float | None


class Workload(NamedTuple):
    """What a job wrote, and what it measured there."""

    table: Written
    measured: list[Measured]


class Clients(NamedTuple):
    """Who has the filters. `table`: of subscriptions or advertisements; `brokers`: where clients
    sit, drawn evenly; none leaves the column out."""

    table: str = SUBSCRIPTIONS
    brokers: Sequence[str] = ()
    seed: int = 0


def write_stream(spark: SparkSession, stream: Stream, out: Path) -> Workload:
    """Write events, and how popular their classes are."""
    made = write_as_it_is(EVENTS, synthetic_events(spark, stream), out / f"{EVENTS}.parquet")
    found = measures.popularity_reached(spark.read.parquet(made.path), "class")
    asked = {"events": stream.events, "values": stream.classes, "zipf": stream.zipf}
    return _measured(spark, made, asked, found, out)


def write_boxes(events: DataFrame, wanted: Boxes, clients: Clients, out: Path) -> Workload:
    """Write filters that match a share of the events, each of a client of its own."""
    spark = events.sparkSession
    made = _write_filters(box_filters(events, wanted), clients, out)
    asked = {"mean_share": wanted.selectivity, "zipf": wanted.zipf}
    found = measures.shares_reached(events, _filters_of(spark, made))
    return _measured(spark, made, asked, found, out)


def write_covered(spark: SparkSession, wanted: Covered, clients: Clients, out: Path) -> Workload:
    """Write filters of a covering degree, each of a client of its own."""
    made = _write_filters(covered_filters(spark, wanted), clients, out)
    asked = {
        "covering_degree": wanted.degree,
        "roots": wanted.classes,
        "mean_share": _share_of_covered(wanted),
    }
    filters = _filters_of(spark, made)
    events = synthetic_events(spark, Stream(EVENTS_MEASURED, wanted.classes, 0, 0.0))
    found = measures.shares_reached(events, filters)
    return _measured(spark, made, asked, {**measures.covering_reached(filters), **found}, out)


def _share_of_covered(wanted: Covered) -> float:
    """Return the share of all events, mean over roots and the filters below them."""
    below = wanted.filters - wanted.classes
    matched = wanted.classes + below * wanted.selectivity
    return matched / (wanted.classes * wanted.filters)


def write_interests(
    spark: SparkSession,
    clients: int,
    topics: int,
    correlation: float | None,
    at: Clients,
    out: Path,
) -> Workload:
    """Write a subscription for each topic that a client wants. `correlation`: share of the pairs of
    clients that are correlated at `CONFIDENCE` %; None for that of StAN's grid."""
    grid = (
        Grid(clients, topics, 0.0, at.seed)
        if correlation is None
        else correlated(clients, topics, correlation, CONFIDENCE, at.seed)
    )
    name = F.concat(F.lit("s"), F.col("client").cast("string")).alias("client")
    filter_text = equals("topic", F.concat(F.lit("t"), F.col("topic").cast("string")))
    rows = interests(spark, grid).select(filter_text.alias("filter"), name).persist()
    try:
        ranked = numbered_by_hash(rows, "subscription", "client", "filter")
        made = write_table(SUBSCRIPTIONS, _placed(ranked, at), out / f"{SUBSCRIPTIONS}.parquet")
    finally:
        rows.unpersist()
    found = measures.interests_reached(spark.read.parquet(made.path), topics)
    asked = {} if correlation is None else {f"pairs_{CONFIDENCE}": correlation}
    return _measured(spark, made, asked, found, out)


def write_advertisements(events: DataFrame, by: str, at: Clients, out: Path) -> Workload:
    """Write an advertisement for each value of the attribute `by`."""
    spark = events.sparkSession
    rows = _placed(advertisements(events, by), at)
    made = write_table(ADVERTISEMENTS, rows, out / f"{ADVERTISEMENTS}.parquet")
    published = events.where(F.col(by).isNotNull())
    found = measures.advertisements_reached(published, spark.read.parquet(made.path))
    return _measured(spark, made, {"inside": 1.0}, found, out)


def read_events(spark: SparkSession, path: Path) -> DataFrame:
    """Read events. Raises `ConfigurationError` if there are no Parquet files, or no numbers of
    events."""
    from pyspark.errors import AnalysisException

    try:
        events = spark.read.parquet(str(path))
    except AnalysisException as error:
        raise ConfigurationError(f"{path}: there are no Parquet files of events") from error
    if "event" not in events.columns:
        raise ConfigurationError(f"{path}: there is no column event, the numbers of events")
    return events


def _write_filters(rows: DataFrame, clients: Clients, out: Path) -> Written:
    """Write rows of number and filter, in their order."""
    letter, name = clients.table[0], clients.table.removesuffix("s")
    owned = rows.select(
        F.col("number").alias(name),
        "filter",
        F.concat(F.lit(letter), F.col("number").cast("string")).alias("client"),
    )
    return write_as_it_is(clients.table, _placed(owned, clients), out / f"{clients.table}.parquet")


def _placed(rows: DataFrame, clients: Clients) -> DataFrame:
    """Add a column `broker`, which is the same for all rows of a client."""
    if not clients.brokers:
        return rows
    place = whole(len(clients.brokers), uniform(clients.seed, "broker", F.col("client")))
    return rows.withColumn("broker", F.get(F.lit(list(clients.brokers)), place))


def _filters_of(spark: SparkSession, made: Written) -> DataFrame:
    """Return columns subscription and filter, whatever they are called in the file."""
    stored = spark.read.parquet(made.path)
    return stored.select(F.col(stored.columns[0]).alias("subscription"), "filter")


def _measured(
    spark: SparkSession,
    made: Written,
    asked: Mapping[str, float],
    found: measures.Figures,
    out: Path,
) -> Workload:
    rows = [
        Measured(name, _float(asked.get(name)), _float(reached)) for name, reached in found.items()
    ]
    frame = spark.createDataFrame([tuple(row) for row in rows], _MEASURED_SCHEMA)
    frame.coalesce(1).write.mode("overwrite").parquet(str(out / f"{MEASURED}.parquet"))
    return Workload(made, rows)


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)

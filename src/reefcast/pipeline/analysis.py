"""From a trace, simulated or live, to figures: delays, load, tables, queues, discards.

Reads the data sets of `model.trace`; any of them may be missing (a trace level leaves out most).
At level "sampled" the rows about single messages stand for a share of the publications: counts and
bytes are scaled up by it, delays and queue lengths are not.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reefcast.model.trace import FOUND_OVERLOADED, KINDS
from reefcast.storage.trace_files import read_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

PERCENTILES = (0.5, 0.9, 0.99, 0.999)
BINS_PER_DECADE = 10
"""Resolution of the delays' distribution, which is kept in bins of equal width in log10."""

_SQL_TYPES = {"int64": "BIGINT", "float64": "DOUBLE", "string": "STRING"}
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Analysis:
    """What a trace says. Times in microseconds, sizes in bytes.

    `run`: what `run.json` says. `delays`: count (deliveries to clients), mean, p50, p90, p99, p999,
    max. `delay_bins`: low_us, high_us, count. `delays_by_hops`: hops, count, p50, p99.
    `links`: a, b, publications, control, size_bytes, both directions together. `messages`: message,
    count, size_bytes, between brokers. `brokers`: broker, published, sent (publications to other
    brokers), deliveries, matching_ns (mean). `tables`: broker, table, rows (at the end), most.
    `discards`: reason, count. `queues`: broker, link, mean, most. `counters`: counter, count, of
    the brokers in all. `overloaded`: broker, link, count (of decisions that met the link so).
    `body_bytes`: mean size of a publication's body.
    """

    run: Row
    delays: Row
    delay_bins: list[Row]
    delays_by_hops: list[Row]
    links: list[Row]
    messages: list[Row]
    brokers: list[Row]
    tables: list[Row]
    discards: list[Row]
    queues: list[Row]
    counters: list[Row]
    overloaded: list[Row]
    body_bytes: float

    @property
    def link_publications(self) -> int:
        """Publications that crossed a link between brokers."""
        return sum(link["publications"] for link in self.links)

    @property
    def publication_bytes(self) -> int:
        """Bytes of their frames."""
        return sum(row["size_bytes"] for row in self.messages if row["message"] == "publish")

    @property
    def link_bytes(self) -> int:
        """Bytes of all frames on links between brokers."""
        return sum(link["size_bytes"] for link in self.links)


def analyze(spark: SparkSession, directory: Path) -> Analysis:
    """Runs the jobs over the trace in `directory`; raises `ConfigurationError` if it is none."""
    run = read_run(directory)
    traces = {kind: read_kind(spark, directory, kind) for kind in KINDS}
    scale = 1 / run["sample"] if run.get("level") == "sampled" and run.get("sample") else 1.0
    brokers = list(run["brokers"])
    messages = between_brokers(traces["message"], brokers).persist()
    deliveries = with_delay(traces["delivery"]).persist()
    try:
        return Analysis(
            run=run,
            delays=_one(delays(deliveries, scale)),
            delay_bins=_rows(delay_bins(deliveries, scale)),
            delays_by_hops=_rows(delays_by_hops(deliveries, scale)),
            links=_with_silent_links(_rows(link_load(messages, scale)), run["links"]),
            messages=_rows(messages_by_type(messages, scale)),
            brokers=_broker_rows(traces, messages, deliveries, brokers, scale),
            tables=_rows(table_sizes(traces["table"])),
            discards=_rows(discards(traces["discard"], scale)),
            queues=_rows(queue_lengths(traces["queue"])),
            counters=_rows(counters(traces["counter"])),
            overloaded=_rows(overloaded(traces["counter"])),
            body_bytes=_one(traces["publish"].agg(F.mean("size_bytes").alias("mean")))["mean"] or 0,
        )
    finally:
        messages.unpersist()
        deliveries.unpersist()


def read_kind(spark: SparkSession, directory: Path, kind: str) -> DataFrame:
    """One data set of the trace, empty if it was not written."""
    schema = ", ".join(f"`{c.name}` {_SQL_TYPES[c.type]}" for c in KINDS[kind])
    folder = directory / kind
    if not folder.is_dir():
        return spark.createDataFrame([], schema)
    return spark.read.schema(schema).parquet(str(folder))


# --- delays --------------------------------------------------------------------------------------


def with_delay(deliveries: DataFrame) -> DataFrame:
    """broker, delay_us, subscribers, hops; one row may stand for several local subscribers."""
    return deliveries.select(
        "broker",
        (F.col("time_us") - F.col("published_us")).alias("delay_us"),
        "subscribers",
        "hops",
    )


def delays(deliveries: DataFrame, scale: float) -> DataFrame:
    """count, mean, p50, p90, p99, p999, max; weighted by subscribers. One row."""
    points = F.percentile("delay_us", F.array(*map(F.lit, PERCENTILES)), F.col("subscribers"))
    summary = deliveries.agg(
        _scaled(F.sum("subscribers"), scale).alias("count"),
        (F.sum(F.col("delay_us") * F.col("subscribers")) / F.sum("subscribers")).alias("mean"),
        points.alias("points"),
        F.max("delay_us").alias("max"),
    )
    names = ("p50", "p90", "p99", "p999")
    return summary.select(
        "count", "mean", *(F.get("points", F.lit(i)).alias(n) for i, n in enumerate(names)), "max"
    )


def delay_bins(deliveries: DataFrame, scale: float) -> DataFrame:
    """low_us, high_us, count; rising. Delays under a microsecond count as one."""
    bin_number = F.floor(F.log10(F.greatest("delay_us", F.lit(1))) * BINS_PER_DECADE)
    return (
        deliveries.groupBy(bin_number.alias("bin"))
        .agg(_scaled(F.sum("subscribers"), scale).alias("count"))
        .orderBy("bin")
        .select(
            F.pow(F.lit(10.0), F.col("bin") / BINS_PER_DECADE).alias("low_us"),
            F.pow(F.lit(10.0), (F.col("bin") + 1) / BINS_PER_DECADE).alias("high_us"),
            "count",
        )
    )


def delays_by_hops(deliveries: DataFrame, scale: float) -> DataFrame:
    """hops, count, p50, p99; rising hops."""
    weight = F.col("subscribers")
    return (
        deliveries.groupBy("hops")
        .agg(
            _scaled(F.sum("subscribers"), scale).alias("count"),
            F.percentile("delay_us", F.lit(0.5), weight).alias("p50"),
            F.percentile("delay_us", F.lit(0.99), weight).alias("p99"),
        )
        .orderBy("hops")
    )


# --- load ----------------------------------------------------------------------------------------


def between_brokers(messages: DataFrame, brokers: Sequence[str]) -> DataFrame:
    """broker, link, message, size_bytes of what brokers sent to brokers."""
    return messages.where(F.col("link").isin(list(brokers))).select(
        "broker", "link", "message", "size_bytes"
    )


def link_load(messages: DataFrame, scale: float) -> DataFrame:
    """a, b, publications, control, size_bytes: both directions of a link together, a < b."""
    is_publication = F.col("message") == "publish"
    ends = F.least("broker", "link").alias("a"), F.greatest("broker", "link").alias("b")
    return (
        messages.groupBy(*ends)
        .agg(
            _scaled(F.count_if(is_publication), scale).alias("publications"),
            F.count_if(~is_publication).alias("control"),
            _whole(F.sum(F.col("size_bytes") * _share(scale))).alias("size_bytes"),
        )
        .orderBy("a", "b")
    )


def messages_by_type(messages: DataFrame, scale: float) -> DataFrame:
    """message, count, size_bytes."""
    return (
        messages.groupBy("message")
        .agg(
            _whole(F.sum(_share(scale))).alias("count"),
            _whole(F.sum(F.col("size_bytes") * _share(scale))).alias("size_bytes"),
        )
        .orderBy(F.desc("count"), "message")
    )


def _share(scale: float) -> Column:
    """What a message counts for: control messages are never sampled."""
    return F.when(F.col("message") == "publish", F.lit(scale)).otherwise(F.lit(1.0))


def _broker_rows(
    traces: dict[str, DataFrame],
    messages: DataFrame,
    deliveries: DataFrame,
    brokers: Sequence[str],
    scale: float,
) -> list[Row]:
    sent = messages.where(F.col("message") == "publish")
    figures = (
        (traces["publish"], "published", _scaled(F.count("*"), scale)),
        (sent, "sent", _scaled(F.count("*"), scale)),
        (deliveries, "deliveries", _scaled(F.sum("subscribers"), scale)),
        (traces["matching"], "matching_ns", _whole(F.mean("duration_ns"))),
    )
    rows: dict[str, Row] = {
        name: {"broker": name, "published": 0, "sent": 0, "deliveries": 0, "matching_ns": 0}
        for name in sorted(brokers)
    }
    for frame, name, figure in figures:
        for found in _rows(frame.groupBy("broker").agg(figure.alias(name))):
            rows[found["broker"]].update(found)
    return list(rows.values())


# --- state ---------------------------------------------------------------------------------------


def table_sizes(tables: DataFrame) -> DataFrame:
    """broker, table, rows (at the end), most."""
    return (
        tables.groupBy("broker", "table")
        .agg(F.max_by("rows", "time_us").alias("rows"), F.max("rows").alias("most"))
        .orderBy("table", "broker")
    )


def queue_lengths(queues: DataFrame) -> DataFrame:
    """broker, link, mean, most; `link` is NULL for the broker's own input queue."""
    return (
        queues.groupBy("broker", "link")
        .agg(F.mean("queue_len").alias("mean"), F.max("queue_len").alias("most"))
        .orderBy("broker", "link")
    )


def discards(rows: DataFrame, scale: float) -> DataFrame:
    """reason, count; most frequent first."""
    counted = rows.groupBy("reason").agg(_scaled(F.count("*"), scale).alias("count"))
    return counted.orderBy(F.desc("count"), "reason")


def counters(rows: DataFrame) -> DataFrame:
    """counter, count: the last state of each counter of a broker, summed over brokers."""
    last = _last_counts(rows.where(F.col("link").isNull()))
    return last.groupBy("counter").agg(F.sum("count").alias("count")).orderBy("counter")


def overloaded(rows: DataFrame) -> DataFrame:
    """broker, link, count: decisions that met the link overloaded."""
    last = _last_counts(rows.where(F.col("counter") == FOUND_OVERLOADED))
    return last.select("broker", "link", "count").orderBy("broker", "link")


def _last_counts(rows: DataFrame) -> DataFrame:
    newest = Window.partitionBy("broker", "link", "counter").orderBy(
        F.desc("time_us"), F.desc("count")
    )
    return rows.withColumn("age", F.row_number().over(newest)).where(F.col("age") == 1)


# --- helpers -------------------------------------------------------------------------------------


def _scaled(count: Column, scale: float) -> Column:
    return _whole(F.coalesce(count, F.lit(0)) * F.lit(scale))


def _whole(number: Column) -> Column:
    return F.round(number).cast("bigint")


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]


def _one(frame: DataFrame) -> Row:
    return _rows(frame)[0]


def _with_silent_links(loaded: list[Row], links: Sequence[Sequence[str]]) -> list[Row]:
    """The overlay's links, those included that carried nothing."""
    by_ends = {(link["a"], link["b"]): link for link in loaded}
    for one, other in links:
        a, b = sorted((one, other))
        silent = {"a": a, "b": b, "publications": 0, "control": 0, "size_bytes": 0}
        by_ends.setdefault((a, b), silent)
    return [by_ends[ends] for ends in sorted(by_ends)]

"""The figures of a trace, as pure functions of DataFrames: built-in functions only, so that no row
ever goes through Python.

Rows about single messages are many, and few brokers or publishers may have most of them. So each
kind is aggregated first to a small frame (`delivery_counts`, `message_counts`), which Spark does
where the rows are, and all else is computed from that; the one figure that needs every row beside
others of its publication (`pure_forwarders`) is grouped by publication and broker, of which none
has many.

`scale`: at level "sampled" the rows stand for a share of the publications: counts and bytes are
scaled up by it, delays and queue lengths are not."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

PERCENTILES = (0.5, 0.9, 0.99, 0.999)
BINS_PER_DECADE = 10
"""Resolution of the delays' distribution as it is drawn, in bins of equal width in log10."""
DIGITS = 4
"""How many digits of a delay are kept where delays are counted; percentiles are as exact."""

# --- delays --------------------------------------------------------------------------------------


def delivery_counts(deliveries: DataFrame) -> DataFrame:
    """Return broker, hops, delay_us (to `DIGITS` digits), subscribers, total_us, most_us: a row for
    each of the first three; `subscribers` counts clients, of which one row may stand for several.
    """
    delay = F.col("time_us") - F.col("published_us")
    step = F.pow(F.lit(10.0), F.floor(F.log10(F.greatest(delay, F.lit(1)))) - (DIGITS - 1))
    step = F.greatest(step.cast("bigint"), F.lit(1))
    rounded = F.floor((delay + F.floor(step / 2)) / step).cast("bigint") * step
    return (
        deliveries.groupBy("broker", "hops", rounded.alias("delay_us"))
        .agg(
            F.sum("subscribers").alias("subscribers"),
            F.sum(delay * F.col("subscribers")).alias("total_us"),
            F.max(delay).alias("most_us"),
        )
        .select("broker", "hops", "delay_us", "subscribers", "total_us", "most_us")
    )


def delays(counts: DataFrame, scale: float) -> DataFrame:
    """Return count, mean, p50, p90, p99, p999, max, within_1s (a share); one row."""
    weight = F.col("subscribers")
    summary = counts.agg(
        scaled(F.sum(weight), scale).alias("count"),
        (F.sum("total_us") / F.sum(weight)).alias("mean"),
        F.percentile("delay_us", F.array(*map(F.lit, PERCENTILES)), weight).alias("points"),
        F.max("most_us").alias("max"),
        (F.sum(F.when(F.col("delay_us") < 1_000_000, weight).otherwise(0)) / F.sum(weight)).alias(
            "within_1s"
        ),
    )
    names = ("p50", "p90", "p99", "p999")
    points = (F.get("points", F.lit(i)).alias(name) for i, name in enumerate(names))
    return summary.select("count", "mean", *points, "max", "within_1s")


def delay_bins(counts: DataFrame, scale: float) -> DataFrame:
    """Return low_us, high_us, count; rising. Delays under a microsecond count as one."""
    bin_number = F.floor(F.log10(F.greatest("delay_us", F.lit(1))) * BINS_PER_DECADE)
    return (
        counts.groupBy(bin_number.alias("bin"))
        .agg(scaled(F.sum("subscribers"), scale).alias("count"))
        .orderBy("bin")
        .select(
            F.pow(F.lit(10.0), F.col("bin") / BINS_PER_DECADE).alias("low_us"),
            F.pow(F.lit(10.0), (F.col("bin") + 1) / BINS_PER_DECADE).alias("high_us"),
            "count",
        )
    )


def delays_by_hops(counts: DataFrame, scale: float) -> DataFrame:
    """Return hops, count, p50, p99; rising hops."""
    weight = F.col("subscribers")
    return (
        counts.groupBy("hops")
        .agg(
            scaled(F.sum("subscribers"), scale).alias("count"),
            F.percentile("delay_us", F.lit(0.5), weight).alias("p50"),
            F.percentile("delay_us", F.lit(0.99), weight).alias("p99"),
        )
        .orderBy("hops")
        .select("hops", "count", "p50", "p99")
    )


def deliveries_by_broker(counts: DataFrame, scale: float) -> DataFrame:
    """Return broker, deliveries."""
    total = scaled(F.sum("subscribers"), scale)
    return counts.groupBy("broker").agg(total.alias("deliveries")).select("broker", "deliveries")


# --- load ----------------------------------------------------------------------------------------


def message_counts(messages: DataFrame, brokers: Sequence[str], scale: float) -> DataFrame:
    """Return broker, link, message, count, size_bytes of what brokers sent to brokers, scaled up
    already; control messages are never sampled."""
    share = F.when(F.col("message") == "publish", F.lit(scale)).otherwise(F.lit(1.0))
    return (
        messages.where(F.col("link").isin(list(brokers)))
        .groupBy("broker", "link", "message")
        .agg(F.count("*").alias("rows"), F.sum("size_bytes").alias("bytes"))
        .select(
            *("broker", "link", "message"),
            whole(F.col("rows") * share).alias("count"),
            whole(F.col("bytes") * share).alias("size_bytes"),
        )
    )


def published_by_broker(publishes: DataFrame, scale: float) -> DataFrame:
    """Return broker, published, bytes (of bodies), first_us, last_us."""
    return (
        publishes.groupBy("broker")
        .agg(
            scaled(F.count("*"), scale).alias("published"),
            scaled(F.sum("size_bytes"), scale).alias("bytes"),
            F.min("time_us").alias("first_us"),
            F.max("time_us").alias("last_us"),
        )
        .select("broker", "published", "bytes", "first_us", "last_us")
    )


def matching_by_broker(matchings: DataFrame) -> DataFrame:
    """Return broker, matching_ns (mean), matched (mean rows of the table)."""
    return (
        matchings.groupBy("broker")
        .agg(whole(F.mean("duration_ns")).alias("matching_ns"), F.mean("matched").alias("matched"))
        .select("broker", "matching_ns", "matched")
    )


def pure_forwarders(
    messages: DataFrame, deliveries: DataFrame, brokers: Sequence[str], scale: float
) -> DataFrame:
    """Return pure_forwarders, reached: over publications, brokers that got a copy without having a
    subscriber for it, and brokers that got one at all. One row."""
    id = ("publisher", "seq")
    to_brokers = (F.col("message") == "publish") & F.col("link").isin(list(brokers))
    got = messages.where(to_brokers).select(*id, F.col("link").alias("broker"))
    served = deliveries.select(*id, "broker")
    pairs = got.withColumn("delivered", F.lit(0)).unionByName(
        served.withColumn("delivered", F.lit(2))
    )
    # Of a pair: 0 where it was forwarded alone, 2 where it was delivered alone, else both.
    kinds = pairs.groupBy(*id, "broker").agg(
        F.min("delivered").alias("least"), F.max("delivered").alias("most")
    )
    return kinds.agg(
        scaled(F.count_if(F.col("most") == 0), scale).alias("pure_forwarders"),
        scaled(F.count_if(F.col("least") == 0), scale).alias("reached"),
    ).select("pure_forwarders", "reached")


# --- over time -----------------------------------------------------------------------------------

_PARTS = ("published", "sent", "subscribers", "total_us", "most_us", "queue_len")


def over_time(traces: Mapping[str, DataFrame], brokers: Sequence[str], scale: float) -> DataFrame:
    """Return second, published, sent (between brokers), deliveries, delay_mean_us, delay_max_us,
    queue_max: a row for each second in which there was any of it, of time_us / 1e6."""
    delay = F.col("time_us") - F.col("published_us")
    to_brokers = (F.col("message") == "publish") & F.col("link").isin(list(brokers))
    sent = traces["message"].where(to_brokers)
    found = (
        _by_second(traces["publish"], published=F.count("*")),
        _by_second(sent, sent=F.count("*")),
        _by_second(
            traces["delivery"],
            subscribers=F.sum("subscribers"),
            total_us=F.sum(delay * F.col("subscribers")),
            most_us=F.max(delay),
        ),
        _by_second(traces["queue"], queue_len=F.max("queue_len")),
    )
    every = reduce(DataFrame.unionByName, found)
    summed = every.groupBy("second").agg(
        *(F.sum(name).alias(name) for name in _PARTS[:4]),
        *(F.max(name).alias(name) for name in _PARTS[4:]),
    )
    return summed.orderBy("second").select(
        "second",
        *(scaled(F.col(name), scale).alias(name) for name in ("published", "sent")),
        scaled(F.col("subscribers"), scale).alias("deliveries"),
        F.try_divide("total_us", "subscribers").alias("delay_mean_us"),
        F.col("most_us").alias("delay_max_us"),
        F.col("queue_len").alias("queue_max"),
    )


def _by_second(rows: DataFrame, **figures: Column) -> DataFrame:
    second = F.floor(F.col("time_us") / 1_000_000).cast("bigint").alias("second")
    found = rows.groupBy(second).agg(*(each.alias(name) for name, each in figures.items()))
    absent = F.lit(None).cast("bigint")
    return found.select("second", *(F.col(n) if n in figures else absent.alias(n) for n in _PARTS))


# --- state ---------------------------------------------------------------------------------------


def table_sizes(tables: DataFrame) -> DataFrame:
    """Return broker, table, rows (at the end), most."""
    return (
        tables.groupBy("broker", "table")
        .agg(F.max_by("rows", "time_us").alias("rows"), F.max("rows").alias("most"))
        .orderBy("table", "broker")
        .select("broker", "table", "rows", "most")
    )


def queue_lengths(queues: DataFrame) -> DataFrame:
    """Return broker, link, mean, most; `link` is NULL for the broker's own input queue."""
    return (
        queues.groupBy("broker", "link")
        .agg(F.mean("queue_len").alias("mean"), F.max("queue_len").alias("most"))
        .orderBy("broker", "link")
        .select("broker", "link", "mean", "most")
    )


def discards(rows: DataFrame, scale: float) -> DataFrame:
    """Return reason, count; most frequent first."""
    counted = rows.groupBy("reason").agg(scaled(F.count("*"), scale).alias("count"))
    return counted.orderBy(F.desc("count"), "reason").select("reason", "count")


def last_counts(rows: DataFrame) -> DataFrame:
    """Return broker, link, counter, count: the last state of each, which Spark finds where the rows
    are. (A window would bring all rows of a counter to one task, and sort them.)"""
    last = F.max_by("count", F.struct("time_us", "count"))
    return rows.groupBy("broker", "link", "counter").agg(last.alias("count"))


# --- helpers -------------------------------------------------------------------------------------


def scaled(count: Column, scale: float) -> Column:
    """Scale a count to a whole number; 0 of nothing."""
    return whole(F.coalesce(count, F.lit(0)) * F.lit(scale))


def whole(number: Column) -> Column:
    return F.round(number).cast("bigint")

"""Events by the million: classes and topics by Zipf's law, prices and numbers drawn evenly.

Made by built-in functions from the numbers of the rows alone: nothing is shuffled, so no class,
however popular, is in one task.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast_lab.workloads.draws import ranks, uniform, whole, zipf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

PRICES = 1_000_000
"""Prices are whole numbers from 0 up to this one."""
NUMBERS = ("x1", "x2", "x3")
ROWS_OF_A_TASK = 1_000_000
_SECOND_US = 1_000_000


@dataclass(frozen=True, slots=True)
class Stream:
    """So many events, `rate_per_s` a second; `zipf`: the exponent by which classes, and topics,
    differ in popularity, 0 for none. No `topics` gives events without the column."""

    events: int
    classes: int = 1000
    topics: int = 0
    zipf: float = 1.0
    rate_per_s: float = 1000.0
    seed: int = 0


def synthetic_events(spark: SparkSession, stream: Stream) -> DataFrame:
    """Make event, time_us, [topic,] class (string: c0, c1, ..., the most popular first), price
    (int64, 0 to 999 999), x1, x2, x3 (float64, 0 to 1). A partition holds at most a million. Raises
    `ConfigurationError` for an impossible stream."""
    if not (stream.events > 0 and stream.rate_per_s > 0):
        raise ConfigurationError("a stream needs at least one event, and a rate above 0")
    rows = spark.range(0, stream.events, 1, -(-stream.events // ROWS_OF_A_TASK))
    event = F.col("id")
    topic = [F.array(_named("t", stream, stream.topics)).alias("topic")] if stream.topics else []
    return rows.select(
        event.alias("event"),
        F.floor(event * (_SECOND_US / stream.rate_per_s)).cast("bigint").alias("time_us"),
        *topic,
        _named("c", stream, stream.classes).alias("class"),
        whole(PRICES, uniform(stream.seed, "price", event)).alias("price"),
        *(uniform(stream.seed, name, event).alias(name) for name in NUMBERS),
    )


def _named(letter: str, stream: Stream, number: int) -> Column:
    drawn = uniform(stream.seed, letter, F.col("id"))
    rank = ranks(zipf(number, stream.zipf), drawn) if stream.zipf else whole(number, drawn)
    return F.concat(F.lit(letter), rank.cast("string"))

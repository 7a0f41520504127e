"""Who wrote to whom in a social network: CSV of sender, receiver and time in hours, without heads.

An event is an interaction of two users, at its time since the trace began: `author`, `wall` (whose
wall the author writes on). Who writes to oneself is left out. A user wants what all those write
with whom there is any interaction, in either direction: one subscription each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast_lab.datasets.csv_files import read_without_heads
from reefcast_lab.datasets.filter_text import is_one_of
from reefcast_lab.datasets.numbering import numbered, numbered_by_hash

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTRIBUTES = ("author", "wall")
_SCHEMA = "sender STRING, receiver STRING, hours STRING"
_HOUR_US = 3600 * 1_000_000


def read(spark: SparkSession, path: Path) -> DataFrame:
    """Read the columns sender, receiver and hours, all of them strings."""
    return read_without_heads(spark, path, _SCHEMA)


def to_events(trace: DataFrame) -> DataFrame:
    """Return event, time_us and `ATTRIBUTES`."""
    rows = _of_two(trace).select(
        F.rint(F.col("hours").cast("double") * _HOUR_US).cast("bigint").alias("time_us"),
        F.col("sender").alias("author"),
        F.col("receiver").alias("wall"),
    )
    return numbered(rows, "event", "time_us", F.xxhash64(*ATTRIBUTES))


def to_subscriptions(trace: DataFrame) -> DataFrame:
    """Return subscription, filter, client: a row for each user who interacts with another."""
    pairs = _of_two(trace)
    both = pairs.select(F.col("sender").alias("user"), F.col("receiver").alias("other")).unionAll(
        pairs.select(F.col("receiver").alias("user"), F.col("sender").alias("other"))
    )
    wanted = both.groupBy("user").agg(F.array_sort(F.collect_set("other")).alias("others"))
    rows = wanted.select(
        is_one_of("author", F.col("others")).alias("filter"),
        F.concat(F.lit("u"), F.col("user")).alias("client"),
    )
    return numbered_by_hash(rows, "subscription", "client")


def _of_two(trace: DataFrame) -> DataFrame:
    return trace.where(F.col("sender") != F.col("receiver"))

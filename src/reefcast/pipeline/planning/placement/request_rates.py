"""Rates of requests: requests a second, by broker and topic, from a log of requests.

A log is Parquet files with a row for each request and topic: `time_us`, `broker` (that of the
client) and `topic`. Its time is that from its first request to its last; all rates are over it.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.pipeline.planning.placement.inputs import RatesByBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

LOG = "time_us BIGINT, broker STRING, topic STRING"


def read_log(spark: SparkSession, directory: Path) -> DataFrame:
    """Read the log of requests. Raises `ConfigurationError` where there are no Parquet files."""
    if not any(directory.glob("*.parquet")):
        raise ConfigurationError(f"{directory}: there are no Parquet files with requests")
    return spark.read.schema(LOG).parquet(str(directory))


def request_rates(log: DataFrame) -> DataFrame:
    """Return broker, topic, rate_per_s; null where the log lasts no time."""
    lasts_us = log.agg(F.max("time_us") - F.min("time_us"))
    counts = log.groupBy("broker", "topic").agg(F.count("*").alias("requests"))
    rate_per_s = F.try_divide(F.col("requests") * F.lit(1e6), lasts_us.scalar())
    return counts.select("broker", "topic", rate_per_s.alias("rate_per_s"))


def rates_of_log(spark: SparkSession, directory: Path) -> RatesByBroker:
    """Return the rates that a log has, as a placement takes them.

    Raises `ConfigurationError` for a log without requests, or whose requests all came at once.
    """
    rates: defaultdict[str, dict[str, float]] = defaultdict(dict)
    for broker, topic, rate_per_s in request_rates(read_log(spark, directory)).collect():
        if rate_per_s is None:
            raise ConfigurationError(f"{directory}: all requests came at once, so there is no rate")
        rates[broker][topic] = rate_per_s
    if not rates:
        raise ConfigurationError(f"{directory}: there are no requests")
    return rates

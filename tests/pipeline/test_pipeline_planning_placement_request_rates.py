"""Rates from a log of requests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from reefcast.errors import ConfigurationError
from reefcast.pipeline.planning.placement.request_rates import rates_of_log

pytestmark = pytest.mark.spark


def write_log(directory: Path, *rows: tuple[int, str, str]) -> None:
    """Write a file for each row: a log has many files."""
    for number, (time_us, broker, topic) in enumerate(rows):
        table = pa.table({"broker": [broker], "topic": [topic], "time_us": [time_us]})
        pq.write_table(table, directory / f"{number}.parquet")


def test_rates_are_over_the_time_of_the_whole_log(spark: SparkSession, tmp_path: Path) -> None:
    first = 5_000_000
    write_log(
        tmp_path,
        (first, "a", "x"),
        (first + 1_000_000, "a", "x"),
        (first + 2_000_000, "a", "y"),
        (first + 4_000_000, "b", "x"),
    )
    assert rates_of_log(spark, tmp_path) == {"a": {"x": 0.5, "y": 0.25}, "b": {"x": 0.25}}


def test_logs_without_rates(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no Parquet files"):
        rates_of_log(spark, tmp_path)
    write_log(tmp_path, (1, "a", "x"))
    with pytest.raises(ConfigurationError, match="came at once"):
        rates_of_log(spark, tmp_path)
    empty = pa.table({"broker": pa.array([], pa.string()), "topic": pa.array([], pa.string())})
    times = pa.array([], pa.int64())
    pq.write_table(empty.append_column("time_us", times), tmp_path / "0.parquet")
    with pytest.raises(ConfigurationError, match="there are no requests"):
        rates_of_log(spark, tmp_path)

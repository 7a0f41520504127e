"""A program that copies one topic to another, until it is killed. Arguments: URL CHECKPOINT."""

from __future__ import annotations

import os
import sys
import threading

import reefcast.spark
from reefcast.pipeline.session import spark_session


def end_with_the_test() -> None:
    """Kill the process group when the other end of the pipe is closed."""
    sys.stdin.read()
    os.killpg(0, 9)


def main(url: str, checkpoint: str) -> None:
    threading.Thread(target=end_with_the_test, daemon=True).start()
    with spark_session("copy") as spark:
        reefcast.spark.register(spark)
        source = spark.readStream.format("reefcast").options(url=url, subscribe="in")
        source = source.options(schema="n BIGINT", startingOffsets="earliest", settleSeconds=0.5)
        source = source.options(lateSeconds=8, maxOffsetsPerTrigger=1200, minPartitions=2)
        rows = source.load().select("n")
        sink = rows.writeStream.format("reefcast").options(url=url, topic="out")
        sink.option("checkpointLocation", checkpoint).start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

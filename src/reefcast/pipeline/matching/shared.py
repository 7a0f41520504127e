"""What the driver hands to all executors, on a cluster of its own and through Spark Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Carried(NamedTuple):
    """Sent with each task, where there are no broadcasts: through Spark Connect."""

    value: bytes


class Shared(NamedTuple):
    """`data.value` are the bytes; `token` is the same where they are, and nowhere else."""

    token: str
    data: Any


def share(spark: SparkSession, data: bytes) -> Shared:
    token = xxhash.xxh3_128_hexdigest(data)
    return Shared(token, Carried(data) if is_remote() else spark.sparkContext.broadcast(data))


def parallelism(spark: SparkSession) -> int:
    """How many tasks the executors run at a time, as far as Spark says it."""
    if is_remote():
        return int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return int(spark.sparkContext.defaultParallelism)

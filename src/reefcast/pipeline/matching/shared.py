"""Data that the driver shares with all executors, on a cluster of its own and through Spark
Connect."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash
from pyspark.sql.utils import is_remote

if TYPE_CHECKING:
    import pyarrow as pa
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


def stream_of(table: pa.Table) -> bytes:
    """Encode a table as a stream of Arrow's; `pa.ipc.open_stream(data).read_all()` reads it
    again."""
    import pyarrow as pa

    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as stream:
        stream.write_table(table)
    return bytes(sink.getvalue())


def parallelism(spark: SparkSession) -> int:
    """Return how many tasks the executors run at a time, as far as Spark says it."""
    if is_remote():
        return int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return int(spark.sparkContext.defaultParallelism)

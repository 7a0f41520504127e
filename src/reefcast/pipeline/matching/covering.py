"""The covering degree of subscriptions, measured: how many become roots when a root goes.

Every task makes an index of all filters, as a broker has, takes its part of the roots, and lets one
after the other go and come back. Costs: 0.2 ms to parse a filter, in each Python process; memory
for all filters in each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.pipeline.matching.shared import Shared, parallelism, share, stream_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from reefcast.matching.cover.roots import CompiledRoots


def triggered(subscriptions: DataFrame) -> DataFrame:
    """Return subscription, triggered: a row for each root S of subscription (int64) and filter,
    with |NRS(S)|. Filters that cover each other count in the order of their numbers: the first is
    the root, and the next one follows it."""
    spark = subscriptions.sparkSession
    tasks = parallelism(spark)
    table = subscriptions.select("subscription", "filter").orderBy("subscription").toArrow()
    shared = share(spark, stream_of(table))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return _parts(batches, shared, tasks)

    parts = spark.range(0, tasks, 1, tasks).select(F.col("id").alias("part"))
    return parts.mapInArrow(run, "subscription BIGINT, triggered BIGINT")


# --- in the executors ----------------------------------------------------------------------------


def _parts(
    batches: Iterator[pa.RecordBatch], shared: Shared, tasks: int
) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    for batch in batches:
        for part in batch.column(0).to_pylist():
            counted = _counted(shared, part, tasks)
            columns = [pa.array(list(each), pa.int64()) for each in (counted, counted.values())]
            yield pa.RecordBatch.from_arrays(columns, names=["subscription", "triggered"])


def _counted(shared: Shared, part: int, tasks: int) -> dict[int, int]:
    """Count, for each root of this part, the filters that would become roots without it."""
    import pyarrow as pa

    from reefcast.matching.cover import new_roots
    from reefcast.model.filters import parse_filter

    table = pa.ipc.open_stream(shared.data.value).read_all()
    numbers, texts = table["subscription"].to_pylist(), table["filter"].to_pylist()
    roots: CompiledRoots[int] = new_roots()
    filters = dict(zip(numbers, map(parse_filter, texts), strict=True))
    for number, filter in filters.items():
        roots.add(number, filter)
    found = {}
    for root in list(roots.keys())[part::tasks]:
        found[root] = len(roots.remove(root).entered)
        roots.add(root, filters[root])
    return found

"""Batches: the history of a filter as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from reefcast.pipeline.connector.options import ReadOptions
from reefcast.pipeline.connector.pushdown import Pushdown, Pushed
from reefcast.pipeline.connector.reading import (
    Bounds,
    Slice,
    Span,
    past,
    probe_size,
    slice_portions,
    tasks_for,
)
from reefcast.pipeline.connector.sentences import told, told_later
from reefcast.pipeline.connector.topic_reading import narrowed
from reefcast.pipeline.connector.wanted import wanted_of
from reefcast.timing import now_us

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads the events published until now, in one slice of time for each partition."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._selection = options.selection._replace(**wanted_of(schema))
        self._topics = options.topics
        self._pushed = Pushed(options.selection.filter, options.since_us, options.until_us)

    @told
    def partitions(self) -> Sequence[InputPartition]:
        """Return the slices to be read. Raises what asking raises, `RefusedError` if nobody stores
        the topics."""
        slices = (Slice((span,)) for span in self._spans())
        return list(narrowed(slices, self._topics, self._pushed.filter)) or [Slice(())]

    def _spans(self) -> list[Span]:
        """Cut the time from the first event to now, or what the query asked for of that, for as
        many tasks as the first events show to be worth it."""
        pushed, at_us = self._pushed, now_us()
        until_us = at_us if pushed.until_us is None else pushed.until_us
        since_us = 0 if pushed.since_us is None else pushed.since_us
        if since_us >= until_us:
            return []
        most = self._selection.partitions
        limit = probe_size(most) if most > 1 else 1
        with past(self._selection, "spark-planner") as history:
            times = history.ids(since_us, until_us, limit).times.tolist()
        if not times:
            return []
        tasks = tasks_for(len(times), most) if len(times) < limit else most
        return Bounds(times[0], min(until_us, at_us + 1)).pieces(tasks)

    @told_later
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from reefcast.pipeline.connector.record_batches import Columns

        assert isinstance(partition, Slice)
        columns = Columns(self._schema, self._pushed.present)
        yield from columns.batches(slice_portions(self._selection, partition, fail=True))


class PushingReader(BatchReader):
    """A reader that takes conditions from Spark.

    Spark 4.3 keeps the plan of a reader with the loaded table, not with the query: a second query
    over it, or a second use in one query, reads what the first one's conditions left. So only who
    asks for it gets this reader."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Push filters down; return those that Spark must apply itself."""
        pushdown = Pushdown(self._schema, self._pushed)
        left = [condition for condition in filters if not pushdown.push(condition)]
        self._pushed = pushdown.pushed
        self._selection = self._selection._replace(filter=self._pushed.filter)
        return left

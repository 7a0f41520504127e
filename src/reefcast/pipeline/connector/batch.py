"""Batches: the history of a filter as a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from reefcast.pipeline.connector.cutting import Read, cuts_of
from reefcast.pipeline.connector.options import ReadOptions
from reefcast.pipeline.connector.pushdown import Pushdown, Pushed
from reefcast.pipeline.connector.reading import Slice, past, slice_portions
from reefcast.pipeline.connector.sentences import told, told_later
from reefcast.pipeline.connector.topic_reading import TopicHistory, narrowed
from reefcast.pipeline.connector.wanted import wanted_of
from reefcast.timing import now_us

if TYPE_CHECKING:
    import pyarrow as pa


class BatchReader(DataSourceReader):
    """Reads the events published until now, about as many in each partition."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._schema = schema
        self._selection = options.selection._replace(**wanted_of(schema))
        self._topics = options.topics
        self._pushed = Pushed(options.selection.filter, options.since_us, options.until_us)

    @told
    def partitions(self) -> Sequence[InputPartition]:
        """Return the slices to be read. Raises what asking raises, `RefusedError` if nobody stores
        the topics."""
        slices = map(Slice, self._pieces())
        return list(narrowed(slices, self._topics, self._pushed.filter)) or [Slice(())]

    def _pieces(self) -> list[tuple[Read, ...]]:
        """Cut what there is until now, or what the query asked for of that, into pieces for as many
        tasks as its events are worth."""
        pushed, at_us = self._pushed, now_us()
        until_us = at_us + 1 if pushed.until_us is None else min(pushed.until_us, at_us + 1)
        since_us = 0 if pushed.since_us is None else pushed.since_us
        if since_us >= until_us:
            return []
        with past(self._selection, "spark-planner") as history:
            counted = TopicHistory(history, self._topics, pushed.filter)
            if not len(counted.ids(since_us, until_us, 1).times):
                return []
            cuts = cuts_of(counted, since_us, until_us, self._selection.partitions)
        return cuts.pieces(since_us, until_us)

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

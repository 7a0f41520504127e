"""Writers: rows are published exactly once, whichever parts of a query or a job are run again."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from reefcast.errors import ConfigurationError, InternalError
from reefcast.pipeline.connector.checkpoint import Batch, last_batch
from reefcast.pipeline.connector.columns import TIMESTAMP
from reefcast.pipeline.connector.options import WriteOptions
from reefcast.pipeline.connector.publishing import Part, check_rows, in_order, part_of, publish
from reefcast.pipeline.connector.sentences import told
from reefcast.timing import now_us

if TYPE_CHECKING:
    import pyarrow as pa

QUERY, BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""What Spark tells the tasks of a streaming query; the query's id is that of its checkpoint."""


class Published(WriterCommitMessage):
    """`rows`: of one task."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def _check(schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
    check_rows(schema, options.order, options.forms)
    if overwrite:
        raise ConfigurationError('what was published cannot be overwritten: write in mode "append"')


def _published(options: WriteOptions, batches: Iterator[pa.RecordBatch], part: Part) -> Published:
    rows = in_order(batches, options.order)
    taken = publish(
        *(options.broker, rows, part, options.topic, options.forms), confirm=options.confirm
    )
    return Published(taken)


def _partition() -> int:
    context = TaskContext.get()
    assert context is not None  # writers run in tasks
    return context.partitionId()


class BatchWriter(DataSourceArrowWriter):
    """A task that fails runs again, and publishes the same events. A job that is started again is
    another publisher."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        _check(schema, options, overwrite=overwrite)
        self._options = options
        self._job = uuid.uuid4().hex
        self._time_us = now_us()

    @told
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        part = part_of(self._job, 0, _partition(), self._time_us)
        return _published(self._options, iterator, part)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes one batch; only the tasks know the batch itself."""

    def __init__(self, schema: StructType, options: WriteOptions, *, overwrite: bool) -> None:
        _check(schema, options, overwrite=overwrite)
        self._options = options
        self._batch: Batch | None = None
        if TIMESTAMP not in schema.names:
            self._batch = last_batch(_checkpoint(options))

    @told
    def write(self, iterator: Iterator[pa.RecordBatch]) -> Published:
        context = TaskContext.get()
        assert context is not None  # writers run in tasks
        query, number = context.getLocalProperty(QUERY), context.getLocalProperty(BATCH)
        if query is None or number is None or not number.isdigit():
            raise InternalError(f"Spark does not say which query and batch this is ({QUERY})")
        batch = self._batch or Batch(int(number), 0)
        if batch.number != int(number):
            raise InternalError(
                f"this is batch {number}, but the last one in the checkpoint is {batch.number}: "
                "does another query use the same checkpoint?"
            )
        part = part_of(query, batch.number, _partition(), batch.time_us)
        return _published(self._options, iterator, part)


def _checkpoint(options: WriteOptions) -> str:
    if not options.checkpoint:
        raise ConfigurationError(
            "writing a stream needs to know its checkpoint, which says the time of each batch: "
            '.option("checkpointLocation", ...) at this query, or a column timestamp in its rows'
        )
    return options.checkpoint

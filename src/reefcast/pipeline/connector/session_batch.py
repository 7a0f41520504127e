"""Batches of durable sessions: what a session owes as a table. Nothing is taken."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from reefcast.pipeline.connector.options import LookOptions
from reefcast.pipeline.connector.sentences import told, told_later
from reefcast.pipeline.connector.session_stream import missing, row_of
from reefcast.sessions.messages import MOST_LETTERS

if TYPE_CHECKING:
    import pyarrow as pa


class LookReader(DataSourceReader):
    """Shows the queue of a session, in its order. Spark may read a batch several times and never
    says that it is done with it, so that no event could be acknowledged at the right time."""

    def __init__(self, schema: StructType, options: LookOptions) -> None:
        self._schema = schema
        self._options = options

    @told
    def partitions(self) -> Sequence[InputPartition]:
        """Return one partition, with the number of events that the session owes now."""
        name, broker = self._options.name, self._options.broker
        with broker.connect("spark-planner") as client:
            row = row_of(client, name)
        if row is None:
            raise missing(name, broker.url)
        return [InputPartition(row.events)]

    @told_later
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from reefcast.pipeline.connector.record_batches import Columns

        yield from Columns(self._schema).batches(self._portions(partition.value))

    def _portions(self, count: int) -> Iterator[list[bytes]]:
        """Yield the bodies of `count` events, or as many as are still there."""
        after = 0
        with self._options.broker.connect("spark-reader") as client:
            session = client.session(self._options.name)
            while count > 0:
                some = session.look(after=after, most=min(MOST_LETTERS, count))
                yield [each.event.body for each in some]
                if not some:
                    return
                after, count = some[-1].position, count - len(some)

"""Streams: a subscription as a source, read from the history so that a query can continue after a
restart."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from reefcast.errors import PeerError, RefusedError
from reefcast.pipeline.connector.offsets import Offset
from reefcast.pipeline.connector.options import EARLIEST, StreamOptions
from reefcast.pipeline.connector.planning import Planner, Rules
from reefcast.pipeline.connector.reading import (
    PATIENCE_S,
    Absence,
    Past,
    Slice,
    log,
    past,
    patiently,
    slice_portions,
)
from reefcast.pipeline.connector.sentences import told, told_later
from reefcast.timing import now_us

if TYPE_CHECKING:
    import pyarrow as pa

Json = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans in the driver (see `planning`), and reads in tasks."""

    def __init__(self, schema: StructType, options: StreamOptions) -> None:
        self._schema = schema
        self._options = options
        self._driver: Driver | None = None

    # --- in the driver ----------------------------------------------------------------------------

    @property
    def _in_driver(self) -> Driver:
        if self._driver is None:
            self._driver = Driver(self._options)
        return self._driver

    @told
    def initialOffset(self) -> Json:
        return self._in_driver.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    @told
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._in_driver.latest(Offset.of_json(start), most).to_json()

    def prepareForTriggerAvailableNow(self) -> None:
        self._in_driver.end_us = now_us() - self._options.settle_us

    def reportLatestOffset(self) -> Json:
        return Offset(now_us() - self._options.settle_us).to_json()

    @told
    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        return self._in_driver.slices(Offset.of_json(start), Offset.of_json(end))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.close()

    # --- in a task --------------------------------------------------------------------------------

    @told_later
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        from reefcast.pipeline.connector.record_batches import Columns

        assert isinstance(partition, Slice)
        options = self._options
        portions = slice_portions(options.selection, partition, fail=options.fail_on_data_loss)
        yield from Columns(self._schema).batches(portions)


class Driver:
    """The state of a running query. `end_us`: where it is to end, if it is to end."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._open = ExitStack()
        self._past: Past | None = None
        self._absence = Absence()
        self.end_us: int | None = None
        rules = Rules(
            options.settle_us,
            options.late_us,
            options.selection.partitions,
            options.fail_on_data_loss,
        )
        self._planner = Planner(self, rules, now_us)

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Any:
        return self._history().ids(since_us, until_us, limit)

    def _history(self) -> Past:
        """Return the history, over one connection that is kept while the driver lives."""
        if self._past is None:
            self._past = self._open.enter_context(past(self._options.selection, "spark-planner"))
        return self._past

    def close(self) -> None:
        self._past = None
        self._open.close()

    def initial(self) -> Offset:
        start = self._options.start
        if isinstance(start, int):
            return Offset(start)
        now = now_us()
        if start == EARLIEST:
            first = self._history().ids(0, now, 1).times.tolist()
            return Offset(first[0] if first else now - self._options.late_us)
        self.ids(now - 1, now, 1)  # raises if nobody stores the topics
        return Offset(now)

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the end of the next batch; while nobody answers there is nothing new, for a
        while."""
        try:
            offset = self._planner.latest(start, most, self.end_us)
        except (PeerError, RefusedError) as error:
            self._forget()
            self._absence.bear(error)
            return start
        self._absence.end()
        return offset

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        return self._again(lambda: self._planner.slices(start, end))

    def _again(self, work: Callable[[], list[Slice]]) -> list[Slice]:
        def attempt() -> list[Slice]:
            try:
                return work()
            except PeerError:
                self._forget()
                raise

        return patiently(attempt, PATIENCE_S)

    def _forget(self) -> None:
        """Close the connection, which may be gone for good."""
        try:
            self.close()
        except (PeerError, RefusedError) as error:
            log.info("closing the planner's connection: %s", error)

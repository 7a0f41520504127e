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
from reefcast.history.spread import Stretch
from reefcast.model.topics import topic_filter
from reefcast.pipeline.connector.ids import Ids
from reefcast.pipeline.connector.offsets import Offset
from reefcast.pipeline.connector.options import StreamOptions
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
from reefcast.pipeline.connector.topic_reading import (
    TopicHistory,
    carried,
    narrowed,
    times_since,
)
from reefcast.pipeline.connector.topic_times import EARLIEST, Boundary, TopicTimes
from reefcast.pipeline.connector.waiting import Waiting
from reefcast.pipeline.connector.wanted import wanted_of
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
        """Return what the query's progress shows as the latest offset: Spark 4.3 takes no metrics
        from sources in Python."""
        return self._in_driver.progress()

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
        selection = options.selection._replace(**wanted_of(self._schema))
        portions = slice_portions(selection, partition, fail=options.fail_on_data_loss)
        yield from Columns(self._schema).batches(portions)


class Driver:
    """The state of a running query. `end_us`: where it is to end, if it is to end."""

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._open = ExitStack()
        self._past: Past | None = None
        self._absence = Absence()
        self._times = TopicTimes()
        self._waiting = Waiting(options.least)
        self._read_until_us: int | None = None
        self.end_us: int | None = None
        rules = Rules(
            options.settle_us,
            options.late_us,
            options.selection.partitions,
            options.fail_on_data_loss,
        )
        self._planner = Planner(self, rules, now_us)

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Ids:
        return self._by_topic().ids(since_us, until_us, limit)

    def stretches(self, since_us: int, until_us: int, most: int) -> list[Stretch] | None:
        return self._by_topic().stretches(since_us, until_us, most)

    def _by_topic(self) -> TopicHistory:
        return TopicHistory(self._history(), self._times, self._options.selection.filter)

    def _history(self) -> Past:
        """Return the history, over one connection that is kept while the driver lives."""
        if self._past is None:
            self._past = self._open.enter_context(past(self._options.selection, "spark-planner"))
        return self._past

    def close(self) -> None:
        self._past = None
        self._open.close()

    def initial(self) -> Offset:
        start, filter = self._options.start, self._options.selection.filter
        if not isinstance(start, dict):
            return Offset(self._time_of(start, filter))
        starts = tuple(
            (topic, self._time_of(boundary, f"({filter}) AND ({topic_filter([topic])})"))
            for topic, boundary in start.items()
        )
        first_us = min(since_us for _, since_us in starts)
        return carried(Offset(first_us, starts=starts), Offset(first_us))

    def _time_of(self, start: Boundary, filter: str) -> int:
        """Return where the events of a filter begin. Raises `RefusedError` if nobody stores its
        topics."""
        if isinstance(start, int):
            return start
        now, history = now_us(), self._history().about(filter)
        if start == EARLIEST:
            first = [int(each) for each in history.ids(0, now, 1).times]
            return first[0] if first else now - self._options.late_us
        history.ids(now - 1, now, 1)  # raises if nobody stores the topics
        return now

    def latest(self, start: Offset, most: int | None) -> Offset:
        """Return the end of the next batch; while nobody answers there is nothing new, for a
        while."""
        self._times = times_since(start.starts)
        self._read_until_us = start.until_us
        try:
            if self.end_us is None and self._waiting.goes_on(lambda rows: self._count(start, rows)):
                return start
            offset = self._planner.latest(start, most, self.end_us)
        except (PeerError, RefusedError) as error:
            self._forget()
            self._absence.bear(error)
            return start
        self._absence.end()
        if offset == start:
            return start
        self._waiting.end()
        self._read_until_us = offset.until_us
        return carried(start, offset)

    def _count(self, start: Offset, most: int) -> int:
        """Return how many events are there to be read, or `most` if there are more."""
        until_us = max(now_us() - self._options.settle_us, start.until_us)
        return len(self.ids(start.until_us, until_us, most).times)

    def progress(self) -> Json:
        """Return up to when there are events to be read, and by how much the last batch ends
        before that."""
        until_us = now_us() - self._options.settle_us
        read_us = self._read_until_us
        behind = {} if read_us is None else {"behind_s": max(until_us - read_us, 0) / 1e6}
        return {"until_us": until_us, **behind}

    def slices(self, start: Offset, end: Offset) -> list[Slice]:
        self._times = times_since(start.starts)
        filter = self._options.selection.filter

        def work() -> list[Slice]:
            return list(narrowed(self._planner.slices(start, end), self._times, filter))

        return self._again(work)

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

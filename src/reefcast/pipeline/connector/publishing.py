"""Publishing in a task: rows become events, whose ids and times are the same whenever it runs.

A partition of a query is a publisher. Its secret is the query's id, which Spark draws at random,
and which is in no event: so each task that runs for it has the same id. Its events are numbered by
batch and row, and their times are the batch's, a microsecond later with each row, unless a column
says them. So an event that is published again is recognised: by the publisher's broker, as long as
it remembers the publisher, and by storages for ever."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampType,
)

from reefcast.client.encoding import encode_event
from reefcast.client.loop import new_event_loop
from reefcast.client.numbered import NumberedClient
from reefcast.errors import ConfigurationError, InvalidValueError
from reefcast.pipeline.connector.columns import ATTRIBUTES, TIMESTAMP
from reefcast.pipeline.connector.options import Broker
from reefcast.protocol.client_ids import Identity, identity_of

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ROWS_OF_BATCH = 1 << 32
"""Numbers that a batch has for the rows of a partition."""
FRAMES = 1024
"""Frames that are handed over at once."""
TOPIC, TOPICS, PAYLOAD = "topic", "topics", "payload"
SPECIAL: dict[str, DataType] = {
    TOPIC: StringType(),
    TOPICS: ArrayType(StringType()),
    PAYLOAD: BinaryType(),
    TIMESTAMP: TimestampType(),
}
VALUES = (
    *(ByteType, ShortType, IntegerType, LongType),
    *(FloatType, DoubleType, StringType, BooleanType),
)
OURS = ("publisher", "seq", ATTRIBUTES)


def check_rows(schema: StructType, order: Sequence[str] = ()) -> None:
    """Raise `ConfigurationError` for rows that are no events, or that cannot be sorted by
    `order`."""
    for name in order:
        if name not in schema.names:
            raise ConfigurationError(f"option orderBy: there is no column {name!r} to be sorted by")
    for field in schema:
        name, kind = field.name, field.dataType
        if name in OURS:
            raise ConfigurationError(
                f"column {name!r} cannot be written: events are numbered anew, and each attribute "
                f"is a column of its own; leave it out by .drop({name!r})"
            )
        special = SPECIAL.get(name)
        if special is not None and kind.simpleString() != special.simpleString():
            raise ConfigurationError(
                f"column {name!r} is {kind.simpleString()}; it must be {special.simpleString()}"
            )
        if special is None and not isinstance(kind, VALUES):
            raise ConfigurationError(
                f"column {name!r} is {kind.simpleString()}; an attribute is a number, a text or a "
                "truth value: cast it, or leave it out"
            )
    if TOPIC in schema.names and TOPICS in schema.names:
        raise ConfigurationError("the rows have the columns topic and topics: leave one out")


class Part(NamedTuple):
    """The publisher of a task: the first row is number `first`, at `time_us`."""

    publisher: Identity
    first: int
    time_us: int


def part_of(query: str, batch: int, partition: int, time_us: int) -> Part:
    return Part(identity_of(f"spark-{partition}", query), batch * ROWS_OF_BATCH + 1, time_us)


def frames(batches: Iterable[pa.RecordBatch], part: Part, topic: str) -> Iterator[bytes]:
    """Yield the rows as frames. `topic`: of all of them, whatever their columns say; or "". Raises
    `InvalidValueError` for what is no event."""
    number = 0
    for batch in batches:
        columns = {name: batch.column(name) for name in batch.schema.names}
        times = _times(columns.pop(TIMESTAMP, None), batch.num_rows, part.time_us + number)
        topics = _topics(columns.pop(TOPICS, None), columns.pop(TOPIC, None), batch.num_rows, topic)
        payloads = _payloads(columns.pop(PAYLOAD, None), batch.num_rows)
        names = tuple(columns)
        rows: Iterable[tuple[Any, ...]] = [()] * batch.num_rows
        if columns:
            rows = zip(*(column.to_pylist() for column in columns.values()), strict=True)
        for values, time_us, some, payload in zip(rows, times, topics, payloads, strict=True):
            identity = (part.publisher.id, part.first + number)
            attributes = dict(zip(names, values, strict=True))
            yield encode_event(identity, time_us, attributes, some, payload)
            number += 1


def _times(column: Any, rows: int, time_us: int) -> Sequence[int]:
    if column is None:
        return range(time_us, time_us + rows)
    import pyarrow as pa

    if column.null_count:
        raise InvalidValueError("a row has no timestamp: the column is the time of the event")
    times: list[int] = column.cast(pa.int64()).to_pylist()
    return times


def _topics(several: Any, one: Any, rows: int, topic: str) -> Sequence[tuple[str, ...]]:
    if topic:
        return [(topic,)] * rows
    if several is not None:
        return [tuple(some or ()) for some in several.to_pylist()]
    if one is not None:
        return [(name,) if name else () for name in one.to_pylist()]
    return [()] * rows


def _payloads(column: Any, rows: int) -> Sequence[bytes]:
    return [b""] * rows if column is None else [each or b"" for each in column.to_pylist()]


def in_order(batches: Iterable[pa.RecordBatch], order: Sequence[str]) -> Iterable[pa.RecordBatch]:
    """Return all rows, sorted by these columns, if there are any."""
    some = list(batches) if order else []
    if not some:
        return batches
    import pyarrow as pa

    whole = pa.Table.from_batches(some).sort_by([(name, "ascending") for name in order])
    sorted_batches: list[pa.RecordBatch] = whole.to_batches()
    return sorted_batches


def publish(broker: Broker, batches: Iterable[pa.RecordBatch], part: Part, topic: str) -> int:
    """Publish all rows and wait until the broker has acknowledged them; return how many there
    are."""
    rows = 0
    publisher: Publisher | None = None
    try:
        for chunk in _chunks(frames(batches, part, topic)):
            publisher = publisher or Publisher(broker, part.publisher)
            publisher.send(chunk)
            rows += len(chunk)
        if publisher is not None:
            publisher.flush()
    finally:
        if publisher is not None:
            publisher.close()
    return rows


def _chunks(frames: Iterator[bytes]) -> Iterator[list[bytes]]:
    chunk: list[bytes] = []
    for frame in frames:
        chunk.append(frame)
        if len(chunk) == FRAMES:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


class Publisher:
    """A client in a thread of its own, which keeps the connection while Spark makes more rows."""

    def __init__(self, broker: Broker, identity: Identity) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            connecting = NumberedClient.connected_to(broker.url, identity, broker.access)
            self._client = self._run(connecting)
        except BaseException:
            self._stop()
            raise

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def send(self, frames: Sequence[bytes]) -> None:
        """Publish frames. Raises what `Client.publish` raises."""
        self._run(self._client.send(frames))

    def flush(self) -> None:
        """Wait for acknowledgements, as long as the broker withholds its credit. Raises what
        `Client.flush` raises."""
        self._run(self._client.flush())

    def close(self) -> None:
        """Close the client; after an error, drop what is left."""
        with suppress(Exception):
            self._run(self._client.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

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
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from reefcast.client.loop import new_event_loop
from reefcast.client.numbered import NumberedClient
from reefcast.errors import ConfigurationError
from reefcast.pipeline.connector.columns import ATTRIBUTES, TIMESTAMP, leaves
from reefcast.pipeline.connector.options import TEXT, Broker, Forms
from reefcast.protocol.client_ids import Identity, identity_of

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

ROWS_OF_BATCH = 1 << 32
"""Numbers that a batch has for the rows of a partition."""
FRAMES = 2048
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
    *(TimestampType, DateType, DecimalType),
)
EXACT_DIGITS = 15
"""Every decimal with so many digits is the shortest text of a float."""
CLIENTS = Forms()
"""The forms in which clients send values."""
OURS = ("publisher", "seq", ATTRIBUTES)


def check_rows(schema: StructType, order: Sequence[str] = (), forms: Forms = CLIENTS) -> None:
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
        if special is None:
            for attribute, leaf in leaves(name, kind):
                _check_attribute(attribute, leaf, forms)
    if TOPIC in schema.names and TOPICS in schema.names:
        raise ConfigurationError("the rows have the columns topic and topics: leave one out")
    fields = [field for field in schema if field.name not in SPECIAL]
    names = [name for field in fields for name, _ in leaves(field.name, field.dataType)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two columns are the attribute {name!r}: leave one out")


def _check_attribute(name: str, kind: DataType, forms: Forms) -> None:
    if isinstance(kind, DecimalType) and forms.decimals != TEXT and kind.precision > EXACT_DIGITS:
        raise ConfigurationError(
            f"column {name!r} is {kind.simpleString()}, and a number has {EXACT_DIGITS} digits for "
            'sure: set .option("decimals", "text"), which compares as a text, or cast it to double'
        )
    if isinstance(kind, TimestampNTZType):
        raise ConfigurationError(
            f"column {name!r} has times without a zone: cast it to timestamp, which takes them for "
            "times of the session's zone"
        )
    if not isinstance(kind, VALUES):
        raise ConfigurationError(
            f"column {name!r} is {kind.simpleString()}; an attribute is a number, a text, a truth "
            "value, a time, a date, a decimal, or a struct of these: cast it, or leave it out"
        )


class Part(NamedTuple):
    """The publisher of a task: the first row is number `first`, at `time_us`."""

    publisher: Identity
    first: int
    time_us: int


def part_of(query: str, batch: int, partition: int, time_us: int) -> Part:
    return Part(identity_of(f"spark-{partition}", query), batch * ROWS_OF_BATCH + 1, time_us)


def frames(
    batches: Iterable[pa.RecordBatch], part: Part, topic: str, forms: Forms = CLIENTS
) -> Iterator[list[bytes]]:
    """Yield the frames of the rows, batch by batch. `topic`: of all of them, whatever their columns
    say; or "". Raises `InvalidValueError` for what is no event."""
    from reefcast.pipeline.connector.outgoing import Outgoing, Special

    outgoing = Outgoing(part.publisher.id, topic, forms)
    number = 0
    for batch in batches:
        names = [name for name in batch.schema.names if name not in SPECIAL]
        columns = {name: batch.column(name) for name in batch.schema.names if name in SPECIAL}
        special = Special(*map(columns.get, (TIMESTAMP, TOPICS, TOPIC, PAYLOAD)))
        yield outgoing.frames(batch, special, names, part.first + number, part.time_us + number)
        number += batch.num_rows


def in_order(batches: Iterable[pa.RecordBatch], order: Sequence[str]) -> Iterable[pa.RecordBatch]:
    """Return all rows, sorted by these columns, if there are any."""
    some = list(batches) if order else []
    if not some:
        return batches
    import pyarrow as pa

    whole = pa.Table.from_batches(some).sort_by([(name, "ascending") for name in order])
    sorted_batches: list[pa.RecordBatch] = whole.to_batches()
    return sorted_batches


def publish(
    broker: Broker,
    batches: Iterable[pa.RecordBatch],
    part: Part,
    topic: str,
    forms: Forms = CLIENTS,
    *,
    confirm: bool = False,
) -> int:
    """Publish all rows and wait until the broker has acknowledged them, or they are confirmed;
    return how many there are."""
    rows = 0
    publisher: Publisher | None = None
    try:
        for some in frames(batches, part, topic, forms):
            publisher = publisher or Publisher(
                broker, part.publisher, first=part.first, confirm=confirm
            )
            for start in range(0, len(some), FRAMES):
                publisher.send(some[start : start + FRAMES])
            rows += len(some)
        if publisher is not None:
            publisher.flush()
    finally:
        if publisher is not None:
            publisher.close()
    return rows


class Publisher:
    """A client in a thread of its own, which keeps the connection while Spark makes more rows.
    `first`, `confirm`: see `NumberedClient`."""

    def __init__(
        self, broker: Broker, identity: Identity, *, first: int = 1, confirm: bool = False
    ) -> None:
        self._loop = new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        try:
            connecting = NumberedClient.connected_to(
                broker.url, identity, broker.access, first=first, confirm=confirm
            )
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
        """Wait for acknowledgements, as long as the broker withholds its credit, and for
        confirmations. Raises what `NumberedClient.until_all_taken` raises."""
        self._run(self._client.until_all_taken())

    def close(self) -> None:
        """Close the client; after an error, drop what is left."""
        with suppress(Exception):
            self._run(self._client.close())
        self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

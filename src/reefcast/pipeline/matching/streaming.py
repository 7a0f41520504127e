"""Events against subscriptions that change while the query runs: both are streams.

Theory of operation
-------------------
Subscriptions are spread over `shards` by their ids, and each shard is a group of a stateful query.
Its state is the table of its subscriptions, as they are now: a change replaces one, a NULL filter
removes it, so the state is bounded by the subscriptions that there are. Every event goes to each
shard, which matches it with its index, the one of `worker`, made anew when the table has changed.

A batch applies its changes before it matches its events. So the pairs of a batch are those that
`match` finds between its events and the table after its changes; a batch that is repeated has the
same pairs, for Spark keeps the state with the batch.

Ids and events travel encoded (pickled, and as bodies of publications): pandas, which hands the
groups over, would make floats of integers where there are NULLs.

Costs: a copy of each event for each shard; the state of a shard (100 bytes for each subscription)
is written whenever one of it changes."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import xxhash
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, TimestampType

from reefcast.errors import LocalError
from reefcast.model.filters import TOPIC
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.pipeline.matching import worker
from reefcast.pipeline.matching.events import as_value, by_place, places
from reefcast.pipeline.matching.shared import Carried, Shared, stream_of
from reefcast.pipeline.matching.subscriptions import parsed_text

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.streaming.state import GroupState

SHARDS = 4
_EVENT = "event BINARY, body BINARY"
_CHANGE = "key STRING, subscription BINARY, packed BINARY, changed BIGINT"
_PAIR = "event BINARY, subscription BINARY"
_STATE = "subscriptions BINARY"
MATCHED = 1024
"""Events that are matched at a time."""


class Subscribed(NamedTuple):
    """A subscription of the table: its id, and its packed filter."""

    id: bytes
    packed: bytes


Table = dict[str, Subscribed]


def match_stream(
    events: DataFrame,
    changes: DataFrame,
    *,
    event_id: str = "event",
    subscription_id: str = "subscription",
    filter_column: str = "filter",
    changed_column: str = "changed",
    shards: int = SHARDS,
    ignore_errors: bool = False,
) -> DataFrame:
    """Return event, subscription: a row for each pair of which the filter holds for the event, as
    the subscriptions are in the event's batch.

    `events` and `changes` are streams. A row of `changes` is a subscription's new filter, or its
    end, with a NULL filter; where a batch has several of one subscription, the one with the
    greatest `changed_column` (a number, or a timestamp) holds. Each column of `events` that holds
    values is an attribute, as in `match`; others are left out. `shards`: how many tasks match; it
    belongs to the query's checkpoint. `ignore_errors`: a filter that cannot be read ends its
    subscription, and not the query.

    Raises `LocalError` for columns that are missing, or of a wrong type.
    """
    rows = _rows_of_events(events, event_id).withColumn(
        "shard", F.explode(F.sequence(F.lit(0), F.lit(shards - 1)))
    )
    names = (subscription_id, filter_column, changed_column)
    changed = _rows_of_changes(changes, names, ignore_errors=ignore_errors).withColumn(
        "shard", F.pmod(F.xxhash64("key"), F.lit(shards)).cast("int")
    )
    both = rows.unionByName(changed, allowMissingColumns=True).fillna({"changed": 0})
    pairs = both.groupBy("shard").applyInPandasWithState(
        _step, _PAIR, _STATE, "append", "NoTimeout"
    )
    return _typed(pairs, events, event_id, changes, subscription_id)


def _rows_of_events(events: DataFrame, event_id: str) -> DataFrame:
    place = places(events, [event_id], events.columns)
    attributes: list[Column] = []
    names: list[str] = []
    for name, at in place.items():
        column = _value(F.col(f"c{at}"), name, events)
        if name != event_id and column is not None:
            attributes.append(column.alias(f"a{len(names)}"))
            names.append(name)
    rows = by_place(events).select(F.col(f"c{place[event_id]}").alias("id"), *attributes)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return encoded(batches, names)

    return rows.mapInArrow(run, _EVENT)


def _value(column: Column, name: str, events: DataFrame) -> Column | None:
    try:
        return as_value(column, name, events.schema[name].dataType)
    except LocalError:
        return None


def _rows_of_changes(
    changes: DataFrame, names: tuple[str, str, str], *, ignore_errors: bool
) -> DataFrame:
    place = places(changes, names)
    columns = [F.col(f"c{place[name]}").alias(as_) for name, as_ in zip(names, "ifc", strict=True)]
    kind = changes.schema.fields[place[names[2]]].dataType
    if isinstance(kind, TimestampType):
        columns[2] = F.unix_micros(columns[2]).alias("c")
    rows = by_place(changes).select(*columns[:2], columns[2].cast(LongType()).alias("c"))

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return parsed_changes(batches, ignore_errors=ignore_errors)

    return rows.mapInArrow(run, _CHANGE)


def _typed(
    pairs: DataFrame, events: DataFrame, event_id: str, changes: DataFrame, subscription_id: str
) -> DataFrame:
    """Give the ids their types again."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = (
        ("event", events.schema.fields[places(events, [event_id])[event_id]]),
        (
            "subscription",
            changes.schema.fields[places(changes, [subscription_id])[subscription_id]],
        ),
    )
    schema = StructType([StructField(name, field.dataType) for name, field in kinds])
    arrow = to_arrow_schema(schema, timezone="UTC")

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return decoded(batches, arrow)

    return pairs.mapInArrow(run, schema)


# --- in the executors ----------------------------------------------------------------------------


def encoded(batches: Iterable[pa.RecordBatch], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Yield the id and the body of each event. `names`: of the attributes, behind the id."""
    import pyarrow as pa

    for batch in batches:
        ids = [pickle.dumps(value) for value in batch.column(0).to_pylist()]
        columns = [column.to_pylist() for column in batch.columns[1:]]
        rows = zip(*columns, strict=True) if columns else [()] * batch.num_rows
        bodies = [_body(dict(zip(names, row, strict=True))) for row in rows]
        arrays = [pa.array(each, pa.binary()) for each in (ids, bodies)]
        yield pa.RecordBatch.from_arrays(arrays, ["event", "body"])


def _body(values: Mapping[str, Any]) -> bytes:
    attributes = {name: value for name, value in values.items() if value is not None}
    topics = attributes.get(TOPIC)
    if not isinstance(topics, list):
        return encode_publication(Publication("", 1, 0, attributes))
    del attributes[TOPIC]
    named = tuple(topic for topic in topics if topic is not None)
    return encode_publication(Publication("", 1, 0, attributes, named))


def parsed_changes(
    batches: Iterable[pa.RecordBatch], *, ignore_errors: bool
) -> Iterator[pa.RecordBatch]:
    """Yield what changes a table: the id as a key and encoded, the packed filter or null for the
    end, and the order. Raises `LocalError` for a filter that cannot be read, unless errors are
    ignored."""
    import pyarrow as pa

    for batch in batches:
        ids, texts, changed = (column.to_pylist() for column in batch.columns)
        packed = [_packed(*each, ignore_errors) for each in zip(ids, texts, strict=True)]
        arrays = [
            pa.array(list(map(repr, ids)), pa.string()),
            pa.array(list(map(pickle.dumps, ids)), pa.binary()),
            pa.array(packed, pa.binary()),
            pa.array([each or 0 for each in changed], pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(arrays, ["key", "subscription", "packed", "changed"])


def _packed(id: object, text: str | None, ignore_errors: bool) -> bytes | None:
    if text is None:
        return None
    packed, _, error = parsed_text(text)
    if error is None:
        return packed
    if ignore_errors:
        return None
    raise LocalError(f"subscription {id!r}: {error}")


def decoded(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield pairs with ids of their own types."""
    import pyarrow as pa

    for batch in batches:
        columns = [
            pa.array(list(map(pickle.loads, column.to_pylist())), field.type)
            for column, field in zip(batch.columns, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


def _step(shard: tuple[int], frames: Iterator[Any], state: GroupState) -> Iterator[Any]:
    """Apply the changes of a batch to a shard's table, and match its events. `frames`, and what it
    yields: of pandas."""
    import pandas as pd  # type: ignore[import-untyped]  # pandas has no types here

    events: list[tuple[bytes, bytes]] = []
    changes: list[tuple[int, str, bytes, bytes | None]] = []
    for frame in frames:
        is_event = frame["body"].notna()
        events += frame[is_event][["event", "body"]].itertuples(index=False, name=None)
        some = frame[~is_event][["changed", "key", "subscription", "packed"]]
        changes += some.itertuples(index=False, name=None)
    data = bytes(state.get[0]) if state.exists else b""
    if changes:
        data = changed_table(data, changes)
        state.update((data,)) if data else state.remove()
    for pairs in pairs_of(data, events):
        yield pd.DataFrame(pairs, columns=["event", "subscription"])


def changed_table(data: bytes, changes: Iterable[tuple[int, str, bytes, bytes | None]]) -> bytes:
    """Return a table with changes, in their order; b"" for an empty one."""
    table = _read(data)
    for _, key, id, packed in sorted(changes, key=lambda change: change[0]):
        if packed is None:
            table.pop(key, None)
        else:
            table[key] = Subscribed(bytes(id), bytes(packed))
    return _written(table) if table else b""


def pairs_of(
    data: bytes, events: Sequence[tuple[bytes, bytes]]
) -> Iterator[list[tuple[bytes, bytes]]]:
    """Yield the encoded ids of events and of the subscriptions of a table that match them."""
    if not data or not events:
        return
    index, ids = worker.loaded(Shared(xxhash.xxh3_128_hexdigest(data), Carried(data)))
    names = ids.to_pylist()
    for start in range(0, len(events), MATCHED):
        some = events[start : start + MATCHED]
        found = index.match_many([decode_publication(bytes(body)) for _, body in some])
        pairs = zip(some, found, strict=True)
        yield [(bytes(event), names[place]) for (event, _), keys in pairs for place in keys]


def _read(data: bytes) -> Table:
    import pyarrow as pa

    if not data:
        return {}
    rows = pa.ipc.open_stream(data).read_all().to_pylist()
    return {row["key"]: Subscribed(row["id"], row["packed"]) for row in rows}


def _written(table: Table) -> bytes:
    import pyarrow as pa

    keys = sorted(table)
    columns = {
        "key": pa.array(keys, pa.string()),
        "id": pa.array([table[key].id for key in keys], pa.binary()),
        "packed": pa.array([table[key].packed for key in keys], pa.binary()),
    }
    return stream_of(pa.table(columns))

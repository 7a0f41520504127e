"""A stream of events against a stream of changes of subscriptions, against the batch match."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reefcast.errors import LocalError
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.pipeline.matching import streaming
from reefcast.pipeline.matching.joins import match
from reefcast.pipeline.matching.streaming import match_stream

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FILTERS = ("n > 3", "n <= 3 AND s = 'a'", "s IN ('a', 'b')", "NOT (n = 2)", "topic = 't'", "TRUE")

changes = st.tuples(
    st.integers(0, 3), st.integers(0, 4), st.none() | st.sampled_from(FILTERS)
)  # order, subscription, filter
events = st.fixed_dictionaries(
    {},
    optional={
        "n": st.integers(0, 5),
        "s": st.sampled_from("abc"),
        "topic": st.lists(st.sampled_from("tu"), max_size=2),
    },
)


def packed(filters: list[tuple[int, int, str | None]]) -> list[tuple[int, str, bytes, Any]]:
    rows = {
        "i": pa.array([id for _, id, _ in filters], pa.int64()),
        "f": pa.array([text for *_, text in filters], pa.string()),
        "c": pa.array([order for order, *_ in filters], pa.int64()),
    }
    (batch,) = streaming.parsed_changes([pa.record_batch(rows)], ignore_errors=False)
    return [
        (row["changed"], row["key"], row["subscription"], row["packed"])
        for row in batch.to_pylist()
    ]


@given(st.lists(st.tuples(st.lists(changes, max_size=4), st.lists(events, max_size=4)), max_size=4))
@example([([(0, 0, "topic = 't'")], [{"topic": ["u", "t"]}, {"topic": ["u"]}, {}])])
@settings(max_examples=50)
def test_a_shard_finds_what_the_filters_of_its_table_match(
    batches: list[tuple[list[tuple[int, int, str | None]], list[dict[str, Any]]]],
) -> None:
    table: dict[int, str] = {}
    data = b""
    for some, found in batches:
        for _, id, text in sorted(some, key=lambda change: change[0]):
            table.pop(id, None)
            if text is not None:
                table[id] = text
        data = streaming.changed_table(data, packed(some)) if some else data
        assert bool(data) == bool(table), "an empty table is not kept"
        rows = pa.record_batch({"id": pa.array(range(len(found)), pa.int64())})
        names = ("n", "s", "topic")
        kinds = (pa.int64(), pa.string(), pa.list_(pa.string()))
        for name, kind in zip(names, kinds, strict=True):
            rows = rows.append_column(name, pa.array([each.get(name) for each in found], kind))
        (encoded,) = streaming.encoded([rows], names)
        bodies = [(row["event"], row["body"]) for row in encoded.to_pylist()]
        pairs = [pair for pairs in streaming.pairs_of(data, bodies) for pair in pairs]
        expected = [
            (at, id)
            for at, event in enumerate(found)
            for id, text in table.items()
            if parse_filter(text).matches(publication(event))
        ]
        assert sorted((pickle.loads(a), pickle.loads(b)) for a, b in pairs) == sorted(expected)


def publication(event: dict[str, Any]) -> Publication:
    attributes = {name: value for name, value in event.items() if name != "topic"}
    return Publication("p", 1, 0, attributes, tuple(event.get("topic", ())))


def test_a_filter_that_cannot_be_read_ends_the_query_or_its_subscription() -> None:
    row = pa.record_batch({"i": pa.array([7]), "f": pa.array(["n >"]), "c": pa.array([1])})
    with pytest.raises(LocalError, match="subscription 7: line 1, column 4"):
        list(streaming.parsed_changes([row], ignore_errors=False))
    (batch,) = streaming.parsed_changes([row], ignore_errors=True)
    assert batch["packed"].to_pylist() == [None]


# --- in Spark -------------------------------------------------------------------------------------

BATCHES: tuple[tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]], ...] = (
    (
        [("ann", "dest = 'SFO'", 1), ("bob", "delay > 30", 1)],
        [(1, "SFO", 2**60 + 1), (2, "LAX", 5)],
    ),
    (
        [("ann", None, 3), ("ann", "delay = 5", 2), ("eve", "TRUE", 1)],
        [(3, "SFO", None), (4, "X", 5)],
    ),
    ([("bob", "delay = 1152921504606846977", 1)], [(5, "LAX", 2**60 + 1), (6, "LAX", 2**60)]),
)


@pytest.mark.spark
@pytest.mark.long
def test_two_streams_find_what_the_batch_match_finds(spark: SparkSession, tmp_path: Path) -> None:
    """Each round has one batch; its query is a new one, which goes on from the checkpoint."""
    event_kind = "event BIGINT, dest STRING, delay BIGINT"
    change_kind = "who STRING, filter STRING, changed BIGINT"
    table: dict[str, str] = {}
    expected: list[tuple[Any, ...]] = []

    def put(rows: list[tuple[Any, ...]], kind: str, name: str) -> DataFrame:
        frame = spark.createDataFrame(rows, kind)
        frame.write.mode("append").parquet(str(tmp_path / name))
        return frame

    for changed, rows in BATCHES:
        events = put(rows, event_kind, "events")
        put(changed, change_kind, "changes")
        for who, text, _ in sorted(changed, key=lambda change: change[2]):
            table.pop(who, None)
            table |= {} if text is None else {who: text}
        subscriptions = spark.createDataFrame(
            list(table.items()), "subscription STRING, filter STRING"
        )
        expected += map(tuple, match(events, subscriptions).collect())
        pairs = match_stream(
            spark.readStream.schema(event_kind).parquet(str(tmp_path / "events")),
            spark.readStream.schema(change_kind).parquet(str(tmp_path / "changes")),
            subscription_id="who",
            shards=2,
        )
        assert pairs.dtypes == [("event", "bigint"), ("subscription", "string")]
        query = pairs.writeStream.format("parquet").option("path", str(tmp_path / "pairs"))
        query = query.option("checkpointLocation", str(tmp_path / "checkpoint"))
        assert query.trigger(availableNow=True).start().awaitTermination(120)
    found = spark.read.parquet(str(tmp_path / "pairs")).select("event", "subscription")
    assert sorted(map(tuple, found.collect())) == sorted(expected)
    assert expected

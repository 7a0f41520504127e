"""Matching in Spark gives the pairs that the filter language demands, and that Spark itself
finds."""

from __future__ import annotations

import math
import random
import re
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from four_flights import EVENTS
from four_flights import FILTERS as FIVE_FILTERS
from reefcast.errors import LocalError
from reefcast.model.filters import parse_filter
from reefcast.pipeline.matching import shared
from reefcast.pipeline.matching.joins import match, match_counts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

FILTERS = [*FIVE_FILTERS, (15, "delay > wind * 4")]
PAIRS = [(0, 10), (0, 11), (0, 15), (1, 11), (1, 13), (2, 11), (2, 13), (3, 12)]


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def subscriptions(spark: SparkSession, *texts: str) -> DataFrame:
    return spark.createDataFrame(list(enumerate(texts)), "subscription BIGINT, filter STRING")


@pytest.fixture
def events(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(EVENTS, "event BIGINT, dest STRING, delay BIGINT, wind DOUBLE")


@pytest.fixture
def filters(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame(FILTERS, "subscription BIGINT, filter STRING")


def test_pairs(events: DataFrame, filters: DataFrame) -> None:
    result = match(events, filters)
    assert result.dtypes == [("event", "bigint"), ("subscription", "bigint")]
    assert rows(result) == PAIRS


def test_counts(events: DataFrame, filters: DataFrame) -> None:
    counted = match_counts(events, filters)
    assert counted.dtypes == [("subscription", "bigint"), ("events", "bigint")]
    assert rows(counted) == [(10, 1), (11, 3), (12, 1), (13, 2), (14, 0), (15, 1)]
    counted = match_counts(events, filters, per="event")
    assert counted.dtypes == [("event", "bigint"), ("subscriptions", "bigint")]
    assert rows(counted) == [(0, 3), (1, 2), (2, 2), (3, 1)]


def test_nothing_in_nothing_out(events: DataFrame, filters: DataFrame) -> None:
    none = filters.where("subscription < 0")
    assert rows(match(events, none)) == []
    assert rows(match_counts(events, none)) == []
    assert rows(match_counts(events, none, per="event")) == [(0, 0), (1, 0), (2, 0), (3, 0)]
    assert rows(match(events.where("event < 0"), filters)) == []


def test_without_broadcasts(
    events: DataFrame, filters: DataFrame, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is the case of Spark Connect, which has no broadcasts."""
    monkeypatch.setattr(shared, "is_remote", lambda: True)
    assert rows(match(events, filters)) == PAIRS


# --- random filters over random rows --------------------------------------------------------------

SCHEMA = "event BIGINT, i BIGINT, I INT, x DOUBLE, s STRING, flag BOOLEAN"
VALUES: dict[str, tuple[Any, ...]] = {
    "i": (-(2**53) - 1, -7, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 1),
    "I": (-1000, -1, 0, 1, 2, 7),
    "x": (-1e300, -1.5, -0.0, 0.0, 0.5, 1.0, 2.0, 1e300, float("inf"), float("nan")),
    "s": ("", "a", "ab", "aB", "a_b", "é", "it's", "\uffff", "\U0001f600"),
    "flag": (True, False),
}


def literal(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.17e}" if math.isfinite(value) else "15e-1"
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else str(value).upper()


def predicate(rng: random.Random) -> str:
    name = rng.choice(list(VALUES))
    some = [literal(value) for value in rng.sample(VALUES[name], 2)]
    sign = rng.choice(("=", "<>", "<", "<=", ">", ">="))
    return rng.choice(
        (
            f"{name} {sign} {some[0]}",
            f"{some[0]} {sign} {name}",
            f"{name} BETWEEN {some[0]} AND {some[1]}",
            f"{name} {rng.choice(('', 'NOT'))} IN ({', '.join(some)})",
            f"{name} IS {rng.choice(('', 'NOT'))} NULL",
            f"s {rng.choice(('', 'NOT'))} LIKE '{rng.choice(('a%', '%b', 'a_', '%'))}'",
            f"I {sign} x",
            f"I + 1 {sign} x * 2e0",
            f"i {sign} I",
        )
    )


def condition(rng: random.Random, depth: int = 2) -> str:
    if not depth or rng.random() < 0.3:
        return predicate(rng)
    if rng.random() < 0.25:
        return f"NOT ({condition(rng, depth - 1)})"
    word = rng.choice((" AND ", " OR "))
    return word.join(f"({condition(rng, depth - 1)})" for _ in range(2))


def test_random_filters_mean_the_same_as_to_python_and_to_spark(spark: SparkSession) -> None:
    from pyspark.sql import functions as F

    rng = random.Random(10)
    names = list(VALUES)
    table = [
        (event, *(None if rng.random() < 0.15 else rng.choice(VALUES[name]) for name in names))
        for event in range(150)
    ]
    texts = [condition(rng) for _ in range(120)]
    frame = spark.createDataFrame(table, SCHEMA).repartition(3)
    found = rows(match(frame, subscriptions(spark, *texts)))
    assert found == [
        (event, number)
        for event, *values in table
        for number, text in enumerate(texts)
        if parse_filter(text).holds(
            {n: v for n, v in zip(names, values, strict=True) if v is not None}
        )
    ]
    assert len(found) > 1000
    holding = [F.when(F.expr(text), F.lit(number)) for number, text in enumerate(texts)]
    assert found == rows(frame.select("event", F.explode(F.array_compact(F.array(*holding)))))


# --- names, types, ids ----------------------------------------------------------------------------


def test_names_count_as_they_are_written(spark: SparkSession) -> None:
    schema = 'event BIGINT, dest BIGINT, Dest BIGINT, `a.b` BIGINT, `odd "``name` BIGINT'
    frame = spark.createDataFrame([(0, 1, 2, 3, 4), (1, 2, 1, 4, 3)], schema)
    texts = ["dest = 1", "Dest = 1", '"a.b" = 3', '"odd ""`name" = 3', "DEST IS NULL", "event = 1"]
    spark.conf.set("spark.sql.caseSensitive", "false")  # Spark's own default
    try:
        found = rows(match(frame, subscriptions(spark, *texts)))
    finally:
        spark.conf.set("spark.sql.caseSensitive", "true")
    assert found == [(0, 0), (0, 2), (0, 4), (1, 1), (1, 3), (1, 4), (1, 5)]


def test_two_columns_of_one_name_matter_only_if_a_filter_names_them(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(0, 1, 2, 3)], "event BIGINT, a BIGINT, b BIGINT, c BIGINT")
    frame = frame.toDF("event", "a", "a", "c")
    assert rows(match(frame, subscriptions(spark, "c = 3"))) == [(0, 0)]
    with pytest.raises(LocalError, match="two columns are named 'a'"):
        match(frame, subscriptions(spark, "a = 1"))


def test_every_type_of_values(spark: SparkSession) -> None:
    schema = (
        "event BIGINT, b BYTE, h SHORT, i INT, f FLOAT, d DECIMAL(20, 2), t ARRAY<STRING>, n VOID"
    )
    row = (0, 1, 2, 3, 0.1, Decimal("1.10"), ["x", "a/b"], None)
    frame = spark.createDataFrame([row], schema).withColumnRenamed("t", "topic")
    texts = [
        *("b = 1", "h = 2", "i = 3", "f = 0.1", "f = 0.10000000149011612", "d = 1.1", "n IS NULL"),
        *("topic = 'a/b'", "topic MATCHES 'a/#'", "topic = 'y'", "topic <> 'x'"),
    ]
    found = rows(match(frame, subscriptions(spark, *texts)))
    assert [number for _, number in found] == [0, 1, 2, 4, 5, 6, 7, 8, 10]


@pytest.mark.parametrize(
    ("value", "kind", "advice"),
    [
        (date(2013, 1, 1), "DATE", "unix_date"),
        (datetime(2013, 1, 1), "TIMESTAMP", "unix_micros"),
        (b"x", "BINARY", "cast it to one of these"),
        (["x"], "ARRAY<STRING>", "only 'topic' may be an array"),
        ((1,), "STRUCT<a: INT>", "columns of its fields"),
    ],
)
def test_columns_of_other_types(spark: SparkSession, value: object, kind: str, advice: str) -> None:
    frame = spark.createDataFrame([(0, value, 1)], f"event BIGINT, when {kind}, a INT")
    assert rows(match(frame, subscriptions(spark, "a = 1"))) == [(0, 0)]
    with pytest.raises(LocalError, match=f"column 'when' is of type .*{advice}"):
        match(frame, subscriptions(spark, "a = 1", '"when" IS NULL'))


def test_ids_of_any_type_and_column_names(spark: SparkSession) -> None:
    when = datetime(2013, 1, 1, 12, 30)
    frame = spark.createDataFrame([(when, 1), (None, 1)], "at TIMESTAMP, a INT")
    wanted = spark.createDataFrame(
        [(("IBM", 7), "a = 1"), (("SAP", 8), "a = 2")],
        "who STRUCT<name: STRING, n: INT>, text STRING",
    )
    result = match(frame, wanted, event_id="at", subscription_id="who", filter_column="text")
    assert {tuple(row) for row in result.collect()} == {(when, ("IBM", 7)), (None, ("IBM", 7))}
    counted = match_counts(
        frame, wanted, event_id="at", subscription_id="who", filter_column="text"
    )
    assert rows(counted) == [(("IBM", 7), 2), (("SAP", 8), 0)]


def test_examples_of_the_page(spark: SparkSession) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "match-in-spark.md").read_text(
        encoding="utf-8"
    )
    examples = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(examples) == 2
    for source in examples:
        exec(compile(source, "match-in-spark.md", "exec"), {"spark": spark})


# --- what is wrong --------------------------------------------------------------------------------


def test_filters_that_cannot_be_read_are_told_with_their_ids(
    spark: SparkSession, events: DataFrame
) -> None:
    texts = ["dest = 'SFO'", "dest = = 'SFO'", None, *["dest LIKE 5"] * 4]
    wrong = spark.createDataFrame(
        [(f"s{i}", text) for i, text in enumerate(texts)], "subscription STRING, filter STRING"
    ).coalesce(1)
    with pytest.raises(LocalError) as caught:
        match(events, wrong)
    told = str(caught.value)
    assert told.count("subscription 's") == 3
    assert "and 3 more" in told
    assert "'s0'" not in told
    with pytest.raises(LocalError, match=r"subscription 's1': line 1, column 8: expected"):
        match(events, wrong.where("subscription = 's1'"))
    with pytest.raises(LocalError, match=r"subscription 's2': it has no filter: NULL"):
        match_counts(events, wrong.where("subscription = 's2'"))


def test_columns_that_are_not_there(events: DataFrame, filters: DataFrame) -> None:
    with pytest.raises(LocalError, match=r"no column 'id'; there are 'event', 'dest'"):
        match(events, filters, event_id="id")
    with pytest.raises(LocalError, match=r"no column 'who'; there are 'subscription', 'filter'"):
        match(events, filters, subscription_id="who")
    with pytest.raises(LocalError, match="no column 'text'"):
        match(events, filters, filter_column="text")
    with pytest.raises(LocalError, match="'subscription' holds no texts: it is BIGINT"):
        match(events, filters, filter_column="subscription")


# --- streams --------------------------------------------------------------------------------------


def test_events_may_be_a_stream(
    spark: SparkSession, events: DataFrame, filters: DataFrame, tmp_path: Path
) -> None:
    events.write.parquet(str(tmp_path / "events"))
    stream = spark.readStream.schema(events.schema).parquet(str(tmp_path / "events"))
    query = (
        match(stream, filters)
        .writeStream.format("memory")
        .queryName("matched")
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    assert rows(spark.table("matched")) == PAIRS

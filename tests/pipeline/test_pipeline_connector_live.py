"""The connector against real brokers and a real storage."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from click.testing import CliRunner
from live_history import Network, live_history

import reefcast
import reefcast.spark
from reefcast.cli.main import group
from reefcast.client.encoding import encode_event
from reefcast.pipeline.connector.options import Broker
from reefcast.pipeline.connector.publishing import Publisher
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.greeting import LOCAL, Anonymous, Greeting

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameReader, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

pytestmark = pytest.mark.spark
GUIDE = Path(__file__).parents[2] / "docs" / "reference" / "spark-connector.md"
SCHEMA = "symbol STRING, price DOUBLE, size BIGINT, firm BOOLEAN"
QUOTES: tuple[dict[str, object], ...] = (
    {"symbol": "IBM", "price": 99.5, "size": 10, "firm": True},
    {"symbol": "IBM", "price": 120.0, "size": 5, "firm": False},
    {"symbol": "SAP", "price": 130, "size": 7.0},
    {"symbol": 7, "price": "n/a", "size": 7.5, "firm": 1},
    {"symbol": "it's 5%"},
)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with live_history(tmp_path_factory.mktemp("storage")) as network:
        network.publish("quotes", *QUOTES, payload=b"raw")
        yield network


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    reefcast.spark.register(spark)


@pytest.fixture(scope="module")
def all_quotes(spark: SparkSession, network: Network, registered: None) -> DataFrame:
    """Return all quotes in a data frame of Spark alone."""
    frame = quotes(spark, network)
    return spark.createDataFrame(frame.collect(), frame.schema)


def reader(spark: SparkSession, network: Network, topic: str, **options: Any) -> DataFrameReader:
    asked = spark.read.format("reefcast").option("url", network.url).option("subscribe", topic)
    return asked.options(**options)


def quotes(spark: SparkSession, network: Network, **options: Any) -> DataFrame:
    return reader(spark, network, "quotes", schema=SCHEMA, **options).load()


# --- grants ---------------------------------------------------------------------------------------


def test_spark_sees_and_writes_what_its_user_may(
    spark: SparkSession, network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    user = Principal("anna", frozenset({UserRole.CLIENT}), "test", ("ibm",))

    def prove(self: Anonymous, greeting: Greeting) -> Principal:
        return user if greeting.hello.name.startswith("spark") else LOCAL

    monkeypatch.setattr(Anonymous, "prove", prove)
    rows = quotes(spark, network, minPartitions=2).orderBy("seq").collect()
    assert [(r.symbol, r.price) for r in rows] == [("IBM", 99.5), ("IBM", 120.0)]
    assert quotes(spark, network).where("symbol <> 'IBM'").count() == 0
    written = spark.createDataFrame([("IBM", 5.0), ("IBM", 500.0)], "symbol STRING, price DOUBLE")
    with pytest.raises(Exception, match="lies outside what user 'anna' may publish"):
        written.write.format("reefcast").options(url=network.url, topic="granted").mode(
            "append"
        ).save()
    assert {event["price"] for event in network.events("granted")} <= {5.0}


# --- batches --------------------------------------------------------------------------------------


def test_rows_have_what_every_event_has_and_the_attributes_of_the_schema(
    spark: SparkSession, network: Network
) -> None:
    frame = quotes(spark, network, minPartitions=3)
    assert frame.schema.simpleString() == (
        "struct<timestamp:timestamp,publisher:string,seq:bigint,topics:array<string>,"
        "payload:binary,symbol:string,price:double,size:bigint,firm:boolean>"
    )
    rows = frame.orderBy("seq").collect()
    assert [(r.symbol, r.price, r["size"], r.firm) for r in rows] == [
        ("IBM", 99.5, 10, True),
        ("IBM", 120.0, 5, False),
        ("SAP", 130.0, 7, None),
        (None, None, None, None),
        ("it's 5%", None, None, None),
    ]
    first, event = rows[0], network.events("quotes")[0]
    assert (first.publisher, first.seq, first.topics) == (*event.id, ["quotes"])
    assert bytes(first.payload) == b"raw"
    assert first.timestamp.replace(tzinfo=UTC) == event.time


def test_without_a_schema_the_attributes_are_json(spark: SparkSession, network: Network) -> None:
    frame = reader(spark, network, "quotes").load().orderBy("seq")
    parsed = frame.selectExpr("get_json_object(attributes, '$.price') price").collect()
    assert [row.price for row in parsed] == ["99.5", "120.0", "130", "n/a", None]


def test_a_view_of_sql(spark: SparkSession, network: Network) -> None:
    spark.sql(
        f"CREATE TEMPORARY VIEW quotes USING reefcast OPTIONS (url '{network.url}', "
        f"subscribe 'quotes', schema '{SCHEMA}')"
    )
    assert spark.sql("SELECT price FROM quotes WHERE size = 5").collect() == [(120.0,)]
    spark.sql("DROP VIEW quotes")


def test_a_schema_of_sparks_own_has_nothing_else(spark: SparkSession, network: Network) -> None:
    frame = reader(spark, network, "quotes").schema("seq BIGINT, size INT").load()
    assert [tuple(row) for row in frame.orderBy("seq").collect()] == [
        (1, 10),
        (2, 5),
        (3, 7),
        (4, None),
        (5, None),
    ]


@pytest.mark.parametrize(
    "where",
    [
        "price > 99.5 AND symbol = 'IBM'",
        "symbol IN ('IBM', 'SAP', 'X') AND price <> 120",
        "symbol LIKE '%5\\%' OR size <=> 7",
        "symbol LIKE '%s%' AND symbol NOT LIKE 'x%' AND size IS NULL",
        "price IS NULL AND firm IS NULL",
        "NOT firm AND topics[0] = 'quotes'",
        "timestamp >= timestamp'2020-01-01 00:00:00' AND size BETWEEN 6 AND 10",
    ],
)
def test_a_condition_chooses_the_same_rows_wherever_it_is_applied(
    spark: SparkSession, network: Network, all_quotes: DataFrame, where: str
) -> None:
    found = quotes(spark, network, minPartitions=1, pushdown=True).where(where).collect()
    assert sorted(found) == sorted(all_quotes.where(where).collect())


def test_a_loaded_table_may_be_used_again_and_twice_in_a_query(
    spark: SparkSession, network: Network, all_quotes: DataFrame
) -> None:
    """Spark keeps what a reader planned with the table, also what conditions left of it."""
    frame = quotes(spark, network)
    for where in ("price > 100", "TRUE", "price < 100 OR size = 7"):
        assert sorted(frame.where(where).collect()) == sorted(all_quotes.where(where).collect())
    both = frame.where("price > 100").union(frame.where("price < 100")).union(frame)
    assert both.count() == 2 + 1 + 5


def test_explain_shows_what_is_pushed_and_what_is_not(
    spark: SparkSession, network: Network, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = quotes(spark, network, pushdown=True).where(
        "price > 100 AND symbol LIKE 'I%' AND firm IS NULL AND size IN (1, 2) "
        "AND timestamp >= timestamp'2020-01-01 00:00:00' AND length(symbol) = 3 AND publisher = 'x'"
    )
    asked.explain("formatted")
    plan = capsys.readouterr().out
    pushed = next(line for line in plan.splitlines() if line.startswith("PushedFilters"))
    for text in (
        *("GreaterThan(price,100.0)", "StringStartsWith(symbol,I)", "IsNull(firm)"),
        *("In(size, [1,2])", "GreaterThanOrEqual(timestamp,"),
    ):
        assert text in pushed
    assert "publisher" not in pushed
    left = next(line for line in plan.splitlines() if line.startswith("Condition"))
    assert "length(symbol" in left
    assert "(publisher" in left
    assert "price" not in left


def test_a_stretch_of_time(spark: SparkSession, network: Network) -> None:
    times = [event.time for event in network.events("quotes")]
    middle = quotes(spark, network, since=times[1].isoformat(), until=times[3].isoformat())
    assert [row.seq for row in middle.orderBy("seq").collect()] == [2, 3]
    nothing = quotes(spark, network, startingTimestamp="0", endingTimestamp="1000")
    assert nothing.count() == 0


def test_many_partitions_read_at_the_same_time(spark: SparkSession, network: Network) -> None:
    network.publish("numbers", *({"n": n} for n in range(5000)))
    frame = reader(spark, network, "numbers", schema="n BIGINT", minPartitions=5).load()
    assert frame.rdd.getNumPartitions() == 5
    assert sorted(row.n for row in frame.collect()) == list(range(5000))


def test_no_more_tasks_than_there_is_to_read(spark: SparkSession, network: Network) -> None:
    assert quotes(spark, network, minPartitions=1000).rdd.getNumPartitions() == 1
    network.publish("some", *({"n": n} for n in range(2500)))
    frame = reader(spark, network, "some", schema="n BIGINT", minPartitions=2501).load()
    assert frame.rdd.getNumPartitions() == 2
    assert sorted(row.n for row in frame.collect()) == list(range(2500))


# --- writing --------------------------------------------------------------------------------------


def test_rows_become_events(spark: SparkSession, network: Network) -> None:
    time = datetime(2026, 1, 2, 3, 4, 5, 678, tzinfo=UTC)
    rows = [("a", 1.5, 3, True, None, ["written", "too"], bytearray(b"p"), time)]
    columns = "s STRING, d DOUBLE, i INT, b BOOLEAN, missing STRING"
    frame = spark.createDataFrame(
        rows, f"{columns}, topics ARRAY<STRING>, payload BINARY, timestamp TIMESTAMP"
    )
    frame.write.format("reefcast").mode("append").option("url", network.url).save()
    (event,) = network.wait("written", 1)
    assert dict(event) == {"s": "a", "d": 1.5, "i": 3, "b": True}
    assert (event.topics, event.payload, event.time) == (("written", "too"), b"p", time)


def test_a_topic_for_all_rows_and_a_time_for_each(spark: SparkSession, network: Network) -> None:
    before = datetime.now(UTC)
    frame = spark.range(3000, numPartitions=3).withColumnRenamed("id", "n")
    writer = frame.write.format("reefcast").mode("append").option("url", network.url)
    writer.option("topic", "range").save()
    found = network.wait("range", 3000)
    assert sorted(event["n"] for event in found) == list(range(3000))
    assert {event.seq for event in found} == set(range(1, 1001))
    assert len({event.publisher for event in found}) == 3
    assert before - timedelta(seconds=1) < found[0].time <= datetime.now(UTC)


class Customer(msgspec.Struct):
    name: str
    since: date


class Order(msgspec.Struct):
    placed: datetime
    price: Decimal
    customer: Customer


def test_columns_are_what_clients_send_and_nest(spark: SparkSession, network: Network) -> None:
    """This is what the page says; conditions on columns with dots work, whether or not they are
    pushed."""
    order = Order(datetime(2026, 1, 2, 3, 4, 5, 6, UTC), Decimal("9.95"), Customer("A", date.max))
    from pyspark.sql import functions as F

    rows = [(order.placed, order.price, (order.customer.name, order.customer.since))]
    columns = "placed TIMESTAMP, price DECIMAL(9, 2), customer STRUCT<name: STRING, since: DATE>"
    spark.createDataFrame(rows, columns).select(
        F.unix_micros("placed").alias("placed"),
        F.col("price").cast("double").alias("price"),
        F.col("customer.name").alias("customer.name"),
        F.col("customer.since").cast("string").alias("customer.since"),
    ).write.format("reefcast").mode("append").options(url=network.url, topic="orders").save()
    (event,) = network.wait("orders", 1)
    assert event.as_(Order) == order
    schema = "placed BIGINT, `customer.name` STRING"
    frame = reader(spark, network, "orders", schema=schema, filter="customer.name > ''").load()
    (row,) = frame.where("`customer.name` = 'A' AND placed > 0").collect()
    assert (row["customer.name"], row["placed"]) == ("A", event["placed"])
    assert frame.where("`customer.name` <> 'A'").count() == 0


# --- streams --------------------------------------------------------------------------------------


def test_a_stream_has_each_event_once_also_those_that_come_late(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    rows: list[tuple[int, int]] = []
    network.publish("ticks", *({"n": n} for n in range(3000)))
    stream = spark.readStream.format("reefcast").option("url", network.url)
    stream = stream.option("filter", "topic = 'ticks' AND n <> 5").option("schema", "n BIGINT")
    stream = stream.options(startingOffsets="earliest", settleSeconds=0.2, lateSeconds=3)

    def keep(frame: DataFrame, batch: int) -> None:
        rows.extend((row.n, frame.rdd.getNumPartitions()) for row in frame.collect())

    query = stream.load().writeStream.foreachBatch(keep)
    running = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        until(running, lambda: len(rows) >= 2999)
        assert {partitions for _, partitions in rows} & {2, 3, 4}
        network.publish("ticks", *({"n": n} for n in range(3000, 3100)))
        until(running, lambda: len(rows) >= 3099)
        publish_late(network.url, "ticks", {"n": 3100}, 1.5)
        until(running, lambda: len(rows) >= 3100)
    finally:
        running.stop()
    assert sorted(n for n, _ in rows) == [n for n in range(3101) if n != 5]


def test_a_query_that_ends_when_all_is_read_goes_on_where_it_was(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    stream = spark.readStream.format("reefcast").option("url", network.url)
    stream = stream.options(subscribe="daily", startingOffsets="earliest", schema="n BIGINT")
    stream = stream.options(settleSeconds=0.1, maxOffsetsPerTrigger=40)
    out, checkpoint = str(tmp_path / "out"), str(tmp_path / "checkpoint")
    for day in (0, 1):
        network.publish("daily", *({"n": 100 * day + n} for n in range(100)))
        time.sleep(0.3)
        query = stream.load().select("n").writeStream.format("parquet").option("path", out)
        query = query.option("checkpointLocation", checkpoint).trigger(availableNow=True)
        running = query.start()
        assert running.awaitTermination(60)
        assert [row["numInputRows"] for row in running.recentProgress][:3] == [40, 40, 20]
        found = sorted(row.n for row in spark.read.parquet(out).collect())
        assert found == list(range(100 * (day + 1)))


def test_topics_are_read_from_and_to_times_of_their_own(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    """Two queries at the same time, each with its own checkpoint, and a batch."""
    for n in range(3):
        network.publish("old", {"n": n})
        network.publish("new", {"n": 10 + n})
    times = {topic: [e.time for e in network.events(topic)] for topic in ("old", "new")}

    def at(old: int, new: int) -> str:
        chosen = {"old": times["old"][old], "new": times["new"][new]}
        return json.dumps({topic: time.isoformat() for topic, time in chosen.items()})

    asked = reader(spark, network, "old,new", schema="n BIGINT").options(
        startingOffsetsByTimestamp=at(1, 2), endingOffsets='{"old": -1, "new": "latest"}'
    )
    assert sorted(row.n for row in asked.load().collect()) == [1, 2, 12]
    asked.option("endingOffsetsByTimestamp", at(2, 2)).option("endingOffsets", "")
    assert sorted(row.n for row in asked.load().collect()) == [1]

    rows: dict[str, list[int]] = {"words": [], "times": []}
    starts = {
        "words": ("startingOffsets", '{"old": "earliest", "new": -1}'),
        "times": ("startingOffsetsByTimestamp", at(2, 1)),
    }

    def run(*after: int) -> None:
        queries = [start(name) for name in rows]
        for query in queries:
            assert query.awaitTermination(60)
            (source,) = query.lastProgress["sources"]
            assert json.loads(source["latestOffset"])["behind_s"] < 60
        assert sorted(rows["words"]) == [0, 1, 2, *after]
        assert sorted(rows["times"]) == sorted([2, 11, 12, *after])

    def start(name: str) -> StreamingQuery:
        stream = spark.readStream.format("reefcast").options(url=network.url, subscribe="old,new")
        stream = stream.option(*starts[name]).options(schema="n BIGINT", settleSeconds=0.1)
        stream = stream.option("maxOffsetsPerTrigger", 2)

        def keep(frame: DataFrame, batch: int) -> None:
            rows[name] += [row.n for row in frame.collect()]

        query = stream.load().writeStream.foreachBatch(keep).trigger(availableNow=True)
        return query.option("checkpointLocation", str(tmp_path / name)).start()

    time.sleep(0.2)
    run()
    network.publish("new", {"n": 20})
    network.publish("old", {"n": 21})
    time.sleep(0.2)
    run(20, 21)


def test_a_batch_waits_for_enough_events(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    batches: list[list[int]] = []
    stream = spark.readStream.format("reefcast").options(url=network.url, subscribe="enough")
    stream = stream.options(schema="n BIGINT", startingOffsets="earliest", settleSeconds=0)
    stream = stream.options(minOffsetsPerTrigger=3, maxTriggerDelay="1h")

    def keep(frame: DataFrame, batch: int) -> None:
        batches.append([row.n for row in frame.collect()])

    network.publish("enough", {"n": 0})
    query = stream.load().writeStream.foreachBatch(keep)
    running = query.option("checkpointLocation", str(tmp_path)).start()
    try:
        until(running, lambda: batches == [[0]])
        for n in (1, 2, 3):
            network.publish("enough", {"n": n})
        until(running, lambda: len(batches) > 1)
    finally:
        running.stop()
    assert sorted(batches[1]) == [1, 2, 3]


def until(query: StreamingQuery, condition: Callable[[], bool]) -> None:
    give_up_at_s = time.monotonic() + 60
    while not condition() and time.monotonic() < give_up_at_s:
        assert query.isActive, query.exception()
        time.sleep(0.05)
    assert condition()


def publish_late(url: str, topic: str, event: dict[str, object], late_s: float) -> None:
    """Publish an event as a publisher that had no connection for a while."""
    time_us = time.time_ns() // 1000 - round(late_s * 1e6)
    publisher = Publisher(Broker(url, {}), Identity("late"))
    publisher.send([encode_event(("late", 1), time_us, event, (topic,), b"")])
    publisher.flush()
    publisher.close()


# --- the guide ------------------------------------------------------------------------------------


def test_the_examples_of_spark_connector_md(
    spark: SparkSession,
    network: Network,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    network.publish("quotes", {"symbol": "IBM", "price": 250.25})
    before = network.count("alerts")
    shown = []
    for source in re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL):
        text = source.replace("reefcast://127.0.0.1:7301", network.url)
        text = text.replace("checkpoints/", f"{tmp_path}/")
        exec(compile(text, GUIDE.name, "exec"), {"__name__": "example"})
        shown.append(capsys.readouterr().out)
    table, told, billed = shown
    assert re.search(r"\|\s*IBM\|250\.25\|2\d\d\d-", table)
    count = int(told.removesuffix(" events were read\n"))
    assert len(network.wait("alerts", before + count)) >= 4
    assert all(event["about"] > 100 for event in network.events("alerts"))
    assert billed == "[(1, 250.0), (3, 900.0)]\n"


# --- what goes wrong ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"subscribe": "quotes", "filtr": "n = 1"}, "no option 'filtr' .* did you mean filter"),
        ({"filter": "n = 1"}, "does not say its topics"),
        ({"filter": "topic = 'x' AND"}, "line 1, column 16: expected"),
        (
            {"subscribe": "quotes", "url": "reefcast://127.0.0.1:1"},
            "no connection to .*127.0.0.1:1",
        ),
        ({"subscribe": "quotes", "schema": "seq BIGINT"}, "'seq', a column that every event has"),
        ({"subscribe": "quotes", "schema": "n BINARY"}, "'n' is binary; an attribute is"),
    ],
)
def test_mistakes_in_reading_are_told_in_a_sentence(
    spark: SparkSession, network: Network, options: dict[str, str], sentence: str
) -> None:
    given = {"url": network.url, **options}
    with pytest.raises(Exception, match=sentence):
        spark.read.format("reefcast").options(**given).load().count()


def test_mistakes_in_writing_are_told_in_a_sentence(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    map = spark.sql("SELECT map(1, 2) AS price")
    writer = map.write.format("reefcast").option("url", network.url)
    with pytest.raises(Exception, match="'price'"):
        writer.mode("append").save()
    writer = spark.range(1).write.format("reefcast").option("url", network.url)
    with pytest.raises(Exception, match="what was published cannot be overwritten"):
        writer.mode("overwrite").save()
    with pytest.raises(Exception, match="no option 'topics' for writing"):
        writer.option("topics", "a").mode("append").save()


def test_what_a_query_needs_is_told_in_a_sentence(
    spark: SparkSession, network: Network, tmp_path: Path
) -> None:
    rate = spark.readStream.format("rate").load()
    spark.conf.set("spark.sql.streaming.checkpointLocation", str(tmp_path))
    try:
        query = rate.selectExpr("value").writeStream.format("reefcast")
        running = query.option("url", network.url).start()
        with pytest.raises(Exception, match="writing a stream needs to know its checkpoint"):
            running.awaitTermination(60)
    finally:
        spark.conf.unset("spark.sql.streaming.checkpointLocation")
    alone = {"url": "reefcast://127.0.0.1:1", "subscribe": "quotes", "schema": "n BIGINT"}
    query = spark.readStream.format("reefcast").options(**alone).load().writeStream.format("noop")
    query = query.option("checkpointLocation", str(tmp_path / "other"))
    while "failed to connect back" in (said := failure_of(query)):
        pass  # Spark gives its own Python process 10 s to start, which may be too short here
    assert re.search(r"no connection to .*127\.0\.0\.1:1", said)


def failure_of(query: DataStreamWriter) -> str:
    with pytest.raises(Exception, match="STREAM_FAILED") as failed:
        query.start().awaitTermination(600)
    return str(failed.value)


def test_a_schema_that_is_found_and_what_it_has_no_column_for(
    spark: SparkSession, network: Network
) -> None:
    network.publish("found", {"n": 1, "customer.name": "Ana"}, {"n": 2}, {"n": 3})
    words = ["dataset", "schema", network.url, "topic = 'found'"]
    printed = CliRunner().invoke(group, words)
    assert printed.stdout == "n BIGINT, `customer.name` STRING\n", printed.output
    as_json = CliRunner().invoke(group, [*words, "--json"])
    assert json.loads(as_json.stdout) == {"n": "BIGINT", "customer.name": "STRING"}
    source = spark.read.format("reefcast").options(url=network.url, subscribe="found")
    frame = source.option("inferSchema", "true").load()
    network.publish("found", {"n": "four", "more": 0.5})
    rows = frame.orderBy("timestamp").select("n", "`customer.name`", "rest").collect()
    assert [*map(tuple, rows)] == [
        (1, "Ana", {}),
        (2, None, {}),
        (3, None, {}),
        (None, None, {"n": "four", "more": "0.5"}),
    ]

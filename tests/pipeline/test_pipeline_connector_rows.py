"""Events as rows, rows as events, and the options, without Spark and mostly without brokers."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

import reefcast
import reefcast.spark
from live_networks import make_network, path_network, running, until, url_of
from reefcast.client import Event
from reefcast.errors import ConfigurationError, FilterSyntaxError, InvalidValueError
from reefcast.model import wire
from reefcast.model.publication import Publication, Value
from reefcast.network.sections import SessionsSection
from reefcast.pipeline.connector.checkpoint import Batch, last_batch
from reefcast.pipeline.connector.columns import check_columns, schema_of
from reefcast.pipeline.connector.options import Broker, read_options, stream_options, write_options
from reefcast.pipeline.connector.publishing import (
    Part,
    check_rows,
    frames,
    in_order,
    part_of,
    publish,
)
from reefcast.pipeline.connector.record_batches import Columns
from reefcast.protocol.client_ids import Identity, identity_of
from reefcast.timing import now_us
from secured import PASSWORD, secured
from tls_files import Office

URL = "reefcast://127.0.0.1:7301"


def event(seq: int, attributes: dict[str, Value], topics: tuple[str, ...] = ("fx",)) -> Event:
    return Event(wire.encode_publication(Publication("p", seq, 10**15, attributes, topics, b"x")))


def schema(**kinds: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in kinds.items()])


def test_importing_the_functions_for_spark_imports_no_spark() -> None:
    names = "('pyspark', 'numpy', 'reefcast.client')"
    code = (
        f"import sys, reefcast.spark; print([name for name in {names} if name in sys.modules]); "
        "print(reefcast.spark.ReefcastSource.__name__, reefcast.spark.match.__name__)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\nReefcastSource match\n"
    name = "nothing"
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        getattr(reefcast.spark, name)


# --- events as rows -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "values", "shown"),
    [
        (
            LongType(),
            [1, 7.0, 7.5, True, "1", math.nan, 2.0**63, -(2.0**63)],
            [1, 7, *[None] * 5, -(2**63)],
        ),
        (IntegerType(), [1, 2**31, -(2**31), 2**31 - 1, 7.0], [1, None, -(2**31), 2**31 - 1, 7]),
        (
            DoubleType(),
            [1, 2.5, True, "1", 2**53 + 1, math.inf],
            [1.0, 2.5, None, None, 2.0**53, math.inf],
        ),
        (StringType(), ["a", 1, True, 1.5], ["a", None, None, None]),
        (BooleanType(), [True, 1, 0.0, "true", False], [True, None, None, None, False]),
    ],
)
def test_what_does_not_fit_is_null(kind: DataType, values: list[Any], shown: list[Any]) -> None:
    bodies = [event(1, {"x": value}).body for value in (*values, "no", 1)]
    (batch,) = Columns(schema(x=kind)).batches([bodies])
    assert batch.column(0).to_pylist()[: len(values)] == shown


def test_a_row_of_arrow() -> None:
    kinds = schema(
        timestamp=TimestampType(),
        publisher=StringType(),
        seq=LongType(),
        topics=ArrayType(StringType()),
        payload=BinaryType(),
        attributes=StringType(),
        price=DoubleType(),
    )
    (batch,) = Columns(kinds).batches([[event(3, {"price": 1, "è": math.nan}).body]])
    assert batch.to_pylist() == [
        {
            "timestamp": datetime(2001, 9, 9, 1, 46, 40, tzinfo=UTC),
            "publisher": "p",
            "seq": 3,
            "topics": ["fx"],
            "payload": b"x",
            "attributes": '{"price": 1, "è": NaN}',
            "price": 1.0,
        }
    ]


@pytest.mark.parametrize(
    ("kinds", "sentence"),
    [
        (schema(price=BinaryType()), "'price' is binary; an attribute is one of"),
        (
            schema(a=StructType([StructField("b", FloatType())])),
            r"'a\.b' is float; .* or, for what no other column shows, map<string,string>",
        ),
        (
            StructType(
                [
                    StructField("a", StructType([StructField("b", LongType())])),
                    StructField("a.b", LongType()),
                ]
            ),
            r"two columns are for the attribute 'a\.b'",
        ),
        (
            schema(
                one=MapType(StringType(), StringType()), two=MapType(StringType(), StringType())
            ),
            "the columns one and two are all for what no other column shows",
        ),
        (schema(price=FloatType()), "'price' is float; an attribute is one of long, integer"),
        (schema(seq=IntegerType()), "'seq' is int, but it is that of every event, bigint"),
        (
            StructType([StructField("seq", LongType()), StructField("seq", LongType())]),
            "names 'seq', a column that every event has",
        ),
    ],
)
def test_columns_that_no_event_could_fill(kinds: StructType, sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        check_columns(kinds)


def test_the_schema_without_one() -> None:
    assert schema_of("").endswith("payload binary, attributes STRING")


# --- rows as events -------------------------------------------------------------------------------

ROWS = pa.record_batch(
    {
        "n": pa.array([3, 1, 2]),
        "f": pa.array([0.5, None, math.inf]),
        "topic": pa.array(["a", None, "b"]),
        "payload": pa.array([b"x", None, b""]),
    }
)


def published(batches: list[Any], topic: str = "") -> list[Publication]:
    found = frames(batches, part_of("q", 2, 5, 1000), topic)
    return [
        wire.CLIENT_CODEC.decode_publish(frame[wire.HEAD_BYTES :]).publication
        for some in found
        for frame in some
    ]


def test_rows_are_numbered_and_timed_through_all_batches() -> None:
    rows = published([ROWS, ROWS])
    assert [row.publisher for row in rows] == [identity_of("spark-5", "q").id] * 6
    assert [row.seq for row in rows] == [2 * 2**32 + n for n in range(1, 7)]
    assert [row.time_us for row in rows] == list(range(1000, 1006))
    assert [row.topics for row in rows[:3]] == [("a",), (), ("b",)]
    assert [row.payload for row in rows[:3]] == [b"x", b"", b""]
    assert [row.attributes for row in rows[:3]] == [
        {"n": 3, "f": 0.5},
        {"n": 1},
        {"n": 2, "f": math.inf},
    ]
    assert {row.topics for row in published([ROWS], "c")} == {("c",)}


def test_rows_that_say_their_times_and_topics() -> None:
    times = pa.array([5, 7], pa.timestamp("us", tz="UTC"))
    rows = pa.record_batch({"timestamp": times, "topics": pa.array([["a", "b"], None])})
    assert [(row.time_us, row.topics) for row in published([rows])] == [(5, ("a", "b")), (7, ())]
    missing = pa.record_batch({"timestamp": pa.array([None], pa.timestamp("us", tz="UTC"))})
    with pytest.raises(InvalidValueError, match="a row has no timestamp"):
        published([missing])


def test_rows_are_sorted_if_so_wished() -> None:
    rows = published(list(in_order(iter([ROWS, ROWS.slice(1)]), ("n",))))
    assert [row.attributes["n"] for row in rows] == [1, 1, 2, 2, 3]
    assert published(list(in_order([ROWS], ()))) == published([ROWS])
    assert published(list(in_order(iter([]), ("n",)))) == []


@pytest.mark.parametrize(
    ("kinds", "order", "sentence"),
    [
        (
            schema(publisher=StringType()),
            (),
            r"'publisher' cannot be written: .*\.drop\('publisher'\)",
        ),
        (schema(topic=LongType()), (), "'topic' is bigint; it must be string"),
        (schema(x=DecimalType(16, 2)), (), r"'x' is decimal\(16,2\), and a number has 15 digits"),
        (schema(x=TimestampNTZType()), (), "'x' has times without a zone: cast it"),
        (schema(x=BinaryType()), (), "'x' is binary; an attribute is a number"),
        (
            StructType(
                [
                    StructField("a", StructType([StructField("b", LongType())])),
                    StructField("a.b", LongType()),
                ]
            ),
            (),
            r"two columns are the attribute 'a\.b'",
        ),
        (schema(topic=StringType(), topics=ArrayType(StringType())), (), "leave one out"),
        (schema(x=LongType()), ("x", "y"), "orderBy: there is no column 'y'"),
    ],
)
def test_rows_that_are_no_events(kinds: StructType, order: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        check_rows(kinds, order)


@pytest.mark.parametrize("confirm", [False, True])
async def test_a_task_that_fails_and_is_done_again_publishes_each_row_once(confirm: bool) -> None:
    """This holds even while another attempt is still running."""
    batches = [pa.record_batch({"n": pa.array(range(n, n + 500))}) for n in range(0, 5000, 500)]
    part = part_of("q", 7, 0, 10**15)

    def failing() -> Iterator[Any]:
        yield from batches[:8]
        raise KeyError("upstream")

    def attempt(some: Any) -> int:
        return publish(Broker(urls[0], {}), some, part, "fx", confirm=confirm)

    async with running(path_network(2)) as urls, reefcast.connect(urls[1]) as client:
        subscription = await client.subscribe("topic = 'fx'", local_queue_limit=10_000)
        with pytest.raises(KeyError):
            await asyncio.to_thread(attempt, failing())
        assert await asyncio.to_thread(attempt, batches) == 5000
        assert await asyncio.to_thread(attempt, batches) == 5000
        await asyncio.to_thread(
            publish, Broker(urls[0], {}), batches[:1], part_of("q", 8, 0, 10**15), "fx"
        )
        await until(lambda: subscription.waiting >= 5500)
        numbers = [event["n"] for event in await subscription.next_batch()]
    assert numbers == [*range(5000), *range(500)]


async def test_confirmed_rows_reach_a_subscriber_once_whichever_brokers_the_attempts_go_to() -> (
    None
):
    rows, part = [pa.record_batch({"n": pa.array(range(100))})], part_of("q", 7, 0, 10**15)
    async with running(path_network(2)) as urls, reefcast.connect(urls[1]) as client:
        subscription = await client.subscribe("topic = 'fx'")
        for url in (urls[0], urls[1], urls[0]):
            await asyncio.to_thread(publish, Broker(url, {}), rows, part, "fx", confirm=True)
        await client.publish(n=100, topics=["fx"])
        await until(lambda: subscription.waiting >= 101)
        numbers = [event["n"] for event in await subscription.next_batch()]
    assert numbers == list(range(101))


async def test_rows_count_as_written_when_durable_sessions_have_them(tmp_path: Path) -> None:
    network = path_network(2)
    network.sessions = SessionsSection(directory=str(tmp_path))
    rows = [pa.record_batch({"n": pa.array(range(5))})]
    async with running(network) as urls, reefcast.connect(urls[1]) as client:
        session = await client.session("small", max_events=3, policy="refuse")
        await session.subscribe("n >= 0")
        part = part_of("q", 7, 0, now_us())
        with pytest.raises(reefcast.RefusedError, match="small"):
            await asyncio.to_thread(publish, Broker(urls[0], {}), rows, part, "fx", confirm=True)
        assert (await session.status()).events == 3


async def test_what_a_broker_refuses_is_an_error_of_the_task() -> None:
    rows = [pa.record_batch({"n": pa.array([1])})]
    async with running(path_network(1)) as urls:
        part = Part(Identity("x" * 300), 1, 1)
        with pytest.raises(reefcast.ReefcastError, match="1 to 200 characters"):
            await asyncio.to_thread(publish, Broker(urls[0], {}), rows, part, "fx")


# --- options --------------------------------------------------------------------------------------


def test_options_of_readers() -> None:
    given = {"url": URL, "subscribe": "fx, orders/#", "FILTER": "n > 1", "minPartitions": "7"}
    read = read_options(
        {**given, "since": "2026-01-31T12:00:00+01:00", "endingTimestamp": "1800000000000"}
    )
    assert read.selection.filter == "(topic MATCHES 'fx' OR topic MATCHES 'orders/#') AND (n > 1)"
    assert read.selection.partitions == 7
    assert (read.since_us, read.until_us) == (1769857200 * 10**6, 1800000000 * 10**6)
    stream = stream_options({**given, "startingOffsets": "Earliest", "failOnDataLoss": "FALSE"})
    assert (stream.start, stream.fail_on_data_loss, stream.most_rows) == ("earliest", False, None)
    assert stream_options({**given, "since": "5"}).start == 5000
    assert stream_options(given).start == "latest"


def test_options_of_forms() -> None:
    assert write_options({"url": URL}).forms == ("microseconds", "iso", "number")
    assert write_options({"url": URL}).confirm
    assert not write_options({"url": URL, "confirm": "False"}).confirm
    given = {"url": URL, "timestamps": "ISO", "dates": "days", "decimals": "text"}
    assert write_options(given).forms == ("iso", "days", "text")
    with pytest.raises(ConfigurationError, match="option dates is 'weeks': it is iso or days"):
        write_options({"url": URL, "dates": "weeks"})


def test_options_of_tls_go_to_the_client() -> None:
    secure = URL.replace("reefcast", "reefcast+tls")
    files = {"authority": "a.pem", "certificate": "c.pem", "key": "c.key", "serverName": "north"}
    broker = write_options({"url": secure, **files}).broker
    assert broker.url == secure
    assert broker.access == {
        "authority": "a.pem",
        "certificate": "c.pem",
        "key": "c.key",
        "server_name": "north",
    }
    assert write_options({"url": secure}).broker.access == {}
    with pytest.raises(
        ConfigurationError, match=r"options for TLS are given, but .* has reefcast://"
    ):
        read_options({"url": URL, "subscribe": "fx", **files})


@pytest.mark.live
async def test_rows_are_published_as_a_user(tmp_path: Path) -> None:
    network = secured(tmp_path)
    (tmp_path / "password").write_text(PASSWORD)
    user = {"user": "anna", "passwordFile": str(tmp_path / "password")}
    url = url_of(network, "b1")
    key = str(tmp_path / "network.key")
    async with running(network), reefcast.connect(url, network_key=key) as client:
        subscription = await client.subscribe("n = 7")
        rows = pa.RecordBatch.from_pylist([{"n": 7}])
        broker = write_options({"url": url, **user}).broker
        part = Part(identity_of("p", "query"), 1, 1)
        assert await asyncio.to_thread(publish, broker, [rows], part, "fx") == 1
        assert (await anext(subscription))["n"] == 7
    tokens = read_options({"url": url, "subscribe": "fx", "tokenFile": "t"}).selection.broker
    assert tokens.access == {"token_file": "t"}


@pytest.mark.live
async def test_rows_are_published_over_tls(tmp_path: Path) -> None:
    office = Office(tmp_path)
    network = office.secured(make_network("a"), "required")
    url = url_of(network, "a").replace("reefcast", "reefcast+tls")
    files = office.issue("spark")._asdict()
    async with running(network), reefcast.connect(url, **files) as client:
        subscription = await client.subscribe("n = 7")
        rows = pa.RecordBatch.from_pylist([{"n": 7}])
        broker = write_options({"url": url, **files}).broker
        part = Part(identity_of("p", "query"), 1, 1)
        count = await asyncio.to_thread(publish, broker, [rows], part, "fx")
        assert count == 1
        assert (await anext(subscription))["n"] == 7


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"url": ""}, "needs the option url"),
        ({"subscribe": ""}, "no topic is given, and storages keep topics"),
        ({"subscribe": "", "filter": "n = 1"}, "'n = 1' does not say its topics"),
        ({"url": "tcp://x"}, "does not name a broker"),
        ({"since": "yesterday"}, "option since: 'yesterday' is not a time with a zone"),
        (
            {"startingTimestamp": "2026-01-01T00:00"},
            "option startingTimestamp: .* not a time with a zone",
        ),
        ({"since": "1", "startingTimestamp": "1"}, "since and startingTimestamp mean the same"),
        ({"since": "1", "startingOffsets": "latest"}, "both say where to start"),
        ({"startingOffsets": "newest"}, "'newest': it is earliest or latest"),
        ({"minPartitions": "0"}, "minPartitions: '0' is not a whole number, 1 or more"),
        ({"maxOffsetsPerTrigger": "-1"}, "maxOffsetsPerTrigger: '-1' is not a whole number"),
        ({"settleSeconds": "soon"}, "settleSeconds: 'soon' is not a time in seconds"),
        ({"lateSeconds": "2"}, r"lateSeconds \(2\) must exceed settleSeconds \(3\)"),
        ({"failOnDataLoss": "no"}, "failOnDataLoss: 'no' is neither true nor false"),
        ({"until": "5"}, "no option 'until' for reading a stream: the options are url, filter"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean maxOffsetsPerTrigger"),
    ],
)
def test_options_that_are_wrong(options: dict[str, str], sentence: str) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        stream_options({"url": URL, "subscribe": "fx", **options})


def test_options_of_batches_and_writers_that_are_wrong() -> None:
    with pytest.raises(ConfigurationError, match="since is later than option until"):
        read_options({"url": URL, "subscribe": "fx", "since": "5", "until": "4"})
    with pytest.raises(FilterSyntaxError, match="line 1, column 4"):
        read_options({"url": URL, "filter": "n >"})
    with pytest.raises(ConfigurationError, match=r"no option 'topics' .* did you mean topic"):
        write_options({"url": URL, "topics": "fx"})


# --- checkpoints ----------------------------------------------------------------------------------


@pytest.mark.parametrize("as_url", [False, True])
def test_the_time_of_a_batch_is_found_in_the_checkpoint(tmp_path: Path, as_url: bool) -> None:
    folder = tmp_path / "with a space" / "offsets"
    folder.mkdir(parents=True)
    for batch in (9, 10):
        written = {"batchWatermarkMs": 0, "batchTimestampMs": 1000 + batch}
        (folder / str(batch)).write_text(f"v1\n{json.dumps(written)}\n0")
    (folder / ".11.crc").write_text("not a batch")
    path = folder.parent.as_uri() if as_url else str(folder.parent)
    assert last_batch(path) == Batch(10, 1_010_000)


@pytest.mark.parametrize("checkpoint", ["/nowhere/at/all", "ftp://host/path"])
def test_a_checkpoint_that_cannot_be_read(checkpoint: str) -> None:
    with pytest.raises(ConfigurationError, match="give each row a column timestamp"):
        last_batch(checkpoint)

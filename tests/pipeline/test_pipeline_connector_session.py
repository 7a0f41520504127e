"""Queries that read a durable session at a real broker, with restarts between and failures within
batches."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from live_history import READY_S, live_home

import reefcast
import reefcast.spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with live_home(tmp_path_factory.mktemp("sessions")) as url:
        yield url


@pytest.fixture(scope="module")
def client(url: str) -> Iterator[reefcast.sync.Client]:
    with reefcast.sync.connect(url, name="test") as client:
        yield client


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    reefcast.spark.register(spark)


def publish(client: reefcast.sync.Client, *numbers: int) -> None:
    """Publish events; return when they are in the queues."""
    for n in numbers:
        client.publish(kind="order", n=n, payload=b"raw", confirm=n == numbers[-1])


class Query:
    """A query with a checkpoint, which keeps what its batches had by their numbers; it fails when
    `fails` is true of a batch's rows."""

    def __init__(self, spark: SparkSession, url: str, checkpoint: Path, **options: Any) -> None:
        self._stream = spark.readStream.format("reefcast").options(
            url=url, schema="n BIGINT", **options
        )
        self._checkpoint = str(checkpoint)
        self.batches: dict[int, list[int]] = {}
        self.runs = 0
        self.fails: Callable[[list[int]], bool] = lambda rows: False

    def _keep(self, frame: DataFrame, batch: int) -> None:
        rows = [row.n for row in frame.collect()]
        self.runs += 1
        assert self.batches.setdefault(batch, rows) == rows, "a batch that is repeated is the same"
        if self.fails(rows):
            raise ZeroDivisionError

    @property
    def writer(self) -> DataStreamWriter:
        query = self._stream.load().writeStream.foreachBatch(self._keep)
        return query.option("checkpointLocation", self._checkpoint)

    def run_to_the_end(self) -> StreamingQuery:
        query = self.writer.trigger(availableNow=True).start()
        assert query.awaitTermination(600)
        return query

    @property
    def rows(self) -> list[int]:
        return [n for batch in sorted(self.batches) for n in self.batches[batch]]


def test_a_query_that_fails_in_a_batch_and_is_started_again_has_each_event_in_one_batch(
    spark: SparkSession, url: str, client: reefcast.sync.Client, tmp_path: Path
) -> None:
    query = Query(spark, url, tmp_path, session="billing", filter="n >= 0", maxOffsetsPerTrigger=4)
    query.run_to_the_end()  # makes the session
    assert query.rows == []
    session = client.session("billing")
    assert list(session.status().subscriptions.values()) == ["n >= 0"]

    publish(client, -1, *range(10))
    query.fails = lambda rows: 5 in rows
    with pytest.raises(Exception, match="ZeroDivisionError"):
        query.run_to_the_end()
    assert sorted(each.event["n"] for each in session.look()) == [4, 5, 6, 7, 8, 9], (
        "what was committed is acknowledged, the batch that failed is not"
    )
    publish(client, 10, 11)
    query.fails = lambda rows: False
    query.run_to_the_end()
    assert query.rows == list(range(12))
    assert session.status().events == 0, "the last batch is committed, too, before the query ends"


def test_a_query_that_lost_its_checkpoint_goes_on_where_the_session_is(
    spark: SparkSession, url: str, client: reefcast.sync.Client, tmp_path: Path
) -> None:
    options = {"session": "lost", "filter": "n >= 0", "maxOffsetsPerTrigger": 4}
    first = Query(spark, url, tmp_path / "first", **options)
    first.run_to_the_end()  # makes the session
    publish(client, *range(6))
    query = first.run_to_the_end()
    (source,) = query.lastProgress["sources"]
    assert json.loads(source["latestOffset"]) == {"owed": 2, "out": 2}, (
        "Spark reports before it commits"
    )
    publish(client, 6, 7)
    second = Query(spark, url, tmp_path / "second", **options)
    second.run_to_the_end()
    assert (first.rows, second.rows) == ([0, 1, 2, 3, 4, 5], [6, 7])


def test_a_running_query_acknowledges_what_it_has_had(
    spark: SparkSession, url: str, client: reefcast.sync.Client, tmp_path: Path
) -> None:
    session = client.session("running")
    session.subscribe("kind = 'order'")
    query = Query(spark, url, tmp_path, session="running")
    running = query.writer.start()
    try:
        for first in (0, 100):
            publish(client, *range(first, first + 100))
            until(running, lambda: session.status().events == 0)
            assert query.rows == list(range(first + 100))
    finally:
        running.stop()
    until(None, lambda: session.status().consumers == {})
    publish(client, 200)
    again = query.writer.start()
    try:
        until(again, lambda: session.status().events == 0)
    finally:
        again.stop()
    assert query.rows == list(range(201))


def until(query: StreamingQuery | None, condition: Callable[[], bool]) -> None:
    give_up_at_s = time.monotonic() + READY_S
    while not condition() and time.monotonic() < give_up_at_s:
        assert query is None or query.isActive, query.exception()
        time.sleep(0.05)
    assert condition()


def test_a_batch_shows_what_a_session_owes_and_takes_nothing(
    spark: SparkSession, url: str, client: reefcast.sync.Client
) -> None:
    session = client.session("shown")
    session.subscribe("n >= 0")
    publish(client, *range(1500))
    look = spark.read.format("reefcast").options(url=url, session="shown", schema="n BIGINT")
    frame = look.load()
    assert [row.n for row in frame.collect()] == list(range(1500))
    assert frame.where("n > 1490 AND payload = X'726177'").count() == 9
    status = session.status()
    assert (status.events, status.out, status.consumers) == (1500, 0, {})
    session.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"session": "nobody"}, "there is no session 'nobody' at .* option filter"),
        ({"session": "several", "filter": "n = 1"}, "subscribed to more .*: n = 2. .*unsub"),
    ],
)
def test_mistakes_in_reading_a_session_as_a_stream_are_told_in_a_sentence(
    spark: SparkSession,
    url: str,
    client: reefcast.sync.Client,
    tmp_path: Path,
    options: dict[str, str],
    sentence: str,
) -> None:
    client.session("several").subscribe("n = 2")
    stream = spark.readStream.format("reefcast").options(url=url, **options).load()
    query = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path))
    with pytest.raises(Exception, match=sentence):
        query.start().awaitTermination(600)


def test_mistakes_in_looking_into_a_session_are_told_in_a_sentence(
    spark: SparkSession, url: str
) -> None:
    for options, sentence in (
        ({"session": "nobody"}, "there is no session 'nobody'"),
        ({"session": "x", "filter": "n = 1"}, "session and filter contradict each other"),
    ):
        with pytest.raises(Exception, match=sentence):
            spark.read.format("reefcast").options(url=url, **options).load().count()

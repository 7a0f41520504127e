"""How reading is divided, against real brokers and a real storage; without Spark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from live_history import Network, live_history
from pyspark.sql.types import LongType, StructType

import reefcast
from reefcast.history import asking
from reefcast.pipeline.connector import cutting
from reefcast.pipeline.connector.batch import BatchReader
from reefcast.pipeline.connector.options import read_options
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server.greeting import Anonymous

EVENTS = 60
SCHEMA = StructType().add("n", LongType())


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    with live_history(tmp_path_factory.mktemp("storage")) as network:
        with reefcast.sync.connect(network.url) as client:
            for n in range(EVENTS):
                topic = "cut/hot" if n % 6 else f"cut/{n % 4}"
                client.publish({"n": n, "symbol": "IBM" if n % 10 == 1 else "SAP"}, topics=[topic])
            client.publish({"n": EVENTS}, topics=["cut/hot", "cut/0"])
            client.flush(60)
        for topic, count in (("cut/hot", 51), ("cut/0", 6), ("cut/2", 5)):
            network.wait(topic, count)
        yield network


def test_partitions_are_made_by_topics_and_counts(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("LEAST_ROWS", 5), ("MOST_PROBED", 10)):
        monkeypatch.setattr(cutting, name, value)
    options = {"url": network.url, "subscribe": "cut/#", "minPartitions": "6"}
    made = BatchReader(SCHEMA, read_options(options))
    parts = made.partitions()
    found = [[n for batch in made.read(part) for n in batch["n"].to_pylist()] for part in parts]
    assert sorted(n for some in found for n in some) == list(range(EVENTS + 1))
    assert len(parts) == 6 and max(map(len, found)) <= 15
    assert any(read.topics == ("cut/hot",) for part in parts for read in part.reads)


def test_where_events_lie_is_told_of_those_that_a_user_may_see(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted = "topic MATCHES 'cut/hot'"
    with reefcast.sync.connect(network.url) as client:
        [stretch] = client.stretches(wanted, 1) or []
        assert (stretch.topic, stretch.rows) == ("cut/hot", 51)
    user = Principal("anna", frozenset({UserRole.CLIENT}), "test", ("ibm",))
    monkeypatch.setattr(Anonymous, "prove", lambda self, greeting: user)
    with reefcast.sync.connect(network.url) as client:
        seen = len(list(client.history(wanted)))
        [stretch] = client.stretches(wanted, 1) or []
        assert (stretch.topic, stretch.rows) == ("", seen) and 0 < seen < 51
        assert client.stretches(f"{wanted} AND n > {EVENTS}", 1) == []
        parts = BatchReader(
            SCHEMA, read_options({"url": network.url, "filter": wanted})
        ).partitions()
        assert len(parts) == 1


def test_a_storage_that_cannot_tell_where_events_lie(
    network: Network, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask = asking.Request
    monkeypatch.setattr(asking, "Request", lambda stretches, **fields: ask(**fields))
    monkeypatch.setattr(cutting, "LEAST_ROWS", 5)
    monkeypatch.setattr(cutting, "MOST_PROBED", 10)
    with reefcast.sync.connect(network.url) as client:
        assert client.stretches("topic MATCHES 'cut/hot'", 1) is None
    options = {"url": network.url, "subscribe": "cut/hot"}
    made = BatchReader(SCHEMA, read_options(options))
    assert sum(len(batch) for part in made.partitions() for batch in made.read(part)) == 51

"""A streaming query runs the same on a standalone cluster of two workers, on threads of this
machine, and through Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest
from live_history import live_history

from spark_cluster import Cluster, connect_server, standalone_cluster

pytestmark = pytest.mark.spark
COMMAND_S = 600.0


@pytest.fixture(scope="module")
def cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


class Where(NamedTuple):
    """Where a driver has its tasks run, and the environment that it needs for that."""

    master: str
    environment: dict[str, str]


def python(where: Where, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a driver in a process of its own, because the tests have a session of another master
    already."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=where.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S,
    )
    assert done.returncode == 0, done.stderr
    return done


QUERY = """
import sys
import reefcast.spark
from reefcast.pipeline.session import spark_session

master, url, checkpoint = sys.argv[1:]
with spark_session("alerts", master) as spark:
    reefcast.spark.register(spark)
    quotes = (
        spark.readStream.format("reefcast")
        .options(url=url, subscribe="quotes", startingOffsets="earliest", settleSeconds=0)
        .options(schema="symbol STRING, price DOUBLE", minPartitions=2)
        .load()
    )
    alerts = quotes.where("price >= 100").selectExpr("symbol", "price", "'alerts' AS topic")
    for _ in range(2):
        query = (
            alerts.writeStream.format("reefcast")
            .options(url=url, checkpointLocation=checkpoint)
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        sources = (source for batch in query.recentProgress for source in batch["sources"])
        print(sum(source["numInputRows"] for source in sources))
"""


@pytest.fixture(params=["standalone", "local[*]", "connect"])
def where(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Where]:
    """Where a query runs: on a cluster with two workers, on threads of this machine, and through
    Spark Connect."""
    if request.param == "standalone":
        cluster: Cluster = request.getfixturevalue("cluster")
        yield Where(cluster.master, cluster.environment)
    elif request.param == "connect":
        request.getfixturevalue("java")
        with connect_server(tmp_path_factory.mktemp("connect")) as address:
            yield Where(address, dict(os.environ))
    else:
        request.getfixturevalue("java")
        yield Where(request.param, dict(os.environ))


@pytest.mark.soak  # each place starts Java anew, up to six times
def test_a_streaming_query(where: Where, tmp_path: Path) -> None:
    """Tasks read from a storage and publish to a broker, each from where it runs. Started again,
    the query finds nothing that it has had before."""
    script = tmp_path / "alerts.py"
    script.write_text(QUERY, encoding="utf-8")
    with live_history(tmp_path / "storage") as network:
        network.publish("quotes", *({"symbol": f"s{i}", "price": i} for i in range(90, 120)))
        asked = (script, where.master, network.url, tmp_path / "checkpoint")
        assert python(where, *asked).stdout == "30\n0\n"
        alerts = network.wait("alerts", 20)
        assert sorted(event["price"] for event in alerts) == list(range(100, 120))

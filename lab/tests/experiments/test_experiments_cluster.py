"""A standalone Spark cluster of two workers: a sweep runs on it."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from reefcast_lab.experiments.campaign import RUN_S
from spark_cluster import Cluster, standalone_cluster

pytestmark = pytest.mark.spark
COMMAND_S = 600.0


@pytest.fixture(scope="module")
def cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as started:
        yield started


def python(cluster: Cluster, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Run a driver in a process of its own, because the tests have a session of another master
    already."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        env=cluster.environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S,
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.soak
def test_a_sweep(cluster: Cluster, tmp_path: Path) -> None:
    """Both workers take part, and their measures come back to the driver."""
    table = tmp_path / "all.parquet"
    sweep = ("experiment", "run", "octopia/O2", "--seeds", 2, "--results", tmp_path / "results")
    where = ("--out", table, "--json", "--master", cluster.master)
    done = python(cluster, "-m", "reefcast_lab", *sweep, *where)
    (stored,) = json.loads(done.stdout)
    assert stored["ours"] == pytest.approx(4 / 56 - 1)
    told = done.stderr.splitlines()
    assert told[-1].startswith(f"{len(told)}/{len(told)} publishers ")
    rows = pq.read_table(table).to_pylist()
    assert {row["seed"] for row in rows} == {0, 1}
    assert sum(row["metric"] == RUN_S for row in rows) == len(told)
    for worker in cluster.work:
        assert list(worker.glob("app-*/*/stderr")), "this worker had no executor"

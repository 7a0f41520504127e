"""What Spark plans for the pipeline's own jobs: no join that compares all with all, no function in
Python where Spark has its own, no shuffle of rows that could be aggregated first, and plans that it
may adapt."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from reefcast.overlay import topology
from reefcast.pipeline import analysis
from reefcast.pipeline.matching.joins import match_counts
from reefcast.pipeline.matching.streaming import match_stream
from reefcast.pipeline.planning import clusters, links
from reefcast.pipeline.planning.placement import request_rates
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

ALL_WITH_ALL = ("CartesianProduct", "BroadcastNestedLoopJoin")
NOTHING = "LocalTableScan <empty>"
IN_PYTHON = ("EvalPython", "InPandas", "InArrow")


def plan(frame: DataFrame) -> str:
    """Return the physical plan, as `explain` shows it."""
    text: str = frame._jdf.queryExecution().executedPlan().toString()
    return text


def check(text: str) -> None:
    """Check the plan of a job that Spark does all by itself."""
    for node in (*ALL_WITH_ALL, *IN_PYTHON):
        assert node not in text, text
    assert "AdaptiveSparkPlan" in text or "Exchange" not in text, text


def check_shuffles(text: str) -> None:
    """Check that rows are aggregated where they lie before they go to other tasks, so that it does
    not matter how unevenly they are spread; and that few are left for the driver."""
    lines = text.splitlines()
    for line, below in pairwise(lines):
        if "Exchange hashpartitioning" in line:
            assert "Aggregate(" in below and "partial_" in below, text
    assert any("Aggregate(" in line for line in lines), f"the driver would get all rows: {text}"
    assert "Window" not in text, text


def test_the_jobs_of_an_analysis(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulation = Simulation(
        Setup(graph=topology.path(["a", "b", "c"]), trace=TraceOptions(tmp_path))
    )
    simulation.subscribe("client", "c", "x >= 0", at_s=0.0)
    simulation.publish("publisher", "a", {"x": 1}, at_s=1.0)
    simulation.run()
    plans: list[str] = []
    rows = analysis._rows

    def seen(frame: DataFrame) -> list[dict[str, Any]]:
        plans.append(plan(frame))
        return rows(frame)

    monkeypatch.setattr(analysis, "_rows", seen)
    analysis.analyze(spark, tmp_path)
    assert len(plans) > 8
    for text in plans:
        check(text)
        if not text.startswith(NOTHING):
            check_shuffles(text)
    assert any(text.startswith(NOTHING) for text in plans), (
        "jobs are run over data sets that are not there"
    )
    messages = analysis.read_kind(spark, tmp_path, "message")
    deliveries = analysis.read_kind(spark, tmp_path, "delivery")
    check(plan(links.carried(links.paths(messages, deliveries, ["a", "b", "c"]), 2)))
    rates = plan(links.sent_per_s(messages, ["a", "b", "c"]))
    check(rates)
    check_shuffles(rates)


def test_the_rates_of_requests(spark: SparkSession) -> None:
    text = plan(request_rates.request_rates(spark.createDataFrame([], request_rates.LOG)))
    check(text)
    check_shuffles(text)


def test_matching_passes_once_through_python_and_joins_nothing(spark: SparkSession) -> None:
    events = spark.createDataFrame([(1, "SFO")], "event BIGINT, dest STRING")
    subscriptions = spark.createDataFrame(
        [(7, "dest = 'SFO'")], "subscription BIGINT, filter STRING"
    )
    text = plan(match_counts(events, subscriptions))
    assert text.count("MapInArrow") == 1
    assert "Join" not in text
    clients = spark.createDataFrame([("c", "dest = 'SFO'")], "client STRING, filter STRING")
    text = plan(clusters.interests(events, clients, 10))
    assert text.count("MapInArrow") == 1
    assert not any(node in text for node in ALL_WITH_ALL)
    drawn = text[text.index("MapInArrow") :]
    assert "RoundRobinPartitioning" in drawn, "a sample is matched by one task"
    assert drawn.index("RoundRobinPartitioning") < drawn.index("TakeOrderedAndProject")


def test_matching_of_streams_joins_nothing(spark: SparkSession, tmp_path: Path) -> None:
    events = spark.readStream.schema("event BIGINT, n BIGINT").parquet(str(tmp_path))
    kinds = "subscription BIGINT, filter STRING, changed BIGINT"
    changes = spark.readStream.schema(kinds).parquet(str(tmp_path))
    text = match_stream(events, changes)._jdf.queryExecution().analyzed().toString()
    assert text.count("FlatMapGroupsInPandasWithState") == 1
    assert "Join" not in text


def test_spark_may_adapt_plans(spark: SparkSession) -> None:
    for name in ("enabled", "coalescePartitions.enabled", "skewJoin.enabled"):
        assert spark.conf.get(f"spark.sql.adaptive.{name}") == "true"

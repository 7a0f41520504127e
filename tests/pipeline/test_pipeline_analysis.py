"""The analysis of small hand-written traces, with literal results."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import DataType

from reefcast.cli.analyze import command
from reefcast.overlay import topology
from reefcast.pipeline import trace_metrics
from reefcast.pipeline.analysis import TABLES, analyze, write_tables
from reefcast.pipeline.session import sized
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast.traces.files import TraceRecorder, write_run
from reefcast.traces.vocabulary import FOUND_OVERLOADED

pytestmark = pytest.mark.spark

RUN = {
    "simulated": True,
    "routing": "acyclic",
    "brokers": ["a", "b", "c"],
    "links": [["a", "b"], ["c", "b"]],
    "level": "full",
}


def write_details(directory, level="full", sample=1.0):
    """Write one publication from `a` to two clients at `b` (delay 1 ms), and one from `b` to one at
    `a`."""
    a = TraceRecorder(directory, "a", level, sample)
    b = TraceRecorder(directory, "b", level, sample)
    a.row("publish", 1000, "p", 1, 100)
    a.row("message", 1100, "b", "publish", "p", 1, 120, 1)
    a.row("message", 1100, "b", "subscribe", None, None, 40, 0)
    a.row("message", 1100, "client-1", "settled", None, None, 10, 0)
    b.row("message", 1200, "a", "publish", "q", 1, 130, 1)
    b.row("publish", 1000, "q", 1, 110)
    b.row("matching", 1000, "q", 1, 3, 2000)
    b.row("matching", 1000, "q", 2, 3, 4000)
    b.row("delivery", 2000, "p", 1, 1000, 2, 5, 1)
    a.row("delivery", 5000, "q", 1, 1000, 1, 1, 1)
    a.row("discard", 5000, "q", 2, None, "unwanted")
    a.flush()
    b.flush()


def broker(name, **figures):
    nothing = dict.fromkeys(("published", "sent", "deliveries", "matching_ns", "matched"), 0)
    return {"broker": name, **nothing, **figures}


def totals(analysis):
    return {row["name"]: row["value"] for row in analysis.totals}


@pytest.fixture(scope="module")
def full(spark, tmp_path_factory):
    """Return the analysis of the trace of `write_details`, for tests that look at parts of it."""
    directory = tmp_path_factory.mktemp("full")
    write_run(directory, RUN)
    write_details(directory)
    return analyze(spark, directory)


def test_full_trace(full):
    assert full.delays["count"] == 3
    assert full.delays["mean"] == 2000
    assert (full.delays["p50"], full.delays["max"]) == (1000, 4000)
    assert [(round(row["low_us"]), row["count"]) for row in full.delay_bins] == [
        (1000, 2),
        (3981, 1),
    ]
    assert full.delays_by_hops == [{"hops": 1, "count": 3, "p50": 1000.0, "p99": 3940.0}]
    assert full.links == [
        {"a": "a", "b": "b", "publications": 2, "control": 1, "size_bytes": 290},
        {"a": "b", "b": "c", "publications": 0, "control": 0, "size_bytes": 0},
    ]
    assert full.messages == [
        {"message": "publish", "count": 2, "size_bytes": 250},
        {"message": "subscribe", "count": 1, "size_bytes": 40},
    ]
    assert full.brokers == [
        broker("a", published=1, sent=1, deliveries=1),
        broker("b", published=1, sent=1, deliveries=2, matching_ns=3000, matched=3.0),
        broker("c"),
    ]
    assert full.discards == [{"reason": "unwanted", "count": 1}]
    assert full.body_bytes == 105
    assert (full.link_publications, full.link_bytes) == (2, 290)
    assert full.seconds == [
        {
            "second": 0,
            "published": 2,
            "sent": 2,
            "deliveries": 3,
            "delay_mean_us": 2000.0,
            "delay_max_us": 4000,
            "queue_max": None,
        }
    ]
    found = totals(full)
    assert (found["yield"], found["messages_per_publication"]) == (1.5, 1.0)
    assert (found["pure_forwarders"], found["brokers_reached"]) == (0, 2)
    assert full.delays["within_1s"] == 1.0


def test_figures_of_the_way_of_publications(spark, tmp_path):
    """p 1 goes from a over b, where nobody wants it, to c, which gets it from d again. The next
    second brings two more publications, one of which takes 1.5 s."""
    write_run(tmp_path, RUN | {"brokers": ["a", "b", "c", "d"]})
    a, b, c, d = (TraceRecorder(tmp_path, name) for name in "abcd")
    for time_us, seq in ((500_000, 1), (1_500_000, 2), (1_900_000, 3)):
        a.row("publish", time_us, "p", seq, 10)
    a.row("message", 500_000, "b", "publish", "p", 1, 20, 1)
    a.row("message", 500_000, "d", "publish", "p", 1, 20, 1)
    b.row("message", 500_100, "c", "publish", "p", 1, 20, 1)
    d.row("message", 500_100, "c", "publish", "p", 1, 20, 1)
    c.row("delivery", 600_000, "p", 1, 500_000, 3, 3, 2)
    c.row("discard", 600_100, "p", 1, None, "duplicate")
    a.row("delivery", 3_000_000, "p", 2, 1_500_000, 1, 1, 0)
    b.row("queue", 1_000_000, "c", 7)
    b.row("queue", 1_500_000, "c", 4)
    for broker_, rows in ((a, 4), (b, 8)):
        broker_.row("table", 1, "PRT", 99)
        broker_.row("table", 2, "PRT", rows)
    for recorder in (a, b, c, d):
        recorder.flush()
    result = analyze(spark, tmp_path)
    assert totals(result) == {
        "published": 3,
        "deliveries": 4,
        "link_publications": 4,
        "link_bytes": 80,
        "control_messages": 0,
        "pure_forwarders": 2,
        "brokers_reached": 3,
        "duplicates": 1,
        "duplicate_share": 0.25,
        "body_bytes": 10,
        "messages_per_publication": pytest.approx(4 / 3),
        "yield": 1.0,
        "published_per_s": pytest.approx(3 / 1.4),
        "deliveries_per_s": pytest.approx(4 / 1.4),
        "link_publications_per_s": pytest.approx(4 / 1.4),
        "rows_PRT": 6.0,
    }
    assert result.delays["within_1s"] == 0.75
    curve = [
        (r["second"], r["published"], r["delay_max_us"], r["queue_max"]) for r in result.seconds
    ]
    assert curve == [(0, 1, 100_000, None), (1, 2, None, 7), (3, 0, 1_500_000, None)]


def test_the_tables_that_are_written(spark, full, tmp_path):
    files = write_tables(full, tmp_path / "tables")
    assert {file.stem for file in files} == set(TABLES)
    read = {
        name: spark.read.parquet(str(tmp_path / "tables" / f"{name}.parquet")) for name in TABLES
    }
    for name, columns in TABLES.items():
        assert read[name].schema == DataType.fromDDL(columns)
        rows = [row.asDict() for row in read[name].collect()]
        assert rows in (getattr(full, name), [getattr(full, name)])


def test_the_command_writes_tables_and_a_report(spark, tmp_path, monkeypatch):
    write_run(tmp_path / "trace", RUN)
    write_details(tmp_path / "trace")
    session = "reefcast.pipeline.session.spark_session"
    monkeypatch.setattr(session, lambda name, master: contextlib.nullcontext(spark))
    tables, report = tmp_path / "tables", tmp_path / "report.html"
    asked = [str(tmp_path / "trace"), "--tables", str(tables), "--out", str(report)]
    done = CliRunner().invoke(command, asked)
    assert done.exit_code == 0, (done.output, done.exception)
    assert f"report: {report}\ntables: {tables}\n" in done.output
    assert len(list(tables.iterdir())) == len(TABLES)
    assert "The whole run in figures" in report.read_text(encoding="utf-8")


def test_large_inputs_get_more_partitions(spark):
    names = ("spark.sql.shuffle.partitions", "spark.sql.codegen.wholeStage")
    before = [spark.conf.get(name) for name in names]
    with sized(spark, 10 * 2**30):
        assert [spark.conf.get(name) for name in names] == ["161", "true"]
    assert [spark.conf.get(name) for name in names] == before
    with sized(spark, 1000):
        assert [spark.conf.get(name) for name in names] == before


@given(
    delays=st.lists(st.tuples(st.integers(0, 10**9), st.integers(1, 5)), min_size=1, max_size=30)
)
@settings(max_examples=4)
def test_percentiles_are_those_of_all_deliveries(spark, delays):
    """The slow twin sorts them; a delay is kept to four digits."""
    schema = "broker STRING, hops BIGINT, time_us BIGINT, published_us BIGINT, subscribers BIGINT"
    rows = [("a", i % 3, 5 + delay, 5, count) for i, (delay, count) in enumerate(delays)]
    counts = trace_metrics.delivery_counts(spark.createDataFrame(rows, schema))
    found = trace_metrics.delays(counts, 1.0).collect()[0]
    every = sorted(delay for delay, count in delays for _ in range(count))
    wanted = np.percentile(every, [50, 90, 99, 99.9])
    assert [found[n] for n in ("p50", "p90", "p99", "p999")] == pytest.approx(wanted, rel=1e-3)
    assert (found["count"], found["max"]) == (len(every), every[-1])
    assert found["mean"] == pytest.approx(np.mean(every))


def test_sampled_trace_is_scaled_up(spark, tmp_path):
    write_run(tmp_path, RUN | {"level": "sampled", "sample": 0.5})
    write_details(tmp_path, "sampled", 0.5)
    result = analyze(spark, tmp_path)
    assert result.delays["count"] == 6
    assert result.delays["p50"] == 1000
    assert result.links[0] == {
        "a": "a",
        "b": "b",
        "publications": 4,
        "control": 1,
        "size_bytes": 540,
    }


def test_snapshots_alone(spark, tmp_path):
    write_run(tmp_path, RUN | {"level": "counters"})
    recorder = TraceRecorder(tmp_path, "a", "counters")
    for time_us, rows, waiting, count in ((1, 5, 0, 7), (2, 9, 4, 8), (3, 6, 2, 11)):
        recorder.row("table", time_us, "PRT", rows)
        recorder.row("queue", time_us, "b", waiting)
        recorder.row("queue", time_us, None, 0)
        recorder.row("counter", time_us, None, "published", count)
        recorder.row("counter", time_us, "b", FOUND_OVERLOADED, 2 * count)
    recorder.flush()
    result = analyze(spark, tmp_path)
    assert result.tables == [{"broker": "a", "table": "PRT", "rows": 6, "most": 9}]
    assert result.queues == [
        {"broker": "a", "link": None, "mean": 0.0, "most": 0},
        {"broker": "a", "link": "b", "mean": 2.0, "most": 4},
    ]
    assert result.counters == [{"counter": "published", "count": 11}]
    assert result.overloaded == [{"broker": "a", "link": "b", "count": 22}]
    assert (result.delays["count"], result.delays["p50"], result.body_bytes) == (0, None, 0)
    assert [link["publications"] for link in result.links] == [0, 0]


def test_trace_of_the_simulator(spark, tmp_path):
    """The analysis finds in the trace what the simulator counted, and reports no difference."""
    nodes = topology.names(5)
    setup = Setup(graph=topology.path(nodes), seed=4, trace=TraceOptions(tmp_path, snapshot_s=0.5))
    simulation = Simulation(setup)
    for number, broker in enumerate(nodes):
        simulation.subscribe(f"client-{number}", broker, f"x >= {10 * number}", at_s=0.0)
    for x in range(40):
        simulation.publish("publisher", nodes[0], {"x": x}, at_s=1.0 + x / 100)
    counted = simulation.run()
    result = analyze(spark, tmp_path)
    assert result.run["simulated"] is True
    assert result.delays["count"] == counted.delivered_clients == 40 + 30 + 20 + 10
    assert result.link_publications == counted.messages["publish"] == 30 + 20 + 10
    assert [link["publications"] for link in result.links] == [30, 20, 10, 0]
    assert {row["message"]: row["count"] for row in result.messages} == {
        kind: count for kind, count in counted.messages.items() if count
    }
    assert result.brokers[0]["published"] == 40
    assert {row["table"] for row in result.tables} >= {"PRT", "SRT"}

"""The analysis of small traces written by hand, with literal results."""

from __future__ import annotations

import pytest

from reefcast.model.trace import FOUND_OVERLOADED
from reefcast.overlay import topology
from reefcast.pipeline.analysis import analyze
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast.storage.trace_files import TraceRecorder, write_run

pytestmark = pytest.mark.spark

RUN = {
    "simulated": True,
    "routing": "acyclic",
    "brokers": ["a", "b", "c"],
    "links": [["a", "b"], ["c", "b"]],
    "level": "full",
}


def write_details(directory, level="full", sample=1.0):
    """One publication from `a` to two clients at `b` (delay 1 ms), one from `b` to one at `a`."""
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


def test_full_trace(spark, tmp_path):
    write_run(tmp_path, RUN)
    write_details(tmp_path)
    result = analyze(spark, tmp_path)
    assert result.delays["count"] == 3
    assert result.delays["mean"] == 2000
    assert (result.delays["p50"], result.delays["max"]) == (1000, 4000)
    assert [(round(row["low_us"]), row["count"]) for row in result.delay_bins] == [
        (1000, 2),
        (3981, 1),
    ]
    assert result.delays_by_hops == [{"hops": 1, "count": 3, "p50": 1000.0, "p99": 3940.0}]
    assert result.links == [
        {"a": "a", "b": "b", "publications": 2, "control": 1, "size_bytes": 290},
        {"a": "b", "b": "c", "publications": 0, "control": 0, "size_bytes": 0},
    ]
    assert result.messages == [
        {"message": "publish", "count": 2, "size_bytes": 250},
        {"message": "subscribe", "count": 1, "size_bytes": 40},
    ]
    assert result.brokers == [
        {"broker": "a", "published": 1, "sent": 1, "deliveries": 1, "matching_ns": 0},
        {"broker": "b", "published": 1, "sent": 1, "deliveries": 2, "matching_ns": 3000},
        {"broker": "c", "published": 0, "sent": 0, "deliveries": 0, "matching_ns": 0},
    ]
    assert result.discards == [{"reason": "unwanted", "count": 1}]
    assert result.body_bytes == 105
    assert (result.link_publications, result.link_bytes) == (2, 290)


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
    """The analysis finds in the trace what the simulator counted, and knows of no difference."""
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

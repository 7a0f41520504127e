"""`reefcast-lab bench mqtt`: its plans, its ratios, and small loads with live brokers."""

from __future__ import annotations

import json
import socket
import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

from reefcast.errors import ConfigurationError, LocalError
from reefcast_lab.bench.live.brokers import OURS
from reefcast_lab.bench.mqtt import brokers, measure, points
from reefcast_lab.bench.mqtt.measure import MqttFigures, Session, connected, with_baselines
from reefcast_lab.bench.mqtt.page import figures
from reefcast_lab.bench.mqtt.points import CONDITION, JSON_READ, Point, parse
from reefcast_lab.cli.bench import command

SMALL = (
    Point(),
    Point(fanout=3),
    Point(publishers=3),
    Point(fanout=2, qos=1),
    Point(publishers=2, qos=1),
    Point(fanout=2, publishers=2, qos=2),
    Point(fanout=0, others=30),
    Point(fanout=1, others=50, qos=1),
)
"""Loads that every broker carries."""


def test_the_full_plan_has_what_the_page_shows() -> None:
    plan = points.full()
    assert len(set(plan)) == len(plan)
    for qos in (0, 1, 2):
        for fanout in (1, 5, 10, 50):
            assert Point(fanout=fanout, qos=qos) in plan
        assert Point(publishers=50, qos=qos) in plan
    assert {point.idle for point in plan} == {0, 1_000, 10_000}
    assert {point.others for point in plan} == {0, 100_000}
    assert {point.content for point in plan} == {0, JSON_READ, CONDITION}
    assert with_baselines(plan) == plan
    assert len(set(points.usual())) == len(points.usual())


def test_points_are_read() -> None:
    assert parse("") == Point()
    assert parse("fanout=10, qos=2") == Point(fanout=10, qos=2)
    assert parse("idle=20") == Point(idle=20)
    for wrong, said in (
        ("speed=1", "no 'speed'"),
        ("qos=3", "must be 0 to 2"),
        ("fanout=x", "must be 0 to"),
        ("fanout=0", "nobody"),
        ("publishers=0", "nobody"),
    ):
        with pytest.raises(ConfigurationError, match=said):
            parse(wrong)


def test_what_only_ours_knows_comes_behind_its_baseline() -> None:
    asked = [Point(content=CONDITION), Point(), Point(fanout=5, content=JSON_READ)]
    assert with_baselines(asked) == [
        *(Point(), Point(content=CONDITION)),
        *(Point(fanout=5), Point(fanout=5, content=JSON_READ)),
    ]


ROW = MqttFigures(
    broker="reefcast",
    publishers=1,
    fanout=5,
    qos=1,
    others=0,
    content=0,
    idle=0,
    cpu_us_per_publication=20.0,
    cpu_us_per_delivery=4.0,
    publications_per_s=1234,
    ratio=2.0,
)


def test_ratios(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above 1 is better than the baseline: mosquitto, or ours without the content."""
    costs = {
        ("mosquitto", Point()): 30.0,
        ("reefcast", Point()): 10.0,
        ("reefcast", Point(content=CONDITION)): 40.0,
        ("mosquitto", Point(idle=9)): 500.0,
        ("reefcast", Point(idle=9)): 1000.0,
    }
    idle = {"publishers": 0, "fanout": 0, "cpu_us_per_publication": None}

    def carried(broker: str, point: Point) -> MqttFigures:
        row = replace(ROW, broker=broker, cpu_us_per_publication=costs[broker, point])
        return (
            replace(row, **idle, bytes_per_connection=int(costs[broker, point]), idle=9)
            if (point.idle)
            else row
        )

    monkeypatch.setattr(brokers, "installed", lambda: ["mosquitto", OURS])
    monkeypatch.setattr(measure, "_loaded", lambda broker, point, repeat: carried(broker, point))
    monkeypatch.setattr(measure, "_idle", carried)
    told: list[str] = []
    asked = [Point(content=CONDITION), Point(idle=9)]
    rows = list(measure.measure(asked, 1, told.append))
    assert [(row.broker, row.ratio) for row in rows] == [
        *(("mosquitto", 1.0), ("reefcast", 3.0)),
        ("reefcast", 0.25),
        *(("mosquitto", 1.0), ("reefcast", 0.5)),
    ]
    assert told[2] == "2 of 3: reefcast, 1 to 1, QoS 0, a condition on the content"


def test_more_connections_than_files_are_refused() -> None:
    with pytest.raises(LocalError, match="may open"):
        next(measure.measure([Point(idle=1 << 40)], 1, lambda _: None))


def test_tables() -> None:
    idle = replace(
        ROW, idle=1000, bytes_per_connection=9000, idle_cpu_ms_per_s=0.5, ratio=0.1, qos=0
    )
    assert figures([ROW, idle]) == (
        "| load | broker | µs/publication (CPU) | µs/delivery (CPU) | publications/s | ratio |\n"
        "| ---|---|--:|--:|--:|--: |\n"
        "| 1 to 5, QoS 1 | reefcast | 20 | 4 | 1,234 | 2 |\n"
        "\n"
        "| load | broker | bytes/connection | ms/s (CPU) | ratio |\n"
        "| ---|---|--:|--:|--: |\n"
        "| 1,000 idle connections | reefcast | 9,000 | 0.5 | 0.1 |\n"
    )


@pytest.mark.live
@pytest.mark.parametrize("broker", brokers.installed())
def test_everything_arrives_and_is_acknowledged(broker: str) -> None:
    with brokers.running(broker) as running:
        for point in SMALL:
            with connected(running, point) as session:
                load = session.run(301)
                again = session.run(40)
            count = -(-301 // point.publishers) * point.publishers
            assert load.publications == count
            assert load.deliveries == count * point.per_publication, point
            assert (load.missing, again.missing) == (0, 0)
            assert load.cpu_s > 0


class Backlog:
    """A broker that has work for 0.3 s left when the last delivery has come."""

    def __init__(self) -> None:
        self.until, self.used_s, self.looked = 0.0, 0.0, time.monotonic()

    def cpu_s(self) -> float:
        now = time.monotonic()
        self.used_s += max(0.0, min(now, self.until) - self.looked)
        self.looked = now
        return self.used_s


def test_what_is_left_to_do_counts_for_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """The acknowledgements of subscribers are read after the last delivery: that is no idle use."""
    broker = Backlog()
    with socket.socket() as first, socket.socket() as second:
        publisher = SimpleNamespace(publish=lambda count: None, socket=first)
        subscriber = SimpleNamespace(delivered=0, socket=second)
        session = Session(broker, [publisher], [subscriber], 0)  # type: ignore[arg-type, list-item]  # fakes

        def carry(expected: int) -> None:
            broker.cpu_s()
            broker.until = time.monotonic() + 0.3

        monkeypatch.setattr(session, "_carry", carry)
        load = session.run(10)
        session.rest()
    assert 0.25 < load.cpu_s < 0.35
    assert session._idle_share == 0.0


@pytest.mark.live
def test_content_is_looked_at() -> None:
    """What is published meets the condition."""
    point = Point(fanout=2, content=CONDITION)
    with (
        brokers.running(OURS, reads_json=True) as running,
        connected(running, point) as session,
    ):
        assert session.run(100).deliveries == 200


@pytest.mark.live
def test_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CPU_S", "IDLE_S", "SETTLE_S", "REST_S"):
        monkeypatch.setattr(measure, name, 0.02)
    given = ["mqtt", "--points", "fanout=2,qos=1", "--points", "idle=20", "--repeat", "1", "--json"]
    done = CliRunner().invoke(command, given)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["broker"] for row in rows] == brokers.installed() * 2
    assert rows[0]["ratio"] == 1.0 or brokers.installed() == [OURS]
    *loaded, first, last = rows if len(rows) == 4 else [*rows, rows[-1]]
    assert first["idle"] == last["idle"] == 20
    assert isinstance(last["bytes_per_connection"], int)  # of 20 connections it may be nothing
    assert last["idle_cpu_ms_per_s"] >= 0 and last["cpu_us_per_publication"] is None
    for row in loaded[: len(rows) // 2]:
        assert (row["fanout"], row["qos"], row["missing"], row["idle"]) == (2, 1, 0, 0)
        twice = 2 * row["cpu_us_per_delivery"]
        assert row["cpu_us_per_publication"] == pytest.approx(twice, abs=0.01)
    assert ("mosquitto is not installed" in done.stderr) is (brokers.installed() == [OURS])


def test_full_and_chosen_points_exclude_each_other() -> None:
    done = CliRunner().invoke(command, ["mqtt", "--full", "--points", "fanout=2"])
    assert done.exit_code == 2
    assert "choose one" in done.output

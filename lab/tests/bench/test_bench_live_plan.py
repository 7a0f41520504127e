"""What `reefcast-lab bench live` measures: points, events and filters, processor time, medians, and
its plot."""

from __future__ import annotations

import os
import time
from dataclasses import replace

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast_lab.bench import quotes
from reefcast_lab.bench.live import brokers, cpu, points
from reefcast_lab.bench.live.measure import BrokerFigures, Load, medians
from reefcast_lab.bench.live.page import figures, plot
from reefcast_lab.bench.live.points import Point, parse

ROW = BrokerFigures(
    broker="reefcast",
    subscriptions=1,
    fanout=1,
    payload_bytes=0,
    attributes=7,
    others=0,
    selectivity=None,
    brokers=1,
    way="direct",
    grants=0,
    scraped=0,
    publications_per_s=100,
    deliveries_per_s=100,
    deliveries_per_publication=1.0,
    cpu_us_per_publication=5.0,
    cpu_us_per_delivery=5.0,
    cpu_spread=0.1,
    busy=1.0,
    missing=0,
    delay_p50_us=100,
    delay_p99_us=200,
    ratio=1.0,
)


def test_the_usual_plan_has_every_value_once_and_one_dimension_at_a_time() -> None:
    plan = points.usual()
    assert len(set(plan)) == len(plan)
    assert {point.fanout for point in plan} == {1, 5, 10, 50, 1000}
    assert {point.payload for point in plan} == {0, 32, 1024, 65536}
    assert {point.attributes for point in plan} == {7, 3, 50}
    beside = {(point.others, point.selectivity) for point in plan if point.others}
    assert beside == {(n, s) for n in (1_000, 10_000, 100_000) for s in (0.001, 0.02)}
    chains = [point for point in plan if point.brokers > 1]
    assert chains == [Point(brokers=3), Point(fanout=10, brokers=3)]
    ways = [point for point in plan if point.way != "direct"]
    assert ways == [
        replace(load, way=way)
        for load in (Point(), Point(fanout=10), Point(payload=1024))
        for way in ("tunnel", "tls")
    ]
    for point in plan[: -len(chains + ways)]:
        away = (point.fanout != 1, point.payload, point.attributes != 7, point.others)
        assert sum(map(bool, away)) <= 1
    assert len(points.full()) == len(set(points.full())) == 5 * 3 * 2 * 7


def test_a_point_is_read_from_its_numbers() -> None:
    assert parse("") == Point()
    assert parse("fanout=10, payload=1024") == Point(fanout=10, payload=1024)
    assert parse("others=5,selectivity=0.02,attributes=50") == Point(1, 0, 50, 5, 0.02)
    assert parse("way=tls") == Point(way="tls")
    assert str(parse("others=5000,selectivity=0.02")) == (
        "fan-out 1, 5,000 other subscriptions of 2.0%"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("fan=1", "no 'fan'"),
        ("fanout", "'' must be 1 to 5000"),
        ("fanout=0", "'0' must be 1 to 5000"),
        ("payload=a", "'a' must be 0 to"),
        ("selectivity=0.5", "'0.5' must be 0.001 or 0.02"),
        ("way=far", "'far' must be direct or tunnel or tls"),
    ],
)
def test_what_is_no_point_is_refused(text: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        parse(text)


def test_topic_brokers_see_no_difference_between_others() -> None:
    loads = {point.topic_load for point in points.usual() if point.others}
    assert len(loads) == 1
    assert loads.pop().connections == 11
    assert Point(fanout=5).topic_load == Point(fanout=5)


@pytest.mark.parametrize("selectivity", quotes.SELECTIVITIES)
def test_filters_match_the_share_that_they_should(selectivity: float) -> None:
    events = quotes.events(400, 3)
    filters = [parse_filter(text) for text in quotes.filters(400, selectivity)]
    found = sum(each.holds(event) for each in filters for event in events)
    assert found / (400 * 400) == pytest.approx(selectivity, rel=0.2)


def test_every_connection_gets_its_filters() -> None:
    filters = Point(fanout=3, others=25).filters()
    assert filters[:3] == [[quotes.EVERYTHING]] * 3
    assert sorted(len(each) for each in filters[3:]) == [2] * 5 + [3] * 5
    assert {each for part in filters[3:] for each in part} == set(quotes.filters(25, 0.001))


def test_more_attributes_leave_the_quotes_as_they_are() -> None:
    plain, more, few = (quotes.events(5, count) for count in (7, 50, 3))
    assert [len(event) for event in more] == [50] * 5
    assert [{k: event[k] for k in plain[0]} for event in more] == plain
    assert [list(event) for event in few] == [["symbol", "price", "volume"]] * 5
    assert {type(value) for value in more[0].values()} == {int, float, str}


def test_processor_time_is_that_of_the_process() -> None:
    before = time.process_time()
    used = cpu.used_s(os.getpid())
    assert used is not None
    assert before <= used <= time.process_time()


@pytest.mark.live
def test_processor_time_as_ps_tells_it() -> None:
    told = cpu.from_ps(os.getpid())
    assert told is not None
    assert abs(told - time.process_time()) < 1.5  # some tell whole seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0:00.01\n", 0.01),
        ("  12:34.50", 754.5),
        ("01:02:03", 3723.0),
        ("2-01:02:03", 176523.0),
        ("", None),
        ("-", None),
    ],
)
def test_what_ps_writes(text: str, seconds: float | None) -> None:
    assert cpu.parse_ps(text) == seconds


def test_a_row_has_medians() -> None:
    loads = [Load(100, 300, 0, 2.0, cpu_s) for cpu_s in (0.5, 0.3, 0.4)]
    assert medians(loads) == {
        "publications_per_s": 50,
        "deliveries_per_s": 150,
        "deliveries_per_publication": 3.0,
        "cpu_us_per_publication": 4000.0,
        "cpu_us_per_delivery": 1333.3333,
        "cpu_spread": 0.5,
        "busy": 0.2,
        "missing": 0,
    }


@pytest.mark.parametrize(
    ("seconds", "cpu_s", "times"),
    [
        (0.07, 0.05, 10.0),
        (0.7, 0.05, 2.0 / 0.7),
        (0.5, 0.2, 1.5),
        (0.07, None, 10.0),
        (4.0, 3.0, 0.175),
    ],
)
def test_a_run_lasts_long_enough_for_the_broker_to_be_measured(
    seconds: float, cpu_s: float | None, times: float
) -> None:
    assert Load(100, 100, 0, seconds, cpu_s).times_fitting == pytest.approx(times)


def test_without_processor_times_the_rest_is_told() -> None:
    figures = medians([Load(100, 0, 100, 2.0, None)])
    assert figures["publications_per_s"] == 50
    assert figures["missing"] == 100
    assert [figures[name] for name in ("cpu_us_per_publication", "cpu_spread", "busy")] == [
        None
    ] * 3


def test_baselines_that_are_not_installed_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        brokers, "program", lambda name: None if name == "nats" else "/bin/mosquitto"
    )
    assert brokers.installed() == ["mosquitto", "reefcast"]
    assert brokers.missing() == ["nats"]


def test_the_tables_have_a_line_for_each_load() -> None:
    rows = [
        replace(ROW, broker="nats", cpu_us_per_publication=0.25),
        ROW,
        replace(ROW, others=1_000, selectivity=0.02),
        replace(ROW, brokers=3),
    ]
    costs, delays = (
        [[cell.strip() for cell in line.strip("| ").split("|")] for line in table.splitlines()]
        for table in figures(rows).split("\n\n")
    )
    titles, _, first, second, chain = costs
    assert titles[:4] == [
        "load",
        "publication: mosquitto",
        "publication: NATS",
        "publication: Reefcast",
    ]
    assert first[:4] == ["fan-out 1, 0 other subscriptions", "", "0.25", "5"]
    assert second[:4] == ["fan-out 1, 1,000 other subscriptions of 2.0%", "", "", "5"]
    assert chain[0] == "fan-out 1, 0 other subscriptions, chain of 3 brokers"
    assert delays[0][3:5] == ["p50: Reefcast", "p99: mosquitto"]
    assert delays[2] == ["fan-out 1, 0 other subscriptions", "", "100", "100", "", "200", "200"]


def test_the_plot_has_a_panel_for_each_dimension_that_was_measured() -> None:
    rows = [ROW, replace(ROW, fanout=10, cpu_us_per_delivery=0.5), replace(ROW, payload_bytes=32)]
    drawn = plot(rows)
    assert drawn == plot(rows)
    assert "connections that want everything" in drawn
    assert "bytes of payload" not in drawn
    rows += [replace(ROW, others=n, selectivity=0.02) for n in (1_000, 10_000)]
    assert "others, of 2 %" in plot(rows)
    assert "<svg" in plot([])

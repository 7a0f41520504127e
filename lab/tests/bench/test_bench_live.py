"""`reefcast-lab bench live` with live brokers, small, beside the baselines that are installed."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner

from reefcast.errors import PeerError
from reefcast.model.filters import parse_filter
from reefcast.server.supervisor import free_ports
from reefcast_lab.bench import quotes
from reefcast_lab.bench.live import brokers, measure
from reefcast_lab.bench.live.brokers import OURS
from reefcast_lab.bench.live.measure import Bench
from reefcast_lab.bench.live.points import TLS, Point
from reefcast_lab.cli.bench import command

pytestmark = pytest.mark.live


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    """Yield the publishing and the receiving process."""
    with Bench() as started:
        yield started


def test_what_is_delivered_is_what_matches(bench: Bench) -> None:
    point, count = Point(fanout=2, others=300, selectivity=0.02, payload=100), 250
    filters = [[parse_filter(text) for text in each] for each in point.filters()]
    expected = sum(
        any(each.holds(event) for each in connection)
        for event in quotes.events(count)
        for connection in filters
    )
    with bench.connected(OURS, point) as session:
        load = session.run(count)
        slow = session.run(20, rate_per_s=100)
        delays_us = session.delays_us()
    assert load.deliveries == expected > 2 * count
    assert load.missing == slow.missing == 0
    assert load.cpu_s is None or 0 < load.cpu_s < 60
    assert slow.seconds > 0.1
    assert all(delay is not None and 0 < delay < 60e6 for delay in delays_us)


@pytest.mark.parametrize("broker", brokers.installed())
def test_large_bodies_come_whole_to_everybody(bench: Bench, broker: str) -> None:
    with bench.connected(broker, Point(fanout=3, payload=300_000)) as session:
        load = session.run(40)
    assert (load.deliveries, load.missing) == (120, 0)


def test_a_chain_of_brokers_delivers_everything(bench: Bench) -> None:
    with bench.connected(OURS, Point(fanout=2, brokers=3)) as session:
        session.rest()
        load = session.run(300)
    assert (load.deliveries, load.missing) == (600, 0)
    assert load.cpu_s is None or 0 < load.cpu_s < 60


def test_what_goes_through_a_tunnel_with_tls_comes_whole(bench: Bench) -> None:
    with bench.connected(OURS, Point(fanout=2, payload=50_000, way=TLS)) as session:
        load = session.run(300)
    assert (load.deliveries, load.missing) == (600, 0)


def test_a_broker_that_is_not_there_is_told_of(bench: Bench) -> None:
    (port,) = free_ports(1)
    with pytest.raises(PeerError, match="publisher failed: ConnectionRefused"):
        bench.publisher.ask("open", OURS, port, Point())


def test_a_point_that_failed_spoils_none_behind_it(bench: Bench) -> None:
    with pytest.raises(PeerError), bench.connected(OURS, Point(fanout=1)) as session:
        session.process.kill()
        while True:  # until the receiver has seen it
            bench.receiver.ask("begin_run", 1, False)
    with bench.connected(OURS, Point(fanout=2)) as session:
        assert session.run(20).missing == 0


def test_rows_and_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RUN_S", "HALF_S", "IDLE_S"):
        monkeypatch.setattr(measure, name, 0.05)
    given = ["live", "--points", "fanout=2", "--publications", "400", "--repeat", "1", "--json"]
    done = CliRunner().invoke(command, given)
    assert done.exit_code == 0, done.output
    rows = json.loads(done.stdout)
    assert [row["broker"] for row in rows] == brokers.installed()
    assert "measuring 1 of 1: reefcast, fan-out 2, 0 other subscriptions" in done.stderr
    assert rows[0]["ratio"] == 1.0
    for row in rows:
        assert (row["fanout"], row["others"], row["payload_bytes"]) == (2, 0, 0)
        assert row["deliveries_per_publication"] == 2.0
        assert row["publications_per_s"] > 0
        assert row["delay_p50_us"] <= row["delay_p99_us"]
        if row["cpu_us_per_publication"] is not None:
            twice = 2 * row["cpu_us_per_delivery"]
            assert row["cpu_us_per_publication"] == pytest.approx(twice, abs=0.01)
            assert row["cpu_us_per_publication"] > 0
    for name in brokers.missing():
        assert f"{brokers.PROGRAMS[name]} is not installed" in done.stderr


def test_full_and_chosen_points_exclude_each_other() -> None:
    done = CliRunner().invoke(command, ["live", "--full", "--points", "fanout=2"])
    assert done.exit_code == 2
    assert "choose one" in done.output

"""Each campaign of the mesh's evaluation, tiny: what it measures, by which strategies."""

from __future__ import annotations

import math
from typing import Any

import pytest

from reefcast.overlay.topology import hops_from
from reefcast.routing.mesh.options import MeshOptions
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.mesh import cluster_burst, light, meshes, throughput
from reefcast_lab.experiments.mesh.distribution import distribution
from reefcast_lab.experiments.mesh.measuring import MeshRun, brokers_with
from reefcast_lab.experiments.mesh.parameters import section
from reefcast_lab.experiments.mesh.topology import network
from reefcast_lab.experiments.mesh.traffic import Period, traffic
from reefcast_lab.experiments.octopia.parameters import section as octopia_section
from reefcast_lab.experiments.script import Script

TINY = {
    "overlay": {"C1": 22, "C2": 30, "C3": 22, "CPL": 10},
    "mesh": {"subscribe_s": 0.5, "round_s": 2.0},
    "light": {"duration_s": 12.0},
    "covering": {"fanouts": [5, 10], "warm_rounds": 2},
    "throughput": {
        "per_minute": 12_000,
        "warm_rounds": 2,
        "duration_s": 1.0,
        "publication_s": 0.02,
    },
    "uplinks": {"warm_rounds": 2, "duration_s": 2.0},
    "planetlab": {"warm_rounds": 2, "duration_s": 2.0},
    "friends": {"warm_rounds": 2, "duration_s": 3.0},
    "meshes": {"rounds": 3},
    "social": {"users": 60, "pairs": 120, "interactions": 400},
    **{f"DT{number}": {"subscriptions": 120, "feeds": 20} for number in range(1, 6)},
    "DT-C": {"subscriptions": 120, "feeds": 10},
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("REEFCAST_SOCIAL", raising=False)
    for name, values in TINY.items():
        for key, value in values.items():
            monkeypatch.setitem(section(name, "small")._values, key, value)


def run(campaign: str, routing: str, x: float, variant: str = "") -> Run:
    return Run("mesh", "small", campaign, routing, x, variant, 1)


def figures(measures: list[Measure]) -> dict[str, float]:
    assert all(math.isfinite(measure.value) for measure in measures)
    return {measure.metric: measure.value for measure in measures if measure.at == 0.0}


def curve(measures: list[Measure], metric: str) -> list[float]:
    return [measure.value for measure in measures if measure.metric == metric]


def test_the_baseline_does_what_the_tree_makes_certain() -> None:
    """Deliveries, pure forwarders and copies are those counted without a simulation."""
    found = figures(light.measure(run("light", "S0", 1)))
    tree = network("C1", "small")
    crowd = traffic("DT1", tree, (Period(3600, 12.0),), "small", 1)
    subscriptions = [claim for claim in crowd.claims if not claim.advertises]
    spread = distribution(tree, Script(subscriptions, crowd.periods[0]))
    assert found["deliveries"] == pytest.approx(720 * spread.deliveries.mean)
    assert found["pure_forwarders"] == pytest.approx(720 * spread.pure_forwarders.mean)
    assert found["yield"] == pytest.approx(spread.yields)
    assert found["busiest_copies"] == pytest.approx(max(spread.copies.values()))
    assert found["soft_links"] == 0


def test_nothing_is_left_of_the_events_by_which_the_baseline_would_find_links(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is measured without them; all but the first and the last publications are the same."""
    one = run("throughput-DT1", "S0", 5)
    without = figures(throughput.measure_throughput(one))
    made = MeshRun.__init__

    def as_others(self: MeshRun, *given: Any) -> None:
        made(self, *given)
        assert not self._finds_links
        self._finds_links = True

    monkeypatch.setattr(MeshRun, "__init__", as_others)
    assert figures(throughput.measure_throughput(one)) == pytest.approx(without, rel=0.01)


def test_all_strategies_deliver_the_same_by_shorter_ways() -> None:
    measured = {s: light.measure(run("light", s, 1)) for s in ("S0", "S1", "S2", "SH")}
    found = {strategy: figures(measures) for strategy, measures in measured.items()}
    assert len({one["deliveries"] for one in found.values()}) == 1
    hops = {strategy: one["mean_hops"] for strategy, one in found.items()}
    assert hops["S2"] < hops["S1"] < hops["S0"]
    assert found["SH"]["mean_hops"] == hops["S2"], "SH must equal S2 while no uplink is full"
    for measures in measured.values():
        shares = curve(measures, "share_by_hops")
        assert shares == sorted(shares) and shares[-1] == 1.0
        assert curve(measures, "delay_s_by_share") == sorted(curve(measures, "delay_s_by_share"))
    assert 0 < found["S2"]["loads_share"] < 0.02 and found["S2"]["loads_are_few"] == 1.0
    assert found["S2"]["mean_delay_s"] > 1e-3 * hops["S2"]
    assert found["S2"]["soft_links"] > found["S0"]["soft_links"] == 0


def test_brokers_look_at_their_links_in_their_own_time() -> None:
    tree, entries = network("C1", "small"), section("mesh", "small")
    mesh = MeshRun(tree, "S2", 5, brokers_with(), "small", 1)
    each = mesh.kernel.setup.broker_options.values()
    lengths = [options.round_s for options in each if isinstance(options, MeshOptions)]
    assert len(set(lengths)) == len(tree)
    off = entries.round_s * entries.round_spread
    assert entries.round_s - off <= min(lengths) < max(lengths) <= entries.round_s + off


@pytest.mark.parametrize(
    ("campaign", "x"),
    [
        pytest.param(throughput.DT1, 35, marks=pytest.mark.soak),
        pytest.param(throughput.DT3, 5, marks=pytest.mark.soak),
        (throughput.UPLINK, 20),
        (throughput.LAB, 5),
        (throughput.SOCIAL_TRACE, 20),
    ],
)
def test_what_is_full_delivers_less_without_a_mesh(campaign, x) -> None:
    found = {s: figures(campaign.measure(run(campaign.name, s, x))) for s in ("S0", "S2")}
    shares = {strategy: one["delivered_share"] for strategy, one in found.items()}
    assert 0 < shares["S0"] < shares["S2"] <= 1.0
    rate = {strategy: one["deliveries_per_min"] for strategy, one in found.items()}
    assert rate["S0"] / rate["S2"] == pytest.approx(shares["S0"] / shares["S2"])


@pytest.mark.parametrize(
    ("campaign", "x"),
    [(throughput.DT1, 35), pytest.param(throughput.SOCIAL_TRACE, 20, marks=pytest.mark.soak)],
)
def test_faster_brokers_deliver_more(campaign, x) -> None:
    ways = ("half", "", "double")
    found = [figures(campaign.measure(run(campaign.name, "S0", x, way))) for way in ways]
    shares = [one["delivered_share"] for one in found]
    assert shares == sorted(shares, reverse=True) and shares[0] > shares[-1]


def test_an_uplink_is_shared_by_the_links_of_a_broker() -> None:
    """No broker sends more than its uplink allows; the rest is still under way."""
    found = figures(throughput.measure_uplinks(run("uplinks", "S0", 20)))
    published = 7200 * 2.0 / 60
    assert found["busiest_copies"] * published > 20 * 2.0, "queued, not sent"
    assert found["deliveries_per_min"] / 60 <= 22 * 20 * 1.2


def test_paths_grow_with_links() -> None:
    measures = meshes.measure_paths(run("paths", "S2", 22))
    found = figures(measures)
    assert found["most_paths"] > 1 and found["soft_links"] > 0
    shares = curve(measures, "pairs_by_paths")
    assert shares[0] == 1.0 and shares == sorted(shares, reverse=True)


def test_covering_sets_are_told_beside_those_of_the_least_fanout() -> None:
    measures = meshes.measure_covering(run("covering", "S2", 22))
    for name in ("rows", "evaluations"):
        first, second = curve(measures, f"{name}_by_fanout")
        assert first == 1.0 <= second
        growth = figures(measures)[f"{name}_growth"]
        assert growth == pytest.approx(second - 1)
        assert 0 <= figures(measures)[f"{name}_growth_longer"] != growth
    few, more = curve(measures, "soft_links_by_fanout")
    assert 0 < few < more


@pytest.mark.live
@pytest.mark.parametrize("routing", ["spr", pytest.param("idr", marks=pytest.mark.soak)])
def test_a_mesh_spares_clusters_their_pure_forwarders(
    routing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The burst is long enough that brokers, whose links share a sender, have less to send."""
    for key, value in {"subscribers": 40, "burst": 1500}.items():
        monkeypatch.setitem(octopia_section("burst", "small")._values, key, value)
    monkeypatch.setitem(section("cluster_burst", "small")._values, "publications", 10)
    without, mesh = (
        figures(cluster_burst.CAMPAIGN.measure(run("cluster_burst", each, 100_000)))
        for each in (routing, f"{routing}-mesh")
    )
    assert without["undelivered"] == mesh["undelivered"] == 0
    assert mesh["messages"] < without["messages"]
    assert mesh["mean_delay_s"] < without["mean_delay_s"]


@pytest.mark.parametrize("name", ["DT2", "DT-FB"])
def test_publishers_advertise_what_they_publish(name: str) -> None:
    tree = network("C1", "small")
    periods = Period(600, 6.0), Period(1200, 4.0)
    crowd = traffic(name, tree, periods, "small", 1)
    assert [len(events) for events in crowd.periods] == [60, 80]
    for period, events in zip(periods, crowd.periods, strict=True):
        times = [event.at_s for event in events]
        assert times == sorted(times) and times[-1] < period.duration_s
    advertised = {claim.client for claim in crowd.claims if claim.advertises}
    assert advertised == {event.client for events in crowd.periods for event in events}
    again = traffic(name, tree, [Period(8400, 1.0)], "small", 1)
    events = [event for part in crowd.periods for event in part]
    assert [e.attributes for e in again.periods[0]] == [e.attributes for e in events]
    assert all(hops_from(tree, event.broker) for event in events)

"""Each campaign of StAN's evaluation, tiny: what it measures, and what must hold."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.gossip import (
    alignment,
    comparison,
    dissemination,
    growth,
    interests,
    lastfm,
    starting_degrees,
)
from reefcast_lab.experiments.gossip.aligning import usual_overlays
from reefcast_lab.experiments.gossip.claims import PAPER
from reefcast_lab.experiments.gossip.parameters import section

TINY = {
    "protocol": {"rounds": 12},
    "interests": {"nodes": 80, "topics": 30},
    "alignment": {"nodes": [60, 90], "topics": 30},
    "dissemination": {"nodes": 90, "topics": 30, "publications": 100},
}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name, values in TINY.items():
        for key, value in values.items():
            monkeypatch.setitem(section(name, "small")._values, key, value)
    usual_overlays.cache_clear()
    yield
    usual_overlays.cache_clear()


def run(campaign: str, routing: str, x: float) -> Run:
    return Run("gossip", "small", campaign, routing, x, "", 1)


def figures(measures: list[Measure]) -> dict[str, float]:
    assert all(math.isfinite(measure.value) for measure in measures)
    return {measure.metric: measure.value for measure in measures if measure.at == 0.0}


def curve(measures: list[Measure], metric: str) -> list[float]:
    return [measure.value for measure in measures if measure.metric == metric]


def test_the_protocol_keeps_logical_links_and_shares_physical_ones() -> None:
    measured = {r: alignment.measure(run("alignment", r, 60)) for r in ("unaligned", "aligned")}
    before, after = (figures(measured[routing]) for routing in ("unaligned", "aligned"))
    assert before["total_view"] == after["total_view"] > before["unique_view"]
    assert after["unique_view"] == pytest.approx(after["unique_limit"], rel=0.02)
    assert after["unique_view"] < before["unique_view"]
    assert after["clustering"] < before["clustering"]
    assert after["mean_path"] > before["mean_path"]
    assert after["connected"] == 1.0 and after["orphans"] == 0
    unique = curve(measured["aligned"], "unique_by_round")
    assert len(unique) == 13
    assert (unique[0], unique[-1]) == (before["unique_view"], after["unique_view"])
    assert set(curve(measured["aligned"], "total_by_round")) == {before["total_view"]}
    flat = curve(measured["unaligned"], "unique_by_round")
    assert flat == [before["unique_view"]] * 13


def test_degrees_by_the_share_of_the_nodes() -> None:
    measures = alignment.measure(run("alignment-2", "aligned", 60))
    found = figures(measures)
    for name in ("out", "in"):
        degrees = curve(measures, f"{name}_by_share")
        assert degrees == sorted(degrees) and degrees[-1] == found[f"most_{name}"]
    assert 0 <= found["in_beside_out"] <= 1
    assert found["connections"] >= found["unique_view"]


def test_topics_that_start_with_fewer_links() -> None:
    """The largest x is the preset, on the scenario of dissemination."""
    found = {
        x: figures(starting_degrees.measure(run("starting-degrees", "aligned", x)))
        for x in section("starting-degrees", "small").x
    }
    assert list(found)[-1] == section("protocol", "small").degree
    views = [one["total_view"] for one in found.values()]
    assert views == sorted(views) and views[0] < 0.8 * views[-1]
    assert [one["connected"] for one in found.values()] == [1.0] * 3
    assert found[1.25]["diameter"] >= found[2.0]["diameter"]


def test_greedy_is_ahead_of_the_witness_rule() -> None:
    rounds = {
        routing: curve(alignment.measure(run("alignment", routing, 90)), "unique_by_round")
        for routing in ("aligned", "greedy")
    }
    assert rounds["greedy"][0] == rounds["aligned"][0]
    assert sum(rounds["greedy"]) < sum(rounds["aligned"])


def test_growth_starts_from_one_scenario() -> None:
    once = [growth.measure(run("growth", routing, 1)) for routing in ("more nodes", "more topics")]
    assert once[0] == once[1]
    twice = {
        routing: figures(growth.measure(run("growth", routing, 2)))
        for routing in ("more nodes", "more topics")
    }
    assert twice["more topics"]["total_view"] > twice["more nodes"]["total_view"]
    assert twice["more topics"]["unique_after"] > figures(once[0])["unique_after"]


def test_the_curves_of_interests_hold_all_nodes_and_topics() -> None:
    measures = interests.measure(run("interests", "grid", 80))
    found = figures(measures)
    subscribers = curve(measures, "subscribers_by_rank")
    subscriptions = curve(measures, "subscriptions_by_rank")
    assert len(subscribers) == 30 and len(subscriptions) == 80 - found["without"]
    assert sum(subscribers) == sum(subscriptions)
    assert subscribers == sorted(subscribers, reverse=True)
    levels = [found[f"pairs_{level}"] for level in (90, 95, 98, 99)]
    assert levels == sorted(levels, reverse=True)


@pytest.mark.parametrize("routing", ["unaligned", "aligned"])
def test_dissemination_with_and_without_faults(routing: str) -> None:
    whole = dissemination.measure(run("losses", routing, 0))
    assert figures(whole)["delivered"] == figures(whole)["whole"] == 1.0
    delivered = curve(whole, "delivered_by_fanout")
    assert len(delivered) == 10 and delivered[0] < delivered[4] <= 1.0
    assert figures(whole)["delivered_5"] == delivered[4]
    for campaign in ("losses", "crashes", "failures"):
        faulty = dissemination.measure(run(campaign, routing, 20))
        assert sum(curve(faulty, "delivered_by_fanout")) < sum(delivered)
        assert figures(faulty)["delivered"] > 0.95
    both = curve(dissemination.measure(run("failures", routing, 20)), "delivered_by_fanout")
    lost = curve(dissemination.measure(run("losses", routing, 20)), "delivered_by_fanout")
    assert sum(both) < sum(lost)


def test_several_topics_cross_a_shared_link_once() -> None:
    found = {
        routing: figures(dissemination.measure_topics(run("several-topics", routing, 2)))
        for routing in ("unaligned", "aligned")
    }
    for one in found.values():
        assert one["delivered_to_all"] == 1.0
        assert one["copies_to_all"] < one["copies_apart_to_all"]
    assert found["aligned"]["copies_to_all"] < found["unaligned"]["copies_to_all"]
    single = figures(dissemination.measure_topics(run("several-topics", "aligned", 1)))
    assert single["copies_to_all"] == single["copies_apart_to_all"]


def test_alternatives_take_fewer_connections_and_break_or_tell() -> None:
    found = {
        (routing, x): figures(comparison.measure(run("alternatives", routing, x)))
        for routing in comparison.ROUTINGS
        for x in (0, 20)
    }
    connections = [found[routing, 0]["connections"] for routing in comparison.ROUTINGS]
    assert connections == sorted(connections, reverse=True)
    assert found["aligned", 20]["reached"] > found["minimal", 20]["reached"]
    assert found["minimal", 0]["reached"] == found["aligned", 0]["reached"] == 1.0
    for routing in ("clustered", "minimal"):
        assert found[routing, 0]["disclosed"] > 0
    assert found["aligned", 0]["disclosed"] == 0


def test_measures_of_the_small_scale_are_those_that_claims_and_plots_name(monkeypatch) -> None:
    monkeypatch.delenv(lastfm.VARIABLE, raising=False)
    named = {(claim.campaign, claim.of, claim.measure) for claim in PAPER.claims}
    plotted = {(plot.campaign, plot.measure) for plot in PAPER.plots}
    for campaign in PAPER.campaigns:
        found = set()
        for one in {r.routing: r for r in campaign.runs("small") if r.seed == 0}.values():
            found |= {(one.routing, measure.metric) for measure in campaign.measure(one)}
        for name, of, measure in named:
            assert name != campaign.name or (of, measure) in found or not found
        measured = {metric for _, metric in found}
        for name, measure in plotted:
            assert name != campaign.name or measure in measured or not found

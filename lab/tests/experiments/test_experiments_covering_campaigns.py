"""Each campaign of the covering paper's evaluation, tiny: what it measures, twice with the same
results; and the figures computed from literal deliveries."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from reefcast.overlay.topology import hops_from
from reefcast_lab.experiments.campaign import SCALES, Measure, Run
from reefcast_lab.experiments.columns import Delivered
from reefcast_lab.experiments.covering import parameters, slow, workflows
from reefcast_lab.experiments.covering.claims import PAPER
from reefcast_lab.experiments.covering.crowd import Crowd, Subscription, workload
from reefcast_lab.experiments.covering.measuring import Sample, delay_curve, delays, queue_curve
from reefcast_lab.experiments.covering.topology import Topology, core_topology

TINY: dict[str, dict[str, Any]] = {
    "network": {"rows_cost": 400.0},
    "processing": {"degree": 10, "publications": 120, "simulated": 60, "selectivity": 0.1},
    "unsubscribing": {
        "roots": 20,
        "degree": 20,
        "selectivity": 0.3,
        "warm_s": 2.0,
        "publish_gap_s": 0.02,
        "compared_x": 10,
        "within_s": 2.0,
        "observe_s": 10.0,
        "sample_s": 1.0,
        "steady_s": 5.0,
    },
    "slow": {
        "row_cost": 2.0,
        "comparison_cost": 2.0,
        "subscriptions": 420,
        "degree": 20,
        "selectivity": 0.3,
        "subscribe_gap_s": 0.1,
        "warm_s": 5.0,
        "publish_gap_s": 0.05,
        "publications": 400,
        "compared_x": 8,
        "unsubscribe_gap_s": 0.1,
        "congested": 10,
        "probes": 10,
        "probes_after_s": 3.0,
        "sample_s": 1.0,
    },
    "workflow": {
        "deploy_s": 20.0,
        "period_s": 50.0,
        "activity_s": 1.0,
        "duration_s": 300.0,
        "log_case_s": 30.0,
    },
    "mobile": {
        "subscribers": 40,
        "publishers": 3,
        "selectivity": 0.05,
        "deploy_s": 10.0,
        "duration_s": 60.0,
        "publish_gap_s": 0.5,
        "monitor_move_s": 10.0,
        "sample_s": 5.0,
    },
    "own": {
        "matched": 3.0,
        "warm_s": 1.0,
        "observe_s": 3.0,
        "slow_rate": 20.0,
        "fast_rate": 100.0,
    },
}
XS = {
    "processing": 88,
    "unsubscribing": 10,
    "degree": 20,
    "threshold": 0.9,
    "placements": 20,
    "placements_threshold": 0.9,
    "workflow": 0.05,
    "event_log": 20,
    "slow_engine": 8,
    "slow_engine_middle": 8,
    "slow_engine_degree": 20,
    "clustered": 8,
    "mobile": 60,
    "own_engine": 30,
    "own_engine_fast": 30,
}
"""One size of each campaign."""


@pytest.fixture(autouse=True, scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        for name, values in TINY.items():
            for key, value in values.items():
                patch.setitem(parameters.section(name, "small")._values, key, value)
        log = event_log(tmp_path_factory.mktemp("log") / "log.csv")
        patch.setenv(workflows.LOG_VARIABLE, str(log))
        yield
    measured.cache_clear()


def event_log(path: Path) -> Path:
    """Return 22 cases of three steps, one a minute, performed by three people; the last two cases
    lie idle for months."""
    lines = ["case:concept:name,concept:name,time:timestamp,org:resource,case:AMOUNT_REQ"]
    for case in range(22):
        for step in range(3):
            month = 1 + step * 3 * (case >= 20)
            when = f"2012-{month:02d}-01T00:{case:02d}:{step * 10:02d}+00:00"
            lines.append(f"{case},step {step},{when},person {(case + step) % 3},{case * 100}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def run(campaign: str, routing: str, x: float, variant: str = "") -> list[Measure]:
    one = Run("covering", "small", campaign, routing, float(x), variant, 1)
    return PAPER.campaign(campaign).measure(one)


@cache
def measured(campaign: str, routing: str, x: float = 0.0, variant: str = "") -> tuple[Measure, ...]:
    return tuple(run(campaign, routing, x or XS[campaign], variant))


def figures(campaign: str, routing: str, x: float = 0.0, variant: str = "") -> dict[str, float]:
    measures = measured(campaign, routing, x, variant)
    assert all(math.isfinite(measure.value) for measure in measures)
    return {measure.metric: measure.value for measure in measures if measure.at == 0.0}


def curve(measures: tuple[Measure, ...], metric: str) -> list[tuple[float, float]]:
    return [(measure.at, measure.value) for measure in measures if measure.metric == metric]


# --- what must come out ---------------------------------------------------------------------------


def crowd(campaign: str, subscriptions: int) -> Crowd:
    entries = parameters.section(campaign, "small")
    return workload(
        core_topology(),
        subscriptions=subscriptions,
        degree=entries.degree,
        selectivity=entries.selectivity,
        seed=1,
    )


def side(made: Topology, broker: str, subscriber: str) -> str:
    """Return the neighbour of `broker` on the path to that subscriber's broker."""
    hops = hops_from(made.graph, subscriber)
    return min(made.graph[broker], key=hops.__getitem__)


def beyond(made: Topology, broker: str, subscriber: str) -> bool:
    """Return whether the path from the subscriber's broker to the publishers leads over
    `broker`."""
    hops, publisher = hops_from(made.graph, broker), made.publishers[0]
    return hops[subscriber] + hops[publisher] == hops_from(made.graph, subscriber)[publisher]


@pytest.mark.long
def test_without_covering_every_subscription_comes_to_the_brokers_on_its_way() -> None:
    made, everybody = core_topology(), crowd("processing", 88)
    came = sum(
        beyond(made, core, one.broker)
        for core in made.tiers[0]
        for one in (*everybody.subscriptions, *everybody.probes)
    )
    none, active = figures("processing", "none"), figures("processing", "active")
    assert none["rows"] == came / 5
    assert none["subscriptions"] == pytest.approx(came / 5)
    assert none["covering_s"] == none["unsubscriptions_s"] == 0 < none["matching_s"]
    assert active["rows"] < figures("processing", "lazy")["rows"] <= none["rows"]
    assert active["covering_s"] > 0 < active["unsubscriptions_s"]
    assert active["publications_s"] < none["publications_s"]
    for strategy in ("none", "lazy", "active"):
        found = figures("processing", strategy)
        parts = ("matching_s", "covering_s", "unsubscriptions_s", "publications_s")
        assert found["total_s"] == pytest.approx(sum(found[part] for part in parts))


def nrs(made: Topology, everybody: Crowd, gone: list[Subscription], broker: str) -> int:
    """Return how many subscriptions come to a broker to replace roots: the narrow ones of their
    classes that lie behind it on the same side as the root, which had covered them there."""
    sides = {name: side(made, broker, name) for name in made.subscribers if name != broker}
    root_side = {
        root.klass: sides[root.broker] for root in gone if beyond(made, broker, root.broker)
    }
    return sum(
        not one.root
        and beyond(made, broker, one.broker)
        and root_side.get(one.klass) is not None
        and sides[one.broker] == root_side[one.klass]
        for one in everybody.subscriptions
    )


@pytest.mark.live
@pytest.mark.long
@pytest.mark.parametrize("strategy", ["active", pytest.param("packing", marks=pytest.mark.soak)])
def test_what_takes_the_place_of_roots_is_counted_where_it_comes(strategy: str) -> None:
    """What came before the roots were withdrawn does not count."""
    made, everybody = core_topology(), crowd("unsubscribing", 420)
    gone = everybody.leavers(10, 1)
    found = figures("unsubscribing", strategy)
    assert {name: found[f"nrs_{name}"] for name in made.tiers[0]} == {
        name: nrs(made, everybody, gone, name) for name in made.tiers[0]
    }
    inner = [nrs(made, everybody, gone, name) for name in made.tiers[1]]
    assert found["nrs_inner"] == pytest.approx(sum(inner) / len(inner))


@pytest.mark.live
@pytest.mark.long
def test_incremental_sends_less_and_keeps_delays_short_where_active_congests() -> None:
    active, incremental = (figures("unsubscribing", of) for of in ("active", "incremental"))
    assert active["largest_queue"] > 100 and active["largest_delay_s"] > 1
    assert incremental["mean_delay_s"] < active["mean_delay_s"] / 2
    assert incremental["nrs_E"] < active["nrs_E"]
    assert incremental["rows_before"] == active["rows_before"]
    assert incremental["rows_after"] < active["rows_after"]


@pytest.mark.live
@pytest.mark.long
def test_one_run_of_each_family_is_the_same_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    """The degree and the threshold of the default are those of Figs 9 and 11 and of Table III. A
    few publications and half of the subscriptions tell them apart."""
    values = parameters.section("unsubscribing", "small")._values
    for name, value in (("publish_gap_s", 0.25), ("roots", 10), ("observe_s", 5.0)):
        monkeypatch.setitem(values, name, value)
    once, *others = (
        run(campaign, "incremental", XS[campaign])
        for campaign in ("unsubscribing", "degree", "threshold")
    )
    assert others == [once, once]
    nrs = {
        theta: {found.metric: found.value for found in run("threshold", "incremental", theta)}
        for theta in (0.1, XS["threshold"])
    }
    assert nrs[0.1]["nrs_E"] <= nrs[XS["threshold"]]["nrs_E"]


@pytest.mark.live
@pytest.mark.long
def test_probes_come_to_every_broker_with_subscribers() -> None:
    for campaign in ("slow_engine", "slow_engine_degree", "clustered"):
        found = figures(campaign, "active")
        assert found["probe_deliveries"] == 10 * 29
        assert found["probe_delay_p10_s"] <= found["probe_delay_s"] * (1 + 1e-9)
    active, incremental = (figures("slow_engine", of) for of in ("active", "incremental"))
    for found in (active, incremental):  # that both differ is for the paper's scale to show
        assert found["congested_s"] > 0 and found["largest_queue"] > 1
    assert incremental["rows_core"] <= active["rows_core"]


@pytest.mark.soak
def test_a_slow_engine_is_felt_by_processes() -> None:
    quick, slowly = (figures("workflow", "active", variant=variant) for variant in ("", "slow"))
    assert slowly["steady_delay_s"] > quick["steady_delay_s"] > 0
    assert slowly["publish_messages"] == pytest.approx(quick["publish_messages"], rel=0.05)


def test_a_real_log_is_played_without_its_longest_cases(monkeypatch: pytest.MonkeyPatch) -> None:
    found = figures("event_log", "active")
    assert found["publish_messages"] > 0 and found["rows"] > 0
    (made, *_) = PAPER.campaign("event_log").runs("small")
    assert made.x == parameters.section("workflow", "small").log_cases
    monkeypatch.delenv(workflows.LOG_VARIABLE)
    assert PAPER.campaign("event_log").runs("small") == []


@pytest.mark.long
def test_who_moves_is_measured_by_tier_and_over_time() -> None:
    rows = [value for _, value in curve(measured("mobile", "active"), "rows_now")]
    assert len(rows) == 12
    assert figures("mobile", "active")["rows"] == pytest.approx(np.mean(rows))
    assert figures("mobile", "active")["rows_deviation"] == pytest.approx(np.std(rows))
    wrong = {
        of: sum(figures("mobile", of)[f"false_positives_{tier}"] for tier in range(4))
        for of in ("active", "incremental")
    }
    assert wrong["incremental"] > wrong["active"]


@pytest.mark.live
@pytest.mark.long
def test_our_engine_is_measured_at_both_rates() -> None:
    slowly, fast = (figures(name, "active") for name in ("own_engine", "own_engine_fast"))
    assert 0 < slowly["mean_delay_s"] <= slowly["largest_delay_s"]
    assert 0 < fast["mean_delay_s"] <= fast["largest_delay_s"]


@pytest.mark.live
@pytest.mark.long
@pytest.mark.parametrize(
    "campaign",
    [
        pytest.param("unsubscribing", marks=pytest.mark.soak),
        pytest.param("slow_engine", marks=pytest.mark.soak),
        "mobile",
        "own_engine",
    ],
)
def test_one_seed_measures_the_same_again(campaign: str) -> None:
    again = run(campaign, "incremental", XS[campaign])
    assert tuple(again) == measured(campaign, "incremental")


# --- the plan -------------------------------------------------------------------------------------


@pytest.mark.live
@pytest.mark.soak
def test_claims_and_plots_use_what_the_campaigns_run_and_measure() -> None:
    for claim in PAPER.claims:
        for strategy in {claim.of, claim.against or claim.of}:
            assert claim.measure in figures(claim.campaign, strategy), claim
    for plot in PAPER.plots:
        metrics = {measure.metric for measure in measured(plot.campaign, "incremental")}
        assert plot.measure in metrics, plot


def test_every_run_is_repeated_with_other_seeds() -> None:
    for campaign in PAPER.campaigns:
        for scale in SCALES:
            seeds = {run.seed for run in campaign.runs(scale)}
            assert len(seeds) >= (8 if "placements" in campaign.name else 3), campaign.name


def test_the_paper_scale_is_the_papers() -> None:
    sizes = {c.name: sorted({r.x for r in c.runs("paper")}) for c in PAPER.campaigns}
    assert sizes["processing"] == [42_000]
    assert sizes["unsubscribing"] == [10, 20] and sizes["slow_engine"] == [100, 300]
    assert sizes["degree"] == [700, 1400] and sizes["threshold"] == [0.1, 0.5]
    assert sizes["placements"] == [700, 1400, 2100]
    assert sizes["placements_threshold"] == [0.1, 0.5, 0.9]
    assert sizes["slow_engine_middle"] == [200] and sizes["slow_engine_degree"] == [10, 50]
    entries = parameters.section("unsubscribing", "paper")
    assert (entries.roots, entries.degree, entries.observe_s) == (20, 2100, 3 * 3600)
    assert parameters.section("slow", "paper").subscriptions == 30_000
    compared = [r.routing for r in PAPER.campaign("unsubscribing").runs("paper") if r.x == 20]
    assert set(compared) == {"active", "lazy", "packing", "incremental"}


# --- figures of literal deliveries ----------------------------------------------------------------


def delivered(*rows: tuple[float, float, int]) -> Delivered:
    """Return deliveries, each given as (published at, delay, width)."""
    at, delay, width = (np.array(column) for column in zip(*rows, strict=True))
    return Delivered(at + delay, delay, width)


STREAM = delivered((1.0, 9.0, 5), (10.0, 1.0, 1), (11.0, 4.0, 2), (20.0, 0.5, 1), (25.0, 0.1, 4))


def test_delays_are_of_what_was_published_from_then_on() -> None:
    found = delays(STREAM, 10.0, 20.0)
    assert found == {
        "mean_delay_s": pytest.approx((1 + 8 + 0.5 + 0.4) / 8),
        "largest_delay_s": 4.0,
        "steady_delay_s": pytest.approx((0.5 + 0.4) / 5),
    }
    assert "steady_delay_s" not in delays(STREAM, 10.0, 30.0)


def test_a_curve_has_a_point_for_each_gap_with_something_in_it() -> None:
    found = [(m.metric, m.at, pytest.approx(m.value)) for m in delay_curve(STREAM, 10.0, 5.0)]
    assert found == [("delay_s", 0.0, 9 / 3), ("delay_s", 10.0, 0.5), ("delay_s", 15.0, 0.1)]


def test_the_queue_is_the_longest_of_the_brokers() -> None:
    samples = [
        Sample(1.0, [9, 0], [0, 0]),
        Sample(2.0, [1, 3], [0, 0]),
        Sample(3.0, [2, 0], [5, 5]),
    ]
    assert [(m.at, m.value) for m in queue_curve(samples, 2.0)] == [(0.0, 3.0), (1.0, 2.0)]


def test_spikes_are_what_was_published_right_after() -> None:
    found = workflows._of_spikes(STREAM, [10.0, 19.0], 1.5)
    assert found == {
        "spike_delay_s": pytest.approx((1.0 + 4.0 + 0.5) / 3),
        "largest_spike_delay_s": pytest.approx((4.0 + 0.5) / 2),
        "steady_delay_s": pytest.approx((9.0 + 0.1) / 2),
    }


def test_probes_are_told_by_when_they_were_published() -> None:
    found = slow._of_probes(STREAM, [10.0, 20.0])
    assert found["probe_deliveries"] == 2
    assert found["probe_delay_s"] == pytest.approx(0.75)
    assert found["probe_delay_p10_s"] == pytest.approx(0.55)
    assert found["probe_delay_p90_s"] == pytest.approx(0.95)


def test_congestion_lasts_until_the_last_long_queue() -> None:
    queues = [(100.0, 500), (110.0, 3), (120.0, 101), (130.0, 100)]
    kernel: Any = SimpleNamespace(samples=[Sample(at, [0, long], []) for at, long in queues])
    assert slow._congested_s(kernel, 95.0, 100) == 25.0
    assert slow._congested_s(kernel, 95.0, 500) == 0.0

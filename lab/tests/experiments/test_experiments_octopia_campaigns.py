"""Each campaign of OctopiA's evaluation, tiny: what it measures, on which routings, twice with the
same results."""

from __future__ import annotations

import math
from statistics import fmean
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest
from tiny_octopia import make_tiny

from reefcast.routing.router import Decision
from reefcast.routing.scot import ScotRouter
from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.octopia import (
    burst,
    delivery,
    publishers,
    selection,
    settling,
    subscribers,
)
from reefcast_lab.experiments.octopia.claims import PAPER
from reefcast_lab.experiments.octopia.grid import ALL
from reefcast_lab.experiments.octopia.market import market
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay
from reefcast_lab.experiments.octopia.publishers import structural_messages

pytestmark = pytest.mark.live


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    make_tiny(monkeypatch)


def run(campaign: str, routing: str, x: float, variant: str = "") -> Run:
    return Run("octopia", "small", campaign, routing, x, variant, 1)


def figures(measures: list[Measure]) -> dict[str, float]:
    assert all(math.isfinite(measure.value) for measure in measures)
    return {measure.metric: measure.value for measure in measures}


def test_publishers_count_what_the_overlay_makes_certain() -> None:
    octopia = figures(publishers.measure(run("publishers", "spr", 5)))
    padres = figures(publishers.measure(run("publishers", "tid-s", 5)))
    assert octopia["advertise_messages"] == octopia["structural_messages"] == 3
    assert padres["advertise_messages"] == padres["structural_messages"] == 217
    assert octopia["civ_unset_messages"] == 3 and padres["civ_unset_messages"] == 0
    assert octopia["advertisements_stored"] == pytest.approx(5 * 4 / 56)
    assert padres["advertisements_stored"] == 5
    assert 0 < octopia["advertisement_delay_s"] < padres["advertisement_delay_s"]
    assert octopia["brokers_in_a_row"] == 2
    assert 5 <= padres["brokers_in_a_row"] <= 7  # the tree's radius is 3, its diameter 5


def test_dynamic_routings_advertise_like_their_static_twins() -> None:
    assert structural_messages("idr") == 3
    assert structural_messages("tid-d") == 217


def test_subscribers_fill_the_tables_of_their_cluster_or_of_the_ways_to_publishers() -> None:
    octopia = figures(subscribers.measure(run("subscribers", "spr", 20)))
    padres = figures(subscribers.measure(run("subscribers", "tid-s", 20)))
    assert octopia["prt_rows"] == 20 * 14 / 56
    assert octopia["subscription_messages"] == 13
    assert 0 < padres["prt_rows"] < octopia["prt_rows"]
    assert 0 < padres["subscription_messages"] < octopia["subscription_messages"]
    assert octopia["civ_set_messages"] > 0 == padres["civ_set_messages"]
    assert octopia["subscription_delay_s"] > 0 and padres["subscription_delay_s"] > 0


@pytest.mark.parametrize("routing", ALL)
def test_delivery_reaches_all_and_is_the_same_again(routing: str) -> None:
    found = figures(delivery.measure(run("delivery", routing, 40)))
    again = figures(delivery.measure(run("delivery", routing, 40)))
    for name in ("matching_delay_s", "matching_delay_matched_s"):  # of the clock
        timed = {found.pop(name, None), again.pop(name, None)}
        assert (timed == {None}) == (routing in ("idr", "tid-d"))
    assert found == again
    assert found["deliveries_per_publication"] == pytest.approx(40 * 0.2, rel=0.3)
    assert found["publication_delay_s"] > 0


def test_all_routings_deliver_the_same() -> None:
    counts = {
        figures(delivery.measure(run("delivery", routing, 20)))["deliveries_per_publication"]
        for routing in ALL
    }
    assert len(counts) == 1


@pytest.mark.parametrize("routing", ALL)
def test_selection_times_a_routing_against_spr(routing: str) -> None:
    found = figures(selection.measure(run("selection", routing, 40)))
    assert found["selection_s"] > 0
    assert found["selection_over_spr"] > 0
    assert 0 < found["rows_matched"] <= found["prt_rows"]
    assert (found["searches"] > 0) == (routing == "tid-d")


def test_what_the_paper_s_brokers_look_at() -> None:
    """OctopiA at the host of a publisher; PADRES where it matches, where it only forwards, and
    where TID-D searches a table of 40 rows."""
    scot: Any = Mock(spec=ScotRouter, i_links={1: "a-1", 2: "a-2", 3: "a-3"})
    scot.is_neighbour = lambda link: link != "client"
    padres: Any = SimpleNamespace(prt=range(40))

    def looks(router: Any, link: str, **decision: Any) -> float:
        visit = selection.Visit(router, Mock(), (), Mock(), link)
        made = {"local": {}, "hops": [], "matched": 5, **decision}
        return selection.looks(visit, Decision(**made))

    assert looks(scot, "client") == 5 + 3
    assert looks(scot, "b-0") == 5
    assert looks(scot, "b-0", checked=2) == 5 + 2
    assert looks(padres, "b-0") == 2 * 5
    hop: Any = ("c-0", None)
    assert looks(padres, "b-0", matched=None, hops=[hop], checked=1) == 1 + 1
    assert looks(padres, "b-0", checked=1, searched=3) == 2 * 5 + 1 + 40


def test_selection_never_times_a_publication_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """TID-D would remember the publication."""
    rounds: list[set[object]] = []

    def watched(visits: list[selection.Visit]) -> float:
        rounds.append({visit.batch[0].publication.id for visit in visits})
        return 1.0

    monkeypatch.setattr(selection, "_time_of", watched)
    monkeypatch.setattr(settling, "apart", lambda work: work())
    selection.measure(run("selection", "tid-d", 40))
    of_tid_d = rounds[1::2]  # in turns with SPR
    assert [len(ids) for ids in of_tid_d] == [10] * 3
    assert len(set.union(*of_tid_d)) == 30


@pytest.mark.parametrize("routing", ALL)
def test_selection_asks_the_routers_what_a_network_would(routing: str) -> None:
    """Routers that are asked again must answer the same, and reach every subscriber."""
    one = run("selection", routing, 40)
    first = list(selection._visits(one, settling.settle(one, selection.population(one))))
    wanted = market(
        evaluation_overlay(), publishers=10, subscribers=40, seed=1, selectivity=0.2
    ).subscribers
    answers = []
    for turn in range(3):
        visits = selection._anew(first, turn)
        assert len({visit.batch[0].publication.id for visit in visits}) == 10
        decisions = [selection._ask(visit) for visit in visits]
        reached = sum(sum(map(len, decision.local.values())) for decision in decisions)
        assert reached == sum(len(subscriber.matches) for subscriber in wanted)
        answers.append([(decision.local, decision.hops) for decision in decisions])
    assert answers[0] == answers[1] == answers[2]


@pytest.mark.parametrize(
    "routing",
    [pytest.param(each, marks=[pytest.mark.soak] * (each == "tid-s")) for each in ALL],
)
def test_a_burst_loses_nothing_and_is_the_same_again(routing: str) -> None:
    measures = burst.measure(run("burst", routing, 100_000))
    assert burst.measure(run("burst", routing, 100_000)) == measures
    found = figures(measures)
    assert found["undelivered"] == 0
    assert max(found["longest_a_link_queue_own"], found["longest_i_link_queue_own"]) > 20
    assert found["worst_delay_s"] > 2 * found["level_s"]
    assert 0 <= found["under_1_s"] <= 1
    curve = [measure.at for measure in measures if measure.metric == "largest_delay_s"]
    assert curve == sorted(curve) and curve[0] < 0 < curve[-1]
    assert ("idr_decisions" in found) == (routing == "idr")


def test_idr_counts_its_cases_and_limits() -> None:
    found = figures(burst.measure(run("burst", "idr", 100_000)))
    assert found["idr_decisions"] > 0
    assert sum(found[f"idr_case_{case}_share"] for case in (1, 2, 3)) == pytest.approx(1)
    assert found["idr_overloaded_a_link"] > 0 and found["idr_overloaded_a_link_queue"] > 0


@pytest.mark.parametrize("seeds", [(3,), pytest.param((1, 2, 3), marks=pytest.mark.soak)])
def test_half_the_costs_make_delays_shorter_and_double_longer(seeds: tuple[int, ...]) -> None:
    """Ten seeds give 0.47 to 0.61 and 1.95 to 2.58 times the delay; what costs more waits more."""
    level = [
        fmean(
            figures(burst.measure(run("burst", "spr", 100_000, variant)._replace(seed=seed)))[
                "level_s"
            ]
            for seed in seeds
        )
        for variant in ("half", "", "double")
    ]
    assert 0.4 < level[0] / level[1] < 0.7
    assert 1.6 < level[2] / level[1] < 3


# --- the plan -------------------------------------------------------------------------------------


def test_claims_and_plots_use_what_the_campaigns_run_and_measure() -> None:
    measured = {
        "publishers": figures(publishers.measure(run("publishers", "spr", 5))),
        "subscribers": figures(subscribers.measure(run("subscribers", "spr", 20))),
        "delivery": figures(delivery.measure(run("delivery", "spr", 20))),
        "selection": figures(selection.measure(run("selection", "spr", 40))),
        "burst": figures(burst.measure(run("burst", "idr", 100_000))),
    }
    for claim in PAPER.claims:
        assert claim.measure in measured[claim.campaign], claim
    for plot in PAPER.plots:
        assert plot.measure in measured[plot.campaign], plot


def test_every_row_of_the_paper_is_there() -> None:
    assert {claim.id for claim in PAPER.claims} == {f"octopia/O{i}" for i in range(1, 14)}


def test_the_paper_scale_is_the_papers() -> None:
    sizes = {c.name: sorted({r.x for r in c.runs("paper")}) for c in PAPER.campaigns}
    assert sizes["publishers"] == [100, 200, 300, 400, 500]
    assert sizes["subscribers"][0] == sizes["delivery"][0] == 1_000
    assert sizes["subscribers"][-1] == sizes["delivery"][-1] == 10_000
    assert sizes["burst"] == [40_000, 60_000, 80_000, 100_000]
    seeds: dict[tuple[str, str, float, str], set[int]] = {}
    for campaign in PAPER.campaigns:
        for r in campaign.runs("paper"):
            seeds.setdefault((campaign.name, r.routing, r.x, r.variant), set()).add(r.seed)
    points = {point: of for point, of in seeds.items() if point[3] == ""}
    assert all(of >= {0, 1, 2} for of in points.values()), points
    shown = {point for point in seeds if point[3]}
    assert shown == {("burst", r, 1e5, variant) for r in ALL for variant in ("half", "double")}
    rates = [(r, x) for r in ALL for x in (40_000.0, 60_000.0, 80_000.0, 100_000.0)]
    assert {point[1:3] for point in points if point[0] == "burst"} == set(rates)

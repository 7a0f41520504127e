"""Covering inside clusters, small: who covers whom, what is owed, what a root's going causes."""

from __future__ import annotations

import pytest

from reefcast.errors import ConfigurationError
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.model.publication import Publication
from reefcast.simulation.checkers import CheckFailedError
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.clusters import covered
from reefcast_lab.experiments.clusters.claims import PAPER
from reefcast_lab.experiments.clusters.parameters import section
from reefcast_lab.experiments.clusters.population import Event, owed, wishes
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay

TINY = {"subscriptions": 60, "leavers": 3, "events": 30}


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in TINY.items():
        monkeypatch.setitem(section("covering", "small")._values, key, value)


def figures(campaign: str, mode: str) -> dict[str, float]:
    run = Run("clusters", "small", campaign, mode, 4.0, "", 0)
    return {measure.metric: measure.value for measure in covered.measure(run)}


def test_roots_cover_their_class_and_others_nothing() -> None:
    overlay = evaluation_overlay()
    clusters = [overlay.cluster(index) for index in range(overlay.clusters)]
    drawn = wishes(clusters, section("covering", "small"), 4, seed=0)
    assert sum(one.root for one in drawn) == 12
    for one in drawn:
        assert one.broker in clusters[one.kind % 4]
        covering = [
            other
            for other in drawn
            if other is not one and covers(parse_filter(other.filter), parse_filter(one.filter))
        ]
        assert [other.kind for other in covering] == [one.kind] * (not one.root)
        assert all(other.root for other in covering)


def test_what_is_owed_is_what_filters_say() -> None:
    drawn = wishes([["b1"]], section("covering", "small"), 4, seed=1)
    events = [Event(kind, price) for kind in range(12) for price in range(0, 100000, 777)]
    ends = next(one for one in drawn if not one.root)
    events += [
        Event(ends.kind, price) for price in (ends.low - 1, ends.low, ends.high, ends.high + 1)
    ]
    slowly = sum(
        parse_filter(one.filter).matches(
            Publication("p", 1, 0, {"class": event.kind, "price": event.price})
        )
        for one in drawn
        for event in events
    )
    assert owed(drawn, events) == slowly


def test_covering_saves_rows_and_pays_when_a_root_goes() -> None:
    none, active, packing = (figures("together", mode) for mode in ("none", "active", "packing"))
    assert {claim.measure for claim in PAPER.claims} <= none.keys()
    assert none["rows"] == TINY["subscriptions"] / 4  # each broker knows its cluster's
    assert active["rows"] < none["rows"]
    assert none["burst"] == none["largest_burst"] == packing["burst"] == 14 - 1
    assert active["burst"] > packing["burst"]
    assert active["messages_before"] == none["messages_before"]


def test_one_tree_takes_the_mode_that_clusters_refuse() -> None:
    assert figures("tree", "incremental")["rows"] < TINY["subscriptions"]
    assert {run.routing for run in covered.together_runs("paper")} == set(covered.MODES)
    with pytest.raises(ConfigurationError, match="choose none, lazy, active or packing"):
        covered.simulation("incremental", evaluation_overlay(), 0, tree=False)


def test_a_run_that_loses_something_is_no_result(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(covered, "owed", lambda *given: owed(*given) + 1)
    with pytest.raises(CheckFailedError, match="deliveries of"):
        figures("spread", "lazy")

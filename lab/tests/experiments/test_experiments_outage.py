"""A broker that dies, on small networks: who is cut off, when events flow again, what is lost."""

from __future__ import annotations

import random

import pytest

from reefcast.overlay.topology import is_connected, names, path, random_tree, star
from reefcast.simulation.checkers import CheckFailedError
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.outage import dying, networks
from reefcast_lab.experiments.outage.claims import PAPER
from reefcast_lab.experiments.outage.flow import Flow, flow, share_lost
from reefcast_lab.experiments.outage.parameters import section

SHORT = {"at_s": 4.0, "patience_s": 1.0, "down_s": 2.0, "brief_s": 0.5, "after_s": 3.0}


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in SHORT.items():
        monkeypatch.setitem(section("death", "small")._values, key, value)
    monkeypatch.setitem(section("traffic", "small")._values, "begin_s", 2.0)


def figures(campaign: str, routing: str, x: float = 12.0) -> dict[str, float]:
    run = Run("outage", "small", campaign, routing, x, "", 0)
    return {measure.metric: measure.value for measure in dying.measure(run)}


def test_events_flow_again_after_the_last_lost_one() -> None:
    at_s = {1: 0.0, 2: 1.0, 3: 2.0, 4: 3.0, 5: 4.0}
    came_s = {1: 0.1, 2: 1.1, 4: 3.5, 5: 4.1}
    assert flow(at_s, came_s, 0.5, 9.0) == Flow(owed=4, lost=1, again_s=3.5)
    assert flow(at_s, {}, 0.5, 3.5) == Flow(owed=3, lost=3, again_s=float("inf"))
    assert flow(at_s, came_s, 2.5, 9.0) == Flow(owed=2, lost=0, again_s=3.5)
    assert share_lost([Flow(4, 1, 0.0), Flow(6, 1, 0.0)]) == 0.2


@pytest.mark.parametrize("seed", range(5))
def test_places_in_a_tree(seed: int) -> None:
    tree = random_tree(names(20), random.Random(seed))
    leaf, inner, hub = (
        networks.place_in(tree, place) for place in (networks.LEAF, networks.INNER, networks.HUB)
    )
    assert len(tree[leaf]) == 1
    assert len(set(networks.pieces(tree, leaf).values())) == 1
    assert len(set(networks.pieces(tree, hub).values())) == len(tree[hub])
    assert networks.paths(tree, leaf) == 0
    assert 0 < networks.paths(tree, inner) <= networks.paths(tree, hub)
    assert networks.paths(tree, hub) == max(networks.paths(tree, name) for name in tree)


def test_paths_across_a_broker() -> None:
    assert networks.paths(path(names(5)), "b3") == 2 * 2
    assert networks.paths(star(names(5)), "b1") == 4 * 3 / 2


def test_a_scot_stays_connected_and_a_tree_does_not() -> None:
    for routing, pieces in (("spr", 1), ("acyclic", 2)):
        drawn = networks.network(Run("outage", "small", "hub", routing, 12.0, "", 0), "hub")
        assert is_connected(drawn.graph)
        assert (len(set(drawn.apart.values())) > 1) == (pieces > 1)
        assert drawn.dead not in drawn.publishers.values()
        assert any(not one for *_, one in drawn.pairs()) == (pieces > 1)


def test_a_tree_is_silent_until_its_hub_is_back() -> None:
    found = figures("hub", "acyclic")
    assert found["gap_s"] == found["lost"] == 0
    assert SHORT["down_s"] <= found["cut_gap_s"] < SHORT["down_s"] + 1.0
    assert found["cut_lost"] > 0
    assert found["whole"] == 1
    assert found["whole_s"] < 1.0
    assert found["control"] > 0


def test_flooding_goes_around_and_trees_of_tid_wait_for_the_patience() -> None:
    around, waits, stays = (figures("hub", routing) for routing in ("flooding", "tid-s", "spr"))
    assert around["lost"] == 0
    assert around["gap_s"] < 0.1
    assert SHORT["patience_s"] <= waits["gap_s"] < SHORT["down_s"] <= stays["gap_s"]
    assert "cut_gap_s" not in stays
    needed = {claim.measure for claim in PAPER.claims if claim.of == "spr"}
    assert needed <= stays.keys()


def test_neighbours_keep_what_they_owe_to_a_broker_that_is_back_soon() -> None:
    found = figures(dying.BRIEF, "acyclic")
    assert found["cut_lost"] == 0
    assert SHORT["brief_s"] <= found["cut_gap_s"] < SHORT["down_s"]


def test_gossip_replaces_who_is_gone() -> None:
    found = figures("hub", "gossip")
    assert "whole" not in found
    assert found["lost_share"] < 0.05


def test_a_twin_that_loses_something_is_no_twin() -> None:
    at_s, pair = {"p0": {1: 1.0, 2: 2.0}}, ("p0", "s-b1")
    with pytest.raises(CheckFailedError, match="1 events are lost though nobody died"):
        dying._gap(pair, at_s, {pair: {1: 1.1}}, {pair: {1: 1.1}}, (0.0, 9.0))


def test_every_routing_of_the_product_is_measured() -> None:
    from reefcast.routing.registry import ROUTINGS

    for campaign in PAPER.campaigns:
        runs = campaign.runs("paper")
        assert {run.routing for run in runs} == set(ROUTINGS)
        assert {run.seed for run in runs} == {0, 1, 2}

"""The covering paper's topologies, and subscriptions of a given covering degree."""

from __future__ import annotations

import math
import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.matching.cover.scan import ScanRoots
from reefcast.model.covering import covers, intersects
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import hops_from, is_connected, is_tree
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup
from reefcast_lab.experiments.covering.crowd import (
    ADVERTISEMENT,
    Crowd,
    covering_degree,
    workload,
)
from reefcast_lab.experiments.covering.topology import (
    Topology,
    cluster,
    core_topology,
    tiered_topology,
    workflow_topology,
)
from reefcast_lab.experiments.script import Script

# --- topologies -----------------------------------------------------------------------------------


def test_the_default_topology_has_49_brokers_and_its_publishers_behind_e() -> None:
    made = core_topology()
    assert is_tree(made.graph) and [len(tier) for tier in made.tiers] == [5, 12, 32]
    assert all(b in made.graph[a] for a, b in zip("ABCD", "BCDE", strict=True))
    for inner in made.tiers[1]:
        assert sum(other in made.tiers[0] for other in made.graph[inner]) == 1
    for edge in made.tiers[2]:
        assert len(made.graph[edge]) == 1 and made.tier_of(made.graph[edge][0]) == 1
    assert len(made.publishers) == 3 and len(made.subscribers) == 29
    assert {hops_from(made.graph, "E")[broker] for broker in made.publishers} == {2}
    assert {*made.publishers, *made.subscribers} == {*made.tiers[2]}


@pytest.mark.parametrize(
    ("made", "brokers", "tiers"),
    [(workflow_topology(), 40, [4, 12, 24]), (tiered_topology(), 41, [1, 4, 12, 24])],
)
def test_domains_and_regions_are_ten_brokers_in_three_levels(
    made: Topology, brokers: int, tiers: list[int]
) -> None:
    assert is_tree(made.graph) and len(made.graph) == brokers
    assert [len(tier) for tier in made.tiers] == tiers
    assert [len(region) for region in made.regions] == [10] * 4
    for region in made.regions:
        inside = {b: [o for o in made.graph[b] if o in region] for b in region}
        assert is_tree(inside)
        assert Counter(hops_from(inside, region[0]).values()) == {0: 1, 1: 3, 2: 6}


def test_clusters_are_two_to_four_adjacent_brokers_away_from_core_and_publishers() -> None:
    made = core_topology()
    drawn = [cluster(made, random.Random(seed)) for seed in range(200)]
    assert {len(brokers) for brokers in drawn} == {2, 3, 4}
    for brokers in drawn:
        assert is_connected({b: [o for o in made.graph[b] if o in brokers] for b in brokers})
        assert not {*brokers} & {*made.tiers[0], *made.publishers}


# --- covering degree ------------------------------------------------------------------------------


def small(**changed: object) -> Crowd:
    given = {"subscriptions": 500, "degree": 30, "selectivity": 0.05, "seed": 1, **changed}
    return workload(core_topology(), **given)


@settings(max_examples=8)
@given(st.integers(1, 60), st.integers(0, 20), st.sampled_from([2e-6, 0.01, 0.3]), st.integers())
def test_the_covering_degree_is_exact(
    subscriptions: int, degree: int, selectivity: float, seed: int
) -> None:
    if degree >= subscriptions:
        return
    made = small(
        subscriptions=subscriptions, degree=degree, selectivity=selectivity, seed=seed
    ).subscriptions
    texts = [one.filter for one in made]
    assert len(set(texts)) == len(texts) == subscriptions
    roots: ScanRoots[int] = ScanRoots()
    for key, text in enumerate(texts):
        roots.add(key, parse_filter(text))
    assert roots.keys() == [key for key, one in enumerate(made) if one.root]
    for key, one in enumerate(made):
        if not one.root:
            continue
        entered = roots.remove(key).entered
        assert len(entered) == degree
        assert {made[new].klass for new in entered} <= {one.klass}
        roots.add(key, parse_filter(texts[key]))
    assert covering_degree(texts) == degree


def test_the_papers_subscriptions_have_its_covering_degree() -> None:
    made = workload(core_topology(), subscriptions=4300, degree=2100, selectivity=0.02, seed=2)
    assert len(made.roots) == made.classes == 2
    assert covering_degree(one.filter for one in made.subscriptions) == 2100


def test_the_measure_sees_what_is_covered_twice_and_what_is_covered_by_the_covered() -> None:
    assert covering_degree([]) == 0
    assert covering_degree(["a > 1", "a > 5", "a > 9"]) == 1
    assert covering_degree(["a > 1", "a < 9", "a = 5", "a = 7"]) == 0
    assert covering_degree(["a > 1", "a = 5", "a = 7", "b = 1"]) == 1


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"degree": 500}, "there must be more of them"),
        ({"degree": -1}, "there must be more of them"),
        ({"selectivity": 1e-6}, "give a selectivity from"),
        ({"selectivity": 1.0}, "give a selectivity from"),
    ],
)
def test_refuses_degrees_and_selectivities_that_cannot_be(
    changed: dict[str, float], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        small(**changed)


def test_a_publication_matches_its_root_and_a_share_of_what_that_covers() -> None:
    made = small(selectivity=0.1)
    covered = [parse_filter(one.filter) for one in made.subscriptions if one.klass == 3]
    others = [parse_filter(one.filter) for one in made.subscriptions if one.klass != 3]
    events = list(made.events(6000, 0.0, 1.0, seed=5))
    mine = [event.attributes for event in events if event.attributes["class"] == "c0003"]
    assert 300 < len(mine) < 500
    matched = [sum(filter.holds(attributes) for filter in covered) for attributes in mine]
    assert min(matched) >= 1
    assert sum(matched) / len(mine) == pytest.approx(1 + 0.1 * (len(covered) - 1), rel=0.1)
    assert not any(filter.holds(attributes) for filter in others for attributes in mine[:20])


def test_publications_lie_within_what_is_advertised_and_probes_reach_every_broker() -> None:
    made = small()
    advertised = parse_filter(ADVERTISEMENT)
    probes = list(made.probe_stream(3, 0.0, 1.0).events())
    events = [*made.events(200, 0.0, 1.0, seed=5), *probes]
    assert all(advertised.holds(event.attributes) for event in events)
    assert {event.broker for event in events} == {*core_topology().publishers}
    probe = parse_filter(made.probes[0].filter)
    assert all(probe.holds(event.attributes) for event in probes)
    assert intersects(advertised, probe)
    assert [one.broker for one in made.probes] == [*core_topology().subscribers]
    for one in made.subscriptions:
        assert intersects(advertised, parse_filter(one.filter))
        assert not covers(parse_filter(one.filter), probe)


def test_clustered_subscriptions_of_a_class_share_a_cluster_and_others_are_everywhere() -> None:
    topology = core_topology()
    homes = {
        clustered: Counter(one.broker for one in small(clustered=clustered).subscriptions)
        for clustered in (False, True)
    }
    assert set(homes[False]) <= {*topology.subscribers} and len(homes[False]) == 29
    by_class: dict[int, set[str]] = {}
    for one in small(clustered=True).subscriptions:
        by_class.setdefault(one.klass, set()).add(one.broker)
    assert {len(brokers) for brokers in by_class.values()} <= {2, 3, 4}


def test_leavers_are_roots_first_and_nobody_leaves_twice() -> None:
    made = small()
    assert all(one.root for one in made.leavers(10, seed=1))
    everyone = made.leavers(40, seed=1)
    assert len({one.client for one in everyone}) == 40
    assert [one.root for one in everyone] == [True] * 16 + [False] * 24
    assert made.leavers(10, seed=1) == everyone[:10] != made.leavers(10, seed=2)


def test_one_seed_gives_one_workload() -> None:
    assert small() == small() != small(seed=2)


def test_a_script_plays_in_a_simulation() -> None:
    made = small(subscriptions=62, degree=30)
    leaver = made.leavers(1, seed=1)[0]
    claims = made.advertisements(0.1) + made.claims(
        1.0, 0.01, lambda one: 5.0 if one == leaver else math.inf
    )
    probes = made.probe_stream(1, 8.0, 0.1).merged(made.probe_stream(2, 3.0, 0.1))
    assert probes.at_s.tolist() == [3.0, 3.1, 8.0]
    script = Script(claims, list(probes.events()))
    simulation = Simulation(Setup(graph=core_topology().graph))
    handles = script.load(simulation, 10.0)
    result = simulation.run()
    assert len(handles) == len(claims) == 3 + 29 + 62
    assert [claim.client for claim in result.claims if claim.ended_s < math.inf] == [leaver.client]
    assert all(claim.settled_s < math.inf for claim in result.claims)
    assert result.delivered_clients == 3 * 29
    assert min(p.publication.time_us for p in result.published) == 13_000_000

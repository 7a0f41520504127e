"""MOM and WOM: the paper's Fig. 4, and random neighbourhoods against the definitions."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from routing_mesh_network import neighbourhood, primary_path, some_links, some_tree, tree_of

from draws import RANDOMS
from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import Graph, edges_of, graph, hops_from
from reefcast.routing.mesh.maps import Neighbourhood, Wom

FIG_3 = tree_of("A-N1 A-N2 N2-X2 N1-X4 N1-X1 X1-N3 X1-X3 X3-N4 N4-X5")
"""A graph that gives Fig. 4; the original drawing is lost. X5 is 5 hops from A, 4 from N1."""


def contracted(tree: Graph, mom: Neighbourhood, links: set[str]) -> dict[str, str]:
    """Return step 1 of the paper to the letter: by broker, what it was substituted with, or
    itself."""
    hops = hops_from(tree, mom.me)
    near = {mom.me, *mom.brokers}
    edges = {frozenset(edge) for edge in edges_of(tree) if near.issuperset(edge)}
    became = {broker: broker for broker in mom.brokers}
    for v in sorted(mom.brokers, key=lambda x: (-hops[x], x)):
        if v in links:
            continue
        (w,) = [
            x for edge in edges for x in edge - {v} if v in edge and hops[x] < hops[v]
        ]  # the closer one; what was attached to v from farther away is farther
        edges = {edge - {v} | {w} if v in edge else edge for edge in edges}
        edges = {edge for edge in edges if len(edge) == 2}
        became = {broker: w if now == v else now for broker, now in became.items()}
    return became


def by_name(wom: Wom, masks: tuple[int, ...]) -> dict[str, set[str]]:
    return {
        broker: set(wom.names(mask)) for broker, mask in zip(wom.neighbours, masks, strict=True)
    }


def test_fig_4_information_in_the_wom_of_a() -> None:
    wom = Wom(neighbourhood(FIG_3, "A", 4), ["N3", "N4"])
    assert wom.neighbours == ("N1", "N2", "N3", "N4")
    substituted: dict[str, set[str]] = {broker: set() for broker in wom.neighbours}
    for broker in wom.mom.brokers:
        if wom.substitute(broker) != broker:
            substituted[wom.substitute(broker)].add(broker)
    assert substituted == {"N1": {"X1", "X3", "X4"}, "N2": {"X2"}, "N3": set(), "N4": set()}
    assert by_name(wom, wom.between) == {
        "N1": {"N1"},
        "N2": {"N2"},
        "N3": {"N1", "N3"},
        "N4": {"N1", "N4"},
    }
    assert by_name(wom, wom.behind) == {
        "N1": {"N2"},
        "N2": {"N1", "N3", "N4"},
        "N3": {"N2"},
        "N4": {"N2"},
    }
    assert by_name(wom, wom.beyond) == {
        "N1": {"N1", "N3", "N4"},
        "N2": {"N2"},
        "N3": {"N3"},
        "N4": {"N4"},
    }


def test_neighbours_stand_in_the_order_of_primary_distance() -> None:
    """The names are in the opposite order, and in the WOM of the paper a and c are both at 1."""
    mom = neighbourhood(tree_of("me-z z-c c-b b-a me-y"), "me", 4)
    assert Wom(mom, ["a", "c"]).neighbours == ("y", "z", "c", "a")


def test_without_soft_links_only_primary_neighbours_are_left() -> None:
    wom = Wom(neighbourhood(FIG_3, "A", 4), [])
    assert wom.neighbours == ("N1", "N2")
    assert {broker: wom.substitute(broker) for broker in wom.mom.brokers} == {
        "N1": "N1",
        "X1": "N1",
        "X4": "N1",
        "N3": "N1",
        "X3": "N1",
        "N4": "N1",
        "N2": "N2",
        "X2": "N2",
    }


@given(RANDOMS)
def test_a_neighbourhood_is_the_tree_around_its_broker(rng: random.Random) -> None:
    tree, delta = some_tree(rng), rng.randint(1, 5)
    me = rng.choice(sorted(tree))
    mom, hops = neighbourhood(tree, me, delta), hops_from(tree, me)
    near = [broker for broker in tree if 0 < hops[broker] <= delta]
    assert mom.brokers == tuple(sorted(near, key=lambda x: (hops[x], x)))
    assert (mom.distance(me), mom.path(me), me in mom) == (0, (), False)
    for broker in tree:
        assert (broker in mom) == (broker in near)
    for broker in near:
        assert list(mom.path(broker)) == primary_path(tree, me, broker)
        assert mom.distance(broker) == hops[broker]
        assert mom.branch(broker) == primary_path(tree, me, broker)[0]
    for broker in [me, *near]:
        assert set(mom.around(broker)) == set(tree[broker]) & set(near)


@given(RANDOMS)
def test_edge_contraction_is_that_of_the_paper(rng: random.Random) -> None:
    tree = some_tree(rng)
    me = rng.choice(sorted(tree))
    mom = neighbourhood(tree, me, rng.randint(1, 5))
    links = some_links(mom, rng)
    wom = Wom(mom, links)
    assert set(wom.neighbours) == {*links, *tree[me]}
    expected = contracted(tree, mom, set(wom.neighbours))
    assert {broker: wom.substitute(broker) for broker in mom.brokers} == expected


@given(RANDOMS)
def test_between_beyond_and_behind_are_those_of_the_definitions(rng: random.Random) -> None:
    tree = some_tree(rng)
    me = rng.choice(sorted(tree))
    mom = neighbourhood(tree, me, rng.randint(1, 5))
    wom = Wom(mom, some_links(mom, rng))
    between, beyond = by_name(wom, wom.between), by_name(wom, wom.beyond)
    behind = by_name(wom, wom.behind)
    for n in wom.neighbours:
        for other in wom.neighbours:
            assert (other in between[n]) == (other in primary_path(tree, me, n))
            assert (other in beyond[n]) == (n in primary_path(tree, me, other))
            assert (other in behind[n]) == (me in primary_path(tree, n, other))


def test_names_of_a_bit_vector_come_nearest_first() -> None:
    wom = Wom(neighbourhood(FIG_3, "A", 4), ["N3", "N4"])
    assert wom.names(0b1101) == ("N1", "N3", "N4")
    assert wom.names(0) == ()


@pytest.mark.parametrize(
    "closer", [{"B": "C"}, {"B": "C", "C": "B"}, {"A": "B", "B": "A"}, {"A": "A"}, {"B": "B"}]
)
def test_a_neighbourhood_that_is_no_tree_is_refused(closer: dict[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="no tree around it"):
        Neighbourhood("A", closer)


def test_a_link_beyond_delta_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'X5', which is not within Delta"):
        Wom(neighbourhood(FIG_3, "A", 4), ["N3", "X5"])


def test_a_lone_broker_has_an_empty_map() -> None:
    mom = neighbourhood(graph(["A"], []), "A", 4)
    assert (mom.brokers, mom.around("A"), Wom(mom, []).neighbours) == ((), (), ())

"""SCOT: the paper's Figs 2 and 3, its evaluation overlay, and what it refuses."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.overlay.scot import (
    Neighbours,
    Place,
    Scot,
    evaluation_tree,
    scot,
    scot_of,
    scot_product,
)
from reefcast.overlay.topology import (
    Graph,
    diameter,
    edges_of,
    graph,
    is_tree,
    names,
    path,
    random_tree,
)

FIG_2 = graph("abcdef", [("a", "b"), ("b", "c"), ("b", "d"), ("d", "e"), ("e", "f")])
"""Fig. 2 as the text describes it: a is an edge node, e an inner one, d - e and a - b are links."""


def complete(labels: list[str] | str) -> Graph:
    return graph(labels, itertools.combinations(labels, 2))


def without(overlay: Graph, *gone: tuple[str, str]) -> Graph:
    return graph(overlay, [edge for edge in edges_of(overlay) if edge not in gone])


def test_fig_2_and_3_six_regions_times_three_clusters() -> None:
    made = scot_product(FIG_2, complete("012"))
    assert made == scot(FIG_2, 3)
    assert len(made.graph) == 18
    assert len(made.a_links) == 15
    assert len(made.i_links) == 18
    assert ("d-1", "e-1") in made.a_links
    assert ("e-0", "e-1") in made.i_links
    assert made.cluster(1) == ["a-1", "b-1", "c-1", "d-1", "e-1", "f-1"]
    assert made.region("e") == ["e-0", "e-1", "e-2"]
    assert made.places["f-2"] == Place("f", 2)


def test_section_4_types_of_brokers_and_neighbours() -> None:
    made = scot(FIG_2, 3)
    assert made.is_edge("a-2")
    assert not made.is_edge("e-1")
    assert made.neighbours("e-1") == Neighbours("e", 1, 3, ("d-1", "f-1"), {"e-0": 0, "e-2": 2})


def test_evaluation_overlay_s_e() -> None:
    made = scot(evaluation_tree(), 4)
    inner = {name for name in made.graph if not made.is_edge(name)}
    assert len(made.graph) == 56
    assert len(inner) == 16
    assert {made.places[name].region for name in inner} == set("FGHI")
    assert len(made.a_links) == 4 * 13
    assert len(made.i_links) == 14 * 6
    assert made.diameter == 6


def test_one_cluster_is_the_tree() -> None:
    made = scot(FIG_2, 1)
    assert made.diameter == diameter(FIG_2) == 4
    assert made.i_links == []
    assert is_tree(made.graph)
    assert made.neighbours("a-0") == Neighbours("a", 0, 1, ("b-0",), {})


def test_a_tree_of_one_label_is_a_clique() -> None:
    made = scot(graph("x", []), 4)
    assert made.diameter == 1
    assert made.is_edge("x-3")
    assert edges_of(made.graph) == edges_of(complete(made.region("x")))


scots = st.builds(
    lambda n, seed, clusters: scot(random_tree(names(n), random.Random(seed)), clusters),
    st.integers(1, 12),
    st.integers(0, 2**32),
    st.integers(1, 5),
)


@given(made=scots)
def test_counts_and_shape_of_any_scot(made: Scot) -> None:
    n, m = len(made.tree), made.clusters
    assert len(made.graph) == n * m
    assert len(made.a_links) == m * (n - 1)
    assert len(made.i_links) == n * m * (m - 1) // 2
    assert sorted(made.a_links + made.i_links) == edges_of(made.graph)
    assert made.diameter == diameter(made.graph) == diameter(made.tree) + (m > 1)


@given(made=scots)
def test_regions_are_cliques_and_clusters_copies_of_the_tree(made: Scot) -> None:
    for label in made.tree:
        assert edges_of(complete(sorted(made.region(label)))) == [
            (a, b) for a, b in made.i_links if made.places[a].region == label
        ]
    for index in range(made.clusters):
        inside = [(a, b) for a, b in made.a_links if made.places[a].cluster == index]
        labels = [(made.places[a].region, made.places[b].region) for a, b in inside]
        assert labels == edges_of(made.tree)


@given(made=scots)
def test_neighbours_are_all_those_of_the_graph(made: Scot) -> None:
    for name, around in made.graph.items():
        seen = made.neighbours(name)
        assert sorted([*seen.primary, *seen.secondary]) == around
        assert made.is_edge(name) == (len(seen.primary) <= 1)
        assert seen.region == made.places[name].region
        for other in around:
            link = (min(name, other), max(name, other))
            assert (seen.link_kind(other) == "a_link") == (link in made.a_links)
            assert (seen.link_kind(other) == "i_link") == (link in made.i_links)
            assert seen.cluster_of(other) == made.places[other].cluster
        assert list(seen.secondary.values()) == [
            index for index in range(made.clusters) if index != seen.cluster
        ]


@given(made=scots, data=st.data())
def test_a_scot_is_recognized_whatever_its_brokers_are_called(
    made: Scot, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(list(made.graph)))
    new = {old: f"n{i}" for i, old in enumerate(shuffled)}
    overlay = graph(new.values(), [(new[a], new[b]) for a, b in edges_of(made.graph)])
    found = scot_of(overlay, {new[name]: place for name, place in made.places.items()})
    assert found.graph == overlay
    assert found.clusters == made.clusters
    assert edges_of(found.tree) == edges_of(made.tree)


@given(made=scots.filter(lambda made: made.clusters > 1), data=st.data())
def test_one_link_missing_or_too_many_is_named(made: Scot, data: st.DataObject) -> None:
    a, b = data.draw(st.sampled_from(list(itertools.combinations(sorted(made.graph), 2))))
    if (a, b) in edges_of(made.graph):
        changed, says = without(made.graph, (a, b)), f"{a} - {b} is missing"
    else:
        changed, says = graph(made.graph, [*edges_of(made.graph), (a, b)]), "is too many"
    with pytest.raises(ConfigurationError, match=says):
        scot_of(changed, made.places)


@pytest.mark.parametrize(
    ("acyclic", "connectivity", "says"),
    [
        (complete("abc"), complete("012"), "Acyclic property: 3 links between 3 nodes"),
        (graph("ab", []), complete("012"), "Acyclic property: the tree is not connected"),
        ({}, complete("012"), "Acyclic property: the tree has no nodes"),
        (path("abc"), path("012"), "Connectivity property: .* link 0 - 2 is missing"),
        (path("abc"), complete("123"), "Index property: .* '1', '2', '3'"),
        (path("abc"), complete("xyz"), "Index property"),
        (path("abc"), {}, "Index property: .* none"),
        (complete("012"), path("abc"), "Label Order property"),
        (path("01"), path("ab"), "Label Order property"),
    ],
)
def test_factors_that_break_a_property_are_refused(
    acyclic: Graph, connectivity: Graph, says: str
) -> None:
    with pytest.raises(ConfigurationError, match=says):
        scot_product(acyclic, connectivity)


def test_no_clusters_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="Index property: 0 clusters"):
        scot(FIG_2, 0)


SMALL = scot(path("ab"), 2)


@pytest.mark.parametrize(
    ("places", "says"),
    [
        ({"b-1": None}, "Label Order property: broker b-1 has no region"),
        ({"b-1": Place("b", 0)}, "Index property: brokers b-0 and b-1 both stand"),
        ({"b-1": Place("b", 2)}, "Index property: region 'a' has no broker in cluster 2"),
        ({"a-1": Place("a", 2), "b-1": Place("b", 2)}, "Index property: the clusters are 0, 2"),
        ({"a-1": Place("a", -1), "b-1": Place("b", -1)}, "Index property: the clusters are -1, 0"),
        ({"b-1": Place("c", 1)}, "Index property: region 'b' has no broker in cluster 1"),
    ],
)
def test_places_that_cannot_be_are_refused(places: dict[str, Place | None], says: str) -> None:
    changed = {**SMALL.places, **places}
    with pytest.raises(ConfigurationError, match=says):
        scot_of(SMALL.graph, {name: place for name, place in changed.items() if place})


def test_clusters_that_are_no_trees_are_refused() -> None:
    triangle = scot(path("abc"), 1)
    ring = graph(triangle.graph, [*edges_of(triangle.graph), ("a-0", "c-0")])
    with pytest.raises(ConfigurationError, match=r"Acyclic property: 3 links .*cluster 0"):
        scot_of(ring, triangle.places)
    with pytest.raises(ConfigurationError, match="Acyclic property: the overlay has no brokers"):
        scot_of({}, {})


def test_unknown_clusters_and_regions_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="no cluster 2: the clusters are 0 to 1"):
        SMALL.cluster(2)
    with pytest.raises(ConfigurationError, match="no region 'z': the regions are a, b"):
        SMALL.region("z")

"""Generators of trees, and what a graph refuses."""

from __future__ import annotations

import itertools
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draws import RANDOMS
from reefcast.errors import ConfigurationError
from reefcast.overlay import topology


@given(n=st.integers(1, 60), rng=RANDOMS)
def test_generators_make_trees_over_all_names(n: int, rng: random.Random) -> None:
    nodes = topology.names(n)
    assert nodes == sorted(nodes)
    for made in (
        topology.path(nodes),
        topology.star(nodes),
        topology.balanced_tree(nodes, 3),
        topology.random_tree(nodes, rng),
    ):
        assert list(made) == nodes
        assert topology.is_tree(made)


def test_diameters() -> None:
    nodes = topology.names(7)
    assert topology.diameter(topology.path(nodes)) == 6
    assert topology.diameter(topology.star(nodes)) == 2
    assert topology.diameter(topology.balanced_tree(nodes, 2)) == 4


def test_a_cycle_and_a_forest_are_no_trees() -> None:
    ring = topology.graph("abc", [("a", "b"), ("b", "c"), ("c", "a")])
    assert not topology.is_tree(ring)
    assert topology.is_connected(ring)
    assert not topology.is_connected(topology.graph("abc", [("a", "b")]))


@pytest.mark.parametrize(
    ("edges", "says"),
    [
        ([("a", "x")], "no broker named 'x'"),
        ([("a", "a")], "no link to itself"),
        ([("a", "b"), ("b", "a")], "given twice"),
    ],
)
def test_bad_edges_are_refused(edges: list[tuple[str, str]], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        topology.graph("ab", edges)


@given(n=st.integers(1, 30), rng=RANDOMS, data=st.data())
def test_a_spanning_tree_keeps_the_way_from_the_centre(
    n: int, rng: random.Random, data: st.DataObject
) -> None:
    nodes = topology.names(n)
    edges = set(topology.edges_of(topology.random_tree(nodes, rng)))
    pairs = list(itertools.combinations(nodes, 2))
    if pairs:
        edges |= set(data.draw(st.lists(st.sampled_from(pairs), max_size=n)))
    network = topology.graph(nodes, edges)
    tree = topology.spanning_tree(network)
    assert topology.is_tree(tree)
    assert list(tree) == nodes
    assert set(topology.edges_of(tree)) <= edges
    middle = topology.centre(network)
    assert topology.hops_from(tree, middle) == topology.hops_from(network, middle)


def test_centres() -> None:
    assert topology.centre(topology.path("abcde")) == "c"
    assert topology.centre(topology.path("abcd")) == "b"
    lopsided = topology.graph("abcdx", [("a", "b"), ("b", "c"), ("c", "d"), ("c", "x")])
    assert topology.centre(lopsided) == "c"

"""Forwarding paths through a mesh, against a walk that counts them one by one."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import Edge, Graph, edges_of, hops_from, names, path, random_tree
from reefcast_lab.experiments.mesh.paths import path_counts, share_with
from reefcast_lab.experiments.mesh.topology import network


def ways(links: set[frozenset[str]], way: list[str]) -> int:
    """Count the paths from the first broker of a primary path to its last."""
    if len(way) == 1:
        return 1
    return sum(
        ways(links, way[i:]) for i in range(1, len(way)) if frozenset((way[0], way[i])) in links
    )


def primary_path(tree: Graph, start: str, end: str) -> list[str]:
    left = hops_from(tree, end)
    way = [start]
    while way[-1] != end:
        way.append(min(tree[way[-1]], key=left.__getitem__))
    return way


def within(tree: Graph, most_hops: int) -> list[Edge]:
    """Return soft links between all brokers that are so near."""
    return [
        (a, b)
        for a in tree
        for b, far in hops_from(tree, a).items()
        if a < b and 1 < far <= most_hops
    ]


@given(st.integers(1, 14), st.integers(0, 2**32), st.floats(0, 1))
def test_counts_are_those_of_all_ways_along_the_primary_path(
    brokers: int, seed: int, density: float
) -> None:
    rng = random.Random(seed)
    tree = random_tree(names(brokers), rng)
    pairs = [(a, b) for a in tree for b in tree if a != b]
    soft = [pair for pair in pairs if rng.random() < density]
    links = {frozenset(link) for link in [*soft, *edges_of(tree)]}
    expected = [[ways(links, primary_path(tree, a, b)) for b in tree] for a in tree]
    assert path_counts(tree, soft).tolist() == expected


def test_on_a_chain_where_all_are_linked_every_set_of_brokers_between_is_a_path() -> None:
    chain = path(names(9))
    counts = path_counts(chain, within(chain, 8))
    assert counts[0].tolist() == [1, *(2**i for i in range(8))]
    assert share_with(counts, 2) == 1 - 8 / 36 and share_with(counts, 129) == 0.0


def test_without_soft_links_there_is_one_path_for_each_pair() -> None:
    assert np.all(path_counts(network("C1"), []) == 1)
    assert share_with(path_counts(path(names(1)), []), 1) == 0.0


def test_breadth_first_trees_leave_room_for_the_paths_of_the_papers_figure_1() -> None:
    """Soft links lead to all brokers within Delta 4; no mesh has more. In the paper 40 % of the
    pairs have 100 paths with 120 brokers, and 13 % have 1 000 with 250."""
    small, large = network("C1"), network("C2")
    assert share_with(path_counts(small, within(small, 4)), 100) == pytest.approx(0.618, abs=1e-3)
    assert share_with(path_counts(large, within(large, 4)), 1000) == pytest.approx(0.313, abs=1e-3)


def test_a_link_to_nobody_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="soft link b1 - b9: both ends must be brokers"):
        path_counts(path(names(3)), [("b1", "b9")])

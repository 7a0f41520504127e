"""One overlay for all topics: the links that each kind must have, and the interests that it
reveals."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reefcast_lab.experiments.gossip.alternatives import (
    clustered,
    disclosed,
    minimal,
    needed_by,
    overlays_of,
)
from reefcast_lab.experiments.gossip.scenario import grid_interests, matrix_of
from reefcast_lab.experiments.gossip.stack import stack_of
from reefcast_lab.rounds.overlays import starting_overlays

sets = arrays(np.bool_, st.tuples(st.integers(2, 8), st.integers(1, 5))).filter(np.any)


def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@given(sets, st.integers(1, 4))
def test_clustered_gives_each_topic_as_many_as_it_needs(matrix, wanted) -> None:
    links = clustered(matrix, matrix * wanted, rng())
    assert not links.diagonal().any()
    for topic in matrix.T:
        here = np.flatnonzero(topic)
        for node in here:
            assert links[node, here].sum() >= min(wanted, len(here) - 1)
    shared = matrix.astype(int) @ matrix.T.astype(int)
    assert not links[shared == 0].any(), "nodes without a common topic were linked"


@given(sets)
def test_clustered_begins_with_who_shares_most(matrix) -> None:
    """With one link needed in each topic, the first node taken shares as many topics as any
    other."""
    links = clustered(matrix, matrix * 1, rng())
    shared = matrix.astype(int) @ matrix.T.astype(int)
    np.fill_diagonal(shared, 0)
    for node in range(len(matrix)):
        assert not shared[node].any() or shared[node][links[node]].max() == shared[node].max()


@given(sets)
def test_minimal_connects_every_topic_and_has_no_link_too_many(matrix) -> None:
    links = minimal(matrix, rng())
    assert (links == links.T).all()
    parts = [nx.Graph() for _ in matrix.T]
    for graph, topic in zip(parts, matrix.T, strict=True):
        here = np.flatnonzero(topic)
        graph.add_nodes_from(here)
        graph.add_edges_from((a, b) for a in here for b in here if links[a, b])
        assert len(here) == 0 or nx.is_connected(graph)
    assert np.triu(links).sum() <= sum(max(len(graph) - 1, 0) for graph in parts)


def test_minimal_is_one_tree_where_all_have_the_same_interests() -> None:
    links = minimal(np.ones((12, 5), np.bool_), rng())
    assert nx.is_tree(nx.from_numpy_array(links))


@given(sets)
def test_a_topic_has_the_links_between_its_nodes(matrix) -> None:
    links = minimal(matrix, rng())
    stack = overlays_of(matrix, links)
    for member, (node, topic) in enumerate(
        zip(stack.members, stack.topic_of_member(), strict=True)
    ):
        view = stack.neighbours[stack.bounds[member] : stack.bounds[member + 1]]
        assert view.tolist() == np.flatnonzero(links[node] & matrix[:, topic]).tolist()
        assert matrix[node, topic]
    assert len(stack.members) == matrix.sum()


def test_what_is_disclosed_are_topics_that_are_only_the_others() -> None:
    matrix = np.array([[1, 0, 0], [1, 1, 1], [0, 0, 1]], np.bool_)
    links = np.array([[0, 1, 0], [0, 0, 0], [0, 0, 0]], np.bool_)
    assert disclosed(matrix, links) == pytest.approx(2 / 3), (
        "two topics of the second node, disclosed to the first"
    )


def test_what_is_needed_is_what_views_have() -> None:
    interests = grid_interests(60, 15, 1)
    stack = stack_of(starting_overlays(interests, 1))
    needed = needed_by(stack)
    _, matrix = matrix_of(interests)
    assert needed.shape == matrix.shape and ((needed > 0) == matrix).all()
    assert needed.sum() == len(stack.neighbours)

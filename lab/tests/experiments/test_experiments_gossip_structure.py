"""The graph that all topics together induce, beside networkx."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast_lab.experiments.gossip.scenario import grid_interests
from reefcast_lab.experiments.gossip.stack import stack_of
from reefcast_lab.experiments.gossip.structure import Graph, clustering, distances, graph_of
from reefcast_lab.rounds.overlays import Overlays, starting_overlays

SIZE = 9
links = st.lists(st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1)), max_size=40).map(
    lambda pairs: [(a, b) for a, b in pairs if a != b]
)


def both(pairs: list[tuple[int, int]]) -> tuple[Graph, nx.DiGraph]:
    twin = nx.DiGraph(pairs)
    twin.add_nodes_from(range(SIZE))
    sources, targets = (np.array([pair[end] for pair in pairs], np.int64) for end in (0, 1))
    return graph_of(SIZE, sources, targets), twin


@given(links)
def test_degrees_and_links(pairs) -> None:
    graph, twin = both(pairs)
    assert graph.out_degrees().tolist() == [twin.out_degree(node) for node in range(SIZE)]
    assert graph.in_degrees().tolist() == [twin.in_degree(node) for node in range(SIZE)]
    for node in range(SIZE):
        row = graph.neighbours[graph.bounds[node] : graph.bounds[node + 1]]
        assert row.tolist() == sorted(twin.successors(node))


@given(links)
def test_clustering(pairs) -> None:
    graph, twin = both(pairs)
    expected = nx.average_clustering(twin.to_undirected())
    assert clustering(graph.undirected()) == pytest.approx(expected)


@given(links)
def test_distances(pairs) -> None:
    graph, twin = both(pairs)
    for found, other in ((graph, twin), (graph.undirected(), twin.to_undirected())):
        hops = [
            distance
            for start, ends in nx.all_pairs_shortest_path_length(other)
            for end, distance in ends.items()
            if start != end
        ]
        measured = distances(found)
        assert measured.reached == pytest.approx(len(hops) / (SIZE * (SIZE - 1)))
        assert measured.diameter == max(hops, default=0)
        assert measured.mean == pytest.approx(np.mean(hops) if hops else 0.0)


def test_views_have_the_numbers_of_their_nodes() -> None:
    overlays = starting_overlays(grid_interests(60, 20, 1), 1)
    stack = stack_of(overlays)
    number = {node: i for i, node in enumerate(overlays.nodes)}
    row = 0
    for topic, views in overlays.views().items():
        for node, view in views.items():
            assert overlays.topics[stack.topic_of_member()[row]] == topic
            assert stack.members[row] == number[node]
            here = stack.neighbours[stack.bounds[row] : stack.bounds[row + 1]]
            assert here.tolist() == [number[other] for other in view]
            row += 1
    assert row == len(stack.members)


def test_the_induced_graph_has_a_link_once_whatever_the_number_of_topics() -> None:
    views = {"a": {"x": ["y"], "y": ["x", "z"], "z": ["x"]}, "b": {"x": ["y"], "y": ["x"]}}
    graph = Graph(*Overlays.of(views).union())
    assert graph.neighbours.tolist() == [1, 0, 2, 0]
    assert graph.bounds.tolist() == [0, 1, 3, 4]

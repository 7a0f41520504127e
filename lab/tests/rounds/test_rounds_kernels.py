"""The compiled arithmetic of overlays is that of the libraries and of the state machine."""

from __future__ import annotations

from itertools import chain

import networkx as nx
import numpy as np
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from reefcast.routing.gossip.streams import stream, weight
from reefcast_lab.rounds import kernels
from reefcast_lab.rounds.overlays import Overlays, packed, starting_overlays

SEEDS = st.integers(0, 2**64 - 1)
NAMES = st.text(max_size=40)


@given(st.binary(max_size=200), SEEDS)
def test_xxh64_is_the_librarys(data: bytes, seed: int) -> None:
    words = np.frombuffer(bytearray(data + bytes(8 - len(data) % 8)), np.uint64)
    found = kernels.xxh64(words, len(data), np.uint64(seed))
    assert int(found) == xxhash.xxh64_intdigest(data, seed)


@given(st.lists(NAMES, min_size=1, max_size=6, unique=True), NAMES, SEEDS)
def test_streams_are_those_of_the_state_machine(nodes: list[str], topic: str, seed: int) -> None:
    (word,), (size,) = packed([topic])
    found = kernels.streams(*packed(nodes), word, size, np.uint64(seed))
    assert found.tolist() == [stream(seed, node, topic) for node in nodes]


@given(st.lists(NAMES, min_size=2, max_size=6, unique=True), SEEDS)
def test_views_are_ordered_as_those_of_the_state_machine(nodes: list[str], seed: int) -> None:
    count = len(nodes)
    rows = [[other for other in range(count) if other != me] for me in range(count)]
    views, weights = np.array(rows, np.int32).ravel(), np.empty(count * (count - 1), np.uint64)
    bounds = np.arange(0, len(views) + 1, count - 1)
    kernels.weigh(*packed(nodes), bounds, views, weights, np.uint64(seed))
    expected = [
        sorted((weight(seed, nodes[me], nodes[other]), other) for other in row)
        for me, row in enumerate(rows)
    ]
    assert list(zip(weights.tolist(), views.tolist(), strict=True)) == list(chain(*expected))


@given(st.data(), st.integers(1, 12))
def test_strong_connection_is_that_of_networkx(data: st.DataObject, count: int) -> None:
    node = st.integers(0, count - 1)
    graph = nx.DiGraph(data.draw(st.lists(st.tuples(node, node), max_size=40)))
    graph.add_nodes_from(range(count))
    rows = {str(i): [str(x) for x in graph[i]] for i in range(count)}
    found = Overlays.of({"t": {name.zfill(2): [x.zfill(2) for x in rows[name]] for name in rows}})
    assert found.connected().tolist() == [nx.is_strongly_connected(graph)]


def test_random_graphs_have_the_degrees_of_erdos_and_renyi() -> None:
    """Degrees have the mean and variance of a binomial distribution, and each pair is as frequent
    as any other."""
    count, share = 60, 0.2
    hits = np.zeros((count, count))
    for key in range(400):
        bounds, views = kernels.random_graph(count, share, np.uint64(key))
        rows = np.repeat(np.arange(count), np.diff(bounds))
        assert len(np.unique(rows * count + views)) == len(views)
        hits[rows, views] += 1
    assert not hits.diagonal().any()
    pairs = hits[~np.eye(count, dtype=bool)] / 400
    assert abs(pairs.mean() - share) < 0.002  # of 1.4 million draws
    assert abs(pairs.std() - np.sqrt(share * (1 - share) / 400)) < 0.002


def test_where_all_links_are_needed_all_are_there() -> None:
    overlays = starting_overlays({"t": ["a", "b"], "u": ["a", "b", "c"], "v": ["a"]}, seed=1)
    assert overlays.views()["t"] == {"a": ("b",), "b": ("a",)}
    assert overlays.views()["u"] == {"a": ("b", "c"), "b": ("a", "c"), "c": ("a", "b")}
    assert overlays.views()["v"] == {"a": ()}

"""Mesh forwarding by brute force: random trees, links that change between any two deliveries, a
strategy for each broker. Every interested broker gets each publication exactly once."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from routing_mesh_network import (
    STRATEGIES,
    MeshNetwork,
    Suppresses,
    Topics,
    covers_with_any_anchor,
    covers_with_the_same_anchor,
    nothing_suppresses,
    some_tree,
    tree_of,
)

from reefcast.overlay.topology import Graph
from reefcast.routing.mesh.strategies import StrategyName

SEEDS = st.integers(0, 2**32)
EVERYTHING = frozenset(range(4))


def some_topics(rng: random.Random) -> Topics:
    return frozenset(rng.sample(sorted(EVERYTHING), rng.randint(1, len(EVERYTHING))))


def random_network(
    rng: random.Random, publishers: dict[str, Topics], tree: Graph, suppresses: Suppresses
) -> MeshNetwork:
    network = MeshNetwork(tree, rng.randint(1, 5), rng, publishers, suppresses)
    wishes = [(rng.choice(sorted(tree)), some_topics(rng)) for _ in range(rng.randint(1, 20))]
    network.subscribe_all(wishes)
    return network


def publish_all(network: MeshNetwork, rng: random.Random) -> None:
    """Publish at any time, while other publications are under way."""
    for home, topics in network.advertised.items():
        for topic in topics:
            network.publish(home, topic)
            for _ in range(rng.randrange(6)):
                network.step()
    network.settle()


@given(SEEDS)
@settings(max_examples=120)
def test_every_interested_broker_gets_each_publication_exactly_once(seed: int) -> None:
    rng = random.Random(seed)
    tree = some_tree(rng)
    network = random_network(rng, dict.fromkeys(tree, EVERYTHING), tree, nothing_suppresses)
    publish_all(network, rng)
    assert network.faults() == []


@given(SEEDS)
@settings(max_examples=300)
def test_rows_on_the_paths_to_publishers_are_enough(seed: int) -> None:
    rng = random.Random(seed)
    tree = some_tree(rng)
    brokers = rng.sample(sorted(tree), rng.randint(1, min(4, len(tree))))
    network = random_network(
        rng, {broker: some_topics(rng) for broker in brokers}, tree, nothing_suppresses
    )
    publish_all(network, rng)
    assert network.faults() == []


@given(SEEDS)
@settings(max_examples=300)
def test_covering_with_the_same_anchor_loses_nothing(seed: int) -> None:
    rng = random.Random(seed)
    tree = some_tree(rng)
    advertised = (
        dict.fromkeys(tree, EVERYTHING)
        if rng.random() < 0.5
        else {broker: some_topics(rng) for broker in rng.sample(sorted(tree), 1 + len(tree) // 4)}
    )
    network = random_network(rng, advertised, tree, covers_with_the_same_anchor)
    publish_all(network, rng)
    assert network.faults() == []


@given(SEEDS, st.sampled_from(STRATEGIES))
@settings(max_examples=100)
def test_all_strategies_deliver_the_same(seed: int, strategy: StrategyName) -> None:
    rng = random.Random(seed)
    tree = some_tree(rng)
    network = random_network(rng, dict.fromkeys(tree, EVERYTHING), tree, nothing_suppresses)
    network.strategies = dict.fromkeys(tree, strategy)
    publish_all(network, rng)
    assert network.faults() == []


def forked(suppresses: Suppresses) -> MeshNetwork:
    """Return Y - A - {X1, X2} with Delta = 2 and a soft link from Y to X1. The subscriber at X1
    wants more."""
    network = MeshNetwork(
        tree_of("Y-A A-X1 A-X2"),
        2,
        random.Random(0),
        {"Y": frozenset({1})},
        suppresses,
        forced_links={"Y": ["X1"]},
        strategies=dict.fromkeys(("A", "X1", "X2", "Y"), "S2"),
    )
    network.subscribe_all([("X1", frozenset({1, 2}))])
    network.subscribe_all([("X2", frozenset({1}))])
    network.publish("Y", 1)
    network.settle()
    return network


def test_covering_that_ignores_anchors_loses() -> None:
    """The copy to X1 bypasses the fork at A, and Y knows of no other subscriber."""
    assert forked(covers_with_any_anchor).faults() == ["X2 got 0 copies of ('Y', 1)"]


def test_covering_by_anchor_does_not_lose_at_the_same_fork() -> None:
    network = forked(covers_with_the_same_anchor)
    assert network.faults() == []
    assert network.rows["Y"] == [(frozenset({1, 2}), "X1"), (frozenset({1}), "X2")]


def test_covering_by_anchor_saves_rows() -> None:
    """Both subscribers are beyond C, as Y sees it with Delta = 2: one row stands for both."""
    network = MeshNetwork(
        tree_of("Y-A A-C C-X1 C-X2"),
        2,
        random.Random(0),
        {"Y": frozenset({1})},
        covers_with_the_same_anchor,
    )
    network.subscribe_all([("X1", frozenset({1, 2}))])
    network.subscribe_all([("X2", frozenset({1}))])
    assert network.rows["A"] == [(frozenset({1, 2}), "X1"), (frozenset({1}), "X2")]
    assert network.rows["Y"] == [(frozenset({1, 2}), "C")]


@pytest.mark.parametrize("delta", [1, 4])
def test_a_single_broker_serves_itself(delta: int) -> None:
    network = MeshNetwork({"A": []}, delta, random.Random(0), {"A": EVERYTHING})
    network.subscribe_all([("A", frozenset({1}))])
    network.publish("A", 1)
    network.settle()
    assert network.faults() == []
    assert dict(network.received) == {(0, "A"): 1}

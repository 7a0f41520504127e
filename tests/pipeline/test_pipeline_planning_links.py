"""Soft links that would have saved hops, against a slow twin that follows each publication."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.overlay import topology
from reefcast.pipeline.planning import links
from reefcast.pipeline.planning.links import Rules
from reefcast.simulation.recording import TraceOptions
from reefcast.simulation.simulation import Simulation
from reefcast.simulation.world import Setup

MESSAGES = (
    "time_us BIGINT, broker STRING, link STRING, message STRING, publisher STRING, seq BIGINT"
)
DELIVERIES = "broker STRING, publisher STRING, seq BIGINT"


def way_of(graph, start, ends):
    """Return the hops of one publication through a tree, from its publisher's broker to its
    subscribers'."""
    hops = set()
    for end in ends:
        here, back = end, topology.hops_from(graph, start)
        while here != start:
            before = next(near for near in graph[here] if back[near] == back[here] - 1)
            hops.add((before, here))
            here = before
    return hops


def slow_carried(paths, delta):
    """Count, for each pair of brokers, the publications that a link between them could have
    carried."""
    found = {}
    for hops, served in paths:
        for a in {hop[0] for hop in hops}:
            chains = [[a, b] for x, b in hops if x == a]
            while chains:
                chain = chains.pop()
                if 2 < len(chain) <= delta + 1:
                    pair = (a, chain[-1], len(chain) - 1)
                    found[pair] = found.get(pair, 0) + 1
                onward = [y for x, y in hops if x == chain[-1]]
                if len(onward) == 1 and chain[-1] not in served:
                    chains.append([*chain, onward[0]])
    return found


@pytest.mark.spark
@given(st.randoms(use_true_random=False), st.integers(2, 4))
@settings(max_examples=3)
def test_what_links_would_have_carried(spark, rng, delta):
    graph = topology.random_tree(topology.names(8), random.Random(rng.random()))
    messages, deliveries, paths = [], [], []
    for seq in range(12):
        start, ends = rng.choice(list(graph)), rng.sample(list(graph), rng.randrange(1, 4))
        hops = way_of(graph, start, ends)
        paths.append((hops, set(ends)))
        messages += [(seq, a, b, "publish", "p", seq) for a, b in hops]
        messages += [(seq, a, "a client", "publish", "p", seq) for a, _ in hops]
        deliveries += [(end, "p", seq) for end in ends]
    found = links.carried(
        links.paths(
            spark.createDataFrame(messages, MESSAGES),
            spark.createDataFrame(deliveries, DELIVERIES),
            list(graph),
        ),
        delta,
    )
    got = {(row["a"], row["b"], row["distance"]): row["publications"] for row in found.collect()}
    assert got == slow_carried(paths, delta)


PATH = topology.path(["a", "b", "c", "d"])
FAR = {"a": "a", "b": "d", "distance": 3, "publications": 10}
NEAR = {"a": "d", "b": "b", "distance": 2, "publications": 15}


def plan(rules, rates=None):
    return links.plan_links(PATH, [FAR, NEAR], rates or {}, rules)


def test_gains_and_room():
    rows = plan(Rules(4, 2, None, 0.8)).rows
    assert [(row["a"], row["b"], row["spared"], row["gain"]) for row in rows] == [
        ("a", "d", 20, 20.0),
        ("b", "d", 15, 15.0),
    ]
    assert [row["chosen"] for row in rows] == [True, False]  # b has two primary links already
    assert [row["chosen"] for row in plan(Rules(4, 3, None, 0.8)).rows] == [True, True]


def test_both_directions_are_one_link():
    back = FAR | {"a": "d", "b": "a", "publications": 5}
    (row,) = links.plan_links(PATH, [FAR, back], {}, Rules(4, 5, None, 0.8)).rows
    assert (row["publications"], row["spared"]) == (15, 30)


def test_brokers_that_are_overloaded_are_worth_more():
    rows = plan(Rules(4, 5, 100.0, 0.8), {"c": 130.0}).rows
    assert [row["gain"] for row in rows] == [20 * 1.5, 15 * 1.5]


def test_between():
    assert links.between(PATH, "a", "d") == ["b", "c"]
    assert links.between(PATH, "d", "b") == ["c"]


def test_what_cannot_be():
    rules, full = Rules(4, 35, None, 0.8), {"level": "full"}
    ring = topology.graph("abc", [("a", "b"), ("b", "c"), ("a", "c")])
    with pytest.raises(ConfigurationError, match="3 brokers with 3 links are not a tree"):
        links.check(full, ring, rules)
    with pytest.raises(ConfigurationError, match=r"fanout = 1 leaves no broker room.*up to 2"):
        links.check(full, PATH, rules._replace(fanout=1))
    with pytest.raises(ConfigurationError, match="level sampled"):
        links.check({"level": "sampled"}, PATH, rules)
    links.check(full, PATH, rules)


@pytest.mark.spark
def test_from_the_trace_of_a_run(spark, tmp_path):
    """On five brokers in a row with one subscriber at the far end, a link of four hops saves
    three."""
    nodes = topology.names(5)
    setup = Setup(graph=topology.path(nodes), trace=TraceOptions(tmp_path))
    simulation = Simulation(setup)
    simulation.subscribe("client", nodes[4], "x >= 0", at_s=0.0)
    for x in range(10):
        simulation.publish("publisher", nodes[0], {"x": x}, at_s=1.0 + x)
    simulation.run()
    pairs, rates = links.read(spark, tmp_path, nodes, 4)
    best = links.plan_links(topology.path(nodes), pairs, rates, Rules(4, 8, None, 0.8)).rows[0]
    assert (best["a"], best["b"], best["publications"], best["spared"]) == (
        nodes[0],
        nodes[4],
        10,
        30,
    )
    assert set(rates) == set(nodes[:4])
    assert rates[nodes[0]] == pytest.approx(10 / 9, rel=0.05)

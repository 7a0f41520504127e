"""Rounds of overlays: which sizes stay and which fall, while nodes come, go and fail."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Literal

import networkx as nx
import numpy as np
import pytest

from reefcast.errors import LocalError
from reefcast.routing.gossip.messages import Linked, Walk, Walked
from reefcast.routing.gossip.options import GossipOptions
from reefcast_lab.rounds.overlays import Overlays, best_overlays, starting_overlays
from reefcast_lab.rounds.rounds import Rounds
from reefcast_lab.rounds.twin import Twin

NODES = [f"n{i:03}" for i in range(120)]
Rule = Literal["witness", "greedy"]
RULES: tuple[Rule, ...] = ("witness", "greedy")
CONTACTS = {"t": ("n000", "n001")}


def interests(seed: int) -> dict[str, list[str]]:
    """Return six topics of each size."""
    rng = random.Random(seed)
    sizes = (60, 40, 25, 12)
    return {f"t{i}-{size}": rng.sample(NODES, size) for i in range(6) for size in sizes}


def one_topic(nodes: Sequence[str] = NODES, **options: float) -> Rounds:
    start = starting_overlays({"t": nodes}, seed=1)
    return Rounds(start.views(), GossipOptions(), contacts=CONTACTS, **options)


def connected(views: Mapping[str, Sequence[str]]) -> bool:
    """Return whether there is a path from each node to each other."""
    graph = nx.DiGraph([(me, other) for me, view in views.items() for other in view])
    graph.add_nodes_from(views)
    return bool(nx.is_strongly_connected(graph))


def test_links_stay_and_connections_fall() -> None:
    """These are G1 and G2 of the paper: Total and Unique View Size."""
    start = starting_overlays(interests(1), seed=1)
    rounds = Rounds(start.views(), GossipOptions())
    sizes = {t: {x: len(view) for x, view in o.items()} for t, o in rounds.views().items()}
    unique = [rounds.unique()]
    for _ in range(30):
        rounds.round()
        unique.append(rounds.unique())
    assert {t: {x: len(v) for x, v in o.items()} for t, o in rounds.views().items()} == sizes
    assert unique[:10] == sorted(unique[:10], reverse=True)
    least = best_overlays(start, seed=0).unique()
    assert least <= unique[-1] < 1.1 * least < unique[0] / 1.3
    assert rounds.number == 30
    assert rounds.counts[Walk] == rounds.counts[Walked] == 30 * 5 * 6 * (60 + 40 + 25 + 12)
    assert set(rounds.counts) == {Walk, Walked, Linked}


@pytest.mark.parametrize("seed", range(3))
def test_the_witness_rule_keeps_every_topic_strongly_connected(seed: int) -> None:
    """The greedy rule, the paper's, makes orphans again and again, which must be adopted."""
    rng = random.Random(seed)
    nodes = [f"n{i:04}" for i in range(1000)]
    interests = {f"t{i}-{size}": rng.sample(nodes, size) for i in range(3) for size in (900, 90, 9)}
    start = starting_overlays(interests, seed)
    lost = {rule: set(range(9)) - set(always_connected(start, rule)) for rule in RULES}
    assert not lost["witness"]
    assert len(lost["greedy"]) >= 3


def always_connected(start: Overlays, rule: Rule) -> list[int]:
    """Return the topics that were strongly connected after each round."""
    twin = Twin(start, GossipOptions(rule=rule))
    found = start.connected()
    for _ in range(20):
        twin.round()
        found &= twin.overlays.connected()
    views = twin.overlays.views()
    assert twin.overlays.connected().tolist() == [connected(views[t]) for t in start.topics]
    return np.flatnonzero(found).tolist()


def test_a_run_follows_from_its_seeds() -> None:
    def run(seed: int, loss: float) -> dict[str, dict[str, tuple[str, ...]]]:
        rounds = one_topic(loss=loss, random=random.Random(seed))
        for _ in range(5):
            rounds.round()
        return rounds.views()

    assert run(1, 0.2) == run(1, 0.2) != run(2, 0.2)
    assert run(1, 0.0) == run(2, 0.0)


def test_walks_that_are_lost_change_nothing() -> None:
    rounds = one_topic(loss=1.0)
    before = rounds.views()
    assert rounds.round() == 0
    assert rounds.views() == before
    assert rounds.counts[Walked] == 0


def test_who_crashed_is_forgotten_and_the_rest_stay_connected() -> None:
    rounds = one_topic()
    crashed = set(random.Random(1).sample(NODES[2:], 24))
    for node in sorted(crashed):
        rounds.crash(node)
    for _ in range(10):
        rounds.round()
    views = rounds.views()["t"]
    assert views.keys() == set(NODES) - crashed
    assert not crashed.intersection(*[set().union(*views.values())])
    assert connected(views)


def test_who_leaves_is_in_no_view_any_more() -> None:
    rounds = one_topic()
    for node in NODES[40:60]:
        rounds.leave(node, "t")
        views = rounds.views()["t"]
        assert node not in views.keys() | set().union(*views.values())
    rounds.round()
    assert connected(rounds.views()["t"])


def test_who_joins_has_neighbours_and_is_one() -> None:
    rounds = one_topic(NODES[:60])
    for node in NODES[60:]:
        rounds.join(node, "t")
    for _ in range(10):
        rounds.round()
    views = rounds.views()["t"]
    assert set(views) == set(NODES)
    assert connected(views)
    assert min(len(views[node]) for node in NODES[60:]) > 2


def test_who_crashed_may_come_back() -> None:
    rounds = one_topic()
    rounds.crash("n050")
    rounds.round()
    rounds.join("n050", "t")
    rounds.round()
    assert connected(rounds.views()["t"])


@pytest.mark.parametrize(
    ("node", "topic", "why"),
    [("n003", "t", "it is there already"), ("n003", "u", "it has no contact")],
)
def test_who_cannot_join_is_told_why(node: str, topic: str, why: str) -> None:
    with pytest.raises(LocalError, match=f"'{node}' cannot join .* topic '{topic}': {why}"):
        one_topic().join(node, topic)


def test_who_is_in_a_view_must_have_one() -> None:
    with pytest.raises(LocalError, match="'a' has 'b' in its view of topic 't'"):
        Rounds({"t": {"a": ["b"]}}, GossipOptions())

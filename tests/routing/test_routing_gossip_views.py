"""The neighbours that a node has after a walk, against the definitions."""

from __future__ import annotations

import random
from typing import Literal

import pytest
from gossip_network import OverlayNetwork, is_connected, names, random_views
from hypothesis import assume, given
from hypothesis import strategies as st

from reefcast.routing.gossip.options import GossipOptions
from reefcast.routing.gossip.streams import NodeId, weight
from reefcast.routing.gossip.views import View, Weights, best_view

SEED = 3
ME = "n0"
NODES = names(9)
OTHERS = NODES[1:]
WEIGHTS = Weights(ME, SEED)


def least(nodes: set[NodeId], count: int, me: NodeId = ME, seed: int = SEED) -> list[NodeId]:
    return sorted(nodes, key=lambda node: weight(seed, me, node))[: max(count, 0)]


def listing_1(
    view: View, size: int, path: list[NodeId], views: list[View], refused: set[NodeId]
) -> View:
    """Return the paper's listing 1: the best of the ids that the walk collected and of the own
    view."""
    ids = {*view, *path, *(node for theirs in views for node in theirs)}
    return tuple(least(ids - {ME} - refused, size))


def with_witnesses(
    view: View, size: int, path: list[NodeId], views: list[View], refused: set[NodeId]
) -> View:
    """Return the view by the rule in the docstring of `best_view`, node by node."""
    kept = set()
    for node in view:
        witnesses = [x for x, theirs in zip(path, views, strict=True) if x != ME and node in theirs]
        went_there = any(x == node and (i == 0 or path[i - 1] == ME) for i, x in enumerate(path))
        if not witnesses or went_there:
            kept.add(node)
    known = {*view, *path}.union(*(views[i] for i, node in enumerate(path) if node != ME))
    best = least(known - kept - {ME} - refused, size - len(kept))
    return tuple(least({*kept, *best}, len(NODES)))


@st.composite
def answers(draw: st.DrawFn) -> tuple[View, int, list[NodeId], list[View], set[NodeId]]:
    """Draw a view, its intended size, what a walk collected, and the nodes in quarantine."""
    subsets = st.lists(st.sampled_from(NODES), unique=True, max_size=6).map(tuple)
    view = WEIGHTS.view(x for x in draw(subsets) if x != ME)
    size = len(view) + draw(st.sampled_from((0, 0, 0, 1, 3, -1)))
    path = [draw(st.sampled_from(view or tuple(OTHERS)))]
    path += draw(st.lists(st.sampled_from(NODES), max_size=5))
    views = [draw(subsets) for _ in path]
    refused = set(draw(st.lists(st.sampled_from(OTHERS), max_size=3))) - set(view)
    return view, max(size, 0), path, views, refused


@given(answers())
def test_greedy_is_the_papers_listing_1(
    answer: tuple[View, int, list[NodeId], list[View], set[NodeId]],
) -> None:
    """What was in the node's view when the walk came back is not new to it."""
    view, size, path, views, refused = answer
    views = [view if node == ME else theirs for node, theirs in zip(path, views, strict=True)]
    found = best_view(view, size, path, views, WEIGHTS, refused, greedy=True)
    assert found == listing_1(view, size, path, views, refused)


@given(answers())
def test_the_witness_rule_is_what_its_docstring_says(
    answer: tuple[View, int, list[NodeId], list[View], set[NodeId]],
) -> None:
    view, size, path, views, refused = answer
    found = best_view(view, size, path, views, WEIGHTS, refused)
    assert found == with_witnesses(view, size, path, views, refused)


@given(answers(), st.booleans())
def test_a_view_keeps_its_size_and_has_nobody_twice_nor_itself_nor_who_is_refused(
    answer: tuple[View, int, list[NodeId], list[View], set[NodeId]], greedy: bool
) -> None:
    view, size, path, views, refused = answer
    found = best_view(view, size, path, views, WEIGHTS, refused, greedy=greedy)
    assert len(set(found)) == len(found)
    assert not {ME, *refused} & set(found)
    assert list(found) == least(set(found), len(found)), "ascending by weight"
    if size == len(view):
        assert len(found) == size
    assert len(found) <= max(size, 0 if greedy else len(view))


@given(answers())
def test_both_rules_agree_if_everybody_has_a_witness(
    answer: tuple[View, int, list[NodeId], list[View], set[NodeId]],
) -> None:
    """With full knowledge: the walk met nodes that have all others in their views."""
    view, size, _, _, refused = answer
    stranger = [node for node in OTHERS if node not in view][:1]
    assume(stranger and size)
    path, views = [*stranger, OTHERS[0]], [tuple(NODES)] * 2
    ends = [
        best_view(view, size, path, views, WEIGHTS, refused, greedy=greedy)
        for greedy in (False, True)
    ]
    assert ends[0] == ends[1] == tuple(least(set(OTHERS) - refused, size))


@st.composite
def graphs(draw: st.DrawFn) -> dict[NodeId, View]:
    """Draw a strongly connected graph: a ring, and further edges."""
    nodes = draw(st.permutations(NODES[: draw(st.integers(2, len(NODES)))]))
    more = st.lists(st.sampled_from(nodes), max_size=3)
    ring = zip(nodes, [*nodes[1:], nodes[0]], strict=True)
    return {
        node: Weights(node, SEED).view({x for x in (behind, *draw(more)) if x != node})
        for node, behind in ring
    }


@given(graphs(), st.randoms(use_true_random=False))
def test_one_change_by_the_witness_rule_leaves_the_graph_strongly_connected(
    views: dict[NodeId, View], rng: random.Random
) -> None:
    """This holds for any graph, walk after walk, if each is answered before the next."""
    for _ in range(40):
        me = rng.choice(sorted(views))
        path = [rng.choice(views[me])]
        for _ in range(rng.randrange(5)):
            path.append(rng.choice(views[path[-1]]))
        theirs = [views[node] for node in path]
        views[me] = best_view(views[me], len(views[me]), path, theirs, Weights(me, SEED), ())
        assert is_connected(views)


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 4))]
)
@pytest.mark.parametrize(("rule", "most"), [("greedy", 0), ("witness", 1)])
def test_both_rules_end_with_the_nodes_of_least_weight(
    seed: int, rule: Literal["greedy", "witness"], most: int
) -> None:
    """The witness rule leaves out one link in a hundred: the only one by which a node reaches
    another."""
    nodes = names(24)
    options = GossipOptions(rule=rule, seed=seed)
    network = OverlayNetwork(random.Random(seed), options=options)
    network.begin(random_views(nodes, random.Random(seed)))
    network.rounds(150)
    others = {
        (node, other)
        for node, view in network.views().items()
        for other in set(view) - set(least(set(nodes) - {node}, len(view), node, seed))
    }
    assert len(others) <= most
    assert network.connected()

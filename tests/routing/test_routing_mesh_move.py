"""The brokers that a move of a primary link affects, against the definition on random trees."""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, primary_path, some_tree, tree_of

from reefcast.overlay.topology import Graph, edges_of, graph, hops_from, is_connected
from reefcast.routing.mesh.move import Plan

SEEDS = st.integers(0, 2**32)


class Moved(NamedTuple):
    before: Graph
    after: Graph
    plan: Plan

    @property
    def affected(self) -> set[str]:
        """The brokers within Delta of A, before or after, or within Delta - 1 of the move path (the
        definition)."""
        plan = self.plan
        near = {
            x
            for tree in (self.before, self.after)
            for x, hops in hops_from(tree, plan.mover).items()
            if hops <= plan.delta
        }
        for place in plan.path:
            near |= {x for x, hops in hops_from(self.before, place).items() if hops < plan.delta}
        return near


def moved(tree: Graph, mover: str, new: str, delta: int) -> Moved:
    path = primary_path(tree, mover, new)
    links = [edge for edge in edges_of(tree) if set(edge) != {mover, path[0]}]
    after = graph(sorted(tree), [*links, (mover, new)])
    return Moved(tree, after, Plan(1, mover, tuple(path), delta))


def some_move(seed: int) -> Moved:
    rng = random.Random(seed)
    delta = rng.randint(2, 5)
    while True:
        tree = some_tree(rng, 25)
        mover = rng.choice(sorted(tree))
        hops = hops_from(tree, mover)
        ends = sorted(x for x in tree if 1 < hops[x] <= delta)
        if ends:
            return moved(tree, mover, rng.choice(ends), delta)


@given(SEEDS)
def test_each_affected_broker_knows_who_else_is(seed: int) -> None:
    move = some_move(seed)
    for me in move.affected:
        mom = neighbourhood(move.before, me, move.plan.delta)
        found = {x for x in mom.brokers if move.plan.affects(mom, x)}
        assert found == move.affected & set(mom.brokers)
        assert move.plan.affects(mom, me)


@given(SEEDS)
def test_the_affected_are_connected_before_and_after(seed: int) -> None:
    move = some_move(seed)
    for tree in (move.before, move.after):
        inside = {x: [y for y in tree[x] if y in move.affected] for x in sorted(move.affected)}
        assert is_connected(inside)


def anchor(tree: Graph, me: str, home: str, delta: int) -> str:
    return [me, *primary_path(tree, me, home)][: delta + 1][-1]


@given(SEEDS)
def test_all_others_have_the_same_mom_and_anchors_before_and_after(seed: int) -> None:
    move = some_move(seed)
    delta = move.plan.delta
    for me in move.before.keys() - move.affected:
        before, after = (neighbourhood(t, me, delta) for t in (move.before, move.after))
        assert before.closer == after.closer
        for home in move.before:
            one, other = (anchor(t, me, home, delta) for t in (move.before, move.after))
            assert one == other


@given(SEEDS)
def test_what_leaves_an_affected_broker_for_another_leads_to_the_same_brokers(seed: int) -> None:
    """Copies that come in from outside may therefore follow either tree."""
    move = some_move(seed)
    for outer in move.before.keys() - move.affected:
        for first in set(move.before[outer]) & move.affected:
            beyond = [
                {home for home in tree if home != outer and _first(tree, outer, home) == first}
                for tree in (move.before, move.after)
            ]
            assert beyond[0] == beyond[1]


def _first(tree: Graph, start: str, end: str) -> str:
    return primary_path(tree, start, end)[0]


@given(SEEDS)
def test_links_after_are_those_of_the_tree_after(seed: int) -> None:
    move = some_move(seed)
    for me, links in move.before.items():
        assert move.plan.links_after(me, links) == sorted(move.after[me])


@given(SEEDS)
def test_a_link_bypasses_the_mover_if_it_is_between_the_ends(seed: int) -> None:
    move = some_move(seed)
    for me in move.affected:
        mom = neighbourhood(move.before, me, move.plan.delta)
        for other in mom.brokers:
            between = primary_path(move.before, me, other)[:-1]
            assert move.plan.bypasses(mom, other) == (move.plan.mover in between)


def test_a_leaf_at_the_end_of_a_long_chain_affects_few() -> None:
    """With Delta = 2, a moves from d to c; e is within 1 of d, f is not."""
    move = moved(tree_of("a-d d-c c-b d-e e-f b-g"), "a", "c", 2)
    assert move.affected == {"a", "b", "c", "d", "e"}

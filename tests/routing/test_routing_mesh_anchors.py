"""Anchors: the example of section 4, and random trees against the definition."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, primary_path, some_tree, tree_of

from reefcast.errors import InternalError
from reefcast.routing.mesh.anchors import towards

FIG_3 = tree_of("A-N1 A-N2 N2-X2 N1-X4 N1-X1 X1-N3 X1-X3 X3-N4 N4-X5")


def test_section_4_the_anchor_x5_becomes_n4_on_the_way_from_n1_to_a() -> None:
    assert towards(neighbourhood(FIG_3, "N1", 4), "X5", "A", 4) == "N4"
    assert towards(neighbourhood(FIG_3, "N1", 4), "N4", "A", 4) == "N4"


def test_the_anchor_of_a_local_subscription_is_the_broker_itself() -> None:
    assert towards(neighbourhood(FIG_3, "A", 4), "A", "N1", 4) == "A"


def test_with_delta_1_the_anchor_is_always_the_last_hop() -> None:
    assert towards(neighbourhood(FIG_3, "N1", 1), "X1", "A", 1) == "N1"


def test_a_subscription_is_not_sent_back() -> None:
    with pytest.raises(InternalError, match="'X5' back to 'X1'"):
        towards(neighbourhood(FIG_3, "N1", 4), "X5", "X1", 4)


@given(st.integers(0, 2**32))
def test_an_anchor_is_up_to_delta_hops_towards_the_subscriber(seed: int) -> None:
    rng = random.Random(seed)
    tree, delta = some_tree(rng), rng.randint(1, 5)
    home, end = rng.choice(sorted(tree)), rng.choice(sorted(tree))
    anchor = me = home
    for other in primary_path(tree, home, end):
        anchor = towards(neighbourhood(tree, me, delta), anchor, other, delta)
        me = other
        assert anchor == primary_path(tree, me, home)[:delta][-1]

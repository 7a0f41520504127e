"""Overlays as arrays hold what was put into them, and are measured correctly."""

from __future__ import annotations

import math

import networkx as nx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import LocalError
from reefcast.routing.gossip.streams import weight
from reefcast_lab.rounds.overlays import (
    Overlays,
    best_overlays,
    converged,
    starting_overlays,
)

Views = dict[str, dict[str, tuple[str, ...]]]


@st.composite
def all_views(draw: st.DrawFn) -> Views:
    """Draw the views of up to four topics over up to six nodes."""
    found: Views = {}
    for topic in draw(st.sets(st.sampled_from("tuvw"))):
        members = sorted(draw(st.sets(st.sampled_from("abcdef"), min_size=1)))
        found[topic] = {
            me: tuple(sorted(draw(st.sets(st.sampled_from(members))) - {me})) for me in members
        }
    return found


@given(all_views())
def test_they_hold_what_was_put_into_them(views: Views) -> None:
    assert Overlays.of(views).views() == views


@given(all_views())
def test_links_are_counted_by_topic_and_by_node(views: Views) -> None:
    overlays = Overlays.of(views)
    union: dict[str, set[str]] = {}
    for overlay in views.values():
        for node, view in overlay.items():
            union.setdefault(node, set()).update(view)
    assert overlays.total() == sum(len(v) for overlay in views.values() for v in overlay.values())
    assert overlays.unique() == sum(map(len, union.values()))
    bounds, neighbours = overlays.union()
    for number, node in enumerate(overlays.nodes):
        row = neighbours[bounds[number] : bounds[number + 1]]
        assert [overlays.nodes[x] for x in row] == sorted(union[node])


def test_who_is_in_a_view_must_have_one() -> None:
    with pytest.raises(LocalError, match="a view of topic 't' has 'c', which is not there"):
        Overlays.of({"t": {"a": ("b", "c"), "b": ("a",)}})


def test_the_start_is_strongly_connected_and_follows_from_its_seed() -> None:
    interests = {f"t{size}": [f"n{i}" for i in range(size)] for size in (2, 5, 30, 200)}
    overlays = starting_overlays(interests, seed=1)
    for topic, views in overlays.views().items():
        graph = nx.DiGraph([(me, other) for me, view in views.items() for other in view])
        assert nx.is_strongly_connected(graph)
        assert set(graph) == set(interests[topic])
    edges = len(overlays.graph(overlays.topics.index("t200"))[1])
    assert abs(edges / 200 / (2 * math.log(200)) - 1) < 0.1
    assert starting_overlays(interests, seed=1).views() == overlays.views()
    assert starting_overlays(interests, seed=2).views() != overlays.views()
    one = starting_overlays({"t30": interests["t30"]}, seed=1)
    assert one.views()["t30"] == overlays.views()["t30"]


def test_a_start_that_cannot_be_connected_is_refused() -> None:
    with pytest.raises(LocalError, match="ask for a higher degree"):
        starting_overlays({"t": [f"n{i}" for i in range(50)]}, seed=1, degree=0.1)


@given(all_views(), st.integers(0, 2**32))
def test_the_best_views_have_the_least_weights(views: Views, seed: int) -> None:
    for topic, overlay in best_overlays(Overlays.of(views), seed).views().items():
        for me, view in overlay.items():
            others = sorted(overlay.keys() - {me}, key=lambda x, me=me: weight(seed, me, x))
            assert view == tuple(others[: len(views[topic][me])])


def test_converged_is_what_hardly_changes_for_some_rounds() -> None:
    falling = [1000, 900, 800, 700, 600, 500]
    assert not converged(falling)
    assert not converged([*falling, *[495] * 4])
    assert converged([*falling, *[495.1] * 5])
    assert not converged([500] * 5)

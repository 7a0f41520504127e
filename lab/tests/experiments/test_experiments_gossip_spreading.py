"""Publications over views that do not change, beside a slow twin, and beside what is certain."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast_lab.experiments.gossip.scenario import grid_interests
from reefcast_lab.experiments.gossip.spreading import (
    Faults,
    Publications,
    Spread,
    publications,
    spread,
)
from reefcast_lab.experiments.gossip.stack import Stack, stack_of
from reefcast_lab.rounds.overlays import Overlays, starting_overlays

NODES = "abcdef"
Views = dict[str, dict[str, list[str]]]


@st.composite
def networks(draw) -> tuple[Views, set[str]]:
    """Draw two topics whose members have any of the other members for neighbours, and the crashed
    nodes."""
    views: Views = {}
    for topic in "tu":
        members = sorted(draw(st.sets(st.sampled_from(NODES), min_size=2)))
        views[topic] = {
            node: sorted(draw(st.sets(st.sampled_from([x for x in members if x != node]))))
            for node in members
        }
    return views, draw(st.sets(st.sampled_from(NODES), max_size=3))


def slowly(views: Views, publisher: str, topics: str, crashed: set[str]) -> tuple[int, int, int]:
    """Return due, delivered and copies of one publication to all neighbours."""
    interested = {node for topic in topics for node in views[topic]}
    due = interested - crashed - {publisher}
    sender = {publisher: ""}
    waiting, copies = [publisher], 0
    for node in waiting:
        named = [other for topic in topics for other in views[topic].get(node, ())]
        for other in dict.fromkeys(named):
            copies += other != sender[node]
            if other not in sender and other not in crashed:
                sender[other] = node
                waiting.append(other)
    return len(due), len(sender) - 1, copies


def row(found: Spread) -> tuple[int, int, int]:
    return int(found.due[0]), int(found.delivered[0]), int(found.copies[0])


def without_faults(stack: Stack) -> Faults:
    return Faults(np.zeros(stack.nodes, np.bool_), 0.0)


@given(networks(), st.sampled_from(["t", "u", "tu"]))
def test_to_all_neighbours_as_a_slow_twin_does(network, topics) -> None:
    """Every topic and set of topics of every publisher is tried."""
    views, crashed = network
    overlays = Overlays.of(views)
    stack = stack_of(overlays)
    gone = np.array([node in crashed for node in overlays.nodes])
    for number, publisher in enumerate(overlays.nodes):
        if publisher in crashed or not all(publisher in views[topic] for topic in topics):
            continue
        published = Publications(
            np.array([number]), np.array([[overlays.topics.index(topic) for topic in topics]])
        )
        found = spread(stack, published, Faults(gone, 0.0), 0, np.random.default_rng(0))
        assert row(found) == slowly(views, publisher, topics, crashed)


LINE = {"t": {"a": ["b"], "b": ["a", "c"], "c": ["a", "b"]}}


def test_nothing_goes_back_to_where_it_came_from() -> None:
    """a sends to b, b to c, c to a (which has it) but not to b."""
    stack = stack_of(Overlays.of(LINE))
    published = Publications(np.array([0]), np.array([[0]]))
    found = spread(stack, published, without_faults(stack), 0, np.random.default_rng(0))
    assert row(found) == (2, 2, 3)


def test_a_link_is_crossed_once_for_two_topics() -> None:
    views = {topic: {"a": ["b"], "b": ["a"]} for topic in "tu"}
    stack = stack_of(Overlays.of(views))
    published = Publications(np.array([0]), np.array([[0, 1]]))
    rng = np.random.default_rng(0)
    assert row(spread(stack, published, without_faults(stack), 0, rng)) == (1, 1, 1)
    apart = spread(stack, published.single(), without_faults(stack), 0, rng)
    assert apart.copies.tolist() == [1, 1]


@pytest.fixture(scope="module")
def stack() -> Stack:
    return stack_of(starting_overlays(grid_interests(150, 30, 1), 1))


def test_what_crashed_and_what_is_lost_gets_nowhere(stack: Stack) -> None:
    rng = np.random.default_rng(1)
    published = publications(stack, without_faults(stack), 50, 1, rng)
    lost = spread(stack, published, Faults(np.zeros(stack.nodes, np.bool_), 1.0), 0, rng)
    assert lost.delivered.sum() == 0 and lost.copies.min() > 0
    gone = np.arange(stack.nodes) < 30
    published = publications(stack, Faults(gone, 0.0), 50, 1, rng)
    assert not gone[published.publishers].any()
    assert (spread(stack, published, Faults(gone, 0.0), 0, rng).delivered_share) > 0.9


def test_all_get_it_with_all_neighbours_and_more_with_more(stack: Stack) -> None:
    rng = np.random.default_rng(2)
    published = publications(stack, without_faults(stack), 300, 1, rng)
    found = [spread(stack, published, without_faults(stack), n, rng) for n in (1, 2, 4, 0)]
    assert found[-1].whole_share == found[-1].delivered_share == 1.0
    shares = [one.delivered_share for one in found]
    copies = [one.copies_per_delivery for one in found]
    assert shares == sorted(shares) and copies == sorted(copies)
    for one, fanout in zip(found, (1, 2, 4), strict=False):
        assert (one.copies <= fanout * (one.delivered + 1)).all()


def test_a_fanout_draws_each_neighbour_as_often() -> None:
    """Two of five neighbours are drawn each time: each of them gets two fifths of the
    publications."""
    views = {"t": {"a": list("bcdef"), **{node: ["a"] for node in "bcdef"}}}
    stack = stack_of(Overlays.of(views))
    many = 20_000
    published = Publications(np.zeros(many, np.int64), np.zeros((many, 1), np.int64))
    for other in range(1, 6):
        gone = np.arange(6) == other
        found = spread(stack, published, Faults(gone, 0.0), 2, np.random.default_rng(other))
        assert found.copies.min() == found.copies.max() == 2
        assert (2 - found.delivered).mean() == pytest.approx(0.4, abs=0.02)


def test_publications_are_on_topics_of_their_publishers(stack: Stack) -> None:
    rng = np.random.default_rng(3)
    published = publications(stack, without_faults(stack), 200, 3, rng)
    assert published.topics.shape == (200, 3)
    for publisher, topics in zip(*published, strict=True):
        assert len(set(topics)) == 3
        for topic in topics:
            assert publisher in stack.members[stack.starts[topic] : stack.starts[topic + 1]]

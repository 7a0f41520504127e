"""The four steps: the paper's worked example, and an assignment that never fails."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import RANDOMS
from reefcast.errors import ConfigurationError
from reefcast.overlay.topology import graph, names, path, random_tree
from reefcast.pipeline.planning.placement.baselines import at_random, greedy_without_limits
from reefcast.pipeline.planning.placement.inputs import (
    Inputs,
    checked,
    fewest_storages,
    inputs,
    mean_hops,
    shares_served,
)
from reefcast.pipeline.planning.placement.steps import assign, can_complete, place, steps_from


def test_the_worked_example_of_the_paper() -> None:
    """Its topology is in a figure; step 1 and the sums of the rates are in its text."""
    brokers = ["1", "2", "3", "4", "5", "6"]
    rates = {"1": {"a": 17.0, "b": 27.0, "c": 6.0}}
    made = inputs(path(brokers), rates, copies=2, capacity=2)
    assert made.storages == 3
    counts = [[0, 3, 5, 0, 2, 2], [0, 2, 5, 0, 5, 0], [0, 2, 5, 0, 5, 0]]
    found = steps_from(made, np.array(counts))
    assert found.weights.tolist() == pytest.approx([0.34, 0.54, 0.12])
    assert found.scores.tolist() == pytest.approx([0, 2.34, 5, 0, 3.98, 0.68])
    assert found.storage_brokers == ("3", "5", "2")
    assert found.placement == {"a": ("3", "2"), "b": ("3", "5"), "c": ("5", "2")}


@st.composite
def feasible(draw: st.DrawFn) -> Inputs:
    brokers, topics = draw(st.integers(1, 10)), draw(st.integers(1, 8))
    copies, capacity = draw(st.integers(1, min(4, brokers))), draw(st.integers(1, 8))
    least = fewest_storages(topics, copies, capacity)
    if least > brokers:
        capacity, least = topics, copies
    storages = draw(st.sampled_from([None, *range(least, brokers + 1)]))
    rng = draw(RANDOMS)
    rates = np.array([[rng.randint(1, 9) for _ in range(brokers)] for _ in range(topics)], float)
    tree = random_tree(names(brokers), rng)
    return checked(tree, tuple(names(topics)), rates, copies, capacity, storages)


@settings(max_examples=300, deadline=None)
@given(feasible(), RANDOMS)
def test_every_input_that_is_not_refused_gets_a_placement(made: Inputs, rng: random.Random) -> None:
    for placement in (place(made).placement, at_random(made, rng)):
        assert list(placement) == list(made.topics)
        kept = [broker for brokers in placement.values() for broker in brokers]
        assert all(len(set(each)) == made.copies for each in placement.values())
        assert len(set(kept)) <= made.storages
        assert max(map(kept.count, kept)) <= made.capacity


def completes(room: dict[int, int], taken: set[int], copies: int, later: int) -> bool:
    """Return whether some assignment completes this one; try all of them."""
    if any(left < 0 for left in room.values()):
        return False
    if len(taken) == copies:
        return later == 0 or completes(room, set(), copies, later - 1)
    return any(
        completes({**room, broker: left - 1}, taken | {broker}, copies, later)
        for broker, left in room.items()
        if left and broker not in taken
    )


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_can_be_completed(data: st.DataObject) -> None:
    room = dict(enumerate(data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=4))))
    copies = data.draw(st.integers(1, min(3, len(room))))
    taken = data.draw(st.sets(st.sampled_from(sorted(room)), max_size=copies))
    later = data.draw(st.integers(0, 3))
    assert can_complete(room, taken, copies, later) == completes(room, taken, copies, later)


def test_a_choice_that_leaves_no_completion_is_skipped() -> None:
    """Two storages have room for one more topic each when the last topic comes, which needs both: b
    may not take what a left."""
    made = checked(path(names(3)), ("a", "b", "c"), np.ones((3, 3)), 2, 2)
    preferred = [0, 1, 2]
    found = assign(made, preferred, [(topic, preferred) for topic in range(3)])
    assert found == {"a": ("b1", "b2"), "b": ("b1", "b3"), "c": ("b2", "b3")}


def nearest_of_all(made: Inputs, kept: tuple[str, ...]) -> float:
    return mean_hops(made, dict.fromkeys(made.topics, kept))


def test_mean_hops_by_hand() -> None:
    rates = {"b1": {"x": 1.0, "y": 2.0}, "b4": {"x": 3.0}}
    made = inputs(path(names(4)), rates, copies=1, capacity=1)
    # x: 1 request over 1 hop, 3 over 2; y: 2 over 3.
    assert mean_hops(made, {"x": ("b2",), "y": ("b4",)}) == pytest.approx((1 + 6 + 6) / 6)


def test_requests_are_spread_over_equally_near_storages() -> None:
    """b2 is as near to b1 as to b3; requests at b4 go to b3 alone."""
    rates = {"b2": {"x": 4.0}, "b4": {"x": 1.0}}
    made = inputs(path(names(4)), rates, copies=2, capacity=1)
    assert shares_served(made, {"x": ("b1", "b3")}) == pytest.approx({"b1": 0.4, "b3": 0.6})


@settings(max_examples=50, deadline=None)
@given(feasible())
def test_with_room_for_all_topics_they_share_their_storages(made: Inputs) -> None:
    topics = len(made.topics)
    wide = checked(made.graph, made.topics, made.rates, made.copies, topics, made.copies)
    placement = place(wide).placement
    assert len({frozenset(each) for each in placement.values()}) == 1
    best = min(
        nearest_of_all(wide, kept) for kept in itertools.combinations(wide.brokers, wide.copies)
    )
    assert mean_hops(wide, placement) >= best - 1e-9


def test_grd_opt_knows_no_limits() -> None:
    made = inputs(path(names(5)), {"b3": {"x": 1.0, "y": 1.0}}, copies=1, capacity=1)
    assert greedy_without_limits(made) == {"x": ("b3",), "y": ("b3",)}


@pytest.mark.parametrize(
    ("copies", "capacity", "storages", "says"),
    [
        (2, 1, 3, "2 topics x 2 copies = 4, but 3 storages x 1 topics = 3"),
        (3, 2, 2, "3 copies of a topic in 2 storages"),
        (3, 1, None, "6 storages at 5 brokers"),
        (0, 1, None, "0 copies of a topic"),
        (1, 0, None, "0 topics for a storage"),
    ],
)
def test_infeasible_inputs(copies: int, capacity: int, storages: int | None, says: str) -> None:
    rates = {"b1": {"x": 1.0, "y": 1.0}}
    with pytest.raises(ConfigurationError, match=says):
        inputs(path(names(5)), rates, copies, capacity, storages)


def test_rates_that_cannot_be() -> None:
    line = path(names(2))
    with pytest.raises(ConfigurationError, match="'b9': there is no such broker"):
        inputs(line, {"b9": {"x": 1.0}}, 1, 1)
    with pytest.raises(ConfigurationError, match=r"-1\.0 a second is not a rate"):
        inputs(line, {"b1": {"x": -1.0}}, 1, 1)
    with pytest.raises(ConfigurationError, match="nobody asks for anything"):
        inputs(line, {"b1": {"x": 0.0}}, 1, 1)
    with pytest.raises(ConfigurationError, match="not connected"):
        inputs(graph(names(2), []), {"b1": {"x": 1.0}}, 1, 1)

"""Subscribers assigned to clusters: the plan, its slow twins, and Spark's reading of tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.pipeline.planning import clusters
from reefcast.pipeline.planning.clusters import Rules, Wants


def made(wanted, homes=None):
    """Return the interests of clients. `wanted`: the publications of each, as numbers from 0."""
    rows = np.zeros((len(wanted), 1 + max(itertools.chain(*wanted))), np.bool_)
    for row, numbers in zip(rows, wanted, strict=True):
        row[list(numbers)] = True
    places = np.array(homes or [-1] * len(wanted), np.int64)
    return Wants(tuple(f"c{i}" for i in range(len(wanted))), rows, places)


INTERESTS = st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=2, max_size=5)


def slow_cost(wants, placed, away):
    """Return the cost by plain sets."""
    total = 0.0
    for number in range(wants.wanted.shape[1]):
        holders = [i for i in range(len(placed)) if wants.wanted[i, number]]
        total += len({placed[i] for i in holders})
        total += away * sum(wants.homes[i] not in (-1, placed[i]) for i in holders)
    return total / wants.wanted.shape[1]


@given(INTERESTS, st.integers(2, 3), st.sampled_from([0.0, 0.5]), st.randoms())
@settings(max_examples=60)
def test_no_move_would_make_a_plan_better_and_its_cost_is_what_sets_say(wanted, count, away, rng):
    homes = [rng.randrange(-1, count) for _ in wanted]
    wants = made([{*numbers, 0} for numbers in wanted], homes)
    rules = clusters.rules(wants, count, None, away)
    placed = clusters.assign(wants, rules)
    assert np.bincount(placed).max() <= rules.capacity
    found = clusters.cost(wants, placed, away)
    assert found == pytest.approx(slow_cost(wants, placed.tolist(), away))
    for client, other in itertools.product(range(len(wanted)), range(count)):
        moved = placed.copy()
        moved[client] = other
        if np.bincount(moved).max() <= rules.capacity:
            assert slow_cost(wants, moved.tolist(), away) >= found - 1e-9
    every = (
        list(one)
        for one in itertools.product(range(count), repeat=len(wanted))
        if max(map(one.count, one)) <= rules.capacity
    )
    best = min(slow_cost(wants, one, away) for one in every)
    assert best <= found + 1e-9
    assert found <= max(count, 1) * (1 + away)


def test_those_who_want_the_same_come_together():
    wants = made([{0, 1}, {2, 3}, {0, 1}, {2, 3}, {0}, {3}])
    plan = clusters.plan_clusters(wants, clusters.rules(wants, 2, 3, 0.0), seed=1)
    groups = {}
    for row in plan.rows:
        groups.setdefault(row["cluster"], set()).add(row["client"])
    assert sorted(map(sorted, groups.values())) == [["c0", "c2", "c4"], ["c1", "c3", "c5"]]
    assert plan.figures["clusters entered by a publication, this plan"] == 1.0
    assert plan.figures["at random"] > 1.0


def test_location_counts_as_much_as_is_asked():
    wants = made([{0, 1}, {0, 1}], homes=[0, 1])
    near = clusters.assign(wants, Rules(2, 2, 2.0))
    together = clusters.assign(wants, Rules(2, 2, 0.1))
    assert near.tolist() == [0, 1]
    assert together[0] == together[1]
    figures = clusters.plan_clusters(wants, Rules(2, 2, 2.0), 0).figures
    assert figures["everybody at home"] == 2.0
    assert figures["deliveries away from home, share"] == 0.0


def test_what_cannot_be():
    wants = made([{0}, {0}, {1}], homes=[0, 2, 1])
    with pytest.raises(ConfigurationError, match="2 clusters x 1 subscribers = 2, but there are 3"):
        clusters.rules(wants, 2, 1, 0.0)
    with pytest.raises(ConfigurationError, match="1 subscribers are at home in clusters such as 2"):
        clusters.rules(wants, 2, None, 0.0)


@pytest.mark.spark
def test_interests_are_told_from_events(spark):
    events = spark.createDataFrame([(i, i % 3) for i in range(9)], "event BIGINT, x BIGINT")
    rows = [("ann", "x = 0", 1), ("ann", "x = 1", 1), ("bob", "x = 2", None), ("eve", "x > 9", 0)]
    wanted = spark.createDataFrame(rows, "client STRING, filter STRING, cluster BIGINT")
    found = clusters.wants(clusters.interests(events, wanted, 100))
    assert found.clients == ("ann", "bob", "eve")
    assert found.homes.tolist() == [1, -1, 0]
    assert [row.nonzero()[0].tolist() for row in found.wanted] == [
        [0, 1, 3, 4, 6, 7],
        [2, 5, 8],
        [],
    ]
    few = clusters.wants(clusters.interests(events, wanted.drop("cluster"), 4))
    assert few.wanted.shape == (3, 4) and few.homes.tolist() == [-1, -1, -1]
    with pytest.raises(ConfigurationError, match="none of 1 subscribers wants any"):
        clusters.wants(clusters.interests(events, wanted.where("client = 'eve'"), 9))

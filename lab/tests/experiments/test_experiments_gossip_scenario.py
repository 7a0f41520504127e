"""Who is interested in what, and how similar interests are, beside slow twins."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from reefcast_lab.experiments.gossip.parameters import section
from reefcast_lab.experiments.gossip.scenario import (
    generator,
    grid_interests,
    grid_matrix,
    interests_of,
    matrix_of,
    power_law,
)
from reefcast_lab.workloads import correlation

sets = arrays(np.bool_, st.tuples(st.integers(2, 7), st.integers(2, 9)))


def test_a_power_law_has_the_shares_that_its_density_says() -> None:
    """A share (x / least)^(1 - exponent) of all lies above x."""
    values = power_law(10_000, 40.0, 3.0)
    assert values.min() == pytest.approx(40.0, rel=1e-3)
    assert list(values) == sorted(values, reverse=True)
    for x in (50, 100, 400):
        assert (values > x).mean() == pytest.approx((x / 40) ** -2.0, abs=2e-4)


def test_nodes_subscribe_to_the_topics_with_an_id_within_their_radius() -> None:
    """Everything is drawn once more, and compared pair by pair."""
    nodes, topics, seed = 30, 12, 5
    entries = section("grid")
    rng = generator(seed, "grid")
    ids = [round(x) for x in power_law(topics, entries.least_ids, entries.ids_exponent)]
    radius = power_law(nodes, entries.least_radius, entries.radius_exponent)
    here = rng.integers(entries.side, size=(nodes, 2))
    there = iter(rng.integers(entries.side, size=(sum(ids), 2)).tolist())
    expected = np.zeros((nodes, topics), np.bool_)
    for topic, number in enumerate(ids):
        for _ in range(number):
            x, y = next(there)
            for node in range(nodes):
                apart = math.hypot(here[node][0] - x, here[node][1] - y)
                expected[node, topic] |= apart <= min(radius[node], entries.side / 2)
    assert (grid_matrix(nodes, topics, seed) == expected).all()
    assert 0 < expected.mean() < 1


def test_one_seed_is_one_scenario() -> None:
    assert grid_interests(60, 20, 1) == grid_interests(60, 20, 1)
    assert grid_interests(60, 20, 1) != grid_interests(60, 20, 2)


def test_few_topics_are_popular_and_few_nodes_have_many() -> None:
    """Fig. 1: half of all topics have less than a tenth of the nodes, some have most."""
    matrix = grid_matrix(1000, 100, 0)
    subscribers, subscriptions = matrix.sum(axis=0), matrix.sum(axis=1)
    assert subscribers.max() > 700 and np.median(subscribers) < 100
    assert subscriptions.max() > 60 and np.median(subscriptions) < 10
    assert (subscriptions == 0).sum() < 20


def test_twice_the_topics_are_twice_the_subscriptions() -> None:
    few, many = (grid_matrix(1000, topics, 0).sum(axis=1).mean() for topics in (100, 200))
    assert many / few == pytest.approx(2.0, rel=0.1)


def test_correlation_is_that_of_the_papers_first_table() -> None:
    expected = {90: 0.69, 95: 0.61, 98: 0.51, 99: 0.45}
    for confidence, share in expected.items():
        found = [
            correlation.share_of_pairs(correlation.scores(matrix[matrix.any(axis=1)]), confidence)
            for matrix in (grid_matrix(1000, 100, seed) for seed in range(3))
        ]
        assert np.mean(found) == pytest.approx(share, abs=0.03)


@given(sets)
def test_interests_are_the_matrix_without_lone_nodes_and_topics(matrix) -> None:
    interests = interests_of(matrix)
    assert set(interests) == {f"t{i}" for i in np.flatnonzero(matrix.sum(axis=0) > 1)}
    nodes, back = matrix_of(interests)
    kept = matrix[:, matrix.sum(axis=0) > 1]
    assert nodes == [f"n{i}" for i in np.flatnonzero(kept.any(axis=1))] == sorted(nodes)
    assert (back == kept[kept.any(axis=1)]).all()


@given(sets)
def test_correlations_are_pearsons(matrix) -> None:
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = np.corrcoef(matrix.astype(float))
    found = correlation.phi(matrix)
    assert (np.isnan(found) == np.isnan(expected)).all()
    assert np.nan_to_num(found) == pytest.approx(np.nan_to_num(expected), abs=1e-9)


def test_shares_count_pairs_and_rows() -> None:
    """Rows 0 and 1 are equal, row 2 is their opposite, row 3 is empty: three pairs of six."""
    row = np.array([True] * 4 + [False] * 4)
    scores = correlation.scores(np.array([row, row, ~row, np.zeros(8, np.bool_)]))
    assert correlation.share_of_pairs(scores, 99) == pytest.approx(3 / 6)
    assert correlation.share_of_rows(scores, 99) == pytest.approx(3 / 4)
    assert scores[0, 1] == pytest.approx(math.sqrt(8)) and scores[0, 0] == 0

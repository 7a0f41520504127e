"""The parts of generators: alias tables, boxes around events, grids. None of them needs Spark."""

from __future__ import annotations

import random

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.model.filters import parse_filter
from reefcast.pipeline.matching.shared import stream_of
from reefcast_lab.workloads import boxes, correlation, draws, interests, samples

# --- Zipf ----------------------------------------------------------------------------------------


@given(st.integers(1, 300), st.floats(0, 3))
def test_an_alias_table_holds_the_chances(number, exponent):
    chances = draws.zipf(number, exponent)
    kept, alias = draws._alias_table(chances)
    held = kept / number
    np.add.at(held, alias, (1 - kept) / number)
    assert np.allclose(held, chances, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("number", "exponent"), [(0, 1.0), (draws.MOST_RANKS + 1, 1.0), (3, -0.1)])
def test_zipf_refuses_what_cannot_be(number, exponent):
    with pytest.raises(ConfigurationError, match="Zipf's law takes 1 to"):
        draws.zipf(number, exponent)


@given(st.integers(1, 500), st.floats(0.001, 1.0), st.floats(0, 2.5))
def test_shares_by_zipfs_law_have_the_mean_asked_for(filters, selectivity, exponent):
    shares = boxes.Boxes(filters, selectivity, exponent).shares()
    assert shares.mean() == pytest.approx(selectivity)
    assert shares.max() <= 1 and (np.diff(shares) <= 0).all()
    free = shares[shares < 1]
    ranks = np.arange(filters - len(free), filters) + 1
    assert np.allclose(free * ranks**exponent, free[:1] * ranks[:1] ** exponent)


@pytest.mark.parametrize("wrong", [{"selectivity": 0.0}, {"selectivity": 1.5}, {"zipf": -1.0}])
def test_shares_that_cannot_be(wrong):
    with pytest.raises(ConfigurationError, match="give a selectivity above 0"):
        boxes.Boxes(**({"filters": 10, "selectivity": 0.1} | wrong)).shares()


# --- boxes ---------------------------------------------------------------------------------------


def sample(columns):
    return samples.read_sample(stream_of(pa.table(columns)), list(columns))


def inside(columns, filter_text):
    """Return how many of these events the filter matches, in the obvious way."""
    filter = parse_filter(filter_text)
    names = list(columns)
    return sum(
        filter.holds({n: v for n, v in zip(names, row, strict=True) if v is not None})
        for row in zip(*columns.values(), strict=True)
    )


@given(st.integers(0, 2**32), st.integers(30, 150), st.floats(0.0, 1.0))
def test_a_box_holds_its_share_where_all_values_differ(seed, number, wanted):
    rng = random.Random(seed)
    level = [rng.gauss(0, 1) for _ in range(number)]
    columns = {"a": level, "b c": [x + rng.gauss(0, 0.1) for x in level]}
    centre = rng.randrange(number)
    text = boxes.box_around(sample(columns), centre, wanted, rng.random())
    # Ranks are whole numbers here: up to four events are equally far.
    assert abs(inside(columns, text) - 1 - wanted * (number - 1)) < 4


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.floats(0.05, 0.9))
def test_a_box_holds_its_share_on_average_where_many_agree(seed, wanted):
    rng = random.Random(seed)
    columns = {
        "hour": [rng.randrange(6) for _ in range(80)],
        "delay": [rng.choice((-1.5, 0.1, 0.3, 2.0)) for _ in range(80)],
    }
    made, centre = sample(columns), rng.randrange(80)
    held = [
        inside(columns, boxes.box_around(made, centre, wanted, (i + 0.5) / 50)) - 1
        for i in range(50)
    ]
    same = inside(columns, boxes.box_around(made, centre, 0.0, 0.999)) - 1
    assert np.mean(held) == pytest.approx(max(wanted * 79, same), abs=0.6)


@given(st.integers(0, 2**32))
def test_events_that_lack_an_attribute_are_in_no_box(seed):
    rng = random.Random(seed)
    columns = {
        "a": [rng.random() for _ in range(40)],
        "n": [None if i % 4 else i for i in range(40)],
    }
    made = sample(columns)
    assert made.whole.tolist() == list(range(0, 40, 4))
    text = boxes.box_around(made, rng.randrange(10), 0.1, 0.5)
    assert 3 <= inside(columns, text) <= 6
    assert inside(columns, boxes.box_around(made, 0, 0.9, 0.5)) == 10  # there are no more


# --- interests -----------------------------------------------------------------------------------


@given(st.integers(0, 1000), st.floats(0, 1))
def test_what_a_client_wants_does_not_depend_on_who_else_is_asked(seed, shuffled):
    grid = interests.Grid(60, 25, shuffled, seed)
    together = interests.wanted_by(grid, np.arange(60))
    alone = [interests.wanted_by(grid, np.array([client]))[0] for client in (0, 7, 59)]
    assert (together[[0, 7, 59]] == alone).all()


@given(st.integers(0, 1000))
def test_interests_are_what_lies_within_the_radius(seed):
    grid = interests.Grid(20, 10, 0.0, seed)
    ids, ends = grid.topic_ids()
    radius = grid.radius(np.arange(20))
    wanted = interests.wanted_by(grid, np.arange(20))
    for client in range(20):
        x, y = np.random.default_rng([seed, client]).integers(interests.SIDE, size=2)
        for topic in range(10):
            near = [np.hypot(x - a, y - b) for a, b in ids[ends[topic] : ends[topic + 1]]]
            assert wanted[client, topic] == (min(near) <= radius[client])


@pytest.mark.parametrize("share", [0.15, 0.3, 0.5])
def test_interests_are_correlated_as_asked(share):
    grid = interests.correlated(3000, 100, share, 95, seed=4)
    others = np.random.default_rng(1).choice(3000, 600, replace=False)
    sets = interests.wanted_by(grid, others)
    found = correlation.share_of_pairs(correlation.scores(sets), 95)
    assert found == pytest.approx(share, abs=0.05)


def test_a_correlation_that_no_grid_has():
    with pytest.raises(ConfigurationError, match=r"20 topics on the grid correlate 0\.\d\d to"):
        interests.correlated(200, 20, 0.99, 95, seed=1)


def test_one_client_is_correlated_with_nobody():
    scores = correlation.scores(np.ones((1, 4), np.bool_))
    assert correlation.share_of_pairs(scores, 95) == 0.0

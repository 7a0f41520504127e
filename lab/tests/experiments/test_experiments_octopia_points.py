"""Points of a number of deliveries each, and when they are stable again, on literal data."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reefcast_lab.experiments.columns import Delivered
from reefcast_lab.experiments.octopia.points import curve, points, running_median, stable_after_s


def delivered(rows: list[tuple[float, float, int]]) -> Delivered:
    at, delay, width = zip(*rows, strict=True) if rows else ((), (), ())
    return Delivered(np.array(at), np.array(delay), np.array(width, dtype=np.int64))


def test_a_point_is_the_largest_delay_of_so_many_consecutive_deliveries() -> None:
    rows = [(1.0, 0.1, 2), (2.0, 0.7, 1), (3.0, 0.2, 3), (4.0, 0.9, 2)]
    when, largest = points(delivered(rows), 3)
    assert when.tolist() == [2.0, 3.0]
    assert largest.tolist() == [0.7, 0.2]


def test_a_row_that_lies_across_a_border_belongs_to_both_points() -> None:
    when, largest = points(delivered([(1.0, 0.1, 2), (2.0, 0.5, 2), (3.0, 0.2, 5)]), 3)
    assert when.tolist() == [2.0, 3.0, 3.0]
    assert largest.tolist() == [0.5, 0.5, 0.2]


def test_no_deliveries_or_too_few_make_no_point() -> None:
    for rows in ([], [(1.0, 0.1, 2)]):
        when, largest = points(delivered(rows), 3)
        assert len(when) == len(largest) == 0


@given(st.lists(st.tuples(st.floats(0, 9), st.integers(1, 9)), max_size=30), st.integers(1, 12))
def test_points_are_those_of_the_deliveries_one_by_one(
    rows: list[tuple[float, int]], size: int
) -> None:
    single = [(float(i), delay) for i, (delay, width) in enumerate(rows) for _ in range(width)]
    groups = [single[i : i + size] for i in range(0, len(single) - size + 1, size)]
    when, largest = points(
        delivered([(float(i), delay, width) for i, (delay, width) in enumerate(rows)]), size
    )
    assert when.tolist() == [group[-1][0] for group in groups]
    assert largest.tolist() == [max(delay for _, delay in group) for group in groups]


BEFORE = [1.0, 1.05, 0.95]


def stable_s(after: list[float], window: int = 1, until_s: float = math.inf) -> float:
    delays = np.array(BEFORE + after)
    when = np.arange(len(delays)) - 3.0
    return stable_after_s(when, delays, 0.0, until_s=until_s, tolerance=0.1, window=window)


def test_stable_from_when_on_the_points_stay_within_a_tenth_of_the_level_before() -> None:
    assert stable_s([5.0, 1.0, 3.0, 1.09, 0.91, 1.0]) == 3.0


def test_points_below_the_level_are_not_stable_either() -> None:
    assert stable_s([1.0, 0.5, 1.0]) == 2.0


def test_when_publishers_come_to_their_end_points_below_the_level_are_stable() -> None:
    assert stable_s([5.0, 1.0, 1.0, 0.5, 0.1], until_s=3.0) == 1.0
    assert stable_s([5.0, 1.0, 1.0, 0.5, 2.0, 0.1], until_s=3.0) == 5.0


def test_a_burst_that_nobody_notices_is_stable_from_its_start() -> None:
    assert stable_s([1.0, 1.05, 0.95]) == 0.0


def test_never_stable() -> None:
    assert stable_s([5.0, 4.0, 3.0, 1.11]) == math.inf


def test_the_running_median_overlooks_a_single_point() -> None:
    after = [5.0, 5.0, 5.0, 1.0, 1.0, 1.4, 1.0, 1.0]
    assert stable_s(after) == 6.0
    assert stable_s(after, window=3) == 3.0


@given(st.lists(st.floats(0, 9), max_size=20), st.sampled_from([1, 3, 5]))
def test_running_median_is_the_median_of_each_value_and_its_neighbours(
    values: list[float], window: int
) -> None:
    def value(i: int) -> float:
        return values[min(max(i, 0), len(values) - 1)]

    half = window // 2
    expected = [
        float(np.median([value(j) for j in range(i - half, i + half + 1)]))
        for i in range(len(values))
    ]
    assert running_median(np.array(values), window).tolist() == expected


def test_the_curve_has_the_largest_point_of_each_step_since_the_burst() -> None:
    when = np.array([8.0, 9.9, 10.0, 11.9, 14.0])
    drawn = curve(when, np.array([1.0, 2.0, 3.0, 4.0, 5.0]), 10.0, 2.0)
    assert drawn == [(-2.0, 2.0), (0.0, 4.0), (4.0, 5.0)]

"""The window of statistics, and the pruning distance."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConfigurationError
from reefcast.routing.covering.statistics import MemoryStatistics, Window, distance_reaching

TABLE_I = Counter([6, 2, 2, 6, 7])


@pytest.mark.parametrize(
    ("theta", "distance"), [(1.0, 7), (0.85, 7), (0.8, 6), (0.41, 6), (0.4, 2), (0.1, 2), (0.0, 0)]
)
def test_pruning_distances_of_the_papers_table_i(theta: float, distance: int) -> None:
    assert distance_reaching(theta, TABLE_I) == distance


def test_without_records_the_distance_is_0() -> None:
    assert distance_reaching(0.9, {}) == 0
    assert MemoryStatistics().pruning_distance(("s", 1), ("a", 1), 0.9) == 0


def test_binary_fractions_ask_for_no_row_more() -> None:
    assert 0.07 * 100 > 7
    assert distance_reaching(0.07, {1: 7, 5: 93}) == 1


@given(
    st.dictionaries(st.integers(0, 12), st.integers(1, 40)),
    st.sampled_from([0.0, 0.1, 0.29, 0.5, 0.9, 0.99, 1.0]),
)
def test_the_distance_is_the_smallest_that_reaches_the_share(
    histogram: dict[int, int], theta: float
) -> None:
    def share(distance: int) -> float:
        return sum(n for d, n in histogram.items() if d <= distance) / sum(histogram.values())

    found = distance_reaching(theta, histogram)
    if not histogram:
        assert found == 0
        return
    assert share(found) >= theta - 1e-9
    assert found == 0 or share(found - 1) < theta


@pytest.mark.parametrize(
    "wrong", [{"seconds": 0.0}, {"rows": 0}, {"rows": 10, "total": 9}, {"seconds": float("nan")}]
)
def test_refuses_a_window_that_nothing_can_be_seen_through(wrong: dict[str, float]) -> None:
    with pytest.raises(ConfigurationError, match="give more than 0 s"):
        Window(**wrong)


# --- the twin: all rows in one list ---------------------------------------------------------------


@dataclass
class Listed:
    """The slow twin: a list. `rows`: (time, subscription, advertisement, distance) of the pairs
    that are kept."""

    window: Window
    rows: list[tuple[float, int, int, int]] = field(default_factory=list)
    now: float = -inf

    def record(self, subscription: int, advertisement: int, distance: int, now: float) -> None:
        self.now = max(self.now, now)
        self.rows.append((self.now, subscription, advertisement, distance))
        for pair in {row[1:3] for row in self.rows}:
            for row in self._of(pair)[: -self.window.rows]:
                self.rows.remove(row)
        while len(self.rows) > self.window.total:
            latest = {row[1:3]: i for i, row in enumerate(self.rows)}
            self._drop(min(latest, key=latest.__getitem__))

    def expire(self, now: float) -> None:
        self.now = max(self.now, now)
        for pair in {row[1:3] for row in self.rows}:
            if self._of(pair)[-1][0] <= self.now - self.window.seconds:
                self._drop(pair)

    def purge(self, subscription: int) -> None:
        self.rows = [row for row in self.rows if row[1] != subscription]

    def pruning_distance(self, subscription: int, advertisement: int, theta: float) -> int:
        found = sorted(
            row[3]
            for row in self._of((subscription, advertisement))
            if row[0] > self.now - self.window.seconds
        )
        for distance in range(20):
            if sum(d <= distance for d in found) >= round(theta * len(found), 9):
                return distance
        return 20

    def _of(self, pair: tuple[int, int]) -> list[tuple[float, int, int, int]]:
        return [row for row in self.rows if row[1:3] == pair]

    def _drop(self, pair: tuple[int, int]) -> None:
        self.rows = [row for row in self.rows if row[1:3] != pair]


subscriptions, advertisements = st.integers(0, 3), st.integers(0, 2)
passing = st.sampled_from([-1.0, 0.0, 0.0, 0.5, 3.0, 9.0])
steps = st.one_of(
    st.tuples(st.just("record"), subscriptions, advertisements, st.integers(0, 9), passing),
    st.tuples(st.just("record"), subscriptions, advertisements, st.integers(0, 9), passing),
    st.tuples(st.just("expire"), passing),
    st.tuples(st.just("purge"), subscriptions),
)


@given(
    st.lists(steps, max_size=60),
    st.sampled_from([Window(10.0, 4, 12), Window(10.0, 100, 1000), Window(2.0, 1, 3)]),
)
def test_what_counts_is_what_a_list_of_all_rows_says(
    script: list[tuple[object, ...]], window: Window
) -> None:
    listed, statistics, now = Listed(window), MemoryStatistics(window), 0.0
    for seq, (kind, *arguments) in enumerate(script):
        if kind != "purge":
            now += arguments.pop()
        if kind == "record":
            subscription, advertisement, distance = arguments
            listed.record(subscription, advertisement, distance, now)
            statistics.record(
                ("p", seq), ("p", advertisement), ("s", subscription), distance, 1, now
            )
        elif kind == "expire":
            listed.expire(now)
            statistics.expire(now)
        else:
            listed.purge(arguments[0])
            statistics.purge(("s", arguments[0]))
        assert statistics.rows == len(listed.rows)
        for subscription in range(4):
            for advertisement in range(3):
                for theta in (0.1, 0.5, 1.0):
                    assert statistics.pruning_distance(
                        ("s", subscription), ("p", advertisement), theta
                    ) == listed.pruning_distance(subscription, advertisement, theta)

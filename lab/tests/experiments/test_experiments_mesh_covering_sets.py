"""Covering sets in a mesh: literal ones on a path of brokers, and random ones against a plain
count."""

from __future__ import annotations

import random

import pytest

from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter
from reefcast.overlay.topology import graph, path
from reefcast_lab.experiments.mesh.covering_sets import covering_sets, substitutes
from reefcast_lab.experiments.mesh.feeds import Dataset, workload
from reefcast_lab.experiments.mesh.topology import tree

BROAD = "feed = 'f1' AND score1 BETWEEN 0 AND 9"
NARROW = f"{BROAD} AND score2 BETWEEN 3 AND 12"
"""Filters of two predicates (the feed, the score) and of three."""


def test_a_path_with_a_soft_link() -> None:
    """Seen from a: c has a link, d is reached over c, and so is e, which is beyond Delta."""
    line = path(["a", "b", "c", "d", "e"])
    assert substitutes(line, "a", ["c"], 3) == {"a": "a", "b": "b", "c": "c", "d": "c", "e": "c"}
    assert set(substitutes(line, "a", [], 3).values()) == {"a", "b"}


def test_one_covers_the_other_where_both_are_behind_one_link() -> None:
    line = path(["a", "b", "c"])
    subscriptions = [("s", "b", BROAD), ("t", "c", NARROW)]
    assert covering_sets(line, [], subscriptions, 2)["a"] == (1, 2)
    assert covering_sets(line, [("a", "c")], subscriptions, 2)["a"] == (2, 5)
    assert covering_sets(line, [("a", "c")], subscriptions, 2)["b"] == (2, 5)


@pytest.mark.parametrize("seed", range(3))
def test_against_a_plain_count(seed: int) -> None:
    rng = random.Random(seed)
    overlay = tree(9, 3)
    wanted = Dataset(60, feeds=3, skew=1.0, selectivity=0.8, chain=3, title_bytes=0)
    subscriptions = workload(list(overlay), wanted, seed).subscriptions
    names = list(overlay)
    links = {tuple(sorted(rng.sample(names, 2))) for _ in range(6)}
    near = [(a, b) for a, b in links if b not in overlay[a]]
    found = covering_sets(overlay, near, subscriptions, 8)
    for me in names:
        mine = [b if a == me else a for a, b in near if me in (a, b)]
        place = substitutes(overlay, me, mine, 8)
        rows = {(place[broker], text) for _, broker, text in subscriptions}
        left = [
            (anchor, text)
            for anchor, text in rows
            if not any(
                other != text
                and anchor == there
                and covers(parse_filter(other), parse_filter(text))
                for there, other in rows
            )
        ]
        assert found[me].rows == len(left)


def test_a_graph_is_all_it_needs() -> None:
    lonely = graph(["a"], [])
    assert covering_sets(lonely, [], [("s", "a", BROAD)], 4) == {"a": (1, 2)}

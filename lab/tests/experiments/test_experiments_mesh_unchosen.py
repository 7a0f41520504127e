"""Meshes of random links: copies counted on literal ones, and against what S0 sends."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.overlay.topology import names, path, random_tree
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.mesh import unchosen
from reefcast_lab.experiments.mesh.distribution import distribution, wanted_by
from reefcast_lab.experiments.mesh.feeds import Dataset, workload
from reefcast_lab.experiments.mesh.topology import network

LINE = path(["a", "b", "c", "d", "e", "f"])


@pytest.mark.parametrize(
    ("links", "wanted", "direct", "copies"),
    [
        ([], ["f"], True, 5),
        ([("a", "e")], ["f"], True, 2),
        ([("a", "e")], ["c", "f"], False, 5),
        ([("a", "c"), ("c", "f")], ["c", "f"], False, 2),
        ([("a", "d")], ["b", "f"], True, 5),
    ],
)
def test_copies_along_a_line(links, wanted, direct, copies) -> None:
    assert unchosen.count_sends(LINE, links, [("a", wanted)], 4, direct=direct) == copies


def test_s1_shares_a_copy_where_s2_sends_two() -> None:
    star = {"a": ("b",), "b": ("a", "c"), "c": ("b", "d", "e"), "d": ("c",), "e": ("c",)}
    links = [("a", "c"), ("a", "d"), ("a", "e")]
    for direct, copies in ((False, 3), (True, 2)):
        assert unchosen.count_sends(star, links, [("a", ["d", "e"])], 4, direct=direct) == copies


@settings(max_examples=30)
@given(st.integers(2, 25), st.integers(0, 2**32), st.booleans())
def test_without_links_it_is_the_tree_and_with_some_never_more(
    brokers: int, seed: int, direct: bool
) -> None:
    rng = random.Random(seed)
    tree = random_tree(names(brokers), rng)
    wanted = Dataset(40, feeds=5, skew=1.0, selectivity=0.5, chain=1, title_bytes=0)
    script = workload(list(tree), wanted, seed).script(30, subscribe_s=1, from_s=1, duration_s=60)
    homes = [event.broker for event in script.events]
    published = list(zip(homes, wanted_by(tree, script), strict=True))
    found = distribution(tree, script)
    assert sum(len(who) for _, who in published) == round(found.deliveries.mean * 30)
    sent = [
        unchosen.count_sends(
            tree, unchosen.some_links(tree, 3, share, rng), published, 3, direct=direct
        )
        for share in (0.0, 0.5, 1.0)
    ]
    assert sent[0] == round(sum(found.copies.values()) * 30)
    assert sent[2] <= sent[1] <= sent[0]


def test_all_links_or_none_are_all_or_none() -> None:
    tree, rng = network("CPL"), random.Random(1)
    assert unchosen.some_links(tree, 4, 0.0, rng) == []
    every = unchosen.some_links(tree, 4, 1.0, rng)
    assert len(set(every)) == len(every) > len(unchosen.some_links(tree, 4, 0.5, rng)) > 0


def test_more_links_have_more_paths_and_fewer_pure_forwarders() -> None:
    def figures(routing: str, x: float) -> dict[str, float]:
        run = Run("mesh", "small", unchosen.NAME, routing, x, "", 0)
        return {each.metric: each.value for each in unchosen.measure(run)}

    few, s1, s2 = figures("S1", 0), figures("S1", 100), figures("S2", 100)
    assert s1["soft_links"] == s2["soft_links"] > few["soft_links"] == few["pairs_with_100"] == 0
    for name in unchosen.DATASETS:
        measure = f"pure_forwarders_{name}"
        assert few[measure] > s1[measure] > s2[measure] > 0
        assert few[f"yield_{name}"] < s1[f"yield_{name}"] < s2[f"yield_{name}"] < 1


def test_a_link_is_refused_where_there_is_no_room() -> None:
    """On a line of six, `b` to `e` have two links of the tree: with a fanout of 3 each has room
    for one more."""
    links = [("b", "d"), ("b", "e"), ("c", "e"), ("a", "c")]
    seen = set()
    for seed in range(20):
        left = unchosen.within_fanout(LINE, links, 3, random.Random(seed))
        assert set(left) <= set(links)
        for broker in LINE:
            assert len(LINE[broker]) + sum(broker in link for link in left) <= 3
        seen.add(frozenset(left))
    assert frozenset({("b", "d"), ("c", "e")}) in seen and len(seen) > 1
    assert unchosen.within_fanout(LINE, links, 2, random.Random(1)) == []
    assert set(unchosen.within_fanout(LINE, links, 9, random.Random(1))) == set(links)

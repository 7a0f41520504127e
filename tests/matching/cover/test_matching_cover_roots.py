"""The roots against their slow, obvious twin."""

from __future__ import annotations

import random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cover_strategies import CONDITIONS, texts
from reefcast.errors import LocalError
from reefcast.matching.cover import RootChange, new_roots
from reefcast.matching.cover.scan import ScanRoots
from reefcast.model.covering import covers
from reefcast.model.filters import parse_filter

steps = st.lists(st.tuples(st.booleans(), st.integers(0, 30), texts), max_size=40)


@settings(max_examples=200, deadline=None)
@given(steps)
def test_changes_as_the_twin_does(steps):
    roots, twin = new_roots(), ScanRoots()
    live: list[int] = []
    for key, (adds, place, text) in enumerate(steps):
        if adds or not live:
            live.append(key)
            filter = parse_filter(text)
            assert roots.add(key, filter) == twin.add(key, filter)
        else:
            gone = live.pop(place % len(live))
            assert roots.remove(gone) == twin.remove(gone)
        assert roots.keys() == twin.keys()
        assert len(roots) == len(twin) == len(live)
    assert [key for key in live if roots.is_root(key)] == twin.keys()


def nested_filter(rng: random.Random) -> str:
    if rng.random() < 0.1:
        return rng.choice(CONDITIONS)
    low, width = rng.randrange(0, 50, 10), rng.choice([1, 3, 9, 30])
    terms = [f"a BETWEEN {low} AND {low + width}"]
    if rng.random() < 0.6:
        terms.append(f"c BETWEEN {low} AND {low + rng.choice([2, 4])}")
    return " AND ".join(terms)


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))]
)
def test_stays_with_the_twin(seed):
    rng = random.Random(seed)
    roots, twin = new_roots(), ScanRoots()
    live: list[int] = []
    for key in range(150):
        filter = parse_filter(nested_filter(rng))
        assert roots.add(key, filter) == twin.add(key, filter)
        live.append(key)
        while live and rng.random() < (0.2 if key < 90 else 0.6):
            gone = live.pop(rng.randrange(len(live)))
            assert roots.remove(gone) == twin.remove(gone)
    assert roots.keys() == twin.keys()


def test_every_filter_is_covered_by_a_root():
    rng = random.Random(5)
    roots = new_roots()
    filters = {key: parse_filter(nested_filter(rng)) for key in range(1200)}
    current: set[int] = set()
    for key, filter in filters.items():
        change = roots.add(key, filter)
        current = (current - set(change.left)) | set(change.entered)
    for key in range(0, 1200, 3):
        del filters[key]
        change = roots.remove(key)
        current = (current - set(change.left)) | set(change.entered)
    assert sorted(current) == roots.keys()
    for filter in filters.values():
        assert any(covers(filters[root], filter) for root in current)


@pytest.mark.long
def test_what_a_root_covered_becomes_roots():
    """This is the NRS of the covering paper, with more subscriptions than a block has rows."""
    roots = new_roots()
    for key in range(1, 5001):
        roots.add(key, parse_filter(f"a BETWEEN {key} AND {key}.5"))
    everything = list(range(1, 5001))
    assert roots.add(0, parse_filter("a > 0 AND a < 6000")) == RootChange([0], everything)
    assert roots.keys() == [0]
    assert roots.remove(0) == RootChange(everything, [0])


def test_a_long_chain():
    """Each filter covers the next; there are more of them than a witness is chosen from."""
    roots = new_roots()
    for key in range(600):
        roots.add(key, parse_filter(f"a BETWEEN {key} AND {2000 - key}"))
    assert roots.keys() == [0]
    for key in range(599):
        assert roots.remove(key) == RootChange([key + 1], [key])


def test_the_first_of_equals_is_the_root():
    roots = new_roots()
    texts = ["a BETWEEN 1 AND 5", "a >= 1 AND a <= 5", "a BETWEEN 1 AND 5", "a <= 5 AND a >= 1"]
    assert roots.add(0, parse_filter(texts[0])) == RootChange([0], [])
    for key in (1, 2, 3):
        assert roots.add(key, parse_filter(texts[key])) == RootChange([], [])
    assert roots.remove(0) == RootChange([1], [0])
    assert roots.remove(1) == RootChange([2], [1])
    assert roots.remove(2) == RootChange([3], [2])


@pytest.mark.parametrize("make", [ScanRoots, new_roots])
def test_keys_are_unique(make):
    roots = make()
    assert roots.add("z", parse_filter("a = 1")) == RootChange(["z"], [])
    assert "z" in roots
    assert not roots.is_root("q")
    with pytest.raises(LocalError, match="'z' is in the index already"):
        roots.add("z", parse_filter("a = 2"))
    with pytest.raises(LocalError, match="'q' is not in the index"):
        roots.remove("q")


def test_filters_that_never_match():
    roots = new_roots()
    texts = ["FALSE", "a < 1 AND a > 2", "FALSE", "a < 1 AND a > 3"]
    assert roots.add(0, parse_filter(texts[0])) == RootChange([0], [])
    for key in (1, 2, 3):
        assert roots.add(key, parse_filter(texts[key])) == RootChange([], [])
    assert roots.remove(0) == RootChange([1], [0])
    assert roots.add(4, parse_filter("a = 1")) == RootChange([4], [1])
    assert roots.remove(1) == RootChange([], [])
    assert roots.remove(4) == RootChange([2], [4])
    assert roots.remove(2) == RootChange([3], [2])


@pytest.mark.long
def test_filters_that_are_spelled_differently_are_one():
    """Otherwise each removal of the eldest would ask about all the others."""
    texts = [f"a > 1.{'0' * zeros} AND b = 'x'" for zeros in range(1, 30)]
    texts += [f"b = 'x' AND {text}" for text in texts]
    roots, twin = new_roots(), ScanRoots()
    for key, text in enumerate(texts):
        assert roots.add(key, parse_filter(text)) == twin.add(key, parse_filter(text))
    assert roots.keys() == [0]
    for key in range(len(texts)):
        assert roots.remove(key) == twin.remove(key)
        assert roots.keys() == twin.keys()


def test_filters_with_residuals_are_told_apart():
    roots, twin = new_roots(), ScanRoots()
    for key, text in enumerate(("a > b AND c = 1", "a > d AND c = 1", "c = 1", "a > b AND c = 1")):
        assert roots.add(key, parse_filter(text)) == twin.add(key, parse_filter(text))
    assert roots.remove(2) == twin.remove(2)
    assert sorted(roots.keys()) == sorted(twin.keys())


@settings(max_examples=100, deadline=None)
@given(steps)
@example([(True, 0, "FALSE"), (True, 0, "FALSE")])
def test_what_stands_above_and_below(steps):
    """One root dominates each by a chain of covering; only filters of which a root is the witness
    can replace it."""
    roots, twin = new_roots(), ScanRoots()
    live: dict[int, str] = {}
    for key, (adds, place, text) in enumerate(steps):
        filter = parse_filter(text)
        if adds or not live:
            live[key] = text
            roots.add(key, filter)
            twin.add(key, filter)
        else:
            gone = sorted(live)[place % len(live)]
            del live[gone]
            below, is_root = set(roots.below(gone)), roots.is_root(gone)
            assert roots.has_below(gone) is bool(below)
            assert below <= set(twin.below(gone))
            entered = roots.remove(gone).entered
            twin.remove(gone)
            never = [k for k in entered if not parse_filter(live[k]).conjunctions]
            if is_root:
                assert set(entered) - set(never) <= below
    for key, text in live.items():
        root = roots.root_of(key)
        if parse_filter(text).conjunctions:
            assert roots.is_root(root) and twin.is_root(twin.root_of(key))
        else:
            assert root == twin.root_of(key) == key

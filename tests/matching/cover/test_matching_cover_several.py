"""Filters of several conjunctions in covering indexes: right, also where Python must not compare
them, and little work beside many others of their kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from counted_calls import calls_of
from reefcast.matching.cover import new_cover_index, new_roots
from reefcast.matching.cover.scan import ScanCoverIndex, ScanRoots
from reefcast.model import covering
from reefcast.model.covering import covers
from reefcast.model.filters import Filter, parse_filter

ends = st.integers(0, 4)
boxes = st.one_of(
    st.builds("(a >= {} AND a < {} AND b = {})".format, ends, ends, ends),
    st.builds("(a > {})".format, ends),
    st.builds("(b <= {} AND a IS NOT NULL)".format, ends),
    st.builds("(a = 'some long text {}' AND b > {})".format, ends, ends),
)
exact = st.lists(boxes, min_size=1, max_size=4).map(lambda terms: parse_filter(" OR ".join(terms)))
sets = st.one_of(
    boxes,
    st.builds("(a IN ({}, {}) AND b IN ({}, 9))".format, ends, ends, ends),
    st.builds("(a <> {} AND b > {})".format, ends, ends),
    st.builds("(a LIKE 's%{}' AND b > a + {})".format, ends, ends),
)
inexact = st.lists(sets, min_size=1, max_size=4).map(lambda terms: parse_filter(" OR ".join(terms)))
changes = st.lists(st.tuples(st.booleans(), st.integers(0, 30), inexact), max_size=20)
any_limit = pytest.mark.parametrize("most_work", [0, covering.MOST_WORK])


def is_exact(filter: Filter) -> bool:
    return not any(
        constraint.excluded or constraint.patterns or len(constraint.members or ()) > 1
        for conjunction in filter.conjunctions
        for constraint in conjunction.constraints.values()
    )


@any_limit
@settings(max_examples=60, deadline=None)
@given(st.lists(exact, max_size=12), st.lists(exact, min_size=1, max_size=4))
def test_boxes_say_all_about_intervals(most_work, stored, asked):
    index, twin = new_cover_index(), ScanCoverIndex()
    for key, filter in enumerate(stored):
        index.add(key, filter)
        twin.add(key, filter)
    for filter in filter_exact(asked):
        for question in ("covering", "covered", "equal"):
            right = sorted(getattr(twin, question)(filter))
            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(covering, "MOST_WORK", most_work)
                found = sorted(getattr(index, question)(filter))
            if most_work:
                assert found == right, (question, filter)
            else:
                sure = [key for key in right if is_exact(stored[key])]
                assert set(sure) <= set(found) <= set(right), (question, filter)


def filter_exact(filters: list[Filter]) -> list[Filter]:
    """Two alternatives that differ in one value are one with two values, which no box says."""
    return [filter for filter in filters if is_exact(filter)]


@settings(max_examples=60, deadline=None)
@given(changes)
def test_roots_change_as_the_twins_do(steps):
    roots, twin = new_roots(), ScanRoots()
    live: list[int] = []
    for key, (adds, place, filter) in enumerate(steps):
        if adds or not live:
            live.append(key)
            assert roots.add(key, filter) == twin.add(key, filter)
        else:
            gone = live.pop(place % len(live))
            assert roots.remove(gone) == twin.remove(gone)
        assert roots.keys() == twin.keys()


@settings(max_examples=60, deadline=None)
@given(changes)
def test_roots_cover_everything_without_comparisons(steps):
    filters: dict[int, Filter] = {}
    roots = new_roots()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covering, "MOST_WORK", 0)
        for key, (adds, place, filter) in enumerate(steps):
            before = set(roots.keys())
            if adds or not filters:
                filters[key] = filter
                change = roots.add(key, filter)
            else:
                gone = list(filters)[place % len(filters)]
                del filters[gone]
                change = roots.remove(gone)
            assert set(roots.keys()) == (before - set(change.left)) | set(change.entered)
            for other, held in filters.items():
                if held.conjunctions:
                    root = roots.root_of(other)
                    assert roots.is_root(root)
                    patch.setattr(covering, "MOST_WORK", sys.maxsize)
                    assert covers(filters[root], held)
                    patch.setattr(covering, "MOST_WORK", 0)


HOSTILE: dict[str, Callable[[int], str]] = {
    "nested": lambda i: f"(a > {i} AND b > {i})",
    "side by side": lambda i: f"(a > {i} AND b < {i} AND c = {i % 3})",
    "long texts": lambda i: f"(a = 'a long text {i}' AND b > 'a long text {i}')",
    "sets": lambda i: f"(a IN ({i}, {i + 2}, {i + 300}) AND b IN ({i}, {i + 400}))",
    "patterns": lambda i: f"(a LIKE 'p%{i}' AND b > {i})",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", HOSTILE)
def test_a_filter_is_little_work_beside_others_of_its_kind(kind):
    """Comparing 50 alternatives with those of 40 others would be 100 000 comparisons."""

    def hostile(first: int) -> Filter:
        return parse_filter(" OR ".join(map(HOSTILE[kind], range(first, first + 50))))

    def come_and_go(table: Any) -> None:
        table.add("new", new)
        table.remove("new")

    new, others = hostile(7), [hostile(first) for first in range(8, 48)]
    for make in (new_roots, new_cover_index):
        table: Any = make()
        for key, filter in enumerate(others):
            table.add(key, filter)
        assert calls_of(lambda table=table: come_and_go(table)) < 20_000
        if make is new_cover_index:
            assert calls_of(lambda table=table: table.covering(new)) < 20_000
            assert calls_of(lambda table=table: table.covered(new)) < 20_000

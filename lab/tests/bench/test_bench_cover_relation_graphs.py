"""The relation graphs: the paper's Properties 4, 5 and 6, and the same roots as those of the
twin."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cover_strategies import texts
from reefcast.errors import LocalError
from reefcast.matching.cover import RootChange, new_cover_index
from reefcast.matching.cover.scan import ScanRoots
from reefcast.model.covering import covers
from reefcast.model.filters import Filter, parse_filter
from reefcast_lab.bench.cover.relation_graphs import (
    RelationGraph,
    SimplifiedGraph,
    TraditionalGraph,
)

GRAPHS = (TraditionalGraph, SimplifiedGraph)
INDEXES = (lambda: None, new_cover_index)
steps = st.lists(st.tuples(st.integers(0, 2), st.integers(0, 30), texts), max_size=40)
"""Numbers that stand for steps: two of three add a filter; the others say which filter goes."""

Change = tuple[int, Filter | None]


def changes(steps: Iterable[tuple[int, int, str]]) -> Iterable[Change]:
    """Yield the changes, as (key, filter to add, or None to remove)."""
    live: list[int] = []
    for key, (adds, place, text) in enumerate(steps):
        if adds or not live:
            live.append(key)
            yield key, parse_filter(text)
        else:
            yield live.pop(place % len(live)), None


def random_changes(seed: int, count: int) -> Iterable[Change]:
    """Yield changes with filters in several levels, some of them equal; more and more of them are
    removed."""
    rng = random.Random(seed)
    live: list[int] = []
    for key in range(count):
        low, width = rng.randrange(0, 40, 5), rng.choice([1, 4, 9, 30])
        text = f"a BETWEEN {low} AND {low + width}"
        if rng.random() < 0.6:
            text += f" AND c BETWEEN {rng.randrange(3)} AND {rng.choice([3, 5])}"
        live.append(key)
        yield key, parse_filter(text)
        while live and rng.random() < (0.2 if key < count / 2 else 0.6):
            yield live.pop(rng.randrange(len(live))), None


def change(roots, key: int, filter: Filter | None) -> RootChange[int]:
    return roots.remove(key) if filter is None else roots.add(key, filter)


def children(graph: RelationGraph[int], key: int) -> set[int]:
    return {child for parent, child in graph.edges() if parent == key}


def related(filters: dict[int, Filter], keys: Iterable[int]) -> list[tuple[int, int]]:
    """Return the pairs in which the first filter covers the second."""
    keys = list(keys)
    return [(f, g) for f in keys for g in keys if f != g and covers(filters[f], filters[g])]


def every_graph(test: Callable) -> Callable:
    for name, values in (("make_index", INDEXES), ("make", GRAPHS)):
        test = pytest.mark.parametrize(name, values, ids=IDS[name])(test)
    return test


IDS = {"make_index": ["traversing", "indexed"], "make": ["traditional", "simplified"]}


# --- the paper's properties ----------------------------------------------------------------------


@every_graph
@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_property_4_no_root_covers_another(make, make_index, steps):
    graph, filters = make(make_index()), {}
    for key, filter in changes(steps):
        filters[key] = filter
        change(graph, key, filter)
        assert related(filters, graph.keys()) == []


@every_graph
@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_property_5_new_roots_are_children_of_the_one_removed(make, make_index, steps):
    graph = make(make_index())
    for key, filter in changes(steps):
        if filter is not None:
            graph.add(key, filter)
            continue
        below, was_root = set(graph.below(key)), graph.is_root(key)
        assert children(graph, key) <= below
        new = graph.remove(key)
        assert set(new.entered) <= below
        assert new.left == ([key] if was_root else [])
        assert was_root or not new.entered


@every_graph
@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_property_6_no_sibling_covers_another(make, make_index, steps):
    graph, filters = make(make_index()), {}
    for key, filter in changes(steps):
        filters[key] = filter
        change(graph, key, filter)
        for parent in {parent for parent, _ in graph.edges()}:
            assert related(filters, children(graph, parent)) == []


# --- the roots -----------------------------------------------------------------------------------


def same_as_the_twin(graph: RelationGraph[int], sequence: Iterable[Change]) -> None:
    twin = ScanRoots()
    for key, filter in sequence:
        assert change(graph, key, filter) == change(twin, key, filter)
        assert graph.keys() == twin.keys()
        assert len(graph) == len(twin)
        assert graph.is_root(key) == twin.is_root(key)


@every_graph
@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_changes_as_the_twin_does(make, make_index, steps):
    same_as_the_twin(make(make_index()), changes(steps))


@pytest.mark.long
@every_graph
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 10))]
)
def test_stays_with_the_twin(make, make_index, seed):
    same_as_the_twin(make(make_index()), random_changes(seed, 80))


@every_graph
@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_each_is_below_a_root_that_covers_it(make, make_index, steps):
    graph, filters = make(make_index()), {}
    for key, filter in changes(steps):
        filters[key] = filter
        change(graph, key, filter)
    for key in [key for key, filter in filters.items() if filter is not None]:
        root = graph.root_of(key)
        if filters[key].conjunctions:
            assert graph.is_root(root)
            assert covers(filters[root], filters[key])
        else:
            assert root == key
        assert graph.has_below(key) is bool(graph.below(key))


@every_graph
def test_keys_are_unique(make, make_index):
    graph = make(make_index())
    assert graph.add("z", parse_filter("a = 1")) == RootChange(["z"], [])
    assert "z" in graph
    assert not graph.is_root("q")
    with pytest.raises(LocalError, match="'z' is in the index already"):
        graph.add("z", parse_filter("a = 2"))
    with pytest.raises(LocalError, match="'q' is not in the index"):
        graph.remove("q")


@every_graph
def test_the_first_of_equals_is_the_root(make, make_index):
    """This includes filters that are spelled differently."""
    graph = make(make_index())
    for key, text in enumerate(("a BETWEEN 1 AND 5", "a >= 1 AND a <= 5", "a <= 5 AND a >= 1")):
        graph.add(key, parse_filter(text))
    graph.add(3, parse_filter("a = 3"))
    assert graph.keys() == [0]
    assert graph.edges() == {(0, 3)}
    assert graph.below(0) == [1, 2, 3]
    assert graph.below(1) == []
    assert graph.root_of(2) == 0
    assert graph.remove(0) == RootChange([1], [0])
    assert graph.edges() == {(1, 3)}
    assert graph.remove(2) == RootChange([], [])
    assert graph.remove(1) == RootChange([3], [1])


# --- the index, and what it spares ---------------------------------------------------------------


@pytest.mark.parametrize("make", GRAPHS, ids=IDS["make"])
@settings(max_examples=50, deadline=None)
@given(steps=steps)
def test_an_index_makes_the_same_graph(make, steps):
    traversing, indexed = make(), make(new_cover_index())
    for key, filter in changes(steps):
        assert change(traversing, key, filter) == change(indexed, key, filter)
        assert traversing.edges() == indexed.edges()
    assert indexed.comparisons == 0


@pytest.mark.parametrize("make", GRAPHS, ids=IDS["make"])
@pytest.mark.parametrize("seed", range(3))
def test_an_index_makes_the_same_large_graph(make, seed):
    """When the index is taken away, the graph traverses, and stays the same."""
    traversing, indexed = make(), make(new_cover_index())
    for step, (key, filter) in enumerate(random_changes(seed, 400)):
        if step == 300:
            assert indexed.comparisons == 0
            indexed.index = None
        assert change(traversing, key, filter) == change(indexed, key, filter)
        if step % 20 == 0:
            assert traversing.edges() == indexed.edges()
    assert 0 < indexed.comparisons < traversing.comparisons
    assert len(traversing) < 100


def test_the_traditional_graph_has_every_edge_with_nothing_between():
    graph: RelationGraph[int] = TraditionalGraph()
    filters: dict[int, Filter] = {}
    for key, filter in random_changes(7, 150):
        change(graph, key, filter)
        filters.pop(key, None)
        if filter is not None:
            filters[key] = filter
        first = {filter.packed: key for key, filter in reversed(filters.items())}
        pairs = set(related(filters, first.values()))
        between = {(f, h) for f, g in pairs for other, h in pairs if other == g}
        assert graph.edges() == pairs - between


# --- Figs 4 and 5 --------------------------------------------------------------------------------

FIGURE = {
    "s1": "a BETWEEN 0 AND 9 AND b BETWEEN 0 AND 9",
    "s2": "a BETWEEN 5 AND 15 AND b BETWEEN 0 AND 9",
    "s3": "a BETWEEN 5 AND 9 AND b BETWEEN 0 AND 9",
    "s4": "a BETWEEN 6 AND 7 AND b BETWEEN 0 AND 9",
    "s5": "a BETWEEN 0 AND 9 AND b BETWEEN 2 AND 4",
    "s6": "a BETWEEN 6 AND 7 AND b BETWEEN 3 AND 4",
}
"""The figure: overlapping roots s1 and s2, s3 within both, s4 within s3, s5 within s1, s6 within s4
and s5."""


def drawn(make: type[RelationGraph[str]]) -> RelationGraph[str]:
    graph = make()
    for key, text in FIGURE.items():
        graph.add(key, parse_filter(text))
    return graph


def test_figs_4_and_5_the_simplified_graph_has_fewer_edges():
    """The filters are invented, because the text does not give those of the figures. A node with
    two parents keeps one."""
    traditional, simplified = drawn(TraditionalGraph), drawn(SimplifiedGraph)
    both = {("s1", "s3"), ("s3", "s4"), ("s1", "s5"), ("s4", "s6")}
    assert simplified.edges() == both
    assert traditional.edges() == both | {("s2", "s3"), ("s5", "s6")}
    assert simplified.keys() == traditional.keys() == ["s1", "s2"]
    assert traditional.comparisons == 15  # everything with everything
    assert simplified.comparisons == 9  # each stops at its first parent


@pytest.mark.parametrize("make", GRAPHS, ids=IDS["make"])
def test_what_is_below_a_covered_filter_is_not_compared(make):
    graph = make()
    for key, text in enumerate(("a < 9", "a < 7", "a < 5", "a < 3", "a < 1")):
        graph.add(key, parse_filter(text))
    graph.comparisons = 0
    graph.add(5, parse_filter("a < 6"))
    assert graph.comparisons == 3  # two above, and one below
    assert graph.edges() == {(0, 1), (1, 5), (5, 2), (2, 3), (3, 4)}


def test_removing_from_the_traditional_graph_compares_nothing():
    graph = drawn(TraditionalGraph)
    graph.comparisons = 0
    assert graph.remove("s1") == RootChange(["s5"], ["s1"])
    assert graph.edges() == {("s2", "s3"), ("s3", "s4"), ("s4", "s6"), ("s5", "s6")}
    assert graph.comparisons == 0


def test_removing_from_the_simplified_graph_asks_the_siblings():
    """s3 has lost s1 and finds s2; s5 finds no sibling."""
    graph = drawn(SimplifiedGraph)
    graph.comparisons = 0
    assert graph.remove("s1") == RootChange(["s5"], ["s1"])
    assert graph.edges() == {("s2", "s3"), ("s3", "s4"), ("s4", "s6")}
    assert graph.comparisons == 2


@pytest.mark.parametrize("make_index", INDEXES, ids=IDS["make_index"])
def test_equal_filters_that_went_different_ways_become_one_where_they_meet(make_index):
    index = make_index()
    graph, twin = SimplifiedGraph(index), ScanRoots()
    low, high = "a BETWEEN 0 AND 9", "a BETWEEN 5 AND 15"
    texts = (low, "a BETWEEN 6 AND 8", "a = 6", high, "a BETWEEN -1 AND 9", "a <= 8 AND a >= 6")
    for key, text in enumerate((*texts, "a = 6", "a = 7")):
        assert graph.add(key, parse_filter(text)) == twin.add(key, parse_filter(text))
    assert graph.edges() == {(4, 0), (0, 1), (1, 2), (3, 5), (5, 6), (5, 7)}
    for key in (4, 0):  # what has lost its parent looks for another: 1 finds 5, and 2 finds 6
        assert graph.remove(key) == twin.remove(key)
    assert graph.edges() == {(3, 1), (1, 2), (1, 7)}
    assert index is None or len(index) == 4
    for key in (3, 1, 5, 2, 7, 6):
        assert graph.remove(key) == twin.remove(key)
        assert graph.keys() == twin.keys()
    assert len(graph) == 0


@pytest.mark.parametrize("make_index", INDEXES, ids=IDS["make_index"])
def test_a_child_that_moves_takes_along_what_is_below_it(make_index):
    """What it covers at its new place comes below it, or below its children."""
    graph = SimplifiedGraph(make_index())
    texts = ("a BETWEEN 0 AND 9", "a BETWEEN 5 AND 8", "a BETWEEN 5 AND 7", "a BETWEEN 5 AND 20")
    for key, text in enumerate((*texts, "a BETWEEN -1 AND 9", "a BETWEEN 5 AND 6", "a = 8")):
        graph.add(key, parse_filter(text))
    assert graph.edges() == {(4, 0), (0, 1), (1, 2), (3, 5), (3, 6)}
    graph.remove(4)
    graph.remove(0)
    assert graph.edges() == {(3, 1), (1, 2), (2, 5), (1, 6)}

"""Bugs that a search in the compiled index found: one test for each, all of which failed once."""

from __future__ import annotations

import copy
import pickle
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from matching_harness import event

from reefcast.errors import LocalError
from reefcast.matching import engine
from reefcast.matching.cutting import MOST_ATTRIBUTES, SAMPLE
from reefcast.matching.index import CompiledIndex
from reefcast.matching.state import S_TILE
from reefcast.matching.sweep import TILE
from reefcast.model.filters import parse_filter


def index_of(*texts: str) -> CompiledIndex[int]:
    index: CompiledIndex[int] = CompiledIndex()
    for key, text in enumerate(texts):
        index.add(key, parse_filter(text))
    return index


# --- what raises half-way -------------------------------------------------------------------------


def test_a_filter_that_is_none_does_not_cost_another_its_handle() -> None:
    index = index_of("a = 0", "a = 1")
    index.remove(0)
    no_filter: Any = "a = 2"
    with pytest.raises(AttributeError):
        index.add(2, no_filter)
    index.add(3, parse_filter("a = 3"))
    assert [index.match(event({"a": a})) for a in range(4)] == [[], [1], [], [3]]
    index.remove(1)
    assert [index.match(event({"a": a})) for a in range(4)] == [[], [], [], [3]]


def test_a_kernel_that_is_interrupted_costs_no_other_filter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupted(*_: int) -> None:
        raise KeyboardInterrupt

    index = index_of("a = 0", "a = 1", "a = 2")
    index.remove(1)
    for name in ("add_filter", "remove_filter"):
        with monkeypatch.context() as patched:
            patched.setattr(engine, name, interrupted)
            with pytest.raises(KeyboardInterrupt):
                index.add(3, parse_filter("a = 3")) if name == "add_filter" else index.remove(2)
    for key in (4, 5):
        index.add(key, parse_filter(f"a = {key}"))
    assert [index.match(event({"a": a})) for a in range(6)] == [[0], [], [2], [], [4], [5]]


def test_room_that_cannot_be_had_is_not_believed_in(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next match would have written past the end of the memory."""

    def no_memory(*_: object) -> None:
        raise MemoryError

    index = index_of(*["TRUE"] * 100)
    with monkeypatch.context() as patched:
        patched.setattr(np, "empty", no_memory)
        with pytest.raises(MemoryError):
            index.match_many([event({})] * 1000)
    assert index._room == len(index._out)


# --- what is not to be read -----------------------------------------------------------------------


@pytest.mark.parametrize("name", [1, -5, 2**40, None, 1.5, True])
def test_names_of_attributes_are_strings(name: Any) -> None:
    """The kernel took the length of another object for that of the name."""
    index = index_of("a = 0")
    with pytest.raises(LocalError, match="is not a string"):
        index.match_many([event({"a": 0}), event({"a": 0, name: 1})])
    assert index.match(event({"a": 0})) == [0]


def test_attributes_are_a_map() -> None:
    index = index_of("a = 0")
    attributes: Any = [("a", 0)]
    with pytest.raises(LocalError, match="event 0 is a list, not a dict"):
        index.match(event(attributes))


def test_there_are_no_copies() -> None:
    """Copies would share the memory of the original, which is freed with it."""
    index = index_of("a = 0")
    for way in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(LocalError, match="neither copied nor pickled"):
            way(index)


# --- batches --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.parametrize("events", [30, 40, 64, 100])
def test_a_sweep_that_finds_more_than_there_is_room_for(events: int) -> None:
    """Rows that had yet to be checked were not counted; the next event checked them, too, and wrote
    past the end."""
    filters = [f"a NOT LIKE '%v{'y' * (i % 3)}%' AND b > {i % 1000}" for i in range(13_000)]
    index = index_of(*filters)
    offsets, keys = index.match_batch({"a": ["zxyyz"] * events, "b": np.arange(events) + 100.0})
    assert np.diff(offsets).tolist() == [13 * (100 + e) for e in range(events)]
    for start, end in pairwise(offsets):
        assert len(np.unique(keys[start:end])) == end - start
    one_by_one = [event({"a": "zxyyz", "b": e + 100.0}) for e in range(events)]
    found = index.match_many(one_by_one)
    assert found == [keys[start:end].tolist() for start, end in pairwise(offsets)]
    bad: Any = [1]
    with pytest.raises(LocalError, match="event 20, attribute 'a'"):
        index.match_many([*one_by_one[:20], event({"a": bad}), *one_by_one[20:]])
    assert index.match_many(one_by_one[:20]) == found[:20]


@pytest.mark.long
def test_sweeping_goes_on_after_a_batch_that_found_too_much() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    filter = parse_filter("a > 5")
    for key in range(140_000):
        index.add(key, filter)
    assert len(index.match_batch({"a": np.full(16, 6)}).keys) == 16 * 140_000
    for _ in range(4):
        assert len(index.match_batch({"a": np.full(256, 5)}).keys) == 0
    assert index._numbers[S_TILE] == TILE


# --- what depends on addresses, and what takes too long -------------------------------------------


@pytest.mark.parametrize(("count", "buckets"), [(SAMPLE, range(3, 100)), (SAMPLE + 1, range(1, 2))])
def test_lists_too_long_to_be_looked_at_set_no_boundaries(count: int, buckets: range) -> None:
    """Members are ordered by address, so that the first ones differ from process to process."""
    members = ", ".join(f"'s{i}'" for i in range(count))
    index = index_of(*[f"a IN ({members}) AND b > {i}" for i in range(100)])
    (found,) = [each for each in index.plan()["default"]["attributes"] if each["name"] == "a"]
    assert found["string_buckets"] in buckets
    assert sorted(index.match(event({"a": "s7", "b": 50}))) == list(range(50))
    assert index.match(event({"a": "t", "b": 50})) == []


def test_so_many_attributes_have_slots_and_no_more() -> None:
    """Thirty filters of a thousand attributes each took a second, and 14 MB."""
    index = index_of(
        *[
            " AND ".join([f"both > {i}", *(f"a{i}_{k} > {k}" for k in range(300))])
            for i in range(30)
        ]
    )
    assert len(index.plan()["default"]["attributes"]) == MOST_ATTRIBUTES
    for i in (0, 17, 29):
        attributes: dict[str, Any] = {f"a{i}_{k}": k + 1 for k in range(300)}
        assert index.match(event({**attributes, "both": 30})) == [i]
        assert index.match(event({**attributes, "both": 30, f"a{i}_299": 299})) == []


def test_the_most_frequent_attributes_have_slots() -> None:
    texts = [
        " AND ".join([*(f"r{i}_{k} > 0" for k in range(40)), *(f"f{k} > {i}" for k in range(5))])
        for i in range(25)
    ]
    index = index_of(*texts, *texts[:5])
    names = {each["name"] for each in index.plan()["default"]["attributes"]}
    assert {f"f{k}" for k in range(5)} <= names
    assert len(names) <= MOST_ATTRIBUTES


def test_the_largest_partition_of_several_does_not_depend_on_addresses() -> None:
    index = index_of(*[f"s = 'v{i % 200:03}' AND p > {i}" for i in range(4000)])
    (by_s,) = [each for each in index.plan()["partitions"] if each["attribute"] == "s"]
    assert by_s["largest"] == "s = 'v000'"

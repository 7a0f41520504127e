"""The compiled index as its callers see it: keys, errors, things that are no events, memory. That
it finds the right filters is tested by `test_matching_index_operators`, `_churn`, `_batch` and
`_extremes`."""

from __future__ import annotations

import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from matching_harness import event

from reefcast import matching
from reefcast.errors import LocalError
from reefcast.matching.index import CompiledIndex
from reefcast.matching.interface import MatchIndex
from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter
from reefcast.model.publication import INT64_MAX, INT64_MIN

MAKERS: list[Callable[[], MatchIndex[Any]]] = [ScanIndex, CompiledIndex, matching.new_index]


# --- keys -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", MAKERS)
def test_keys_are_unique(make: Callable[[], MatchIndex[Any]]) -> None:
    index = make()
    for key in ("z", "a", "m"):
        index.add(key, parse_filter("a = 1 OR b = 2"))
    index.remove("z")
    assert len(index) == 2
    index.add("z", parse_filter("a = 1"))
    assert sorted(index.match(event({"a": 1, "b": 2}))) == ["a", "m", "z"]
    assert sorted(index.match(event({"b": 2}))) == ["a", "m"]
    assert len(index) == 3
    assert "z" in index
    assert "q" not in index


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_refused_leaves_the_index_as_it_was(make: Callable[[], MatchIndex[Any]]) -> None:
    index = make()
    for key in range(40):
        index.add(key, parse_filter(f"a > {key} AND b < c"))
    for _ in range(3):
        with pytest.raises(LocalError, match="7 is in the index already; remove it first"):
            index.add(7, parse_filter("TRUE"))
        with pytest.raises(LocalError, match="40 is not in the index"):
            index.remove(40)
        with pytest.raises(TypeError, match="unhashable"):
            index.add([], parse_filter("TRUE"))
    assert len(index) == 40
    assert sorted(index.match(event({"a": 9, "b": 1, "c": 2}))) == list(range(9))
    index.add(40, parse_filter("a > 0"))
    assert sorted(index.match(event({"a": 2}))) == [40]


KEYS: list[Any] = [
    *(0, -1, 5, INT64_MAX, INT64_MIN, INT64_MAX + 1, 2**70, 1.5, "s", "", b"b", None, (1, 2)),
    *((1, (2, 3)), (), frozenset({1}), ("link", 7)),
]


@pytest.mark.parametrize("make", MAKERS)
def test_keys_come_back_as_they_were_given(make: Callable[[], MatchIndex[Any]]) -> None:
    index = make()
    for key in KEYS:
        index.add(key, parse_filter("a = 1"))
    for found in (index.match(event({"a": 1})), index.match_batch({"a": [1]}).keys.tolist()):
        assert sorted(map(repr, found)) == sorted(map(repr, KEYS))
    for key in KEYS[3:]:
        index.remove(key)
    assert sorted(index.match(event({"a": 1}))) == [-1, 0, 5]


@pytest.mark.long
def test_the_same_calls_give_the_same_order() -> None:
    def found() -> list[list[int]]:
        index: CompiledIndex[int] = CompiledIndex()
        for key in range(2000):
            index.add(key, parse_filter(f"a = {key % 40} AND b < {key % 77} OR c > {key % 50}"))
            if key % 3 == 0:
                index.remove(key // 2)
                index.add(key // 2, parse_filter("c > 10"))
        return index.match_many([event({"a": a, "b": 30, "c": a}) for a in range(40)])

    first = found()
    ballast = [bytearray(size) for size in range(1, 3000, 7)]  # addresses differ
    assert found() == first
    del ballast


def test_handles_are_used_again() -> None:
    """A filter inherits nothing from the one that had its handle before."""
    index: CompiledIndex[str] = CompiledIndex()
    for text in ("a > b", "a = 1 OR b = 2", "topic MATCHES '#'", "FALSE", "a > b OR a IS NULL"):
        index.add(text, parse_filter(text))
        assert index.match(event({"a": 1, "b": 2, "c": 5})) == (
            [text] if text == "a = 1 OR b = 2" else []
        )
        index.remove(text)
        index.add("plain", parse_filter("c = 5"))
        assert index.match(event({"a": 1, "b": 2, "c": 5}, ["x", "y"])) == ["plain"]
        index.remove("plain")
        assert len(index) == 0
        assert index.match(event({"c": 5})) == []


def test_two_indexes_know_nothing_of_each_other() -> None:
    one: CompiledIndex[int] = CompiledIndex()
    other: CompiledIndex[int] = CompiledIndex()
    for key in range(100):
        one.add(key, parse_filter(f"a > {key} AND s = 'x{key}'"))
        other.add(key, parse_filter(f"b > {key} AND s = 'x{key}'"))
        if key >= 50:
            one.remove(key - 50)
    both = event({"a": 99.5, "b": 99.5, "s": "x70"})
    assert (one.match(both), other.match(both)) == ([70], [70])
    assert one.match(event({"b": 99.5, "s": "x70"})) == []
    del one
    gc.collect()
    assert other.match(both) == [70]


def test_events_of_the_same_names_while_filters_come_and_go() -> None:
    """What the index remembers of the last event's names must not outlive the filters."""
    index: CompiledIndex[str] = CompiledIndex()
    same = event({"alpha": 1, "beta": "x", "gamma": True, "epsilon": 2})
    for number in range(300):
        assert index.match(same) == []
        index.add("a", parse_filter("alpha = 1"))
        assert index.match(same) == ["a"]
        index.add("b", parse_filter("beta = 'x' AND gamma"))
        assert sorted(index.match(same)) == ["a", "b"]
        index.remove("a")
        index.add("c", parse_filter(f"n{number} IS NULL AND delta IS NULL AND epsilon > 1"))
        assert sorted(index.match(same)) == ["b", "c"]
        index.add("d", parse_filter("delta = 'alpha' OR alpha = 'delta'"))  # names as values
        assert sorted(index.match(event({"delta": "alpha", "epsilon": 2}))) == ["d"]
        assert sorted(index.match(same)) == ["b", "c"]
        for key in ("b", "c", "d"):
            index.remove(key)


def test_names_in_any_order() -> None:
    index: CompiledIndex[str] = CompiledIndex()
    names = [f"n{number}" for number in range(90)]  # more than are remembered
    for name in names:
        index.add(name, parse_filter(f"{name} = 1 AND {names[0]} IS NOT NULL"))
    rng = Random(1)
    for _ in range(300):
        rng.shuffle(names)
        chosen = names[: rng.randrange(1, 90)]
        found = index.match(event(dict.fromkeys(chosen, 1)))
        assert sorted(found) == (sorted(chosen) if "n0" in chosen else [])


@pytest.mark.parametrize("name", ["x", "n" * 32, "n" * 33, "é" * 16])
@pytest.mark.parametrize("place", [0, 255, 256])
def test_a_name_that_filters_learn_and_forget(name: str, place: int) -> None:
    """Events always have the same names in the same order, which the index remembers."""
    index: CompiledIndex[int] = CompiledIndex()
    names = [*(f"a{number}" for number in range(place)), name, "last"]
    same = event(dict.fromkeys(names, 1))
    for _ in range(2):
        for key, text in enumerate((f"{name} = 1", f"last = 1 AND {name} > 0", f"{name} IS NULL")):
            assert index.match(same) == []
            index.add(key, parse_filter(text.replace(name, f'"{name}"')))
            assert index.match(same) == ([key] if key < 2 else [])
            index.remove(key)


# --- what is found --------------------------------------------------------------------------------


def test_an_empty_index_finds_nothing() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    assert index.match(event({})) == []
    assert index.match(event({"a": 1}, ["t"])) == []
    assert index.match_many([]) == []
    assert index.match_many([event({}), event({"a": "x"})]) == [[], []]


def test_filters_that_always_and_never_match() -> None:
    index: CompiledIndex[str] = CompiledIndex()
    for text in ("TRUE", "FALSE", "a IS NULL OR a IS NOT NULL", "a < 1 AND a > 2", "a = a"):
        index.add(text, parse_filter(text))
    always = {"TRUE", "a IS NULL OR a IS NOT NULL"}
    assert set(index.match(event({}))) == always
    assert set(index.match(event({"a": 1}))) == {*always, "a = a"}


@pytest.mark.parametrize("count", [1, 1023, 1024, 1025, 5000])
def test_room_for_what_is_found_grows(count: int) -> None:
    index: CompiledIndex[int] = CompiledIndex()
    for key in range(count):
        index.add(key, parse_filter("TRUE"))
    everything = list(range(count))
    assert sorted(index.match(event({}))) == everything
    assert list(map(sorted, index.match_many([event({})] * 3))) == [everything] * 3
    offsets, keys = index.match_batch({"a": [1, 2, 3]})
    assert [sorted(keys[i:j].tolist()) for i, j in pairwise(offsets)] == [everything] * 3


@pytest.mark.parametrize("text", ["a > b", "a > b OR c = 1", "s = 'x' AND a > b", "t IS NULL"])
def test_many_that_python_decides_about(text: str) -> None:
    """They are also more than the room for results."""
    index: CompiledIndex[int] = CompiledIndex()
    for key in range(3000):
        index.add(key, parse_filter(text))
    holds = event({"a": 2, "b": 1, "s": "x"})
    fails = event({"a": 1, "b": 2, "s": "x", "t": 1})
    assert list(map(len, index.match_many([holds, fails, holds]))) == [3000, 0, 3000]
    assert (len(index.match(holds)), len(index.match(fails))) == (3000, 0)


@pytest.mark.long
@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_any_number_of_events_at_once(count: int) -> None:
    index: CompiledIndex[str] = CompiledIndex()
    index.add("key", parse_filter("a = 1"))
    events = [event({"a": number % 2}) for number in range(count)]
    assert index.match_many(events) == [["key"] * (number % 2) for number in range(count)]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 65_535, 65_536])
def test_any_number_of_attributes_in_an_event(count: int) -> None:
    index: CompiledIndex[str] = CompiledIndex()
    index.add("key", parse_filter("z = 1"))
    wide = event({**{f"x{number}": number for number in range(count)}, "z": 1})
    assert index.match(wide) == ["key"]


def test_a_filter_is_found_once_however_often_it_holds() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    for key in range(50):
        index.add(key, parse_filter("a = 1 OR b = 2 OR c > d OR topic MATCHES 't/#' OR e < 5"))
    everywhere = event({"a": 1, "b": 2, "c": 2, "d": 1, "e": 0}, ["t", "t/a", "t/b"])
    assert sorted(index.match(everywhere)) == list(range(50))
    assert [sorted(keys) for keys in index.match_many([everywhere] * 2)] == [list(range(50))] * 2
    columns = {"a": [1], "b": [2], "c": [2], "d": [1], "e": [0], "topic": [["t", "t/a", "t/b"]]}
    assert sorted(index.match_batch(columns).keys.tolist()) == list(range(50))


# --- events that are none -------------------------------------------------------------------------

NO_VALUES = [b"bytes", [1], (1,), {"x": 1}, 2**63, 2**64 - 1, bytearray(b"x")]


@pytest.mark.parametrize("value", NO_VALUES, ids=repr)
@pytest.mark.parametrize("name", ["a", "unknown"])
def test_what_is_no_value_is_refused(value: Any, name: str) -> None:
    index: CompiledIndex[int] = CompiledIndex()
    for key in range(60):
        index.add(key, parse_filter(f"a > {key} OR b = {key}"))
    good, bad = event({"a": 5, "b": 40}), event({"b": 3, name: value, "c": 1})
    for _ in range(2):
        with pytest.raises(LocalError):
            index.match(bad)
        with pytest.raises(LocalError):
            index.match_many([good, bad])
        assert sorted(index.match(good)) == [0, 1, 2, 3, 4, 40]
    index.remove(40)
    assert sorted(index.match(good)) == [0, 1, 2, 3, 4]


def test_the_sentence_names_event_and_attribute() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    bad: Any = b"x"
    with pytest.raises(LocalError, match="event 1, attribute 'b': b'x' is not a value"):
        index.match_many([event({"a": 1}), event({"a": 1, "b": bad})])
    with pytest.raises(LocalError, match=r"attribute .a.: 9223372036854775808 does not fit"):
        index.match(event({"a": 2**63}))


def test_a_value_none_is_a_missing_value() -> None:
    """The twin treats None in the same way."""
    nothing: Any = None
    for index in (ScanIndex[str](), CompiledIndex[str]()):
        for text in ("a IS NULL", "a IS NOT NULL", "a = 1", "a <> 1"):
            index.add(text, parse_filter(text))
        assert index.match(event({"a": nothing})) == ["a IS NULL"]


# --- memory ---------------------------------------------------------------------------------------


@pytest.mark.long
def test_memory_is_given_back() -> None:
    """Each cycle has new strings, patterns, lists, attributes and disjunctions; tables may keep
    their room."""
    index: CompiledIndex[int] = CompiledIndex()
    sizes, rows = [], 1500
    for cycle in range(4):
        for key in range(rows):
            n = rows * cycle + key
            index.add(key, parse_filter(f"s = 'v{n % 97}' AND x{n} > {n} OR t LIKE '%{n}'"))
            index.add(-1 - key, parse_filter(f"p IN ('w{n}', 'u{n}') AND q NOT IN ({n}, 7, 1.5)"))
        full = index.memory_bytes()
        for key in range(rows):
            index.remove(key)
            index.remove(-1 - key)
        sizes.append(index.memory_bytes())
        assert sizes[-1] < full / 2
    assert sizes[-1] - sizes[1] < 8 * 2 * rows  # less than a word for each filter
    assert index.plan()["rows"] == 0


def test_memory_does_not_grow_under_churn() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    sizes = []
    for number in range(3000):
        index.add(number, parse_filter(f"s = 'v{number}' AND x{number % 7} IN (1, {number})"))
        if number >= 50:
            index.remove(number - 50)
        sizes.append(index.memory_bytes())
    assert max(sizes[1500:]) <= 1.2 * max(sizes[:1500])


def test_memory_counts_what_is_stored() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    empty = index.memory_bytes()
    index.add(0, parse_filter(f"s = '{'x' * 60_000}'"))
    assert 60_000 < index.memory_bytes() - empty < 61_000
    index.remove(0)
    assert index.memory_bytes() - empty < 1000


def test_an_index_that_is_dropped_is_freed() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    index.add(0, parse_filter("a = 1"))
    gone = weakref.ref(index)
    del index
    gc.collect()
    assert gone() is None


PROCESS = """
import resource, sys
from reefcast.matching.index import CompiledIndex
from reefcast.model.filters import parse_filter

filters = [
    parse_filter(f"s = 'v{n % 40}' AND x > {n} AND t LIKE '%{n}' OR u{n % 200} IN ({n}, 5)")
    if n % 2 == 0
    else parse_filter(f"x > {n} AND p IN ('w{n}', 'u{n}') AND q NOT IN ({n}, 7, 1.5)")
    for n in range(1500)
]
filters = [filter for filter in filters for _ in range(2)]

def fill(index):
    for key, filter in enumerate(filters):
        index.add(key, filter)
    return index

index, peaks, sizes = CompiledIndex(), [], []
for cycle in range(30):
    if sys.argv[1] == "drop":
        index = fill(CompiledIndex())
        sizes.append(index.memory_bytes())
    else:
        sizes.append(fill(index).memory_bytes())
        for key in range(len(filters)):
            index.remove(key)
    peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
unit = 1 if sys.platform == "darwin" else 1024
print(sizes[-1], (peaks[-1] - peaks[9]) * unit)
"""


@pytest.mark.parametrize("way", ["drop", "remove"])
def test_the_system_gets_its_memory_back(way: str) -> None:
    """The index's own count could be wrong, so that the test looks at the process."""
    done = subprocess.run(
        [sys.executable, "-c", PROCESS, way],
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    size, growth = map(int, done.stdout.split())
    assert size > 500_000
    assert growth < 5 * size  # in 20 cycles


def test_importing_the_package_loads_no_compiler() -> None:
    code = "import sys, reefcast.matching; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

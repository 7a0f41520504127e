"""Residual conditions: the compiled programs compute what the expressions say, to the bit."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matching_harness import event

from reefcast.matching.index import CompiledIndex
from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter

INTEGERS = (
    -(2**63),
    -(2**53) - 1,
    -(2**31),
    -2,
    -1,
    0,
    1,
    2,
    3,
    2**31,
    2**53,
    2**53 + 1,
    2**63 - 1,
)
SMALL = (-3, -2, -1, 0, 1, 2, 3, 10)
FLOATS = (
    -math.inf,
    -1e300,
    -1.5,
    -0.0,
    0.0,
    0.5,
    1.0,
    2.0,
    3.0,
    2.0**53,
    1e308,
    math.inf,
    math.nan,
)
KINDS = {
    "i": (pa.int64(), INTEGERS),
    "j": (pa.int64(), SMALL),
    "k": (pa.int64(), SMALL),
    "x": (pa.float64(), FLOATS),
    "y": (pa.float64(), FLOATS),
    "s": (pa.string(), ("", "a", "b", "a/b", "a%", "bé🐠")),
    "t": (pa.string(), ("", "a", "b", "é", "\0")),
    "b": (pa.bool_(), (True, False)),
    "c": (pa.bool_(), (True, False)),
    "n": (pa.null(), ()),
}
OPERANDS = ("i", "j", "k", "x", "y", "s", "b", "n", "nowhere", "2", "-1", "15e-1", "1e300")
SIGNS = ("=", "<>", "<", "<=", ">", ">=")

sums = st.recursive(
    st.sampled_from(OPERANDS[:5] * 3 + OPERANDS[5:]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-*/"), inner).map(lambda p: f"({p[0]}) {p[1]} ({p[2]})"),
        inner.map(lambda text: f"- ({text})"),
    ),
    max_leaves=3,
)
comparisons = st.tuples(sums, st.sampled_from(SIGNS), sums).map(lambda p: f"{p[0]} {p[1]} {p[2]}")
texts = ("s", "t", "i", "nowhere", "b")
NUMBERS = ("(1)", "(1, 2, -3)", "(15e-1, 9007199254740993)")
LISTS = ("(1, 2)", "('', 'a')", "('b')", "(TRUE)", "(FALSE, TRUE)")
PATTERNS = ("%", "a%", "%a", "%b%", "_", "a!%%' ESCAPE '!", "%é_", "")
TOPICS = ("#", "+", "a/#", "a/+", "+/b", "a")
negation = st.sampled_from(("", "NOT "))
atoms = st.one_of(
    comparisons,
    st.tuples(sums, negation, st.sampled_from(NUMBERS)).map(lambda p: f"({p[0]}) {p[1]}IN {p[2]}"),
    st.tuples(st.sampled_from(texts), negation, st.sampled_from(LISTS)).map(
        lambda p: f"{p[0]} {p[1]}IN {p[2]}"
    ),
    st.tuples(st.sampled_from(texts), negation, st.sampled_from(PATTERNS)).map(
        lambda p: f"{p[0]} {p[1]}LIKE '{p[2]}'"
    ),
    st.tuples(st.sampled_from(texts), st.sampled_from(TOPICS)).map(
        lambda p: f"{p[0]} MATCHES '{p[1]}'"
    ),
    st.tuples(sums, negation).map(lambda p: f"({p[0]}) IS {p[1]}NULL"),
    st.sampled_from(("b", "s < t", "s = t", "b = c", "b > c", "s >= 'a'", "t <> 'b'", "i")),
)
nested = st.recursive(
    atoms,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: f"({' AND '.join(ps)})"),
        st.lists(inner, min_size=2, max_size=3).map(lambda ps: f"({' OR '.join(ps)})"),
        inner.map(lambda text: f"(NOT {text})"),
    ),
    max_leaves=6,
)
compared_conditions = st.tuples(nested, st.sampled_from(SIGNS), nested).map(
    lambda p: f"({p[0]}) {p[1]} ({p[2]})"  # nothing but a program can say that
)
filters = st.one_of(
    comparisons,
    comparisons.map(lambda text: f"{text} AND j > 0"),
    st.tuples(comparisons, comparisons).map(" AND ".join),
    comparisons.map(lambda text: f"(k < 2 OR j > 0) AND NOT ({text})"),
    nested,
    compared_conditions,
    compared_conditions.map(lambda text: f"{text} OR j > 0"),
    compared_conditions.map(lambda text: f"({text}) IS NULL"),
)
rows = st.fixed_dictionaries(
    {name: st.none() | st.sampled_from(values or (None,)) for name, (_, values) in KINDS.items()}
)


def columns(events: list[dict[str, Any]]) -> dict[str, pa.Array]:
    return {
        name: pa.array([event[name] for event in events], kind) for name, (kind, _) in KINDS.items()
    }


def found(index: Any, batch: Any) -> list[list[int]]:
    offsets, keys = index.match_batch(batch)
    return [sorted(keys[a:b]) for a, b in pairwise(offsets)]


@settings(max_examples=120, deadline=None)
@given(st.lists(filters, min_size=1, max_size=6), st.lists(rows, min_size=1, max_size=12))
def test_like_asking_each_filter(texts: list[str], events: list[dict[str, Any]]) -> None:
    """Events come one by one and in columns, also when some of the filters are gone."""
    index: CompiledIndex[int] = CompiledIndex()
    twin: ScanIndex[int] = ScanIndex()
    for number, text in enumerate(texts):
        index.add(number, parse_filter(text))
        twin.add(number, parse_filter(text))
    for number in range(len(texts)):
        expected = [
            sorted(twin.match(event({n: v for n, v in row.items() if v is not None})))
            for row in events
        ]
        assert list(map(sorted, index.match_many([event(row) for row in events]))) == expected
        assert found(index, columns(events)) == expected
        index.remove(number)
        twin.remove(number)
    assert index.plan()["with_residuals"] == 0


@pytest.mark.parametrize(
    ("text", "values", "holds"),
    [
        ("i + j > 0", {"i": 2**63 - 1, "j": 1}, False),  # leaves int64
        ("(i + j > 0) IS NULL", {"i": 2**63 - 1, "j": 1}, True),
        ("i + j > 0", {"i": 2**63 - 1, "j": 1.0}, True),
        ("i - j < 0", {"i": -(2**63), "j": 1}, False),
        ("i * j > 0", {"i": 2**62, "j": 2}, False),
        ("i * j = -9223372036854775807 - 1", {"i": -(2**62), "j": 2}, True),
        ("(- i > j) IS NULL", {"i": -(2**63), "j": 1}, True),
        ("(i * j = 0) IS NULL", {"i": -(2**63), "j": -1}, True),
        ("i > x", {"i": 2**53 + 1, "x": 2.0**53}, True),
        ("i = x + j", {"i": 2**53 + 1, "x": 2.0**53, "j": 1}, False),  # rounds
        ("i / j > x", {"i": 1, "j": 0, "x": 0}, False),
        ("(i / x = 0) IS NULL", {"i": 1, "x": -0.0}, True),
        ("x = y", {"x": math.nan, "y": math.nan}, True),
        ("x * 0 = y", {"x": math.inf, "y": math.nan}, True),
        ("x < y", {"x": math.inf, "y": math.nan}, True),
        ("x = y", {"x": 0.0, "y": -0.0}, True),
        ("s < t", {"s": "\uffff", "t": "\U0001f420"}, True),  # by code point
        ("s < t", {"s": "a", "t": "a\0"}, True),
        ("s < t", {"s": "a", "t": 1}, False),
        ("(s < t) IS NULL", {"s": "a", "t": 1}, True),
        ("(b = TRUE) = (c < 2)", {"b": True, "c": 1}, True),
        ("(b OR c > 1) = (c > 1)", {"c": 1}, False),
        ("((b OR c > 1) = (c > 1)) IS NULL", {"c": 1}, True),
    ],
)
def test_what_is_easily_wrong(text: str, values: dict[str, Any], holds: bool) -> None:
    index: CompiledIndex[int] = CompiledIndex()
    index.add(0, parse_filter(text))
    assert parse_filter(text).holds(values) is holds
    assert index.match(event(values)) == [0] * holds


def test_equal_conditions_are_kept_once() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    alone: CompiledIndex[int] = CompiledIndex()
    for number in range(200):
        index.add(number, parse_filter(f"k = {number % 2} AND i + j * 2 - 7 > j"))
        alone.add(number, parse_filter(f"k = {number % 2} AND i + j * 2 - {number} > j"))
    assert alone.memory_bytes() - index.memory_bytes() > 199 * 8 * 7  # a word for an instruction
    batch = {"k": [0, 1, 2], "i": [5, 1, 5], "j": [3, 1, 3]}
    assert found(index, batch) == [list(range(0, 200, 2)), [], []]


def test_programs_go_with_their_filters() -> None:
    """The same filters come again: the room that the first ones took is free for them."""
    index: CompiledIndex[int] = CompiledIndex()
    sizes = []
    for _ in range(3):
        for number in range(300):
            text = f"s{number} > t AND (t = '{number}') = b OR (s{number} IN ('x', '{number}')) = c"
            index.add(number, parse_filter(text))
        for number in range(300):
            index.remove(number)
        sizes.append(index.memory_bytes())
    assert abs(sizes[2] - sizes[0]) < 10_000  # tables keep their room; a program has 200 bytes


def test_deep_programs() -> None:
    """Some have more levels than there is room for at first; shallow ones are among them."""
    index: CompiledIndex[int] = CompiledIndex()
    index.add(0, parse_filter("i > j"))
    index.add(1, parse_filter("i > " + "(j + " * 40 + "1" + ")" * 40))
    index.add(2, parse_filter("j > i"))
    assert sorted(index.match(event({"i": 100, "j": 2}))) == [0, 1]
    assert sorted(index.match(event({"i": 81, "j": 2}))) == [0]
    assert sorted(index.match(event({"i": 82, "j": 2}))) == [0, 1]

"""Residual conditions of a batch: numpy, where it is used, says what the expression says."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.matching import residuals
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
    "s": (pa.string(), ("", "a", "b")),
    "b": (pa.bool_(), (True, False)),
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
filters = st.one_of(
    comparisons,
    comparisons.map(lambda text: f"{text} AND j > 0"),
    st.tuples(comparisons, comparisons).map(" AND ".join),
    comparisons.map(lambda text: f"{text} OR j > 0"),
    comparisons.map(lambda text: f"(k < 2 OR j > 0) AND NOT ({text})"),
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


@pytest.fixture(autouse=True)
def numpy_for_every_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(residuals, "FEWEST_ROWS", 1)


@given(st.lists(filters, min_size=1, max_size=6), st.lists(rows, min_size=1, max_size=12))
def test_like_asking_each_filter(texts: list[str], events: list[dict[str, Any]]) -> None:
    index: CompiledIndex[int] = CompiledIndex()
    twin: ScanIndex[int] = ScanIndex()
    for number, text in enumerate(texts):
        index.add(number, parse_filter(text))
        twin.add(number, parse_filter(text))
    assert found(index, columns(events)) == found(twin, columns(events))


def count_of_rows(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows Python is asked about, each time that it is."""
    asked: list[int] = []
    row_by_row = residuals._Batch._row_by_row

    def counting(self: Any, conditions: Any, rows: Any) -> Any:
        asked.append(len(rows))
        return row_by_row(self, conditions, rows)

    monkeypatch.setattr(residuals._Batch, "_row_by_row", counting)
    return asked


@pytest.mark.parametrize(
    ("text", "i", "by_python"),
    [
        ("i > j", 2**63 - 1, False),
        ("i + j > 0", 2**63 - 1, True),  # may leave int64
        ("i + j > 0", 2**62, False),
        ("- i > j", -(2**63), True),
        ("i * j > 0", 2**62, True),
        ("i > x", 2**53, False),
        ("i > x", 2**53 + 1, True),  # not a float
        ("i > x + j", 2**53 + 1, True),
        ("i + x > j", 2**53 + 1, False),  # becomes a float anyway
        ("i / j > x", 2**53 + 1, False),
        ("s < t", 1, True),
        ("i = j OR s < t", 1, True),
    ],
)
def test_numpy_where_it_is_exact(
    monkeypatch: pytest.MonkeyPatch, text: str, i: int, by_python: bool
) -> None:
    asked = count_of_rows(monkeypatch)
    batch = {"i": [i, i], "j": [2, None], "x": [1.0, 2.0], "s": ["a", None], "t": ["b", "c"]}
    index: CompiledIndex[int] = CompiledIndex()
    twin: ScanIndex[int] = ScanIndex()
    for each in (index, twin):
        each.add(0, parse_filter(text))
    assert found(index, batch) == found(twin, batch)
    assert (asked != []) is by_python


def test_equal_conditions_are_evaluated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []
    truths = residuals._Batch.truths

    def counting(self: Any, conditions: Any, rows: Any) -> Any:
        evaluated.append(len(rows))
        return truths(self, conditions, rows)

    monkeypatch.setattr(residuals._Batch, "truths", counting)
    index: CompiledIndex[int] = CompiledIndex()
    for number in range(20):
        index.add(number, parse_filter(f"k = {number % 2} AND i > j + 1"))
    batch = {"k": np.array([0, 1, 2]), "i": np.array([5, 1, 5]), "j": np.array([1, 1, 1])}
    assert found(index, batch) == [list(range(0, 20, 2)), [], []]
    assert evaluated == [20]


def test_filters_removed_are_not_asked() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    index.add(1, parse_filter("i > j"))
    index.remove(1)
    index.add(2, parse_filter("i < j"))
    assert found(index, {"i": [1, 2], "j": [2, 1]}) == [[2], []]
    assert len(index._left_open) == 1

"""The baselines find what the twin finds, which evaluates the text of each row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.matching.scan import ScanIndex
from reefcast.model.filters import parse_filter
from reefcast_lab.bench.matching import columns
from reefcast_lab.bench.matching.baselines import EndPoints
from reefcast_lab.bench.matching.columns import Columns
from reefcast_lab.bench.matching.table import Events, Table, matches
from reefcast_lab.bench.matching.workloads import SOURCES, make

WORDS = ["a", "b", "c", "d", "e"]
BASELINES = {
    "columns": Columns,
    "counting": lambda table: EndPoints(table, counting=True),
    "rein": lambda table: EndPoints(table, counting=False),
}
ends = st.sampled_from([-np.inf, np.inf, *np.arange(-2.0, 3.0)])
bounds = st.tuples(ends, ends).filter(
    lambda pair: pair[0] <= pair[1] and pair not in ((np.inf, np.inf), (-np.inf, -np.inf))
)
strings = st.sets(st.integers(0, 3), max_size=3).map(
    lambda codes: [*sorted(codes), *[-1] * (3 - len(codes))]
)
row = st.tuples(bounds, bounds, strings, strings)
event = st.tuples(
    st.integers(-3, 3), st.floats(-3, 3), st.sampled_from(WORDS), st.sampled_from(WORDS)
)


def table_of(rows: Sequence[Any]) -> Table:
    """Return a table of attributes x (int64), y, s and t; no filter names the last of `WORDS`."""
    pairs = {name: np.array([r[i] for r in rows], float) for i, name in enumerate("xy")}
    return Table(
        {name: pair[:, 0] for name, pair in pairs.items()},
        {name: pair[:, 1] for name, pair in pairs.items()},
        {name: np.array([r[i] for r in rows], np.int32) for i, name in enumerate("st", 2)},
        dict.fromkeys("st", WORDS[:-1]),
        frozenset("x"),
    )


def events_of(events: Sequence[Any]) -> Events:
    x, y, s, t = zip(*events, strict=True)
    return Events({"x": np.array(x, np.int64), "y": np.array(y), "s": list(s), "t": list(t)})


def found_by_twin(table: Table, events: Events) -> list[list[int]]:
    twin: ScanIndex[int] = ScanIndex()
    for key in range(len(table)):
        twin.add(key, parse_filter(table.text(key)))
    return [sorted(twin.match(publication)) for publication in events.publications]


def assert_finds(name: str, table: Table, events: Events, expected: list[list[int]]) -> None:
    engine = BASELINES[name](table)
    assert [sorted(engine.match(p).tolist()) for p in events.publications] == expected
    end = 0
    for batch in events.batches:
        offsets, rows = engine.match_batch(batch)
        for i in range(len(offsets) - 1):
            found = rows[offsets[i] : offsets[i + 1]].tolist()
            assert sorted(found) == expected[end + i]
        end += len(offsets) - 1
    assert end == len(events)


@pytest.mark.parametrize("name", BASELINES)
@given(rows=st.lists(row, min_size=1, max_size=40), events=st.lists(event, min_size=1, max_size=9))
@settings(max_examples=20)
def test_a_baseline_finds_what_the_twin_finds(
    name: str, rows: list[Any], events: list[Any]
) -> None:
    table, made = table_of(rows), events_of(events)
    assert_finds(name, table, made, found_by_twin(table, made))


@pytest.mark.parametrize("name", BASELINES)
@pytest.mark.parametrize("workload", SOURCES)
def test_a_baseline_on_a_workload_with_many_buckets(name: str, workload: str) -> None:
    """It is large enough for several buckets of end points and for every method of comparing
    columns."""
    made = make(workload, 0.02, 5000)
    expected = [np.flatnonzero(held).tolist() for held in matches(made.table, made.events)]
    assert_finds(name, made.table, made.events, expected)


def test_columns_of_large_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    """A partition is compared attribute by attribute, and row by row in the end."""
    monkeypatch.setattr(columns, "_SMALL", 10)
    made = make("flights", 0.001, 2000)
    expected = [np.flatnonzero(held).tolist() for held in matches(made.table, made.events)]
    assert_finds("columns", made.table, made.events, expected)


@given(rows=st.lists(row, min_size=1, max_size=20), events=st.lists(event, min_size=1, max_size=9))
@settings(max_examples=40)
def test_comparing_all_with_all(rows: list[Any], events: list[Any]) -> None:
    table, made = table_of(rows), events_of(events)
    held = matches(table, made)
    assert [np.flatnonzero(each).tolist() for each in held] == found_by_twin(table, made)

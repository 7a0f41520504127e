"""`match`, `match_many`, `match_batch` and the twin find the same for the same events."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matching_harness import NUMBERS, SPECIAL, STRINGS, WORKLOADS, event

from reefcast.errors import LocalError
from reefcast.matching.index import CompiledIndex
from reefcast.matching.interface import Matches
from reefcast.matching.scan import ScanIndex
from reefcast.matching.sweep import FEWEST_BLOCKS
from reefcast.model.filters import parse_filter
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value

Column = list[Value | None]

INTS = [number for number in NUMBERS if isinstance(number, int)]
FLOATS = [float(number) for number in (*NUMBERS, *SPECIAL)]
WIDE = [number for number in INTS if abs(number) <= 2**53]


def by_event(matches: Matches) -> list[list[Any]]:
    offsets = matches.offsets.tolist()
    assert matches.offsets.dtype == np.int64
    assert offsets[0] == 0
    assert offsets[-1] == len(matches.keys)
    return [matches.keys[start:end].tolist() for start, end in pairwise(offsets)]


def ordered(found: list[list[Any]]) -> list[list[Any]]:
    return [sorted(keys, key=repr) for keys in found]


# --- columns and the events that they are ---------------------------------------------------------


def some(rng: Random, drawn: list[Any], share: float = 0.75) -> Column:
    return [each if rng.random() < share else None for each in drawn]


def column(rng: Random, rows: int) -> tuple[Any, Column]:
    """Draw a column in one of its forms, and its values."""
    pool = rng.choice([INTS, FLOATS, [*range(-60, 110)], [*STRINGS], [True, False], ["k1", "k2"]])
    full: list[Any] = [rng.choice(pool) for _ in range(rows)]
    holes = some(rng, full)
    kind = type(pool[0])
    numpy = {int: np.int64, float: np.float64, bool: np.bool_, str: object}[kind]
    arrow = {int: pa.int64(), float: pa.float64(), bool: pa.bool_(), str: pa.string()}[kind]
    large = pa.large_string() if kind is str else arrow
    padded = pa.array([full[0] if rows else None, *holes, None], arrow)
    return rng.choice(
        [
            (np.array(full, numpy), full),
            (np.array([*full, *full], numpy)[::2], [*full, *full][::2]),
            (holes, holes),
            (pa.array(full, arrow), full),
            (pa.array(holes, large), holes),
            (padded.slice(1, rows), holes),
            (pa.chunked_array([holes[: rows // 3], holes[rows // 3 :]], arrow), holes),
            (pa.array(holes, arrow).dictionary_encode(), holes),
            (pa.nulls(rows), [None] * rows),
        ]
    )


def table(rng: Random, rows: int) -> tuple[dict[str, Any], list[Publication]]:
    given: dict[str, Any] = {}
    events: list[dict[str, Value]] = [{} for _ in range(rows)]
    for name in ("a", "b", "topic", "nobody", "c", "sym", "x1"):
        if rng.random() < 0.8:
            given[name], cells = column(rng, rows)
            for attributes, value in zip(events, cells, strict=True):
                if value is not None:
                    attributes[name] = value
    topics: list[list[str] | None] = [None] * rows
    if rng.random() < 0.4 or not given:
        pool = [str(each) for each in STRINGS]
        topics = [rng.choices(pool, k=rng.choice([0, 1, 3])) or None for _ in range(rows)]
        given["topic"] = pa.array(topics, pa.list_(pa.string()))
        for attributes in events:
            attributes.pop("topic", None)
    pairs = zip(events, topics, strict=True)
    return given, [event(attributes, listed or ()) for attributes, listed in pairs]


KEYS = {
    "ints": lambda number: number - 5,
    "strings": str,
    "pairs": lambda number: ("link", number),
    "mixed": lambda number: number if number % 2 else str(number),
    "one odd": lambda number: number if number else INT64_MAX + 1,
}


@pytest.mark.long
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize("size", [20, 1500])
def test_all_ways_agree(keys: str, size: int) -> None:
    rng = Random(f"{keys} {size}")
    twin, index = ScanIndex[Any](), CompiledIndex[Any]()
    for number in range(size):
        filter = WORKLOADS["any"].filter(rng)
        for each in (twin, index):
            each.add(KEYS[keys](number), filter)
    for rows, times in ((0, 3), (1, 3), (2, 3), (30, 1)):
        for _ in range(times):
            columns, events = table(rng, rows)
            wanted = ordered(twin.match_many(events))
            found = index.match_batch(columns)
            assert ordered(by_event(found)) == wanted
            assert ordered(index.match_many(events)) == wanted
            assert ordered([index.match(each) for each in events]) == wanted
            judged = twin.match_batch(columns)
            assert ordered(by_event(judged)) == wanted
            assert judged.keys.dtype == found.keys.dtype
            assert found.keys.dtype == (np.int64 if keys == "ints" else object)


@given(st.integers(0, 2**32), st.integers(0, 12))
def test_any_columns(seed: int, rows: int) -> None:
    rng = Random(seed)
    twin, index = ScanIndex[int](), CompiledIndex[int]()
    for key in range(rng.choice([1, 8, 40])):
        filter = WORKLOADS["any"].filter(rng)
        twin.add(key, filter)
        index.add(key, filter)
    columns, events = table(rng, rows)
    assert ordered(by_event(index.match_batch(columns))) == ordered(twin.match_many(events))


@pytest.mark.long
def test_partitions_serve_batches_too() -> None:
    rng = Random(5)
    twin, index = ScanIndex[int](), CompiledIndex[int]()
    for key in range(3000):
        filter = WORKLOADS["symbols"].filter(rng)
        twin.add(key, filter)
        index.add(key, filter)
    events = [WORKLOADS["symbols"].event(rng) for _ in range(64)]
    rows = [each.attributes for each in events]
    columns: dict[str, Any] = {
        name: [row.get(name) for row in rows] for name in ("sym", "p", "v", "z")
    }
    columns["id"] = pa.array([float(row["id"]) if "id" in row else None for row in rows])
    wanted = ordered(twin.match_many(events))
    assert ordered(by_event(index.match_batch(columns))) == wanted
    assert ordered(index.match_many(events)) == wanted
    assert sum(map(len, wanted)) > 1000


# --- what may be given ----------------------------------------------------------------------------


@pytest.fixture
def index() -> CompiledIndex[int]:
    made: CompiledIndex[int] = CompiledIndex()
    for key, text in enumerate(
        ["a > 1", "a IS NULL", "s = 'x'", "topic MATCHES 't/#'", "a > b", "TRUE"]
    ):
        made.add(key, parse_filter(text))
    return made


EXPECTED = [[0, 2, 5], [1, 5], [0, 4, 5]]
DATA: dict[str, Column] = {"a": [2, None, 3], "s": ["x", None, "y"], "b": [2, 0, 1]}


@pytest.mark.parametrize(
    "columns",
    [
        DATA,
        pa.table(DATA),
        pa.table(DATA).to_batches()[0],
        pa.concat_tables([pa.table(DATA).slice(0, 1), pa.table(DATA).slice(1)]),
        pd.DataFrame({**DATA, "a": pd.array([2, None, 3], "Int64")}),
        {**DATA, "a": np.ma.array([2, 9, 3], mask=[False, True, False])},
        {**DATA, "b": np.array([2, 0, 1], np.int8), "s": pd.Series(DATA["s"], dtype="category")},
        {**DATA, "b": np.array([2, 0, 1], np.float32), "unknown": [1, 2, 3]},
    ],
)
def test_forms_of_columns(index: CompiledIndex[int], columns: Any) -> None:
    found = index.match_batch(columns)
    assert ordered(by_event(found)) == EXPECTED
    assert found.keys.dtype == np.int64


def test_no_columns_and_no_rows(index: CompiledIndex[int]) -> None:
    for columns in ({}, {"a": []}, pa.table({"a": pa.array([], pa.int64())})):
        found = index.match_batch(columns)
        assert (found.offsets.tolist(), found.keys.tolist()) == ([0], [])
        assert (found.offsets.dtype, found.keys.dtype) == (np.int64, np.int64)
    nameless = index.match_batch(pa.table({"a": [1, 2]}).select([]))
    assert ordered(by_event(nameless)) == [[1, 5], [1, 5]]
    empty = CompiledIndex[int]().match_batch({"a": [1, 2]})
    assert (empty.offsets.tolist(), empty.keys.tolist()) == ([0, 0, 0], [])


def test_several_topics(index: CompiledIndex[int]) -> None:
    topics = [["u", "t/1", "t/2"], None, [], ["u"], ["t", None], [None]]
    found = index.match_batch({"topic": topics, "a": np.array([2, 0, 2, 0, 0, 0])})
    assert ordered(by_event(found)) == [[0, 3, 5], [5], [0, 5], [5], [3, 5], [5]]
    events = [
        event({"a": 2}, ["u", "t/1", "t/2"]),
        event({"a": 0, "topic": "t/not"}, ["u"]),  # topics take the attribute's place
        event({"a": 0, "topic": "t/yes"}),
    ]
    assert ordered(index.match_many(events)) == [[0, 3, 5], [5], [3, 5]]
    assert ordered([index.match(each) for each in events]) == [[0, 3, 5], [5], [3, 5]]


def test_a_residual_sees_each_topic() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    index.add(0, parse_filter("topic = name AND a + 1 > b"))
    index.add(1, parse_filter("topic MATCHES 't/#' AND topic <> name"))
    topics = [["t", "n"], ["n"], ["t"], None]
    columns = {"topic": topics, "name": ["n"] * 4, "a": [1, 2, 1, 1], "b": [1, 3, 1, 1]}
    found = index.match_batch(columns)
    assert ordered(by_event(found)) == [[0, 1], [], [1], []]
    events = [
        event({"name": "n", "a": a, "b": b}, listed or ())
        for listed, a, b in zip(topics, columns["a"], columns["b"], strict=True)
    ]
    assert ordered(index.match_many(events)) == [[0, 1], [], [1], []]


def test_numbers_keep_their_value_in_every_form() -> None:
    index: CompiledIndex[int] = CompiledIndex()
    edges = [INT64_MIN + 1, -(2**53) - 1, 2**53, 2**53 + 1, 2**62 + 1, INT64_MAX]
    for number in edges:
        index.add(number, parse_filter(f"a = {number}"))
    ints = [*edges, INT64_MIN, 2**53 + 2, 2**62, 0]
    wanted = [[number] for number in edges] + [[]] * 4
    assert by_event(index.match_batch({"a": np.array(ints)})) == wanted
    assert by_event(index.match_batch({"a": pa.array(ints)})) == wanted
    floats = np.array([2.0**53, 2.0**62, 2.0**63, -(2.0**63), math.nan, -0.0])
    assert by_event(index.match_batch({"a": floats})) == [[2**53], *[[]] * 5]


def test_what_is_returned_is_not_overwritten(index: CompiledIndex[int]) -> None:
    columns = {"a": [2, 0, 5], "s": ["x", "y", "x"]}
    first = index.match_batch(columns)
    copy = Matches(first.offsets.copy(), first.keys.copy())
    many = index.match_many([event({"a": 2})])
    index.match_batch({"a": np.zeros(50)})
    index.remove(5)
    index.match(event({"a": -1}))
    assert first.offsets.tolist() == copy.offsets.tolist()
    assert first.keys.tolist() == copy.keys.tolist()
    assert ordered(many) == [[0, 5]]


@pytest.mark.parametrize("odd", ["odd", True, np.int64(7), 2**63, None, (1, 2)], ids=repr)
def test_one_odd_key_makes_them_objects(odd: Any) -> None:
    index: CompiledIndex[Any] = CompiledIndex()
    for key in (0, 2, INT64_MIN):
        index.add(key, parse_filter("a = 1"))
    assert index.match_batch({"a": [1]}).keys.dtype == np.int64
    index.add(odd, parse_filter("a = 2"))
    found = index.match_batch({"a": [1, 2]})
    assert found.keys.dtype == object
    assert [type(key) for key in found.keys.tolist()] == [int, int, int, type(odd)]
    index.remove(odd)
    index.add(3, parse_filter("a = 2"))
    assert ordered(by_event(index.match_batch({"a": [1, 2]}))) == [[INT64_MIN, 0, 2], [3]]
    assert index.match(event({"a": 2})) == [3]


def test_a_batch_that_is_refused_changes_nothing(index: CompiledIndex[int]) -> None:
    for columns in ({"a": [1, "x"]}, {"a": [1], "b": [1, 2]}, {"a": [b"x"]}, 5):
        with pytest.raises(LocalError):
            index.match_batch(columns)
        assert ordered(by_event(index.match_batch(DATA))) == EXPECTED


@pytest.mark.parametrize("rows", [1000, 70_000])
def test_room_for_what_is_found_grows(rows: int) -> None:
    index: CompiledIndex[int] = CompiledIndex()
    for key in range(30):
        index.add(key, parse_filter("a > 0" if key % 2 else "a > b"))
    a = np.arange(rows) % 3
    found = index.match_batch({"a": a, "b": np.zeros(rows)} if rows < 2000 else {"a": a})
    lengths = np.diff(found.offsets)
    assert lengths.tolist() == ((30 if rows < 2000 else 15) * (a > 0)).tolist()
    assert set(found.keys[: lengths[1]].tolist()) == set(
        range(30) if rows < 2000 else range(1, 30, 2)
    )


@pytest.mark.long
def test_a_batch_swept_block_by_block_finds_what_the_bounds_say() -> None:
    """Blocks have different cuts, some rows are uncertain, some must be checked, and events do not
    all have the same attributes; numpy compares every bound with every event."""
    rows, events = 10_000, 40
    rng = np.random.default_rng(3)
    index: CompiledIndex[int] = CompiledIndex()
    lows = rng.uniform(0, 100, (rows, 2)).round(2)
    lows[rows // 2 :] += 400  # what comes later needs cuts of its own
    highs = lows + 300
    for row, ((a, b), (c, d)) in enumerate(zip(lows.tolist(), highs.tolist(), strict=True)):
        listed = " AND k IN (1, 5)" if row % 7 == 0 else ""
        index.add(row, parse_filter(f"x BETWEEN {a} AND {c} AND y >= {b} AND y < {d}{listed}"))
    x, y = rng.uniform(0, 800, (2, events)).round(2)
    k, lacking = rng.integers(0, 7, events), np.arange(events) % 3 == 0
    found = index.match_batch({"x": x, "y": np.ma.array(y, mask=lacking), "k": k})
    drawn = zip(x.tolist(), y.tolist(), k.tolist(), lacking.tolist(), strict=True)
    packed = [event({"x": a, "k": c} | ({} if d else {"y": b})) for a, b, c, d in drawn]
    assert ordered(index.match_many(packed)) == ordered(by_event(found))
    assert len(index.plan()["default"]["attributes"]) == 3
    assert index.plan()["default"]["blocks"] >= FEWEST_BLOCKS
    for number, (start, end) in enumerate(pairwise(found.offsets.tolist())):
        holds = (lows[:, 0] <= x[number]) & (x[number] <= highs[:, 0]) & ~lacking[number]
        holds &= (lows[:, 1] <= y[number]) & (y[number] < highs[:, 1])
        holds &= (np.arange(rows) % 7 != 0) | (k[number] in (1, 5))
        assert sorted(found.keys[start:end].tolist()) == np.flatnonzero(holds).tolist()
    assert len(found.keys) > 10 * events

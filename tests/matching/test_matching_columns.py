"""Columns by raw address: a reader that knows only the addresses must see the same values."""

from __future__ import annotations

import ctypes
import datetime
import math
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import LocalError
from reefcast.matching import columns as module
from reefcast.matching.columns import (
    BOOL,
    BOOL8,
    FLOAT64,
    INT64,
    LARGE_STRING,
    NULL,
    STRING,
    TABLE_WIDTH,
    Columns,
    columns_of,
    row_of,
)
from reefcast.model.publication import INT64_MAX, INT64_MIN

NUMPY_OF = {FLOAT64: np.float64, INT64: np.int64, BOOL8: np.bool_}
OFFSETS_OF = {STRING: np.int32, LARGE_STRING: np.int64}


def memory(address: int, dtype: Any, count: int) -> np.ndarray:
    """Return `count` items at `address`; if there are none, nothing is read."""
    size = np.dtype(dtype).itemsize * count
    data = ctypes.string_at(address, size) if size else b""
    return np.frombuffer(data, dtype)


def bit(address: int, place: int) -> bool:
    return bool(memory(address + place // 8, np.uint8, 1)[0] >> (place % 8) & 1)


def cell(described: list[int], row: int) -> object:
    """Return what a kernel sees in a row; None if the value is missing."""
    code, values, offsets, validity, first, _ = described
    place = first + row
    if code == NULL or (validity and not bit(validity, place)):
        return None
    if code == BOOL:
        return bit(values, place)
    if code in NUMPY_OF:
        return memory(values, NUMPY_OF[code], place + 1)[place].item()
    width = np.dtype(OFFSETS_OF[code]).itemsize
    start, end = memory(offsets + place * width, OFFSETS_OF[code], 2).tolist()
    return ctypes.string_at(values + start, end - start).decode()


def read(columns: Columns) -> dict[str, list[object]]:
    assert columns.table.shape == (len(columns.names), TABLE_WIDTH)
    assert columns.table.dtype == np.int64
    cells = {
        name: [cell(described, row) for row in range(columns.rows)]
        for name, described in zip(columns.names, columns.table.tolist(), strict=True)
    }
    for row in range(columns.rows):  # what the twin gets must be the same
        event = {name: found[row] for name, found in cells.items() if found[row] is not None}
        assert repr(row_of(columns, row)) == repr(event)
    return cells


def values(column: Any) -> list[object]:
    return read(columns_of({"a": column}))["a"]


def code(column: Any) -> int:
    return int(columns_of({"a": column}).table[0, 0])


def address(column: Any) -> int:
    return int(columns_of({"a": column}).table[0, 1])


def same(found: list[object], expected: list[object]) -> bool:
    """Return whether the values are the same, with their types and NaN."""
    return list(map(repr, found)) == list(map(repr, expected))


# --- numpy ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("array", "form"),
    [
        (np.array([1.5, -0.0, math.nan, math.inf]), FLOAT64),
        (np.array([INT64_MIN, 0, INT64_MAX]), INT64),
        (np.array([True, False, True]), BOOL8),
    ],
)
def test_numpy_is_read_in_place(array: np.ndarray, form: int) -> None:
    assert same(values(array), array.tolist())
    assert (code(array), address(array)) == (form, array.ctypes.data)
    array.flags.writeable = False
    assert (code(array), address(array)) == (form, array.ctypes.data)
    assert address(array[1:]) == array[1:].ctypes.data
    assert same(values(array[1:]), array[1:].tolist())
    assert same(values(array[::-2]), array[::-2].tolist())


@pytest.mark.parametrize("dtype", ["i1", "i2", "i4", ">i8", "u1", "u2", "u4", "u8", "longlong"])
def test_integers_of_numpy(dtype: str) -> None:
    array = np.array([0, 1, 127], dtype)
    assert (code(array), values(array)) == (INT64, [0, 1, 127])


@pytest.mark.parametrize("dtype", ["f2", "f4", ">f4", ">f8", "longdouble"])
def test_floats_of_numpy(dtype: str) -> None:
    array = np.array([0.5, -2.0, math.nan], dtype)
    assert code(array) == FLOAT64
    assert same(values(array), [0.5, -2.0, math.nan])


def test_an_unaligned_array() -> None:
    array = np.frombuffer(b"." + np.arange(3.0).tobytes(), np.float64, 3, offset=1)
    assert not array.flags.aligned
    assert values(array) == [0.0, 1.0, 2.0]
    assert address(array) % 8 == 0


@pytest.mark.parametrize(
    "array",
    [
        np.array(["", "é", "b\0c"]),
        np.array(["", "é", "b\0c"], object),
        np.array(["", "é", "b\0c"], np.dtypes.StringDType()),
    ],
)
def test_strings_of_numpy(array: np.ndarray) -> None:
    assert values(array) == ["", "é", "b\0c"]


def test_objects_of_numpy() -> None:
    assert values(np.array(["x", None], object)) == ["x", None]
    assert same(values(np.array([1.5, None, math.nan], object)), [1.5, None, math.nan])
    assert values(np.array([True, None], object)) == [True, None]
    assert values(np.array([], object)) == []


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (np.array([1, 2, 3], np.int64), [1, None, 3]),
        (np.array([1, 2**64 - 1, 3], np.uint64), [1, None, 3]),
        (np.array([1, 2, 3], ">i2"), [1, None, 3]),
        (np.array([1.5, 2.5, math.nan], np.float32), [1.5, None, math.nan]),
        (np.array([True, False, False]), [True, None, False]),
        (np.array(["x", "y", "z"]), ["x", None, "z"]),
    ],
)
def test_masked_arrays(data: np.ndarray, expected: list[object]) -> None:
    assert same(values(np.ma.array(data, mask=[False, True, False])), expected)
    assert None not in values(np.ma.array(data[:1]))


# --- Arrow ---------------------------------------------------------------------------------------

ARROW = [
    pa.array([1.5, None, math.nan, -0.0]),
    pa.array([1, None, INT64_MAX, INT64_MIN]),
    pa.array([True, None, False, True] * 5),
    pa.array(["x", None, "", "déjà"]),
    pa.array(["x", None, "", "déjà"], pa.large_string()),
    pa.array(["a", "b", "c", "d"]),
    pa.array([1.0, 2.0, 3.0, 4.0]),
    pa.nulls(4),
    pa.nulls(4, pa.string()),
]
FORMS = [FLOAT64, INT64, BOOL, STRING, LARGE_STRING, STRING, FLOAT64, NULL, STRING]


@pytest.mark.parametrize(("array", "form"), list(zip(ARROW, FORMS, strict=True)))
def test_arrow_is_read_in_place(array: pa.Array, form: int) -> None:
    assert code(array) == form
    held = [each.address for each in array.buffers() if each is not None]
    for start in range(len(array) + 1):
        part = array.slice(start, 2)
        assert same(values(part), part.to_pylist())
        described = columns_of({"a": part}).table[0, 1:4].tolist()
        assert all(each in (0, *held) for each in described)
        assert bool(described[2]) is (part.null_count > 0 and form != NULL)


@pytest.mark.parametrize("array", ARROW)
def test_arrow_in_chunks(array: pa.Array) -> None:
    chunks = [array.slice(0, 1), array.slice(1, 0), array.slice(1)]
    assert same(values(pa.chunked_array(chunks)), array.to_pylist())
    assert same(values(pa.chunked_array(chunks[2:])), array.slice(1).to_pylist())
    assert values(pa.chunked_array([], array.type)) == []


@pytest.mark.parametrize(
    ("array", "form"),
    [
        *((pa.array([1, None, 3], each), INT64) for each in (pa.int8(), pa.uint16(), pa.uint64())),
        (pa.array([1.5, None], pa.float32()), FLOAT64),
        (pa.array([1.5, None], pa.float16()), FLOAT64),
        (pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)), FLOAT64),
        (pa.array([Decimal("1.50"), None], pa.decimal256(50, 2)), FLOAT64),
        (pa.array(["x", None], pa.string_view()), LARGE_STRING),
        (pa.array(["x", None, "x"]).dictionary_encode(), STRING),
        (pa.array([5, None, 5]).dictionary_encode(), INT64),
        (pa.array(["x", None, "x"], pa.large_string()).dictionary_encode(), LARGE_STRING),
        (pc.run_end_encode(pa.array([7, 7, None])), INT64),
    ],
)
def test_arrow_is_converted(array: pa.Array, form: int) -> None:
    assert code(array) == form
    assert values(array) == array.to_pylist()  # 1.50 as a Decimal equals 1.5
    assert values(array.slice(1)) == array.slice(1).to_pylist()
    assert values(pa.chunked_array([array, array])) == array.to_pylist() * 2


def test_dictionaries_that_differ_from_chunk_to_chunk() -> None:
    chunks = [pa.array([each]).dictionary_encode() for each in ("x", "y")]
    assert values(pa.chunked_array(chunks)) == ["x", "y"]


def test_strings_beyond_int32_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    chunked = pa.chunked_array([["x", None], ["yz"]])
    assert code(chunked) == STRING
    monkeypatch.setattr(module, "LARGEST_STRING_BYTES", 10)
    assert (code(chunked), values(chunked)) == (LARGE_STRING, ["x", None, "yz"])


# --- lists, pandas, others -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "listed",
    [
        [],
        [None],
        [1, None, INT64_MIN],
        [1.5, None, math.nan],
        [True, None, False],
        ["x", None, ""],
    ],
)
def test_lists(listed: list[object]) -> None:
    assert same(values(listed), listed)
    assert same(values(tuple(listed)), listed)


def test_other_lists() -> None:
    assert same(values([1, 2.5]), [1.0, 2.5])
    assert values([np.float64(1.5), None]) == [1.5, None]
    assert values(range(3)) == [0, 1, 2]
    assert values([Decimal("1.5"), None]) == [1.5, None]


@pytest.mark.parametrize(
    ("series", "expected"),
    [
        (pd.Series([1.5, math.nan]), [1.5, math.nan]),
        (pd.Series([1, 2], dtype="int32"), [1, 2]),
        (pd.Series([True, False]), [True, False]),
        (pd.Series(["x", None, math.nan]), ["x", None, None]),
        (pd.Series([1, None], dtype="Int64"), [1, None]),
        (pd.Series([True, None], dtype="boolean"), [True, None]),
        (pd.Series([1.5, None], dtype="Float64"), [1.5, None]),
        (pd.Series(["x", None], dtype="string"), ["x", None]),
        (pd.Series(["x", None, "x"], dtype="category"), ["x", None, "x"]),
        (pd.Series([1, None], dtype="int64[pyarrow]"), [1, None]),
        (pd.Series([1, 2, 3])[1:], [2, 3]),
        (pd.Index([3, 4]), [3, 4]),
    ],
)
def test_pandas(series: Any, expected: list[object]) -> None:
    assert same(values(series), expected)


class OnlyArrowsInterface:
    """A data frame or series of a library that this project does not know."""

    def __init__(self, thing: Any) -> None:
        self._thing = thing

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._thing.__arrow_c_stream__(requested_schema)


def test_whatever_speaks_arrow() -> None:
    assert values(OnlyArrowsInterface(pa.chunked_array([["x"], ["y"]]))) == ["x", "y"]
    table = pa.table({"a": [1, 2], "b": ["x", None]})
    expected = {"a": [1, 2], "b": ["x", None]}
    assert read(columns_of(OnlyArrowsInterface(table))) == expected


def test_tables() -> None:
    expected = {"a": [1, 2, 3], "b": ["x", None, "z"]}
    table = pa.table(expected)
    for given_columns in (
        table,
        table.to_batches()[0],
        table.to_pandas(),
        dict(zip(table.column_names, table.columns, strict=True)),
    ):
        assert read(columns_of(given_columns)) == expected
    assert read(columns_of(table.slice(1, 1))) == {"a": [2], "b": [None]}


def test_no_columns_and_no_rows() -> None:
    assert columns_of({})[2:4] == (0, 0)
    assert columns_of({}).table.shape == (0, TABLE_WIDTH)
    rows_only = pa.table({"a": [1, 2, 3]}).select([])
    assert columns_of(rows_only)[2:4] == (3, 3)
    assert read(columns_of({"a": np.empty(0), "b": [], "c": pa.array([], pa.string())})) == {
        "a": [],
        "b": [],
        "c": [],
    }


def test_what_is_kept_owns_the_memory() -> None:
    """Converted columns have no other owner."""
    found = columns_of({"a": [1.5, 2.5], "b": np.array([1, 2], np.int8), "c": ["x", "y"]})
    filler = [np.ones(2) for _ in range(1000)]
    assert len(found.keep) == 3
    assert read(found) == {"a": [1.5, 2.5], "b": [1, 2], "c": ["x", "y"]}
    del filler


# --- topics --------------------------------------------------------------------------------------


def by_event(columns: Columns) -> list[list[tuple[object, ...]]]:
    """Return the rows of each event."""
    found = read(columns)
    events: list[list[tuple[object, ...]]] = [[] for _ in range(columns.events)]
    assert columns.event_of_row is not None
    assert columns.event_of_row.dtype == np.int64
    for event, *row in zip(columns.event_of_row.tolist(), *found.values(), strict=True):
        events[event].append(tuple(row))
    return events


TOPICS = [["a", "b"], None, ["c"], [], ["d", None], [None]]
EXPLODED = [["a", "b"], [None], ["c"], [None], ["d"], [None]]


@pytest.mark.parametrize(
    "topics",
    [
        TOPICS,
        pa.array(TOPICS, pa.list_(pa.string())),
        pa.array(TOPICS, pa.large_list(pa.large_string())),
        pa.array([["z"], *TOPICS, ["z"]]).slice(1, 6),
        pa.chunked_array([TOPICS[:2], TOPICS[2:]]),
        pd.Series(TOPICS),
        np.array([*TOPICS, 0], object)[:-1],
    ],
)
def test_several_topics(topics: Any) -> None:
    columns = columns_of(
        {"n": np.arange(6), "topic": topics, "s": list("uvwxyz"), "b": np.arange(6) > 2}
    )
    assert columns.names == ["n", "s", "b", "topic"]
    assert by_event(columns) == [
        [(i, "uvwxyz"[i], i > 2, topic) for topic in topics] for i, topics in enumerate(EXPLODED)
    ]
    assert np.all(np.diff(columns.event_of_row) >= 0)


@given(st.lists(st.none() | st.lists(st.sampled_from("abc") | st.none(), max_size=3)))
def test_topics_of_events(topics: list[list[str | None] | None]) -> None:
    columns = columns_of(
        {"topic": pa.array(topics, pa.list_(pa.string())), "n": list(range(len(topics)))}
    )
    expected = [[each for each in listed or [] if each] or [None] for listed in topics]
    assert by_event(columns) == [
        [(number, topic) for topic in listed] for number, listed in enumerate(expected)
    ]


def test_one_topic_each_is_a_column_like_others() -> None:
    columns = columns_of({"topic": ["a", None]})
    assert columns.event_of_row is None
    assert read(columns) == {"topic": ["a", None]}


# --- errors --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "sentence"),
    [
        ([1, "x"], "column 'a' cannot be read: .*'x' with type str.*"),
        ([True, 1], "column 'a' cannot be read: .* type int"),
        ([2**63], "column 'a' cannot be read: .*too large"),
        ([2**53 + 1, 0.5], "column 'a' cannot be read: .*9007199254740993"),
        (["\ud800"], "column 'a' cannot be read: .*surrogates"),
        (np.array(["x", 1.5], object), "column 'a' cannot be read"),
        ([b"x"], "column 'a' is of type binary.*decode bytes to str"),
        (np.array([b"x"]), r"column 'a' is of type numpy \|S1.*decode bytes"),
        ([datetime.datetime(2026, 1, 1)], "type timestamp.*cast times to int64"),
        ([datetime.date(2026, 1, 1)], "type date32.*cast times to int64"),
        (np.array(["2026-01-01"], "M8[s]"), "type numpy datetime64.*cast times to int64"),
        (pd.Series(pd.to_datetime(["2026-01-01"])), "cast times to int64"),
        ([{"x": 1}], "type struct"),
        (np.array([1j]), "type numpy complex128"),
        ([["x"]], "type list.*only 'topic' may be a column of lists"),
        (np.zeros((2, 2)), "has 2 dimensions"),
        (np.array(5), "has 0 dimensions"),
        ("xyz", "column 'a' is of type str; a column is a numpy array"),
        (5, "column 'a' is of type int; a column is a numpy array"),
        (np.array([0, 2**63, 2**64 - 1], np.uint64), "'a', row 1: 9223372036854775808 does not"),
        (pa.array([None, 1, 2**63], pa.uint64()), "'a', row 2: 9223372036854775808 does not fit"),
    ],
)
def test_what_is_no_column(column: Any, sentence: str) -> None:
    with pytest.raises(LocalError, match=sentence):
        columns_of({"a": column})


def test_what_are_no_columns() -> None:
    with pytest.raises(LocalError, match="cannot be taken from a list; give a mapping"):
        columns_of([1, 2])
    with pytest.raises(LocalError, match="the column name 0 is not a string"):
        columns_of({0: [1]})
    with pytest.raises(LocalError, match="the column name 0 is not a string"):
        columns_of(pd.DataFrame([[1]]))
    for table in (
        pa.table([[1], [2]], names=["x", "x"]),
        pd.DataFrame([[1, 2]], columns=["x", "x"]),
    ):
        with pytest.raises(LocalError, match="two columns are named 'x'"):
            columns_of(table)
    with pytest.raises(LocalError, match="type list<item: int64>"):
        columns_of({"topic": [[1]]})


@pytest.mark.parametrize("other", [{}, {"topic": [["x"], ["y"]]}])
def test_lengths_that_differ(other: dict[str, Any]) -> None:
    with pytest.raises(LocalError, match=r"their lengths are: .*'a' 2, 'b' 3"):
        columns_of({**other, "a": np.arange(2), "b": [1, 2, 3]})


def test_numpy_needs_no_arrow() -> None:
    program = (
        "import sys, numpy as np; from reefcast.matching.columns import columns_of\n"
        "columns_of({'a': np.arange(3.0), 'b': np.arange(3), 'c': np.arange(6)[::2] > 1})\n"
        "assert 'pyarrow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)

"""Batches of events, published by columns, against the same events one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

import msgspec
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.client.batches import Published, _Stamped, _together, encode_batch
from reefcast.client.blocks import Special, special_of
from reefcast.client.encoding import encode_event, merge_attributes
from reefcast.client.rows import blocks_of
from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.publication import INT64_MAX, INT64_MIN

PUBLISHER, FIRST, TIME_US = "client-7f", 2**32 - 2, 1_767_225_600_000_000
NOTHING = Special()


class Side(Enum):
    BUY = "buy"


class Level(msgspec.Struct):
    price: float
    size: int | None = None


@dataclasses.dataclass
class Order:
    side: Side
    level: Level


def one_by_one(
    rows: Sequence[object], topics: str = "", payload: str = "", of_all: Sequence[str] = ()
) -> list[bytes]:
    """Return what a loop of `publish` sends: the twin."""
    frames = []
    for i, row in enumerate(rows):
        attributes = dict(merge_attributes(row, {}))
        cell = attributes.pop(topics, None) if topics else None
        raw = attributes.pop(payload, None) if payload else None
        names: Any = of_all if cell is None else (cell,) if isinstance(cell, str) else cell
        identity = (PUBLISHER, FIRST + i)
        try:
            frames.append(encode_event(identity, TIME_US, attributes, names, raw or b""))
        except InvalidValueError as error:
            raise InvalidValueError(f"row {i}: {error}; nothing was published") from None
    return frames


def together(events: object, special: Special = NOTHING) -> list[bytes]:
    return encode_batch(PUBLISHER, FIRST, TIME_US, events, special)


def outcome(frames: Any) -> list[bytes] | str:
    try:
        return list(frames())
    except InvalidValueError as error:
        return str(error)


integers = st.sampled_from(
    [n + d for e in (0, 5, 7, 8, 15, 16, 31, 32, 63, 64) for n in (2**e, -(2**e)) for d in (-1, 0)]
)
plain = st.one_of(
    st.none(),
    st.booleans(),
    integers,
    st.floats(),
    st.text(max_size=40),
)
odd = st.one_of(
    plain,
    st.sampled_from(
        [
            datetime(2026, 1, 1, tzinfo=UTC),
            datetime(2026, 1, 1),
            timedelta(seconds=1),
            date(2026, 1, 1),
            time(12),
            Decimal("9.95"),
            Decimal(1) / 3,
            UUID(int=5),
            Side.BUY,
            np.float32(0.5),
            np.int8(-3),
            msgspec.UNSET,
            Level(1.5),
            {"price": 3, "deep": {"er": "x"}},
            {},
            b"bytes",
            [1, 2],
            "\ud800",
        ]
    ),
)
names = st.sampled_from(["a", "b", "c", "a.price", "", "lang" * 20])


@st.composite
def batches(draw: st.DrawFn) -> list[dict[Any, Any]]:
    """Draw a batch of one shape, or of several."""
    values = draw(st.sampled_from([plain, odd]))
    rows = st.dictionaries(names, values, max_size=4)
    if draw(st.booleans()):
        shape = draw(st.lists(names, unique=True, max_size=4))
        rows = st.fixed_dictionaries(dict.fromkeys(shape, values))
    return draw(st.lists(rows, max_size=8))


topics_cells = st.sampled_from([None, "t", "a/b", ["t", "u"], ("x",), [], "", ["a", ""], 5])
payload_cells = st.sampled_from([None, b"", b"p", bytearray(b"q"), b"long" * 100, "text"])


@settings(max_examples=400, deadline=None)
@given(batches())
def test_a_batch_is_a_loop(rows: list[dict[Any, Any]]) -> None:
    assert outcome(lambda: together(rows)) == outcome(lambda: one_by_one(rows))


@settings(deadline=None)
@given(
    st.lists(
        st.fixed_dictionaries({"x": plain}, optional={"t": topics_cells, "p": payload_cells}),
        max_size=6,
    )
)
def test_topics_and_payloads_of_columns(rows: list[dict[str, Any]]) -> None:
    wanted = outcome(lambda: together(rows, special_of((), "t", "p")))
    if any(row.get("t") == 5 for row in rows):
        assert "row " in wanted
    else:
        assert wanted == outcome(lambda: one_by_one(rows, "t", "p"))


def test_topics_of_all() -> None:
    rows = [{"x": 1}, {"x": 2}]
    found = together(rows, special_of(["a", "b"], "", ""))
    assert found == one_by_one(rows, of_all=["a", "b"])
    with pytest.raises(InvalidValueError, match="give either topics"):
        special_of(["a"], "t", "")
    with pytest.raises(InvalidValueError, match="both topics and payload"):
        special_of([], "t", "t")
    with pytest.raises(InvalidValueError, match=r"pass a list: topics=\['a'\]"):
        special_of("a", "", "")


def test_events_of_several_forms() -> None:
    row = pd.DataFrame({"a": [1], "b": ["x"]}).iloc[0]
    rows = [Order(Side.BUY, Level(1.0, 2)), Level(2.0), {"x": 1}, row]
    assert together(rows) == one_by_one(rows) == together(iter(rows))
    assert together([]) == together(pa.table({"x": pa.array([], pa.int64())})) == []
    many = [{"x": i, "note": "odd" if i % 3 else None} for i in range(10_000)]
    assert together(many) == one_by_one(many)
    mixed = [{"x": i} if i % 2 else {"y": i, "x": 1.5} for i in range(9_000)]
    assert together(mixed) == one_by_one(mixed)


@pytest.mark.parametrize("given", [{"a": 1}, "text", b"bytes", 5, None])
def test_what_is_no_list_of_events_is_refused(given: object) -> None:
    with pytest.raises(InvalidValueError, match="publish_many takes a list of events"):
        together(given)


def test_the_first_wrong_row_is_named() -> None:
    rows: list[Mapping[str, object]] = [{"x": i} for i in range(5_000)]
    rows[4_321] = {"x": 2**63}
    with pytest.raises(InvalidValueError, match=r"^row 4321: attribute 'x': 9223372036854775808"):
        together(rows)
    with pytest.raises(InvalidValueError, match=r"^row 1: publish takes attributes by name"):
        together([{"x": 1}, 5])


def test_an_event_that_is_too_large_is_found() -> None:
    large = "x" * wire.MAX_FRAME_BYTES
    with pytest.raises(InvalidValueError, match=r"^row 1: the publication has"):
        together([{"x": "small"}, {"x": large}])
    with pytest.raises(InvalidValueError, match=r"^row 0: the payload has"):
        together([{"p": large.encode()}], special_of((), "", "p"))


PLAIN_ROWS = [{"s": "IBM", "p": 1.5, "n": i, "b": i % 2 == 0, "o": None} for i in range(50)]


@pytest.mark.parametrize(
    "events", [PLAIN_ROWS, pa.Table.from_pylist(PLAIN_ROWS), pd.DataFrame(PLAIN_ROWS)]
)
def test_plain_events_are_encoded_together(events: object) -> None:
    (block,) = blocks_of(events, special_of(["t"], "", ""))
    frames = _together(_Stamped(PUBLISHER, FIRST, TIME_US, block))
    assert frames == one_by_one(PLAIN_ROWS, of_all=["t"])


def test_ids() -> None:
    assert Published("p", 5, 2).ids == [("p", 5), ("p", 6)]


# --- tables ---------------------------------------------------------------------------------------

WHEN = datetime(2026, 1, 31, 12, 30, 15, 123456, UTC)
ARRAYS = {
    "bool": pa.array([True, None, False]),
    "int8": pa.array([-128, 127, None], pa.int8()),
    "int64": pa.array([INT64_MIN, INT64_MAX, None]),
    "uint64": pa.array([0, 2**63 - 1, None], pa.uint64()),
    "float": pa.array([0.1, float("nan"), None], pa.float32()),
    "double": pa.array([0.1, float("nan"), float("-inf")]),
    "string": pa.array(["", "ü", None]),
    "large": pa.array(["a" * 300, "b", None], pa.large_string()),
    "view": pa.array(["a", "b" * 40, None], pa.string_view()),
    "words": pa.array(["x", "y", "x"]).dictionary_encode(),
    "runs": pa.array([1, 1, None]),
    "null": pa.nulls(3),
    "placed": pa.array([WHEN, None, WHEN], pa.timestamp("ns", "Europe/Berlin")),
    "seconds": pa.array([5, None, -5], pa.timestamp("s", "UTC")),
    "took": pa.array([timedelta(microseconds=5), None, timedelta(-1)], pa.duration("ns")),
    "day": pa.array([date(2026, 1, 1), None, date(1960, 2, 29)]),
    "time": pa.array([time(1, 2, 3), None, time(4)], pa.time64("ns")),
    "price": pa.array([Decimal("9.95"), None, Decimal("-0.05")]),
    "order": pa.array([{"price": 1.5, "by": {"name": "Ana"}}, None, {"price": None, "by": None}]),
    "tags": pa.array([[("a", 1)], None, [("b", 2), ("c", None)]], pa.map_("string", "int64")),
    "no times": pa.nulls(3, pa.timestamp("us")),
}


def as_python(table: pa.Table) -> list[dict[str, Any]]:
    """Return rows for the twin; values in units that Python lacks are converted."""
    columns = {name: table.column(name) for name in table.column_names}
    for name, column in columns.items():
        if pa.types.is_timestamp(column.type) and column.type.tz:
            columns[name] = column.cast(pa.timestamp("us", "UTC"))
        elif pa.types.is_duration(column.type):
            columns[name] = column.cast(pa.duration("us"))
        elif pa.types.is_time64(column.type):
            columns[name] = column.cast(pa.time64("us"))
    return [
        dict(zip(columns, row, strict=True))
        for row in zip(
            *[each.to_pylist(maps_as_pydicts="strict") for each in columns.values()], strict=True
        )
    ]


@pytest.mark.parametrize("name", ARRAYS)
def test_each_type_of_arrow_travels_by_the_rule(name: str) -> None:
    table = pa.table({"x": ARRAYS[name]})
    assert together(table) == one_by_one(as_python(table))


@pytest.mark.long
def test_a_table_is_a_loop_over_its_rows() -> None:
    table = pa.table(ARRAYS)
    chunked = pa.concat_tables([table, table.slice(1), table.slice(2, 1)] * 900)
    rows = as_python(chunked)
    assert together(chunked) == one_by_one(rows)
    assert together(table.to_batches()[0]) == one_by_one(as_python(table))
    assert together(Exporting(table)) == together(table)


class Exporting:
    """A table of some other library."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self._table.__arrow_c_stream__(schema)


def test_the_special_columns_of_a_table() -> None:
    cells = {"t": [["a", "b"], None, []], "p": [b"x", None, b""], "x": [1, 2, 3]}
    table = pa.table(cells)
    rows = [dict(zip(cells, row, strict=True)) for row in zip(*cells.values(), strict=True)]
    assert together(table, special_of((), "t", "p")) == one_by_one(rows, "t", "p")
    with pytest.raises(InvalidValueError, match="there is no column 'topics'"):
        together(table, special_of((), "topics", ""))


@pytest.mark.parametrize(
    ("table", "says"),
    [
        (pa.table({"x": pa.array([WHEN], pa.timestamp("us"))}), "without a time zone"),
        (pa.table({"x": pa.array([1], pa.timestamp("ns", "UTC"))}), "has nanoseconds"),
        (pa.table({"x": pa.array([1], pa.duration("ns"))}), "has nanoseconds"),
        (pa.table({"x": pa.array([0, 2**63], pa.uint64())}), "^row 1: attribute 'x'.*64 bits"),
        (pa.table({"x": [None, b"x"]}), "^row 1: attribute 'x'.*bytes go into the payload"),
        (pa.table({"x": [[1]]}), "^row 0: attribute 'x'.*of type list"),
        (pa.table([[1], [2]], ["x", "x"]), "two columns are named 'x'"),
        (pa.table({"a": [{"b": 1}], "a.b": [2]}), "'a.b' occurs twice"),
        (pa.table({"": [1]}), "^row 0: attribute name '' is not a non-empty string"),
        (pa.table({"x": [Decimal("0.12345678901234567")]}), "^row 0: .* decimals travel as"),
    ],
)
def test_what_a_table_cannot_hold_is_refused(table: pa.Table, says: str) -> None:
    with pytest.raises(InvalidValueError, match=says):
        together(table)


# --- data frames ----------------------------------------------------------------------------------


@pytest.mark.long
def test_a_data_frame_is_a_loop_over_its_rows() -> None:
    berlin = timezone(timedelta(hours=1))
    frame = pd.DataFrame(
        {
            "int": [1, 2, 3],
            "small": np.array([1, 2, 3], np.int16),
            "float": [0.5, float("nan"), 1.5],
            "bool": [True, False, True],
            "object": ["a", None, "b"],
            "mixed": [1, "x", float("nan")],
            "nested": [{"a": 1}, None, {"b": {"c": 2}}],
            "when": pd.to_datetime([WHEN, None, WHEN.astimezone(berlin)], utc=True),
            "took": pd.to_timedelta(["5us", None, "-1s"]),
            "nullable": pd.array([1, None, 3], "Int64"),
            "text": pd.array(["a", None, "c"], "string"),
            "words": pd.Categorical(["x", "y", None]),
        }
    )
    rows = frame.astype(object).to_dict("records")
    for row in rows:
        for name, value in row.items():
            if name != "float" and not isinstance(value, dict) and pd.isna(value):
                row[name] = None
    big = pd.concat([frame] * 2000, ignore_index=True)
    assert together(frame) == one_by_one(rows)
    assert together(big) == one_by_one(rows * 2000)


@pytest.mark.parametrize(
    ("frame", "says"),
    [
        (pd.DataFrame({0: [1]}), "^row 0: attribute name 0 is not a non-empty string"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a'"),
        (pd.DataFrame({"a": [datetime(2026, 1, 1)]}), "without a time zone.*tz_localize"),
        (pd.DataFrame({"a": [1j]}), "^row 0: attribute 'a'"),
    ],
)
def test_what_a_data_frame_cannot_hold_is_refused(frame: pd.DataFrame, says: str) -> None:
    with pytest.raises(InvalidValueError, match=says):
        together(frame)

"""Bodies as Arrow's batches, against the same row by row; without Spark and brokers."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from row_by_row import row_of

from reefcast.client import Event
from reefcast.errors import ProtocolError
from reefcast.model import wire
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication
from reefcast.pipeline.connector.columns import ATTRIBUTES, FIXED
from reefcast.pipeline.connector.record_batches import Columns

NAMES = ("a", "b", "c.d", "c.e", "è", "long name of an attribute", "")
texts = st.text(st.characters(codec="utf-8"), max_size=12)
values = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(-3, 3),
    st.sampled_from((2.0**63, -(2.0**63), 2.0**31, 7.0, -0.0, 1e15, 1e16, 1e-7)),
    st.floats(),
    st.booleans(),
    texts,
)
publications = st.builds(
    Publication,
    texts,
    st.integers(INT64_MIN, INT64_MAX),
    st.integers(-(10**16), 10**16),
    st.dictionaries(st.sampled_from(NAMES), values),
    st.lists(texts, max_size=3).map(tuple),
    st.binary(max_size=300),
)
plain = st.sampled_from((LongType(), IntegerType(), DoubleType(), StringType(), BooleanType()))
nested = st.builds(
    lambda one, other: StructType([StructField("d", one), StructField("e", other)]), plain, plain
)
schemas = st.builds(
    lambda kinds, c, rest: StructType(
        [
            *(StructField(name, kind) for name, kind in FIXED.items()),
            StructField(ATTRIBUTES, StringType()),
            *(StructField(name, kind) for name, kind in kinds.items()),
            StructField("c", c),
            *([StructField("rest", MapType(StringType(), StringType()))] if rest else []),
        ]
    ),
    st.dictionaries(st.sampled_from(("a", "b", "è", "none")), plain),
    nested,
    st.booleans(),
)


def as_compared(row: dict[str, Any]) -> str:
    """Return a row as a text: NaN equals NaN, and a float has one form."""
    row = dict(row)
    if isinstance(row.get("timestamp"), datetime):
        since = row["timestamp"] - datetime(1970, 1, 1, tzinfo=UTC)
        row["timestamp"] = (since.days * 86400 + since.seconds) * 10**6 + since.microseconds
    row[ATTRIBUTES] = json.loads(row[ATTRIBUTES])
    if "rest" in row:
        row["rest"] = [(name, _number(text)) for name, text in row["rest"]]
    return repr(row)


def _number(text: str) -> Any:
    try:
        return repr(float(text)) if any(sign in text for sign in ".e") else text
    except ValueError:
        return text


def read(schema: StructType, bodies: list[bytes]) -> list[dict[str, Any]]:
    return [row for batch in Columns(schema).batches([bodies]) for row in batch.to_pylist()]


@given(schemas, st.lists(publications, max_size=8))
def test_batches_are_what_reading_row_by_row_gives(
    schema: StructType, some: list[Publication]
) -> None:
    bodies = [wire.encode_publication(each) for each in some]
    expected = [row_of(Event(body), schema) for body in bodies]
    for batch in Columns(schema).batches([bodies]):
        batch.validate(full=True)
    found = read(schema, bodies)
    assert [*map(as_compared, found)] == [*map(as_compared, expected)]


formed = st.one_of(
    st.sampled_from(
        ("2026-01-31T12:00:00Z", "2026-01-31", "2026-13-01", "soon", "", "7.25", "1e3", "99999.5")
    ),
    st.sampled_from(
        (
            7,
            -3,
            2**53,
            10**7,
            -(10**6),
            2**62,
            -(2**58),
            7.25,
            7.0,
            1e300,
            1e-40,
            math.nan,
            math.inf,
            True,
        )
    ),
)


@given(
    st.sampled_from((TimestampType(), DateType(), DecimalType(6, 2))),
    st.lists(st.dictionaries(st.sampled_from(("x", "s.x", "y")), formed), max_size=6),
)
@example(DateType(), [{"x": 10**7}])  # a day of the year 29349
@example(TimestampType(), [{"x": 2**62}])
def test_what_a_column_of_times_or_decimals_does_not_show_is_left_over(
    kind: DataType, some: list[dict[str, Any]]
) -> None:
    """Each attribute is in its column or in the leftovers, never in both or in neither; the columns
    are what they are without leftovers."""
    columns = [StructField("x", kind), StructField("s", StructType([StructField("x", kind)]))]
    rest = StructField("rest", MapType(StringType(), StringType()))
    bodies = [wire.encode_publication(Publication("p", 1, 2, each)) for each in some]
    for batch in Columns(StructType([rest, *columns])).batches([bodies]):
        batch.validate(full=True)
    found = read(StructType([rest, *columns]), bodies)
    plain = read(StructType(columns), bodies)
    for attributes, row, other in zip(some, found, plain, strict=True):
        left = dict(row.pop("rest"))
        assert row == other
        shown = {"x": row["x"], "s.x": (row["s"] or {}).get("x")}
        for name, value in attributes.items():
            assert (name in left) == (shown.get(name) is None)
            if name in left:
                assert left[name] == value or _number(left[name]) in (
                    repr(value),
                    json.dumps(value),
                )
        assert set(left) <= set(attributes)


def test_a_text_that_is_no_time_is_left_over() -> None:
    schema = StructType(
        [
            StructField("at", TimestampType()),
            StructField("rest", MapType(StringType(), StringType())),
            StructField("price", DecimalType(4, 1)),
        ]
    )
    made = [
        {"at": "2026-01-31T12:00:00Z", "price": 1.5, "b": 1},
        {"at": "soon", "price": 123456, "b": 2},
        {"at": 5.5, "price": "much"},
        {},
    ]
    bodies = [wire.encode_publication(Publication("p", 1, 2, each)) for each in made]
    rows = read(schema, bodies)
    assert [dict(row["rest"]) for row in rows] == [
        {"b": "1"},
        {"at": "soon", "price": "123456", "b": "2"},
        {"at": "5.5", "price": "much"},
        {},
    ]
    assert [row["at"] is not None for row in rows] == [True, False, False, False]


# --- what other programs may have written ---------------------------------------------------------


def body(attributes: bytes, count: int) -> bytes:
    """Return a body whose map of attributes, `count` of them, is encoded already."""
    head = b"\x94\xa1p\x01" + msgspec.msgpack.encode(10**15)
    return head + bytes((0x80 | count,)) + attributes


def one(kind: DataType, attributes: bytes, count: int = 1) -> Any:
    """Return what a column `x` shows between two events of ours."""
    ours = wire.encode_publication(Publication("p", 1, 2, {"x": 5}))
    rows = read(StructType([StructField("x", kind)]), [ours, body(attributes, count), ours])
    return rows[1]["x"]


@pytest.mark.parametrize(
    ("kind", "attributes", "count", "shown"),
    [
        (DoubleType(), b"\xa1x\xca\x3f\x80\x00\x00", 1, 1.0),
        (LongType(), b"\xa1x\xcf\x00\x00\x00\x00\x00\x00\x00\x07", 1, 7),
        (LongType(), b"\xa1x\x03\xa1x\x04", 2, 4),
        (LongType(), b"\xa1x\x03\xa1x\xa1y", 2, None),
        (StringType(), b"\xa1x\xa2no\xa1x\xa1y", 2, "y"),
        (StringType(), b"\xa1x\xa2no\xa1x\x01", 2, None),
        (MapType(StringType(), StringType()), b"\xa1y\x03\xa1y\x04", 2, [("y", "4")]),
    ],
)
def test_events_that_our_clients_would_write_otherwise(
    kind: DataType, attributes: bytes, count: int, shown: Any
) -> None:
    assert one(kind, attributes, count) == shown


@pytest.mark.parametrize("rest", [b"\xa1x\xc4\x01a", b"\xa1x\xa1\xff", b"\xa1x", b"\xa1x\x01\x01"])
def test_what_is_no_event_is_an_error(rest: bytes) -> None:
    with pytest.raises(ProtocolError, match="malformed publication"):
        one(LongType(), rest)


def test_no_events_are_no_batches() -> None:
    assert read(StructType([StructField("x", LongType())]), []) == []


def test_many_rows_come_in_several_batches_and_some_are_left_out() -> None:
    bodies = [
        wire.encode_publication(Publication("p", n, n, {"n": n + (n % 2) / 2}))
        for n in range(20_000)
    ]
    columns = Columns(StructType([StructField("n", LongType())]), present=("n",))
    batches = list(columns.batches([bodies[:10], bodies[10:]]))
    assert [len(batch) for batch in batches] == [5, 4096, 4096, 1803]
    found = [n for batch in batches for n in batch.column(0).to_pylist()]
    assert found == list(range(0, 20_000, 2))


# --- times, dates and decimals --------------------------------------------------------------------


def shown(kind: DataType, *attributes: Any) -> list[Any]:
    bodies = [wire.encode_publication(Publication("p", 1, 2, {"x": each})) for each in attributes]
    return [row["x"] for row in read(StructType([StructField("x", kind)]), bodies)]


def test_times_are_microseconds_or_texts() -> None:
    noon = datetime(2026, 1, 31, 12, tzinfo=UTC)
    given = (1769860800000000, 1769860800000000.0, "2026-01-31T12:00:00Z", "2026-01-31T13:00+01:00")
    assert shown(TimestampType(), *given) == [noon] * 4
    assert shown(TimestampType(), "noon", "2026-01-31T12:00:00", 0.5, True, "") == [None] * 5


def test_dates_are_texts_or_days() -> None:
    assert shown(DateType(), "2026-01-31", 20484, "1969-12-31") == [
        date(2026, 1, 31),
        date(2026, 1, 31),
        date(1969, 12, 31),
    ]
    assert shown(DateType(), "2026-02-30", "31.1.2026", 1.5, False) == [None] * 4


def test_decimals_are_numbers_or_texts() -> None:
    found = shown(DecimalType(9, 2), 1.005, -1.005, 7, "12.5", 0.1 + 0.2, 1e-300, "1e3")
    assert found == [*map(Decimal, ("1.01", "-1.01", "7", "12.5", "0.3", "0", "1000"))]
    assert shown(DecimalType(9, 2), 1e8, "x", math.nan, math.inf, 1e300, True) == [None] * 6
    exact = "0.1234567890123456789"
    assert shown(DecimalType(38, 19), exact, INT64_MAX) == [Decimal(exact), Decimal(INT64_MAX)]

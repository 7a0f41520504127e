"""Events as Arrow tables, against the events themselves."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, cast

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.client.event import Event
from reefcast.client.tables import table_of
from reefcast.errors import InvalidValueError, ProtocolError
from reefcast.model.publication import INT64_MAX, INT64_MIN, Publication, Value
from reefcast.model.wire import encode_publication

values = st.one_of(
    st.booleans(), st.integers(INT64_MIN, INT64_MAX), st.floats(), st.text(max_size=5)
)
kinds = st.sampled_from(
    [st.booleans(), st.integers(INT64_MIN, INT64_MAX), st.floats(), st.text(max_size=5), values]
)


@st.composite
def events(draw: st.DrawFn) -> list[Event]:
    """Draw events: some attributes have values of one kind, some of several, some are missing now
    and then."""
    columns = {name: draw(kinds) for name in draw(st.sets(st.sampled_from("abcd")))}
    always = draw(st.sets(st.sampled_from(sorted(columns)))) if columns else set()
    some = st.fixed_dictionaries(
        {name: columns[name] for name in always},
        optional={name: kind for name, kind in columns.items() if name not in always},
    )
    return [
        Event(encode_publication(Publication(*each)))
        for each in draw(
            st.lists(
                st.tuples(
                    st.sampled_from(["p", "q"]),
                    st.integers(INT64_MIN, INT64_MAX),
                    st.integers(0, 2**40),
                    some,
                    st.sampled_from([(), ("t",), ("t", "u")]),
                    st.sampled_from([b"", b"raw"]),
                ),
                max_size=6,
            )
        )
    ]


BESIDE: Any = {
    "publisher_column": "publisher",
    "seq_column": "seq",
    "time_column": "time",
    "topics_column": "topics",
    "payload_column": "payload",
}


def as_promoted(value: Value | None, kinds: set[type]) -> Value | None:
    """Return a value as the documentation promotes it among the other values of its column."""
    if value is None or len(kinds) == 1:
        return value
    if kinds == {int, float}:
        return float(value)
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return value if isinstance(value, str) else repr(value)


def same(one: object, other: object) -> bool:
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and one == other


@settings(deadline=None, max_examples=300)
@given(events())
def test_a_table_says_what_its_events_say(events: list[Event]) -> None:
    table = table_of([event.body for event in events], BESIDE)
    names = dict.fromkeys(name for event in events for name in event)
    assert table.column_names == [*BESIDE.values(), *names]
    assert table.num_rows == len(events)
    found = {name: {type(event[name]) for event in events if name in event} for name in names}
    for event, row in zip(events, table.to_pylist(), strict=True):
        for name in names:
            assert same(row[name], as_promoted(event.get(name), found[name]))
        assert (row["publisher"], row["seq"], row["time"]) == (*event.id, event.time)
        assert (tuple(row["topics"]), row["payload"]) == (event.topics, event.payload)


def bodies_of(*rows: dict[str, Value]) -> list[bytes]:
    return [encode_publication(Publication("p", i, 0, row)) for i, row in enumerate(rows)]


def test_types() -> None:
    rows = [{"i": 1, "f": 1.5, "b": True, "s": "x", "n": 2**60}, {"i": 2, "n": 0.5, "m": "1"}]
    table = table_of(bodies_of(*rows, {"m": 1.5}, {"m": True}), {})
    assert {field.name: str(field.type) for field in table.schema} == {
        "i": "int64",
        "f": "double",
        "b": "bool",
        "s": "string",
        "n": "double",
        "m": "string",
    }
    assert table["m"].to_pylist() == [None, "1", "1.5", "TRUE"]
    assert table["n"].to_pylist() == [float(2**60), 0.5, None, None]
    assert table_of([], BESIDE).num_rows == 0


def test_only_what_is_wanted_in_the_types_that_are_wanted() -> None:
    schema = pa.schema(
        {
            "placed": pa.timestamp("us", "UTC"),
            "day": pa.date32(),
            "price": pa.decimal128(9, 2),
            "count": pa.float32(),
            "note": pa.string(),
        }
    )
    rows: list[dict[str, Value]] = [
        {"placed": 1_767_225_600_000_000, "day": "2026-01-31", "price": 9.95, "other": 1},
        {"count": 3},
    ]
    table = table_of(bodies_of(*rows), {"seq_column": "n"}, schema)
    assert table.schema == pa.schema([("n", pa.int64()), *schema])
    assert table.to_pylist() == [
        {
            "n": 0,
            "placed": datetime(2026, 1, 1, tzinfo=UTC),
            "day": date(2026, 1, 31),
            "price": Decimal("9.95"),
            "count": None,
            "note": None,
        },
        {"n": 1, "placed": None, "day": None, "price": None, "count": 3.0, "note": None},
    ]
    with pytest.raises(
        InvalidValueError, match="'price' came as string and cannot be read as int64"
    ):
        table_of(bodies_of({"price": "x"}), {}, pa.schema({"price": pa.int64()}))


def test_names_that_would_be_there_twice_are_refused() -> None:
    with pytest.raises(InvalidValueError, match="two columns 'seq'"):
        table_of(bodies_of({"seq": 1}), {"seq_column": "seq"})
    with pytest.raises(InvalidValueError, match="no option 'seq'"):
        table_of(bodies_of({"seq": 1}), cast(Any, {"seq": "seq"}))


def test_what_is_no_event() -> None:
    with pytest.raises(ProtocolError, match="malformed publications"):
        table_of([*bodies_of({"x": 1}), b"\xc1"], {})

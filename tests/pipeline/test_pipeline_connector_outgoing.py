"""Arrow's batches as frames, against encoding each row; without Spark and brokers."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.client.encoding import encode_event
from reefcast.errors import InvalidValueError
from reefcast.model import wire
from reefcast.model.publication import INT64_MAX, INT64_MIN, MAX_PAYLOAD_BYTES, Publication
from reefcast.pipeline.connector.options import Forms
from reefcast.pipeline.connector.publishing import Part, frames
from reefcast.protocol.client_ids import Identity

PART = Part(Identity("p" * 40), 2**33 + 1, 10**15)

texts = st.text(st.characters(codec="utf-8"), max_size=40)
long_texts = st.sampled_from((31, 32, 255, 256, 65_535, 65_536)).map("x".__mul__)
integers = st.one_of(
    st.integers(INT64_MIN, INT64_MAX),
    st.sampled_from(
        [sign * 2**n + d for n in (5, 7, 8, 15, 16, 31, 32) for sign in (1, -1) for d in (-1, 0, 1)]
    ),
)
KINDS: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.int64(): integers,
    pa.int8(): st.integers(-128, 127),
    pa.float64(): st.floats(),
    pa.float32(): st.floats(width=32),
    pa.bool_(): st.booleans(),
    pa.string(): st.one_of(texts, long_texts),
}
topics = st.text("abc/é", min_size=1, max_size=4)


@st.composite
def batches(draw: st.DrawFn) -> pa.RecordBatch:
    rows = draw(st.integers(0, 6))

    def column(values: st.SearchStrategy[Any], kind: pa.DataType) -> pa.Array:
        some = draw(st.lists(st.none() | values, min_size=rows + 2, max_size=rows + 2))
        return pa.array(some, kind).slice(1, rows)

    columns = {
        name: column(KINDS[kind], kind)
        for name, kind in draw(
            st.dictionaries(
                st.sampled_from(("a", "b.c", "é" * 20, *(f"n{i}" for i in range(20)))),
                st.sampled_from(list(KINDS)),
                max_size=20,
            )
        ).items()
    }
    said = draw(st.sampled_from(("", "topic", "topics")))
    if said == "topic":
        columns["topic"] = column(st.just("") | topics, pa.string())
    elif said:
        columns["topics"] = column(st.lists(topics, max_size=20), pa.list_(pa.string()))
    if draw(st.booleans()):
        columns["payload"] = column(st.binary(max_size=300), pa.binary())
    columns["timestamp"] = pa.array(
        draw(st.lists(st.integers(-(10**15), 10**16), min_size=rows, max_size=rows)),
        pa.timestamp("us", "UTC"),
    )
    return pa.record_batch(columns)


def row_by_row(batch: pa.RecordBatch, topic: str) -> list[bytes]:
    """Return the frames as encoding each row gives them."""
    found = []
    for number, row in enumerate(batch.to_pylist()):
        time = row.pop("timestamp") - datetime(1970, 1, 1, tzinfo=UTC)
        time_us = (time.days * 86_400 + time.seconds) * 10**6 + time.microseconds
        several, one = row.pop("topics", None) or [], row.pop("topic", None)
        payload = row.pop("payload", None) or b""
        said = (topic,) if topic else (one,) if one else several
        attributes = {name: value for name, value in row.items() if value is not None}
        identity = (PART.publisher.id, PART.first + number)
        found.append(encode_event(identity, time_us, attributes, said, payload))
    return found


@given(batches(), st.sampled_from(("", "fx")))
def test_frames_are_what_encoding_row_by_row_gives(batch: pa.RecordBatch, topic: str) -> None:
    (found,) = frames([batch], PART, topic)
    assert found == row_by_row(batch, topic)


# --- times, dates, decimals, structs --------------------------------------------------------------


CLIENTS = Forms()


def sent(forms: Forms = CLIENTS, **columns: pa.Array) -> list[dict[str, Any]]:
    (found,) = frames([pa.record_batch(columns)], PART, "fx", forms)
    return [decoded(frame).attributes for frame in found]


def decoded(frame: bytes) -> Publication:
    return wire.CLIENT_CODEC.decode_publish(frame[wire.HEAD_BYTES :]).publication


NOON = datetime(2026, 1, 31, 12, 0, 0, 5, tzinfo=UTC)
FORMED = {
    "at": pa.array([NOON, None], pa.timestamp("us", "Europe/Lisbon")),
    "day": pa.array([date(2026, 1, 31), None]),
    "price": pa.array([Decimal("9.95"), None], pa.decimal128(9, 2)),
}


def test_values_travel_in_the_forms_that_the_options_say() -> None:
    clients = {"at": 1769860800000005, "day": "2026-01-31", "price": 9.95}
    assert sent(**FORMED) == [clients, {}]
    others = {"at": "2026-01-31T12:00:00.000005Z", "day": 20484, "price": "9.95"}
    assert sent(Forms("iso", "days", "text"), **FORMED) == [others, {}]


def test_fields_of_structs_are_attributes_with_dots() -> None:
    inner = pa.struct([("name", pa.string()), ("age", pa.int32())])
    orders = [{"who": {"name": "Ana", "age": None}, "n": 1}, {"who": None, "n": 2}, None]
    column = pa.array(orders, pa.struct([("who", inner), ("n", pa.int64())]))
    words = pa.array(["x", "y", "x"]).dictionary_encode()
    assert sent(order=column, w=words, nothing=pa.nulls(3)) == [
        {"order.who.name": "Ana", "order.n": 1, "w": "x"},
        {"order.n": 2, "w": "y"},
        {"w": "x"},
    ]


@pytest.mark.parametrize(
    ("columns", "sentence"),
    [
        ({"topic": pa.array(["ok", "$reefcast/x"])}, r"topic '\$reefcast/x'"),
        ({"topics": pa.array([["ok", ""]])}, "topic '' is not a non-empty string"),
        ({"topics": pa.array([["ok", None]])}, "topic None is not a non-empty string"),
        (
            {"payload": pa.array([b"", bytes(MAX_PAYLOAD_BYTES + 1)])},
            "the payload has 8388609 bytes",
        ),
        ({"": pa.array([1])}, "attribute name '' is not a non-empty string"),
        ({"x": pa.array(["", "y" * (MAX_PAYLOAD_BYTES * 2)])}, "the publication has .* bytes"),
    ],
)
def test_what_is_no_event_is_refused(columns: dict[str, pa.Array], sentence: str) -> None:
    with pytest.raises(InvalidValueError, match=sentence):
        list(frames([pa.record_batch(columns)], PART, ""))


def test_infinite_numbers_are_numbers() -> None:
    (found,) = sent(x=pa.array([math.inf]))
    assert found == {"x": math.inf}

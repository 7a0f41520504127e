"""The slow twin of `pipeline.connector.record_batches` and `publishing`: row by row, with Python's
own values."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
)

from reefcast.client import Event
from reefcast.model.publication import INT64_MAX, INT64_MIN
from reefcast.pipeline.connector.columns import ATTRIBUTES, TIMESTAMP, is_rest, leaves

INT32 = 2**31
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _long(value: object) -> int | None:
    if type(value) is int:
        return value
    if type(value) is float and value.is_integer() and INT64_MIN <= value <= INT64_MAX:
        number = int(value)
        return number if number <= INT64_MAX else None
    return None


def _integer(value: object) -> int | None:
    number = _long(value)
    return number if number is not None and -INT32 <= number < INT32 else None


def _double(value: object) -> float | None:
    return float(value) if type(value) in (int, float) else None  # type: ignore[arg-type]  # a number


def _string(value: object) -> str | None:
    return value if type(value) is str else None


def _boolean(value: object) -> bool | None:
    return value if type(value) is bool else None


CONVERTERS: dict[type[DataType], Callable[[object], object]] = {
    LongType: _long,
    IntegerType: _integer,
    DoubleType: _double,
    StringType: _string,
    BooleanType: _boolean,
}


def converted(values: Sequence[object], kind: type[DataType]) -> list[object]:
    """Convert values of attributes to those of a column."""
    return list(map(CONVERTERS[kind], values))


def text_of(value: object) -> str:
    """Return a value as a column of leftovers has it; floats as JSON has them."""
    return value if isinstance(value, str) else json.dumps(value)


def row_of(event: Event, schema: StructType) -> dict[str, Any]:
    """Return an event as a row."""
    shown = {
        name
        for field in schema
        if not is_rest(field.dataType)
        for name, kind in leaves(field.name, field.dataType)
        if type(kind) in CONVERTERS and CONVERTERS[type(kind)](event.get(name)) is not None
    }
    row: dict[str, Any] = {}
    for field in schema:
        name, kind = field.name, field.dataType
        if name in _OF_EVENT:
            row[name] = _OF_EVENT[name](event)
        elif is_rest(kind):
            row[name] = [(n, text_of(v)) for n, v in event.attributes.items() if n not in shown]
        else:
            row[name] = _value(event, name, kind)
    return row


def _value(event: Event, name: str, kind: DataType) -> Any:
    if not isinstance(kind, StructType):
        return CONVERTERS[type(kind)](event.get(name))
    parts = {field.name: _value(event, f"{name}.{field.name}", field.dataType) for field in kind}
    return None if all(part is None for part in parts.values()) else parts


_OF_EVENT: dict[str, Callable[[Event], Any]] = {
    TIMESTAMP: lambda event: event.time_us,
    "publisher": lambda event: event.publisher,
    "seq": lambda event: event.seq,
    "topics": lambda event: list(event.topics),
    "payload": lambda event: event.payload,
    ATTRIBUTES: lambda event: json.dumps(event.attributes, ensure_ascii=False),
}

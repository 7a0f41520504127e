"""Columns: the parts of an event in a row, and how values of attributes become values of a column.

A row has the columns of `FIXED`, and one for each attribute that the schema names; a value that an
event lacks, or that has another type than its column, is NULL. Attributes that no schema names are
in `attributes`, as a JSON object.

An int64 column takes whole floats (7.0), too, a double column whatever is a number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from reefcast.client.event import Event
from reefcast.errors import ConfigurationError
from reefcast.model.publication import INT64_MAX, INT64_MIN

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pyarrow as pa

BATCH_ROWS = 8192
TIMESTAMP, ATTRIBUTES = "timestamp", "attributes"
FIXED: dict[str, DataType] = {
    TIMESTAMP: TimestampType(),
    "publisher": StringType(),
    "seq": LongType(),
    "topics": ArrayType(StringType()),
    "payload": BinaryType(),
}
RESERVED = {**FIXED, ATTRIBUTES: StringType()}
"""Names that mean no attribute."""
INT32 = 2**31


def schema_of(text: str) -> str:
    """Return the columns, as DDL: those of `FIXED`, and those of `text` (`symbol STRING, price
    DOUBLE`); without a text, all attributes in one."""
    fixed = (f"{name} {kind.simpleString()}" for name, kind in FIXED.items())
    return ", ".join((*fixed, text or f"{ATTRIBUTES} STRING"))


def check_columns(schema: StructType) -> StructType:
    """Return the schema. Raises `ConfigurationError` for a column that no event could fill."""
    for field in schema:
        wanted, kind = RESERVED.get(field.name), field.dataType
        if wanted is not None and schema.names.count(field.name) > 1:
            raise ConfigurationError(
                f"the schema names {field.name!r}, a column that every event has: an attribute of "
                f"that name is found in the column {ATTRIBUTES!r}, a JSON object"
            )
        if wanted is not None and kind.simpleString() != wanted.simpleString():
            raise ConfigurationError(
                f"column {field.name!r} is {kind.simpleString()}, but it is that of every event, "
                f"{wanted.simpleString()}"
            )
        if wanted is None and type(kind) not in CONVERTERS:
            known = ", ".join(each.typeName() for each in CONVERTERS)
            raise ConfigurationError(
                f"column {field.name!r} is {kind.simpleString()}; an attribute is one of {known}: "
                "read it as one of these and cast it"
            )
    return schema


# --- values ---------------------------------------------------------------------------------------


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


Converter = Callable[[object], object]
CONVERTERS: dict[type[DataType], Converter] = {
    LongType: _long,
    IntegerType: _integer,
    DoubleType: _double,
    StringType: _string,
    BooleanType: _boolean,
}
_AS_THEY_ARE: dict[type[DataType], frozenset[type]] = {
    LongType: frozenset((int, type(None))),
    DoubleType: frozenset((float, type(None))),
    StringType: frozenset((str, type(None))),
    BooleanType: frozenset((bool, type(None))),
}
"""Values that Arrow takes without a look at each."""


def converted(values: Sequence[object], kind: type[DataType]) -> Sequence[object]:
    """Convert values of attributes to those of a column."""
    if _AS_THEY_ARE.get(kind, frozenset()).issuperset(map(type, values)):
        return values
    return list(map(CONVERTERS[kind], values))


def as_json(event: Event) -> str:
    return json.dumps(event.attributes, ensure_ascii=False)


_OF_EVENT: dict[str, Callable[[Event], Any]] = {
    TIMESTAMP: lambda event: event.time_us,
    "publisher": lambda event: event.publisher,
    "seq": lambda event: event.seq,
    "topics": lambda event: list(event.topics),
    "payload": lambda event: event.payload,
    ATTRIBUTES: as_json,
}


class Columns:
    """Makes Arrow's batches out of events. `present`: columns that must not be NULL."""

    def __init__(self, schema: StructType, present: Sequence[str] = ()) -> None:
        from pyspark.sql.pandas.types import to_arrow_schema

        self._fields = [(field.name, type(field.dataType)) for field in schema]
        self._arrow = to_arrow_schema(schema, timezone="UTC")
        self._present = present

    def batches(self, events: Iterable[Event]) -> Iterator[pa.RecordBatch]:
        rest = iter(events)
        while some := list(islice(rest, BATCH_ROWS)):
            yield self._batch(some)

    def _batch(self, events: list[Event]) -> pa.RecordBatch:
        import pyarrow as pa

        attributes = [event.attributes for event in events]
        columns = [
            pa.array(self._values(name, kind, events, attributes), type=field.type)
            for (name, kind), field in zip(self._fields, self._arrow, strict=True)
        ]
        batch = pa.RecordBatch.from_arrays(columns, schema=self._arrow)
        for name in self._present:
            batch = batch.filter(batch.column(name).is_valid())
        return batch

    @staticmethod
    def _values(
        name: str, kind: type[DataType], events: list[Event], attributes: list[dict[str, Any]]
    ) -> Sequence[object]:
        of_event = _OF_EVENT.get(name)
        if of_event is not None:
            return list(map(of_event, events))
        return converted([each.get(name) for each in attributes], kind)

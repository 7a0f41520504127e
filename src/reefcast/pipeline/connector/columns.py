"""Columns: the parts of an event in a row, and which attributes become which columns.

A row has the columns of `FIXED`, and one for each attribute that the schema names; a value that an
event lacks, or that has another type than its column, is NULL. Attributes that no schema names are
in `attributes`, as a JSON object. A column of maps of texts has the *rest*: what no other column
shows. A struct has the attributes whose names begin with its name and a dot.

An int64 column takes whole floats (7.0), too, a double column whatever is a number. Times are
whole numbers of microseconds, or texts in ISO 8601; dates are such texts, or days since 1970;
decimals are numbers, or texts."""

from __future__ import annotations

from collections.abc import Iterator

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from reefcast.errors import ConfigurationError

TIMESTAMP, ATTRIBUTES = "timestamp", "attributes"
PUBLISHER, SEQ, TOPICS, PAYLOAD = "publisher", "seq", "topics", "payload"
FIXED: dict[str, DataType] = {
    TIMESTAMP: TimestampType(),
    PUBLISHER: StringType(),
    SEQ: LongType(),
    TOPICS: ArrayType(StringType()),
    PAYLOAD: BinaryType(),
}
RESERVED = {**FIXED, ATTRIBUTES: StringType()}
"""Names that mean no attribute."""
PLAIN = (LongType, IntegerType, DoubleType, StringType, BooleanType)
FORMED = (TimestampType, DateType, DecimalType)
"""Types of values that travel in another form."""
REST = MapType(StringType(), StringType()).simpleString()


def schema_of(text: str) -> str:
    """Return the columns, as DDL: those of `FIXED`, and those of `text` (`symbol STRING, price
    DOUBLE`); without a text, all attributes in one."""
    fixed = (f"{name} {kind.simpleString()}" for name, kind in FIXED.items())
    return ", ".join((*fixed, text or f"{ATTRIBUTES} STRING"))


def is_rest(kind: DataType) -> bool:
    """Return whether a column of this type has what no other column shows."""
    return kind.simpleString() == REST


def leaves(name: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    """Yield the names of the attributes in a column, and their types: several for a struct."""
    if isinstance(kind, StructType):
        for field in kind:
            yield from leaves(f"{name}.{field.name}", field.dataType)
    else:
        yield name, kind


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
        if wanted is None and not is_rest(kind):
            for name, leaf in leaves(field.name, kind):
                _check_leaf(name, leaf)
    _check_names(schema)
    return schema


def _check_names(schema: StructType) -> None:
    fields = [field for field in schema if not is_rest(field.dataType)]
    names = [name for field in fields for name, _ in leaves(field.name, field.dataType)]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(f"two columns are for the attribute {name!r}: leave one out")
    rest = [field.name for field in schema if is_rest(field.dataType)]
    if len(rest) > 1:
        raise ConfigurationError(
            f"the columns {' and '.join(rest)} are all for what no other column shows: one "
            "is enough"
        )


def _check_leaf(name: str, kind: DataType) -> None:
    if not isinstance(kind, (*PLAIN, *FORMED)):
        known = ", ".join(each.typeName() for each in (*PLAIN, *FORMED))
        raise ConfigurationError(
            f"column {name!r} is {kind.simpleString()}; an attribute is one of {known}, a struct "
            f"of such, or, for what no other column shows, {REST}: read it as one of these and "
            "cast it"
        )

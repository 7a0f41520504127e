"""The parts of events that rows show, so that nothing else is sent. Spark 4.3 does not tell sources
in Python which columns a query uses; what counts is the schema that was asked for."""

from __future__ import annotations

from typing import TypedDict

from pyspark.sql.types import (
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructType,
    TimestampType,
)

from reefcast.pipeline.connector.columns import ATTRIBUTES, FIXED

OF_ONE_ATTRIBUTE: tuple[type[DataType], ...] = (
    *(StringType, BooleanType, DoubleType, LongType, IntegerType),
    *(TimestampType, DateType, DecimalType),
)
"""Types of columns that show the attribute of their name; others may show any of them."""


class Wanted(TypedDict):
    """What rows show of an event; see `options.Selection`."""

    attributes: tuple[str, ...] | None
    payload: bool


def wanted_of(schema: StructType) -> Wanted:
    """Return what rows of this schema show."""
    shown = [field for field in schema if field.name not in FIXED]
    any_of_them = any(
        field.name == ATTRIBUTES or not isinstance(field.dataType, OF_ONE_ATTRIBUTE)
        for field in shown
    )
    names = None if any_of_them else tuple(field.name for field in shown)
    return Wanted(attributes=names, payload="payload" in schema.names)

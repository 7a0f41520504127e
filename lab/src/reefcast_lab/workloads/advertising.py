"""Advertisements that hold what publishers published.

A publisher is a value of an attribute, such as the symbol of a stock. It advertises that value, and
the range of each attribute of numbers that all of its events have: a conjunction, as in OctopiA's
evaluation. So each of its events is inside, and little else is.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast_lab.datasets.filter_text import between, equals
from reefcast_lab.datasets.numbering import numbered_by_hash
from reefcast_lab.workloads.boxes import NO_ATTRIBUTES, NUMBER_TYPES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ALL = "_all"


def advertisements(events: DataFrame, by: str) -> DataFrame:
    """Return advertisement, filter, client: a row for each value of the attribute `by`, which is
    its client's name; events without it have no client. However many events a publisher has, each
    task combines its own first. Raises `ConfigurationError` for a missing attribute, or one that is
    no string."""
    kinds = dict(events.dtypes)
    if kinds.get(by) != "string":
        strings = [name for name, kind in kinds.items() if kind == "string"]
        raise ConfigurationError(
            f"{by}: no attribute of strings; there are {', '.join(strings) or 'none'}"
        )
    numbers = [
        name for name, kind in kinds.items() if kind in NUMBER_TYPES and name not in NO_ATTRIBUTES
    ]
    ranges = [each for i, name in enumerate(numbers) for each in _range(i, name)]
    published = events.where(F.col(by).isNotNull()).groupBy(F.col(by).alias("client"))
    counted = published.agg(F.count("*").alias(_ALL), *ranges)
    terms = [_term(i, name) for i, name in enumerate(numbers)]
    filter_text = reduce(F.concat, [equals(by, F.col("client")), *terms])
    rows = counted.select(filter_text.alias("filter"), "client")
    return numbered_by_hash(rows, "advertisement", "client")


def _range(i: int, name: str) -> list[Column]:
    column = F.col(f"`{name}`")
    finite = F.when(~F.isnan(column.cast("double")), column)
    return [
        F.min(column).alias(f"low{i}"),
        F.max(column).alias(f"high{i}"),
        F.count(finite).alias(f"there{i}"),
    ]


def _term(i: int, name: str) -> Column:
    """Return the condition on an attribute; nothing if an event lacks the attribute: it would be
    outside."""
    term = F.concat(F.lit(" AND "), between(name, F.col(f"low{i}"), F.col(f"high{i}")))
    return F.when(F.col(f"there{i}") == F.col(_ALL), term).otherwise(F.lit(""))

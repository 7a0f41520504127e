"""Filters written by Spark: columns of texts of the filter language, made of columns of values."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

_NAME = re.compile(r"[A-Za-z_]\w*")


def attribute(name: str) -> str:
    """Return an attribute's name as filters say it: in double quotes, unless it is plain."""
    return name if _NAME.fullmatch(name) else '"' + name.replace('"', '""') + '"'


def quoted(value: Column) -> Column:
    """Return these strings as string literals."""
    return F.concat(F.lit("'"), F.replace(value, F.lit("'"), F.lit("''")), F.lit("'"))


def equals(name: str, value: Column) -> Column:
    """Return `name = 'value'`, for strings."""
    return F.concat(F.lit(f"{attribute(name)} = "), quoted(value))


def is_one_of(name: str, values: Column) -> Column:
    """Return `name IN ('a', 'b')`, for lists of strings, none of which is empty."""
    listed = F.concat_ws(", ", F.transform(values, quoted))
    return F.concat(F.lit(f"{attribute(name)} IN ("), listed, F.lit(")"))


def between(name: str, low: Column, high: Column) -> Column:
    """Return `name BETWEEN low AND high`, for numbers."""
    ends = (low.cast("string"), F.lit(" AND "), high.cast("string"))
    return F.concat(F.lit(f"{attribute(name)} BETWEEN "), *ends)

"""Reading CSV files: plain or gzipped, one or a folder of them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame, SparkSession

FILE, LINE = "_file", "_line"
"""Columns beside those of the files: the file's name; a number that ascends along a file."""

_IN_PARTITION = (1 << 33) - 1
"""The bits of `monotonically_increasing_id` that number the rows of a partition."""


def read_with_heads(spark: SparkSession, path: Path) -> DataFrame:
    """Read the columns that the first line names, as strings, missing where they are empty or
    `null`; then `FILE` and `LINE`. All files must have the same heads. Raises `ConfigurationError`
    if there is no file."""
    _check(path)
    rows = spark.read.csv(
        str(path.resolve()), header=True, enforceSchema=False, nullValue="null", mode="FAILFAST"
    )
    columns = [F.col(f"`{name}`") for name in rows.columns]
    return rows.select(*columns, F.col("_metadata.file_name").alias(FILE), line().alias(LINE))


def read_without_heads(spark: SparkSession, path: Path, schema: str) -> DataFrame:
    """Read columns of this schema. Raises `ConfigurationError` if there is no file; a row that does
    not fit `schema` fails the job that meets it."""
    _check(path)
    return spark.read.csv(str(path.resolve()), schema=schema, mode="FAILFAST")


def line() -> Column:
    """Return the place of a row in its file: Spark reads files in blocks, which have at least as
    many bytes as lines, each block from its start."""
    in_partition = F.monotonically_increasing_id().bitwiseAND(F.lit(_IN_PARTITION))
    return F.col("_metadata.file_block_start") + in_partition


def plain_name(name: str) -> str:
    """Return a column's name as filters can say it without quotes: `Adj Close` as `adj_close`."""
    return re.sub(r"\W+", "_", name.strip()).strip("_").lower()


def need_columns(path: Path, there: Iterable[str], needed: Iterable[str]) -> None:
    """Raise `ConfigurationError` that names the missing columns."""
    missing = sorted(set(needed) - set(there))
    if missing:
        raise ConfigurationError(
            f"{path} has no column {', '.join(missing)}; its first line must name the columns"
        )


def _check(path: Path) -> None:
    if not path.exists():
        raise ConfigurationError(f"{path}: there is no such file or folder")

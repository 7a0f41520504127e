"""The tables that plans are made from."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def read_table(spark: SparkSession, path: Path, columns: Iterable[str]) -> DataFrame:
    """Read Parquet, one file or a folder of them, with these columns at least.

    Raises `ConfigurationError` where there are none, or a column is not there.
    """
    from pyspark.errors import AnalysisException

    try:
        table = spark.read.parquet(str(path.absolute()))
    except AnalysisException as error:
        raise ConfigurationError(f"{path}: there are no Parquet files") from error
    missing = [name for name in columns if name not in table.columns]
    if missing:
        raise ConfigurationError(
            f"{path} has no column {', '.join(missing)}; it has {', '.join(table.columns)}"
        )
    return table

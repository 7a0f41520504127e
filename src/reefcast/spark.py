"""The functions that Spark programs use; see docs/reference/spark-connector.md and
docs/how-to/match-in-spark.md.

import reefcast.spark

reefcast.spark.register(spark)
spark.read.format("reefcast").option("url", "reefcast://127.0.0.1:7301")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reefcast.pipeline.connector.source import ReefcastSource
    from reefcast.pipeline.matching.joins import match, match_counts

__all__ = ["ReefcastSource", "match", "match_counts", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register `format("reefcast")` with this session, and let Spark push filters down to data
    sources in Python, which is off by default."""
    from reefcast.pipeline.connector.source import ReefcastSource

    spark.dataSource.register(ReefcastSource)
    spark.conf.set(PUSHDOWN, "true")


if not TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "ReefcastSource":
            return import_module("reefcast.pipeline.connector.source").ReefcastSource
        if name not in __all__:
            raise AttributeError(f"module 'reefcast.spark' has no attribute {name!r}")
        return getattr(import_module("reefcast.pipeline.matching.joins"), name)


def __dir__() -> list[str]:
    return __all__

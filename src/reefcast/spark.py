"""The functions that Spark programs use; see docs/reference/spark-connector.md and
docs/how-to/match-in-spark.md.

import reefcast.spark

reefcast.spark.register(spark)
spark.read.format("reefcast").option("url", "reefcast://127.0.0.1:7301")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from reefcast.errors import ConfigurationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from reefcast.pipeline.connector.source import ReefcastSource
    from reefcast.pipeline.matching.joins import match, match_counts
    from reefcast.pipeline.matching.streaming import match_stream

__all__ = ["ReefcastSource", "match", "match_counts", "match_stream", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession, name: str = "", /, **options: object) -> None:
    """Register `format("reefcast")` with this session, and let Spark push filters down to data
    sources in Python, which is off by default, for readers with the option `pushdown`.

    With a name, register `format(name)` too, which has these options unless others are given:
    tables of SQL are made of it (`CREATE TABLE quotes USING name`). Raises `ConfigurationError` for
    an option that there is not, and for options without a name."""
    from reefcast.pipeline.connector.named import named_source
    from reefcast.pipeline.connector.source import ReefcastSource

    if options and not name:
        raise ConfigurationError(
            f"options ({', '.join(options)}) are for a source with a name: register(spark, "
            '"quotes", url=..., subscribe="quotes")'
        )
    spark.dataSource.register(ReefcastSource)
    if name:
        spark.dataSource.register(named_source(name, options))
    spark.conf.set(PUSHDOWN, "true")


if not TYPE_CHECKING:  # a checker would take any name for one of ours

    def __getattr__(name: str) -> object:
        if name == "ReefcastSource":
            return import_module("reefcast.pipeline.connector.source").ReefcastSource
        if name not in __all__:
            raise AttributeError(f"module 'reefcast.spark' has no attribute {name!r}")
        module = "streaming" if name == "match_stream" else "joins"
        return getattr(import_module(f"reefcast.pipeline.matching.{module}"), name)


def __dir__() -> list[str]:
    return __all__

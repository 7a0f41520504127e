"""The functions that Spark programs use; see docs/reference/spark-connector.md and
docs/how-to/match-in-spark.md.

import reefcast.spark

reefcast.spark.register(spark)
spark.read.format("reefcast").option("url", "reefcast://127.0.0.1:7301")
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reefcast.pipeline.connector.source import ReefcastSource
from reefcast.pipeline.matching.joins import match, match_counts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["ReefcastSource", "match", "match_counts", "register"]

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Register `format("reefcast")` with this session, and let Spark push filters down to data
    sources in Python, which is off by default."""
    spark.dataSource.register(ReefcastSource)
    spark.conf.set(PUSHDOWN, "true")

"""What Spark programs use of Reefcast; see docs/reference/spark-connector.md and
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
    """Makes `format("reefcast")` known to this session, and lets Spark push filters down to data
    sources in Python, which it does not do by itself."""
    spark.dataSource.register(ReefcastSource)
    spark.conf.set(PUSHDOWN, "true")

"""Who subscribes to which topic: text with a user, a topic and a count on each line.

Such as `user_artists.dat` of HetRec 2011: how often a user of Last.fm played an artist. Lines of
another kind, such as the heads, have no three columns of whole numbers, and are left out.

A line is a subscription of a user to a topic, and an event: the topic, who did something there
(`user`), and how often (`plays`). The data tell no times: events come in the order of users and
topics, a second apart.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast_lab.datasets.filter_text import equals
from reefcast_lab.datasets.numbering import numbered

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ATTRIBUTES = ("topic", "user", "plays")
_COLUMNS = ("user", "topic", "plays")
_SECOND_US = 1_000_000


def read(spark: SparkSession, path: Path) -> DataFrame:
    """Read user, topic and plays: int64. Raises `ConfigurationError` if no line has them."""
    if not path.exists():
        raise ConfigurationError(f"{path}: there is no such file or folder")
    fields = F.split(F.trim("value"), r"\s+").alias("fields")
    lines = (
        spark.read.text(str(path.resolve())).select(fields).where(F.size("fields") == len(_COLUMNS))
    )
    whole = lines.where(F.forall("fields", lambda field: field.rlike(r"^\d{1,18}$")))
    rows = whole.select(
        *(F.col("fields")[i].cast("bigint").alias(name) for i, name in enumerate(_COLUMNS))
    )
    if rows.isEmpty():
        raise ConfigurationError(
            f"{path} has no line of user, topic and count; take user_artists.dat of HetRec 2011, "
            "or a file like it"
        )
    return rows


def to_events(rows: DataFrame) -> DataFrame:
    """Return event, time_us and `ATTRIBUTES`; `topic` is a list of one."""
    topic = F.array(F.col("topic").cast("string")).alias("topic")
    return _numbered(rows, "event").select(
        "event", (F.col("event") * _SECOND_US).alias("time_us"), topic, "user", "plays"
    )


def to_subscriptions(rows: DataFrame) -> DataFrame:
    """Return subscription, filter, client: a row for each line, with the number of its event."""
    return _numbered(rows, "subscription").select(
        "subscription",
        equals("topic", F.col("topic").cast("string")).alias("filter"),
        F.concat(F.lit("u"), F.col("user").cast("string")).alias("client"),
    )


def _numbered(rows: DataFrame, name: str) -> DataFrame:
    return numbered(rows, name, "user", F.col("topic"))

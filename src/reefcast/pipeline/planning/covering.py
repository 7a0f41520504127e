"""A report of what covering would save, and what an unsubscription would cause: the roots of a set
of subscriptions, each with |NRS|, the subscriptions that become roots when it is withdrawn.

The covering degree of a set is the mean of |NRS| over its roots: where it is high, routing tables
are short, and the unsubscription of a root sends many others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast.pipeline.matching.covering import triggered
from reefcast.pipeline.matching.subscriptions import gathered
from reefcast.pipeline.planning.plan import Plan, Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pyspark.sql import DataFrame

SCHEMA = "subscription BIGINT, filter STRING, triggered BIGINT"


def roots(subscriptions: DataFrame) -> DataFrame:
    """Return subscription, filter, triggered (|NRS|): a row for each root, most first."""
    filters = subscriptions.select("subscription", "filter")
    return (
        triggered(filters)
        .join(filters, "subscription")
        .orderBy(F.desc("triggered"), "subscription")
        .select("subscription", "filter", "triggered")
    )


def plan_covering(subscriptions: DataFrame) -> Plan:
    """Plan covering. Raises `ConfigurationError` for a table without subscriptions, or with one
    number twice, and `LocalError` for a filter that cannot be read."""
    kind = dict(subscriptions.dtypes)["subscription"]
    if kind not in ("bigint", "int", "smallint", "tinyint"):
        raise ConfigurationError(f"column subscription is {kind.upper()}: give whole numbers")
    gathered(subscriptions, "subscription", "filter")  # tells which filters cannot be read
    counted = subscriptions.agg(
        F.count("subscription").alias("rows"), F.count_distinct("subscription").alias("numbers")
    ).collect()[0]
    if not counted["rows"]:
        raise ConfigurationError("there are no subscriptions")
    if counted["rows"] != counted["numbers"]:
        raise ConfigurationError(
            f"{counted['rows']} subscriptions have {counted['numbers']} numbers: give each its own"
        )
    numbered = subscriptions.withColumn("subscription", F.col("subscription").cast("bigint"))
    found = [row.asDict() for row in roots(numbered).collect()]
    return Plan(SCHEMA, found, _figures(found, counted["rows"]))


def _figures(roots: Sequence[Row], subscriptions: int) -> dict[str, float]:
    degrees = [row["triggered"] for row in roots]
    return {
        "subscriptions": subscriptions,
        "roots, which is what a neighbour stores with covering": len(roots),
        "roots of all subscriptions, share": len(roots) / subscriptions,
        "covering degree: sent when a root goes, mean": sum(degrees) / len(degrees),
        "sent when a root goes, most": max(degrees),
    }


def draw(figure: Figure, plan: Plan) -> None:
    """Draw over the roots, most first, how many subscriptions each would send."""
    axes = figure.add_subplot()
    degrees = [row["triggered"] for row in plan.rows]
    axes.step(range(1, len(degrees) + 1), degrees, where="mid")
    axes.set_yscale("symlog", linthresh=1)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("roots, by what they would send")
    axes.set_ylabel("subscriptions sent when it goes")
    axes.grid(axis="y")

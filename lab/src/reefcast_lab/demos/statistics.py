"""What a generator of subscriptions must know of the events: quantiles and frequent values."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

PERCENT = 100
_FREQUENT = 40


@dataclass(frozen=True, slots=True)
class Statistics:
    """`quantiles`: attribute -> its values at 0, 1, ..., 100 percent of the events that have it;
    `frequent`: attribute -> its most frequent values with their counts, most frequent first."""

    quantiles: dict[str, tuple[float, ...]]
    frequent: dict[str, tuple[tuple[str, int], ...]]

    def quantile(self, attribute: str, percent: int) -> float:
        return self.quantiles[attribute][percent]

    def draw(self, attribute: str, rng: random.Random, top: int = _FREQUENT) -> str:
        """Draw one of the `top` most frequent values; more frequent ones are likelier."""
        values, counts = zip(*self.frequent[attribute][:top], strict=True)
        return str(rng.choices(values, counts)[0])


def gather(events: DataFrame, numbers: Sequence[str], strings: Sequence[str]) -> Statistics:
    """Compute the statistics of the attributes, in two jobs. Attributes that no event has are left
    out."""
    shares = F.array(*(F.lit(percent / PERCENT) for percent in range(PERCENT + 1)))
    row = events.agg(*(F.percentile_approx(name, shares, 10_000).alias(name) for name in numbers))
    found = row.collect()[0].asDict()
    return Statistics(
        {name: tuple(values) for name, values in found.items() if values},
        _collect(frequencies(events, strings)),
    )


def frequencies(events: DataFrame, strings: Sequence[str]) -> DataFrame:
    """Return attribute, value, count: the most frequent values of each attribute, by falling
    count."""
    counted = (
        events.select(*(F.col(name).cast("string").alias(name) for name in strings))
        .unpivot([], list(strings), "attribute", "value")
        .where(F.col("value").isNotNull())
        .groupBy("attribute", "value")
        .count()
    )
    falling = Window.partitionBy("attribute").orderBy(F.desc("count"), "value")
    return (
        counted.withColumn("rank", F.row_number().over(falling))
        .where(F.col("rank") <= _FREQUENT)
        .orderBy("attribute", "rank")
        .select("attribute", "value", "count")
    )


def _collect(counted: DataFrame) -> dict[str, tuple[tuple[str, int], ...]]:
    frequent: dict[str, list[tuple[str, int]]] = {}
    for row in counted.collect():
        frequent.setdefault(row["attribute"], []).append((row["value"], row["count"]))
    return {name: tuple(values) for name, values in frequent.items()}

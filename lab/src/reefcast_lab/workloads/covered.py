"""Filters of a given covering degree, as in the evaluation of covering (`experiments/covering`).

The covering degree is the mean of |NRS(S)|, the filters that become roots when the root S goes. A
root wants a class of `synthetic` events at any price; `degree` others want it at prices of an
interval each, all as wide as each other and no two the same, so that none covers another. Filters
left over once all roots have theirs want one narrower by 1, and become no roots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from reefcast.errors import ConfigurationError
from reefcast_lab.datasets.filter_text import between, equals
from reefcast_lab.workloads.draws import uniform, whole
from reefcast_lab.workloads.synthetic import PRICES

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

ADVERTISEMENT = f"class IS NOT NULL AND price BETWEEN 0 AND {PRICES - 1}"
"""The advertisement of every publisher of such events."""


@dataclass(frozen=True, slots=True)
class Covered:
    """`selectivity`: share of the events of its class that a filter below a root matches."""

    filters: int
    degree: int
    selectivity: float
    seed: int = 0

    @property
    def classes(self) -> int:
        return self.filters // (self.degree + 1)

    @property
    def width(self) -> int:
        return round(self.selectivity * PRICES)

    @property
    def step(self) -> int:
        """The part of the room for lower ends that each filter below a root has to itself."""
        return (PRICES - self.width + 1) // max(self.degree, 1)

    def check(self) -> None:
        """Raise `ConfigurationError` for impossible values."""
        if not 0 <= self.degree < self.filters:
            raise ConfigurationError(
                f"{self.filters} filters cannot have a covering degree of {self.degree}: there "
                "must be more of them than that"
            )
        if not (2 <= self.width <= PRICES and self.step >= 1):
            raise ConfigurationError(
                f"no {self.degree} intervals of prices match a share of {self.selectivity:g} of "
                f"the events each; give a selectivity from {2 / PRICES} to "
                f"{1 - (self.degree - 1) / PRICES}"
            )


def covered_filters(spark: SparkSession, wanted: Covered) -> DataFrame:
    """Return number, filter: a root, then those below it, class by class; then the remaining
    ones."""
    wanted.check()
    number, regular = F.col("id"), wanted.classes * (wanted.degree + 1)
    is_over = number >= regular
    over = number - regular
    classed = F.when(is_over, over % wanted.classes).otherwise(_whole(number, wanted.degree + 1))
    place = F.when(is_over, _whole(over, wanted.classes)).otherwise(
        number % (wanted.degree + 1) - 1
    )
    rows = spark.range(wanted.filters).select(
        number.alias("number"), is_over.alias("over"), classed.alias("class"), place.alias("place")
    )
    return rows.select("number", _filter(wanted).alias("filter"))


def _whole(number: Column, by: int) -> Column:
    return F.floor(number / by).cast("bigint")


def _filter(wanted: Covered) -> Column:
    """Return the filter. `place`: -1 for a root, otherwise its number below the root."""
    place, classed = F.col("place"), F.col("class")
    offset = whole(wanted.step, uniform(wanted.seed, "low", classed, place))
    low = F.when(place < 0, F.lit(0)).otherwise(place * wanted.step + offset)
    width = F.lit(wanted.width) - F.col("over").cast("int")
    high = F.when(place < 0, F.lit(PRICES - 1)).otherwise(low + width - 1)
    named = equals("class", F.concat(F.lit("c"), classed.cast("string")))
    return F.concat(named, F.lit(" AND "), between("price", low, high))

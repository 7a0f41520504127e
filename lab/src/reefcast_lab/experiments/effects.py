"""From results to points and claims' figures: pure functions of DataFrames, built-in functions
only.

Results have a row for each measure of each run: paper, scale, campaign, routing, x, variant, seed,
metric, at, value. Seeds are the repeats: every figure is computed for each seed first, so that its
interval says how far other seeds would lead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

RESULTS = (
    "paper STRING, scale STRING, campaign STRING, routing STRING, x DOUBLE, variant STRING, "
    "seed BIGINT, metric STRING, at DOUBLE, value DOUBLE"
)
CLAIMS = (
    "claim INT, kind STRING, campaign STRING, metric STRING, of STRING, against STRING, "
    "where STRING"
)

_T = (
    *(12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228),
    *(2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086),
    *(2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042),
)
"""97.5 % quantiles of Student's t for 1 to 30 degrees of freedom."""
_NORMAL, _BEYOND = 1.96, 2.42
"""Beyond the table: that of the normal distribution, and what to add for each degree."""


def points(results: DataFrame) -> DataFrame:
    """Return campaign, metric, routing, variant, x, at, mean, interval, seeds; in this order."""
    place = ("campaign", "metric", "routing", "variant", "x", "at")
    return (
        results.withColumn("at", F.round("at", 6))  # what seeds computed need not agree to the last
        .groupBy(*place)
        .agg(*_over_seeds("value", "mean"))
        .orderBy(*place)
        .select(*place, "mean", "interval", "seeds")
    )


def values(results: DataFrame) -> DataFrame:
    """Return campaign, metric, routing, variant, x, seed, value, for values that are not on a
    curve; in this order."""
    columns = ("campaign", "metric", "routing", "variant", "x", "seed", "value")
    return results.where(F.col("at") == 0.0).orderBy(*columns).select(*columns)


def figures(results: DataFrame, claims: DataFrame) -> DataFrame:
    """Return claim, ours, interval, seeds: what `campaign.Kind` defines for each of the `claims`
    (`CLAIMS`). A claim without a pair has no row; one that compares two x but has only one has no
    `ours`."""
    return (
        _by_seed(_by_x(_chosen(_pairs(results, claims))))
        .groupBy("claim")
        .agg(*_over_seeds("ours", "ours"))
        .orderBy("claim")
        .select("claim", "ours", "interval", "seeds")
    )


def _pairs(results: DataFrame, claims: DataFrame) -> DataFrame:
    """Return claim, kind, where, seed, x, of, against: the values of one run and of its twin."""
    preset = results.where(F.col("variant") == "").select(
        "campaign", "metric", "routing", "x", "at", "seed", "value"
    )
    of = preset.withColumnsRenamed({"routing": "of", "value": "of_value"})
    against = preset.withColumnsRenamed({"routing": "against", "value": "against_value"})
    twin = ("campaign", "metric", "against", "x", "at", "seed")
    return (
        claims.join(of, ["campaign", "metric", "of"])
        .join(against, list(twin), "left")
        .where((F.col("against") == "") | F.col("against_value").isNotNull())
        .select(
            "claim",
            "kind",
            "where",
            "seed",
            "x",
            F.col("of_value").alias("of"),
            F.col("against_value").alias("against"),
        )
    )


def _chosen(pairs: DataFrame) -> DataFrame:
    """Return claim, kind, seed, x, of, against: the rows of the x that the claim is about."""
    x, where, of_a_claim = F.col("x"), F.col("where"), Window.partitionBy("claim")
    sizes = {"least_x": F.min(x).over(of_a_claim), "most_x": F.max(x).over(of_a_claim)}
    least = (where == "least") & (x == F.col("least_x"))
    most = (where == "most") & (x == F.col("most_x"))
    between = (where == "between") & (x > F.col("least_x")) & (x < F.col("most_x"))
    chosen = pairs.withColumns(sizes).where((where == "all") | least | between | most)
    return chosen.drop("where", *sizes)


def _by_x(pairs: DataFrame) -> DataFrame:
    """Return claim, kind, seed, x, figure: that of one run and its twin, as a mean over the places
    inside them."""
    of, against, kind = F.col("of"), F.col("against"), F.col("kind")
    figure = (
        F.when(kind.isin("effect", "gap"), F.try_divide(of, against) - 1)
        .when(kind == "difference", of - against)
        .when(kind == "wins", (of < against).cast("double"))
        .otherwise(of)
    )
    return (
        pairs.groupBy("claim", "kind", "seed", "x")
        .agg(F.mean(figure).alias("figure"))
        .select("claim", "kind", "seed", "x", "figure")
    )


def _by_seed(figures: DataFrame) -> DataFrame:
    """Return claim, seed, ours."""
    kind = F.col("kind")
    first, last = F.min_by("figure", "x"), F.max_by("figure", "x")
    several = F.count("figure") > 1
    ours = (
        F.when(kind == "gap", F.when(several, last - first))
        .when(kind == "flat", F.when(several, F.try_divide(last, first) - 1))
        .otherwise(F.mean("figure"))
    )
    return (
        figures.groupBy("claim", "kind", "seed")
        .agg(ours.alias("ours"))
        .select("claim", "seed", "ours")
    )


def _over_seeds(value: str, mean: str) -> tuple[Column, Column, Column]:
    """Return the mean, half the width of its 95 % interval (null for one seed), and the number of
    seeds."""
    count = F.count(value)
    half = _t(count - 1) * F.stddev_samp(value) / F.sqrt(count)
    return (
        F.mean(value).alias(mean),
        F.when(count > 1, half).alias("interval"),
        count.cast("int").alias("seeds"),
    )


def t_quantile(degrees: int) -> float:
    """Return the 97.5 % quantile of Student's t, as `_t` does for columns."""
    return _T[degrees - 1] if degrees <= len(_T) else _NORMAL + _BEYOND / degrees


def _t(degrees: Column) -> Column:
    """Return the quantile; beyond the table, within 0.002 of the true one."""
    table = F.array(*map(F.lit, _T))
    return F.when(degrees <= len(_T), F.get(table, degrees.cast("int") - 1)).otherwise(
        _NORMAL + _BEYOND / degrees
    )

"""What workloads are like, measured: by the brokers' engine, not by what made them.

Each job collects one row of figures; the counts and pairs that they are made of stay in the
executors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from reefcast.pipeline.matching.covering import triggered
from reefcast.pipeline.matching.joins import match, match_counts
from reefcast_lab.datasets.numbering import numbered
from reefcast_lab.workloads.correlation import CRITICAL, scores, share_of_pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Figures = dict[str, float | None]
"""By the name of the measure; None where there is nothing to tell it from."""

FEWEST_MATCHES = 100
MOST_SHARE = 0.5
"""Zipf's exponent is told from what has between so many events and this share of them: below,
chance decides about ranks; above, no filter can match more than all."""

CLIENTS_COMPARED = 1000


def popularity_reached(events: DataFrame, attribute: str) -> Figures:
    """Return events; values: of the attribute; most_share: of the events with the most popular one;
    zipf: the exponent. However popular a value is, each task combines its own first."""
    counts = events.groupBy(attribute).agg(F.count("*").alias("events")).persist()
    try:
        found = _row(
            counts.agg(
                F.sum("events").alias("events"),
                F.count("*").alias("values"),
                (F.max("events") / F.sum("events")).alias("most_share"),
            )
        )
        return {**found, "zipf": _exponent(counts, attribute, found["events"] or 0)}
    finally:
        counts.unpersist()


def shares_reached(events: DataFrame, subscriptions: DataFrame) -> Figures:
    """Return events; mean_share, least_share, median_share, most_share: of the events that a
    subscription matches; unmatched: subscriptions that match none; zipf: the exponent of how many
    they match."""
    total = events.count()
    counts = match_counts(events, subscriptions).persist()
    share = F.col("events") / F.lit(total)
    try:
        found = _row(
            counts.agg(
                F.mean(share).alias("mean_share"),
                F.min(share).alias("least_share"),
                F.percentile(share, F.lit(0.5)).alias("median_share"),
                F.max(share).alias("most_share"),
                F.count_if(F.col("events") == 0).alias("unmatched"),
            )
        )
        return {"events": total, **found, "zipf": _exponent(counts, "subscription", total)}
    finally:
        counts.unpersist()


def _exponent(counts: DataFrame, key: str, total: float) -> float | None:
    """Return the exponent of Zipf's law, from how many `events` each key has: fitted to their
    logarithms and those of their ranks, by least squares."""
    falling = counts.withColumn("falling", -F.col("events"))
    ranked = numbered(falling, "rank", "falling", F.xxhash64(key))
    fit = (F.col("events") >= FEWEST_MATCHES) & (F.col("events") < MOST_SHARE * total)
    slope = F.regr_slope(F.ln("events"), F.ln(F.col("rank") + 1))
    return _row(ranked.where(fit).agg((-slope).alias("zipf")))["zipf"]


def covering_reached(subscriptions: DataFrame) -> Figures:
    """Return roots; covering_degree: mean of |NRS(S)| over the roots; least_degree, most_degree."""
    return _row(
        triggered(subscriptions).agg(
            F.count("*").alias("roots"),
            F.mean("triggered").alias("covering_degree"),
            F.min("triggered").alias("least_degree"),
            F.max("triggered").alias("most_degree"),
        )
    )


def interests_reached(subscriptions: DataFrame, topics: int) -> Figures:
    """Return clients: that have any topic; mean_topics: of these; pairs_90, ..., pairs_99: share of
    the pairs of clients that are correlated at that level, of at most `CLIENTS_COMPARED` drawn by a
    hash. A publication for each topic (t0, t1, ...) is matched with the subscriptions; who gets it
    is interested."""
    number = F.col("id")
    topic = F.array(F.concat(F.lit("t"), number.cast("string"))).alias("topic")
    probes = subscriptions.sparkSession.range(topics).select(number.alias("event"), topic)
    who = F.struct("subscription", "client").alias("who")
    pairs = match(probes, subscriptions.select(who, "filter"), subscription_id="who")
    sets = pairs.groupBy("subscription.client").agg(F.collect_set("event").alias("topics"))
    sets.persist()
    try:
        of_all = sets.agg(
            F.count("*").alias("clients"), F.mean(F.size("topics")).alias("mean_topics")
        )
        return {**_row(of_all), **_correlations(sets, topics)}
    finally:
        sets.unpersist()


def _correlations(sets: DataFrame, topics: int) -> Figures:
    rows = sets.orderBy(F.xxhash64("client"), "client").limit(CLIENTS_COMPARED).collect()
    matrix = np.zeros((len(rows), topics), np.bool_)
    for i, row in enumerate(rows):
        matrix[i, row["topics"]] = True
    found = scores(matrix)
    return {f"pairs_{level}": share_of_pairs(found, level) for level in CRITICAL}


def advertisements_reached(events: DataFrame, advertisements: DataFrame) -> Figures:
    """Return inside: share of the events that an advertisement matches; per_event: advertisements
    that match an event, mean; mean_share: of the events that an advertisement matches."""
    counts = match_counts(events, advertisements, per="event", subscription_id="advertisement")
    found = _row(
        counts.agg(
            F.mean((F.col("subscriptions") > 0).cast("double")).alias("inside"),
            F.mean("subscriptions").alias("per_event"),
        )
    )
    return {**found, "mean_share": (found["per_event"] or 0.0) / max(advertisements.count(), 1)}


def _row(frame: DataFrame) -> Figures:
    found: Figures = frame.collect()[0].asDict()
    return found

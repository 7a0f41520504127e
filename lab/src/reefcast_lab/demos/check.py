"""The independent check: did every subscription get what Spark SQL says it must get?

Filters are SQL expressions, so Spark evaluates them without any code of ours. What was delivered is
what the client programs logged; brokers are not asked. A pair (event, subscription) is

- *lost* if it is expected and was never delivered,
- *duplicated* if it was delivered more often than once: each further delivery counts,
- *unexpected* if it was delivered and is not expected: each delivery counts. So does a delivery of
  a publication that no publisher logged.

Besides, each replayed event must have been published exactly once, and nothing else.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column

EXAMPLES = 10

PUBLICATION_COLUMNS = ("publisher", "seq", "event")
DELIVERY_COLUMNS = ("subscription", "publisher", "seq")
WRONGS = ("lost", "duplicated", "unexpected")


@dataclass(frozen=True, slots=True)
class Check:
    """Counts of pairs (event, subscription); `replayed`, `published`: events and publications;
    `unpublished`: replayed events that nobody published; `published_wrongly`: publications of
    other events, or once more of the same. `examples`: up to ten of each kind of wrong."""

    replayed: int
    published: int
    unpublished: int
    published_wrongly: int
    expected: int
    delivered: int
    lost: int
    duplicated: int
    unexpected: int
    examples: dict[str, list[dict[str, object]]] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        wrong = self.lost + self.duplicated + self.unexpected
        return wrong + self.unpublished + self.published_wrongly == 0


def check(
    events: DataFrame, filters: DataFrame, publications: DataFrame, deliveries: DataFrame
) -> Check:
    """Run the check. `events`: the replayed ones, `event` and their attributes; `filters`:
    subscription, filter; the logs as in PUBLICATION_COLUMNS and DELIVERY_COLUMNS."""
    texts = [(row["subscription"], row["filter"]) for row in filters.collect()]
    judged = judge(expected_pairs(events, sorted(texts)), delivered_pairs(publications, deliveries))
    totals = _sums(judged, "expected", "delivered", *WRONGS)
    published = _sums(judge_publications(events, publications), *_PUBLISHED)
    examples = {kind: _examples(judged, filters, kind) for kind in WRONGS if totals[kind]}
    return Check(**published, **totals, examples=examples)


def expected_pairs(events: DataFrame, filters: Sequence[tuple[int, str]]) -> DataFrame:
    """Return event, subscription: one row for each pair where the filter matches.

    All filters are one expression in a projection of its own, for which Spark generates code (in
    what is exploded it would evaluate them one by one, four times as slowly). The events are spread
    over the cores first, which the files' sizes need not do.
    """
    cores = events.sparkSession.sparkContext.defaultParallelism
    cases = ", ".join(f"CASE WHEN {text} THEN {number}L END" for number, text in filters)
    numbers = F.expr(f"array({cases})").cast("array<bigint>").alias("numbers")
    matched = events.repartition(cores).select("event", numbers)
    return matched.select("event", F.explode(F.array_compact("numbers")).alias("subscription"))


def delivered_pairs(publications: DataFrame, deliveries: DataFrame) -> DataFrame:
    """Return event, subscription: one row for each delivery. `event` is NULL if nobody logged the
    publication."""
    published = publications.select(*PUBLICATION_COLUMNS).dropDuplicates(["publisher", "seq"])
    logged = deliveries.select(*DELIVERY_COLUMNS).join(published, ["publisher", "seq"], "left")
    return logged.select("event", "subscription")


def judge(expected: DataFrame, delivered: DataFrame) -> DataFrame:
    """Return event, subscription, expected (0 or 1), delivered, lost, duplicated, unexpected: one
    row for each pair that is in one of the frames."""
    is_wanted, times = F.col("expected") == 1, F.col("delivered")
    return _counted(expected=expected, delivered=delivered).select(
        "event",
        "subscription",
        "expected",
        "delivered",
        _count(is_wanted & (times == 0), F.lit(1)).alias("lost"),
        _count(is_wanted & (times > 1), times - 1).alias("duplicated"),
        _count(~is_wanted, times).alias("unexpected"),
    )


_PUBLISHED = ("replayed", "published", "unpublished", "published_wrongly")


def judge_publications(events: DataFrame, publications: DataFrame) -> DataFrame:
    """Return one row per event, replayed or published: replayed (0 or 1), published, unpublished,
    published_wrongly."""
    is_replayed, times = F.col("replayed") == 1, F.col("published")
    both = _counted(replayed=events.select("event"), published=publications.select("event"))
    return both.select(
        "replayed",
        "published",
        _count(is_replayed & (times == 0), F.lit(1)).alias("unpublished"),
        _count(times > F.col("replayed"), times - F.col("replayed")).alias("published_wrongly"),
    )


def _counted(**frames: DataFrame) -> DataFrame:
    """Return the rows of the frames, which have the same columns, each once, and for each frame by
    its name how often the row is in it."""
    named = [
        frame.select("*", *(F.lit(int(name == each)).alias(each) for each in frames))
        for name, frame in frames.items()
    ]
    columns = next(iter(frames.values())).columns
    sums = (F.sum(name).alias(name) for name in frames)
    return functools.reduce(DataFrame.unionByName, named).groupBy(*columns).agg(*sums)


def _count(condition: Column, count: Column) -> Column:
    return F.when(condition, count).otherwise(F.lit(0))


def _sums(frame: DataFrame, *names: str) -> dict[str, int]:
    totals = frame.agg(*(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in names))
    return totals.collect()[0].asDict()


def _examples(judged: DataFrame, filters: DataFrame, kind: str) -> list[dict[str, object]]:
    rows = (
        judged.where(F.col(kind) > 0)
        .orderBy("event", "subscription")
        .limit(EXAMPLES)
        .join(F.broadcast(filters.select("subscription", "filter")), "subscription", "left")
        .select("event", "subscription", "filter", "delivered")
        .orderBy("event", "subscription")
    )
    return [row.asDict() for row in rows.collect()]

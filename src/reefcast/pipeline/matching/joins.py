"""Events and subscriptions to pairs, or to how many there are.

Costs: parsing takes about 0.1 ms for each filter, spread over the executors, whenever `match` is
called. The parsed filters, about 100 bytes each, are broadcast, and each Python process makes an
index of them (4 us and 400 bytes for each). After that, the cost is matching and transfer: columns
that filters name go to Python, pairs come back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, LongType, StructField, StructType

from reefcast.pipeline.matching import worker
from reefcast.pipeline.matching.events import by_place, places, with_attributes
from reefcast.pipeline.matching.shared import Shared, share
from reefcast.pipeline.matching.subscriptions import gathered

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

Work = Callable[[Iterator["pa.RecordBatch"], Shared, Sequence[str]], Iterator["pa.RecordBatch"]]
"""The work of an executor: takes batches (the event's id, then its attributes), the shared filters
and the names of the attributes, and yields batches."""


def match(
    events: DataFrame,
    subscriptions: DataFrame,
    *,
    event_id: str = "event",
    subscription_id: str = "subscription",
    filter_column: str = "filter",
) -> DataFrame:
    """Return event, subscription: a row for each pair of which the filter holds for the event.

    An event is a row of `events`, and each of its columns an attribute; NULL, and a column that
    there is not, is a missing one. Names count as they are written. Numbers, BOOLEAN and STRING are
    values (a DECIMAL counts as a DOUBLE), and a column `topic` may be an ARRAY<STRING>. The ids may
    be of any type, a struct of what else is wanted too.

    `subscriptions` is read now, `events` when the result is; it may be a stream. Raises
    `LocalError` for a filter that cannot be read, with the subscription's id, and for a column that
    holds no values and is named by a filter.
    """
    names = _Names(event_id, subscription_id, filter_column)
    return _mapped(worker.pairs, ("event", "subscription"), events, subscriptions, names)


def match_counts(
    events: DataFrame,
    subscriptions: DataFrame,
    *,
    per: Literal["subscription", "event"] = "subscription",
    event_id: str = "event",
    subscription_id: str = "subscription",
    filter_column: str = "filter",
) -> DataFrame:
    """Return subscription, events: how many events each subscription matches (BIGINT, 0 too); with
    `per="event"` event, subscriptions: how many subscriptions match each event.

    Arguments and errors are those of `match`. Executors keep one number for each subscription, so
    it does not matter how many pairs there are, and how unevenly they are spread. Subscriptions of
    the same id are counted together.
    """
    names = _Names(event_id, subscription_id, filter_column)
    if per == "event":
        return _mapped(
            worker.counts_of_events, ("event", "subscriptions"), events, subscriptions, names
        )
    counted = _mapped(
        worker.counts_of_subscriptions, ("subscription", "events"), events, subscriptions, names
    )
    none = F.lit(0).cast("bigint").alias("events")
    place = places(subscriptions, [subscription_id])[subscription_id]
    every = by_place(subscriptions).select(F.col(f"c{place}").alias("subscription"), none)
    return counted.unionAll(every).groupBy("subscription").agg(F.sum("events").alias("events"))


class _Names(NamedTuple):
    """The names of the columns that are no attributes."""

    event: str
    subscription: str
    filter: str


def _mapped(
    work: Work,
    titles: tuple[str, str],
    events: DataFrame,
    subscriptions: DataFrame,
    names: _Names,
) -> DataFrame:
    """Send the events through the executors' work; `titles`: names of its two columns, in the
    plural where they count."""
    filters = gathered(subscriptions, names.subscription, names.filter)
    rows, attributes = with_attributes(events, names.event, filters.attributes)
    ids = {"event": rows.schema[0].dataType, "subscription": filters.id_type}
    shared = share(events.sparkSession, filters.data)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return work(batches, shared, attributes)

    return rows.mapInArrow(run, _schema(titles, ids))


def _schema(titles: tuple[str, str], ids: dict[str, DataType]) -> StructType:
    return StructType([StructField(title, ids.get(title, LongType())) for title in titles])

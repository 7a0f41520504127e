"""The matching of batches in an executor's Python process.

A process has an index for each of the last few sets of subscriptions, made when first needed: from
the broadcast, for any task and query. Spark keeps its Python processes from task to task
(`spark.python.worker.reuse`)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from reefcast.model.filters import Filter

if TYPE_CHECKING:
    import pyarrow as pa

    from reefcast.matching.index import CompiledIndex
    from reefcast.matching.interface import Matches
    from reefcast.pipeline.matching.shared import Shared

KEPT = 2
"""Indexes that a process keeps."""

FEWEST_EVENTS, MOST_EVENTS = 16, 1024
PAIRS = 1 << 18
"""Events are matched so many at a time that about so many pairs come of it: an event may match all
subscriptions, and what is found must be kept until it is handed on."""


class Loaded(NamedTuple):
    """An index whose keys are places in `ids`."""

    filters: CompiledIndex[int]
    ids: pa.Array


class ShippedFilter(Filter):
    """A filter as it came, packed: an index of columns needs nothing else."""

    __slots__ = ()

    def __init__(self, packed: bytes) -> None:
        self._packed = packed
        self._conjunctions = ()

    def looks_at_topics(self) -> bool:
        """Return True: what is packed does not say it, and a filter may."""
        return True


_loaded: OrderedDict[str, Loaded] = OrderedDict()


def loaded(shared: Shared) -> Loaded:
    """Return the index of the shared subscriptions, built if this process does not have it."""
    if shared.token not in _loaded:
        _loaded[shared.token] = _load(shared.data.value)
        if len(_loaded) > KEPT:
            _loaded.popitem(last=False)
    _loaded.move_to_end(shared.token)
    return _loaded[shared.token]


def _load(data: bytes) -> Loaded:
    """Load the index from a table of id and packed; see `subscriptions.parsed`."""
    import pyarrow as pa

    from reefcast.matching.index import CompiledIndex

    table = pa.ipc.open_stream(data).read_all()
    index: CompiledIndex[int] = CompiledIndex()
    for place, packed in enumerate(table["packed"].to_pylist()):
        index.add(place, ShippedFilter(packed))
    return Loaded(index, table["id"].combine_chunks())


# --- what is found -------------------------------------------------------------------------------


def pairs(
    batches: Iterable[pa.RecordBatch], shared: Shared, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield event, subscription for each pair. `batches`: the event's id, then the attributes
    `names`."""
    import pyarrow as pa

    ids = loaded(shared).ids
    for events, (offsets, keys) in found(batches, shared, names):
        if keys.size:
            rows = np.repeat(np.arange(len(events)), np.diff(offsets))
            yield _batch(event=events.take(pa.array(rows)), subscription=ids.take(pa.array(keys)))


def counts_of_events(
    batches: Iterable[pa.RecordBatch], shared: Shared, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield event, subscriptions for each event."""
    import pyarrow as pa

    for events, (offsets, _) in found(batches, shared, names):
        yield _batch(event=events, subscriptions=pa.array(np.diff(offsets)))


def counts_of_subscriptions(
    batches: Iterable[pa.RecordBatch], shared: Shared, names: Sequence[str]
) -> Iterator[pa.RecordBatch]:
    """Yield subscription, events for each subscription that matched any of all batches."""
    import pyarrow as pa

    ids = loaded(shared).ids
    counts = np.zeros(len(ids), np.int64)
    for _, (_, keys) in found(batches, shared, names):
        np.add(counts, np.bincount(keys, minlength=len(ids)), out=counts)
    places = np.flatnonzero(counts)
    for start in range(0, len(places), PAIRS):
        some = places[start : start + PAIRS]
        yield _batch(subscription=ids.take(pa.array(some)), events=pa.array(counts[some]))


def found(
    batches: Iterable[pa.RecordBatch], shared: Shared, names: Sequence[str]
) -> Iterator[tuple[pa.Array, Matches]]:
    """Yield the ids of some events and what they match, until there are no more."""
    import pyarrow as pa

    index, size = loaded(shared).filters, FEWEST_EVENTS
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            some = batch.slice(start, size)
            columns = dict(zip(names, some.columns[1:], strict=True))
            matches = index.match_batch(columns or {"": pa.nulls(some.num_rows)})
            yield some.column(0), matches
            start += some.num_rows
            size = _next_size(len(matches.keys) / some.num_rows)


def _next_size(pairs_per_event: float) -> int:
    return int(min(MOST_EVENTS, max(FEWEST_EVENTS, PAIRS / max(1.0, pairs_per_event))))


def _batch(**columns: pa.Array) -> pa.RecordBatch:
    import pyarrow as pa

    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))

"""Reading the history in a task: a complete slice of it, whatever happens meanwhile."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TypeVar

from pyspark.sql.datasource import InputPartition

from reefcast import sync
from reefcast.errors import ConnectionLostError, PeerError, ReefcastError, RefusedError
from reefcast.history.spread import Stretch
from reefcast.pipeline.connector.cutting import Read, Span
from reefcast.pipeline.connector.ids import (
    Hashes,
    Ids,
    hashes_of,
    ids_of,
    joined,
    no_ids,
    without,
)
from reefcast.pipeline.connector.options import EPOCH, Selection

log = logging.getLogger("reefcast.spark")
T = TypeVar("T")

PATIENCE_S = 30.0
"""How long a storage may be away, or not yet have what another one has."""
PAUSE_S = 0.25
AWAY_S = 60.0
"""How long the driver continues without anybody who could tell what there is."""


class Slice(InputPartition):
    """What one task reads: the events of `reads`, each a `Read` or a `Span`; if `expected` is not
    None, those with these hashes, as bytes."""

    def __init__(self, reads: Iterable[Read | Span], expected: Hashes | None = None) -> None:
        asked = tuple(Read(*each) for each in reads)
        super().__init__((asked, None if expected is None else expected.tobytes()))

    @property
    def reads(self) -> tuple[Read, ...]:
        """What is asked for."""
        reads: tuple[Read, ...] = self.value[0]
        return reads

    @property
    def spans(self) -> tuple[Span, ...]:
        """The times that are asked for."""
        return tuple(read.span for read in self.reads)

    @property
    def expected(self) -> Hashes | None:
        import numpy as np

        return None if self.value[1] is None else np.frombuffer(self.value[1], np.uint64)


class Past:
    """The history of a selection, as one connection sees it."""

    def __init__(self, client: sync.Client, selection: Selection) -> None:
        self._client = client
        self._selection = selection

    def about(self, filter: str) -> Past:
        """Return the past of another filter, over the same connection."""
        return Past(self._client, self._selection._replace(filter=filter))

    def portions(self, since_us: int, until_us: int, limit: int = 0) -> Iterator[list[bytes]]:
        """Yield the bodies of the events by their time, as they come, with what the selection wants
        of them."""
        history = self._client.history(
            self._selection.filter,
            since=_time(since_us),
            until=_time(until_us),
            limit=limit,
            attributes=self._selection.attributes,
            payload=self._selection.payload,
        )
        while bodies := history.next_bodies():
            yield bodies

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Ids:
        """Return the ids of the events, of which nothing else is sent."""
        if since_us >= until_us:
            return no_ids()
        heads = Past(self._client, self._selection._replace(attributes=(), payload=False))
        return joined(map(ids_of, heads.portions(since_us, until_us, limit)))

    def stretches(self, since_us: int, until_us: int, most: int) -> list[Stretch] | None:
        """Return where the events lie; None if a storage cannot tell."""
        since, until = _time(since_us), _time(until_us)
        return self._client.stretches(self._selection.filter, most, since=since, until=until)


@contextmanager
def past(selection: Selection, name: str) -> Iterator[Past]:
    """Open the past of a selection. Raises `ConnectionLostError` if no broker can be reached."""
    with selection.broker.connect(name) as client:
        yield Past(client, selection)


def _time(time_us: int) -> datetime:
    """Return the nearest time that Python has: it has neither infinity."""
    least, most = (
        datetime.min.replace(tzinfo=EPOCH.tzinfo),
        datetime.max.replace(tzinfo=EPOCH.tzinfo),
    )
    try:
        return EPOCH + timedelta(microseconds=time_us)
    except OverflowError:
        return least if time_us < 0 else most


def patiently(work: Callable[[], T], patience_s: float = PATIENCE_S) -> T:
    """Call `work` again while there is nobody who could answer."""
    give_up_at_s = time.monotonic() + patience_s
    while True:
        try:
            return work()
        except (PeerError, RefusedError) as error:
            if time.monotonic() > give_up_at_s:
                raise
            log.warning("the history cannot be read now, trying again: %s", error)
            time.sleep(PAUSE_S)


class Absence:
    """The time for which nobody has been able to tell a query what is new."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def bear(self, error: ReefcastError) -> None:
        """Log an error, or raise it if nobody has answered for `AWAY_S` seconds."""
        now_s = time.monotonic()
        self._since_s = self._since_s or now_s
        if now_s - self._since_s > AWAY_S:
            raise error
        log.warning("nothing new can be found now: %s", error)

    def end(self) -> None:
        """Note that somebody has answered."""
        self._since_s = None


def slice_portions(selection: Selection, part: Slice, *, fail: bool) -> Iterator[list[bytes]]:
    """Yield the bodies of the events of a slice. `fail`: whether it is an error that some of them
    are gone."""
    expected = part.expected
    with past(selection, "spark-reader") as history:
        for read in part.reads if expected is None else ():
            about = history.about(read.asked(selection.filter))
            for bodies in _resumed(about, *read.span):
                yield without(bodies, read.but)
        if expected is not None:
            yield from _exactly(history, part.spans, expected, fail=fail)


def _resumed(history: Past, since_us: int, until_us: int) -> Iterator[list[bytes]]:
    """Yield the events of one span; ask again until some storage answers for it at all."""

    def begun() -> tuple[list[bytes], Iterator[list[bytes]]]:
        portions = history.portions(since_us, until_us)
        return next(portions, []), portions

    first, rest = patiently(begun)
    if first:
        yield first
        yield from rest


def _exactly(
    history: Past, spans: tuple[Span, ...], expected: Hashes, *, fail: bool
) -> Iterator[list[bytes]]:
    """Yield exactly the expected events: a storage may not have yet what another one had when the
    batch was planned, and what came in since belongs to a later batch."""
    missing = Missing(expected)
    give_up_at_s = time.monotonic() + PATIENCE_S
    while True:
        for since_us, until_us in spans:
            for bodies in _resumed(history, since_us, until_us):
                yield missing.among(bodies)
                if not missing.count:
                    return
        if time.monotonic() > give_up_at_s:
            break
        time.sleep(PAUSE_S)
    data_loss(
        f"{missing.count} of {len(expected)} events of this batch cannot be read any more: "
        "storages have dropped them (see their limits and lifetimes), or one that had them is away",
        fail=fail,
    )


class Missing:
    """The events of a slice that have not come yet, by their hashes. `count`: how many."""

    def __init__(self, expected: Hashes) -> None:
        import numpy as np

        in_order = np.sort(expected)
        self._expected = in_order[np.diff(in_order, prepend=~in_order[:1]) != 0]
        self._waits = np.ones(len(self._expected), bool)
        self.count = len(self._expected)

    def among(self, bodies: list[bytes]) -> list[bytes]:
        """Return those of `bodies` that were missing, each once, and count them as found."""
        import numpy as np

        if not self.count:
            return []
        hashes = hashes_of(bodies)
        places = np.searchsorted(self._expected, hashes)
        places[places == len(self._expected)] = 0
        rows = np.flatnonzero((self._expected[places] == hashes) & self._waits[places])
        rows = np.sort(rows[np.unique(places[rows], return_index=True)[1]])
        self._waits[places[rows]] = False
        self.count -= len(rows)
        return bodies if len(rows) == len(bodies) else [bodies[row] for row in rows.tolist()]


def data_loss(what: str, *, fail: bool, error: type[ReefcastError] = ConnectionLostError) -> None:
    """Raise an error, or log the loss and go on. An `error` of another kind than that of a lost
    connection says that nothing is gained by trying again."""
    if fail:
        raise error(f"{what}. To go on without them, set the option failOnDataLoss to false")
    log.warning("%s; the query goes on, since failOnDataLoss is false", what)

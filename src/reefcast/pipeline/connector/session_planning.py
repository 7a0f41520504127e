"""The batches of a streaming query that reads a durable session. No clock, no connection.

Theory of operation
-------------------
A batch is a set of positions of the session's queue, and the offset at its end names them. The
session owes an event until it is acknowledged, so a batch that is run again finds its events in
the queue. Events are acknowledged when Spark commits the offset, and not before.

Spark commits the offset of a batch when it has written down the offset of the next one. Hence:

- While nothing new comes, the batch that is not committed gets an empty one behind it.
- If the query dies before the home has the acknowledgements, Spark does not commit that offset
  again. The home hands these events out again, and they must not be in another batch. So an offset
  names, in `before`, also what earlier batches had and is perhaps not acknowledged; committing it
  acknowledges all that it names.

So each event is in one batch, however often that is run, as long as the session owes it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from pyspark.sql.datasource import InputPartition

from reefcast.errors import ConfigurationError, LocalError
from reefcast.pipeline.connector.cutting import tasks_for
from reefcast.pipeline.connector.reading import data_loss
from reefcast.sessions.collecting import runs
from reefcast.words import counted, noun

MOST_BATCH_BYTES = 64 << 20
"""Bodies in one batch, unless its first one is larger: they travel through Spark's driver."""
Runs = tuple[tuple[int, int], ...]
"""The first and last of consecutive positions, both included."""


class SessionOffset(NamedTuple):
    """The end of a batch. `life`: when the session was made, in microseconds since 1970, which
    tells it from another one of its name. `number`: counts the offsets of a query. `positions`: of
    the batch. `before`: of earlier batches, of which it is not known that they were
    acknowledged."""

    life: int
    number: int
    positions: Runs = ()
    before: Runs = ()

    def to_json(self) -> dict[str, Any]:
        """Return what goes into the checkpoint."""
        return {
            "life": self.life,
            "number": self.number,
            "positions": [list(run) for run in self.positions],
            "before": [list(run) for run in self.before],
        }

    @classmethod
    def of_json(cls, value: dict[str, Any]) -> SessionOffset:
        """Return what the checkpoint says. Raises `ConfigurationError` for an offset of a query
        that reads the history."""
        if "life" not in value:
            raise ConfigurationError(
                "the checkpoint is that of a query without the option session; give this query one "
                "of its own"
            )
        positions, before = (
            tuple((first, last) for first, last in value[name]) for name in ("positions", "before")
        )
        return cls(value["life"], value["number"], positions, before)


class Queue(Protocol):
    """The session as its home sees it, and this query as a consumer. All methods raise what the
    client raises."""

    def life(self, *, new_query: bool) -> int:
        """Return when the session was made. `new_query`: it may not be there yet."""
        ...

    def owed(self) -> int:
        """Return how many events it owes."""
        ...

    def take(self, *, final: bool) -> Mapping[int, bytes]:
        """Return the events handed out since the last call, by position. Wait for them a little; if
        `final`, until the home has no more."""
        ...

    def read(self, positions: Sequence[int]) -> Mapping[int, bytes]:
        """Return those of these events that are in the queue, whoever has them."""
        ...

    def acknowledge(self, positions: Sequence[int]) -> None:
        """Return when these are acknowledged on the home's disk."""
        ...


class SessionRules(NamedTuple):
    """`name`: of the session; `partitions`: tasks; `fail`: whether lost data is an error."""

    name: str
    partitions: int
    fail: bool


class Handful(InputPartition):
    """The events that one task makes rows of, encoded."""

    def __init__(self, bodies: tuple[bytes, ...]) -> None:
        super().__init__(bodies)

    @property
    def bodies(self) -> tuple[bytes, ...]:
        """The events."""
        bodies: tuple[bytes, ...] = self.value
        return bodies


class SessionPlanner:
    """Plans the batches of one query, while its driver lives. `left`: how many events it still
    takes before it ends; None: it does not end."""

    def __init__(self, queue: Queue, rules: SessionRules) -> None:
        self._queue = queue
        self._rules = rules
        self._in_hand: dict[int, bytes] = {}  # not acknowledged
        self._committed = -1  # the number of the last offset that was acknowledged
        self.left: int | None = None

    def forget(self) -> None:
        """Forget what was handed out: the home owes it to others now, or again."""
        self._in_hand.clear()

    def initial(self) -> SessionOffset:
        """Return the offset where a new query begins."""
        return SessionOffset(self._queue.life(new_query=True), 0)

    def end_with_what_is_owed(self) -> None:
        """Take no more events than the session owes now."""
        self.left = self._queue.owed()

    # --- how far the next batch goes --------------------------------------------------------------

    def latest(self, start: SessionOffset, most: int | None) -> SessionOffset:
        """Return the end of the batch behind `start`; `start` itself if there is nothing to do.
        `most`: events; None: all that are here."""
        same = self._is_of_this_life(start)
        unsettled = self._unsettled(start) if same else ()
        taken = set(_each(unsettled))
        self._in_hand.update(self._queue.take(final=bool(self.left) and not taken))
        fresh = self._chosen(taken, most)
        if same and not fresh and not taken:
            return start
        if self.left is not None:
            self.left -= len(fresh)
        life = self._queue.life(new_query=False)
        return SessionOffset(life, start.number + 1, tuple(runs(fresh)), unsettled)

    def _is_of_this_life(self, offset: SessionOffset) -> bool:
        if offset.life == self._queue.life(new_query=False):
            return True
        data_loss(
            f"session {self._rules.name!r} is not the one that the checkpoint speaks of: that one "
            "was closed, or has expired, with what it owed, or the query read another session",
            fail=self._rules.fail,
            error=LocalError,
        )
        return False

    def _unsettled(self, offset: SessionOffset) -> Runs:
        """Return what the batch up to this offset and earlier ones had, and is perhaps not
        acknowledged."""
        found = offset.positions if self._committed < offset.number else ()
        before = offset.before if self._committed < offset.number - 1 else ()
        return tuple(runs(_each((*found, *before))))

    def _chosen(self, taken: set[int], most: int | None) -> list[int]:
        limits = [each for each in (most, self.left) if each is not None]
        chosen: list[int] = []
        size = 0
        for position in sorted(self._in_hand.keys() - taken):
            size += len(self._in_hand[position])
            if len(chosen) >= min(limits, default=len(self._in_hand)):
                break
            if chosen and size > MOST_BATCH_BYTES:
                break
            chosen.append(position)
        return chosen

    # --- what is in a batch -----------------------------------------------------------------------

    def handfuls(self, start: SessionOffset, end: SessionOffset) -> list[Handful]:
        """Return what the tasks of the batch between two offsets make rows of: the same whenever it
        is asked for, as long as the session owes it."""
        if end.number <= start.number or not self._is_of_this_life(end):
            return []
        positions = list(_each(end.positions))
        lacking = [each for each in positions if each not in self._in_hand]
        if lacking:
            self._in_hand.update(self._queue.read(lacking))
        found = [self._in_hand[each] for each in positions if each in self._in_hand]
        if len(found) < len(positions):
            self._lost(len(positions) - len(found))
        count = tasks_for(len(found), self._rules.partitions) if found else 0
        cuts = [len(found) * k // count for k in range(count)] if count else []
        ends = [*cuts[1:], len(found)]
        return [Handful(tuple(found[a:b])) for a, b in zip(cuts, ends, strict=False)]

    def _lost(self, count: int) -> None:
        data_loss(
            f"{counted(count, 'event')} of a batch that must be run again "
            f"{noun(count, 'is', 'are')} not in the queue of session "
            f"{self._rules.name!r} any more: another consumer of the session has had them, or they "
            "were dropped by its limits, or are among its dead letters",
            fail=self._rules.fail,
            error=LocalError,
        )

    # --- what is done -----------------------------------------------------------------------------

    def commit(self, end: SessionOffset) -> None:
        """Acknowledge all that the batches up to this offset had."""
        if end.number <= self._committed:
            return
        if end.life == self._queue.life(new_query=False):
            positions = [*_each(end.before), *_each(end.positions)]
            self._queue.acknowledge(positions)
            for position in positions:
                self._in_hand.pop(position, None)
        self._committed = end.number


def _each(found: Iterable[tuple[int, int]]) -> Iterator[int]:
    for first, last in found:
        yield from range(first, last + 1)

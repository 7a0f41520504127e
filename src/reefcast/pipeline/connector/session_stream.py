"""Streams out of durable sessions: an event is acknowledged when Spark has committed its batch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType

from reefcast import sync
from reefcast.errors import ConfigurationError, LocalError, PeerError, RefusedError
from reefcast.pipeline.connector.options import SessionOptions
from reefcast.pipeline.connector.reading import Absence, data_loss, log, patiently
from reefcast.pipeline.connector.sentences import told, told_later
from reefcast.pipeline.connector.session_planning import (
    Handful,
    SessionOffset,
    SessionPlanner,
    SessionRules,
)
from reefcast.sessions.messages import MOST_LETTERS, SessionRow

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")
Json = dict[str, Any]

WAIT_S = 0.2
"""How long the driver waits for something new before it says that there is nothing."""
DRAINED_S = 10.0
"""How long a query that is to end waits for events that the home has and does not hand out: a
consumer has rejected them with a delay, or its disk is slow."""
ACK_WAIT_S = 3600.0
"""The `ack_wait_s` of sessions that a query makes: a batch may take long. What a query that died
had is owed again at once, whatever this is."""


class SessionReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes events from the session in the driver (see `session_planning`), and makes rows of them
    in tasks."""

    def __init__(self, schema: StructType, options: SessionOptions) -> None:
        self._schema = schema
        self._options = options
        self._driver: SessionDriver | None = None

    # --- in the driver ----------------------------------------------------------------------------

    @property
    def _in_driver(self) -> SessionDriver:
        if self._driver is None:
            self._driver = SessionDriver(self._options)
        return self._driver

    @told
    def initialOffset(self) -> Json:
        return self._in_driver.planner.initial().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(self._options.most_rows)

    @told
    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self._in_driver.latest(SessionOffset.of_json(start), most).to_json()

    def reportLatestOffset(self) -> Json:
        """Return what the query's progress shows as the latest offset: Spark 4.3 takes no metrics
        from sources in Python."""
        return self._in_driver.progress()

    @told
    def prepareForTriggerAvailableNow(self) -> None:
        self._in_driver.again(self._in_driver.planner.end_with_what_is_owed)

    @told
    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        driver, offsets = self._in_driver, (SessionOffset.of_json(each) for each in (start, end))
        return driver.again(partial(driver.planner.handfuls, *offsets))

    @told
    def commit(self, end: Json) -> None:
        driver = self._in_driver
        driver.again(partial(driver.planner.commit, SessionOffset.of_json(end)))

    def stop(self) -> None:
        if self._driver is not None:
            self._driver.forget()

    # --- in a task --------------------------------------------------------------------------------

    @told_later
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Handful)
        from reefcast.pipeline.connector.record_batches import Columns

        yield from Columns(self._schema).batches([partition.bodies])


class SessionDriver:
    """The state of a running query."""

    def __init__(self, options: SessionOptions) -> None:
        self._queue = HomeQueue(options)
        self._absence = Absence()
        self._standing: Json = {}
        self.planner = SessionPlanner(
            self._queue, SessionRules(options.name, options.partitions, options.fail_on_data_loss)
        )

    def latest(self, start: SessionOffset, most: int | None) -> SessionOffset:
        """Return the end of the next batch; while the home does not answer there is nothing new,
        for a while."""
        try:
            offset = self.planner.latest(start, most)
        except (PeerError, RefusedError) as error:
            self.forget()
            self._absence.bear(error)
            return start
        self._absence.end()
        return offset

    def progress(self) -> Json:
        """Return how many events the session owes, and how many of them consumers have; what was
        so last if the home does not answer."""
        try:
            self._standing = self._queue.standing()
        except (PeerError, RefusedError) as error:
            log.info("the home of a session does not answer: %s", error)
        return self._standing

    def again(self, work: Callable[[], T]) -> T:
        """Call `work`; while the home does not answer, call it again on a new connection."""

        def attempt() -> T:
            try:
                return work()
            except (PeerError, RefusedError):
                self.forget()
                raise

        return patiently(attempt)

    def forget(self) -> None:
        """Leave the session, and close the connection, which may be gone for good."""
        self.planner.forget()
        try:
            self._queue.close()
        except (PeerError, RefusedError) as error:
            log.info("closing the connection of a session: %s", error)


class HomeQueue:
    """The session at its home, over one connection that is kept while the driver lives."""

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self._open = ExitStack()
        self._session: sync.DurableSession | None = None
        self._life = 0

    def close(self) -> None:
        """Leave the session; what this query has not acknowledged is owed to others, or again."""
        self._session = None
        self._open.close()

    def life(self, *, new_query: bool) -> int:
        """Return when the session was made; see `session_planning.Queue`, also for the others."""
        self._attached(new_query=new_query)
        return self._life

    def owed(self) -> int:
        """Return how many events it owes. Spark asks before a new query has made its session."""
        with self._options.broker.connect("spark-planner") as client:
            row = row_of(client, self._options.name)
        return 0 if row is None else row.events

    def standing(self) -> dict[str, int]:
        """Return how many events it owes and how many are out, as this query's connection says."""
        row = None if self._session is None else self._session.status()
        return {} if row is None else {"owed": row.events, "out": row.out}

    def take(self, *, final: bool) -> Mapping[int, bytes]:
        session = self._attached()
        give_up_at_s = time.monotonic() + DRAINED_S
        while True:
            try:
                return {event.position: event.body for event in session.next_batch(WAIT_S)}
            except TimeoutError:
                if not final or time.monotonic() > give_up_at_s:
                    return {}
            row = session.status()
            if row.events <= row.out and not session.waiting:  # what it said is here before this
                return {}

    def read(self, positions: Sequence[int]) -> Mapping[int, bytes]:
        session, wanted = self._attached(), set(positions)
        found: dict[int, bytes] = {}
        after = positions[0] - 1
        while after < positions[-1]:
            some = session.look(after=after, most=min(MOST_LETTERS, positions[-1] - after))
            found |= {each.position: each.event.body for each in some if each.position in wanted}
            after = some[-1].position if some else positions[-1]
        return found

    def acknowledge(self, positions: Sequence[int]) -> None:
        if positions:
            self._attached().ack_positions(positions, wait=True)

    def _attached(self, *, new_query: bool = False) -> sync.DurableSession:
        if self._session is None:
            options = self._options
            with ExitStack() as opened:
                client = opened.enter_context(options.broker.connect("spark-session"))
                self._session = self._opened(client, new_query=new_query)
                self._open = opened.pop_all()
        return self._session

    def _opened(self, client: sync.Client, *, new_query: bool) -> sync.DurableSession:
        """Open the session, with the subscription that the options name."""
        name, filter = self._options.name, self._options.filter
        window = 2 * self._options.most_rows
        row = row_of(client, name)
        if row is None:
            if not filter:
                raise missing(name, self._options.broker.url)
            if not new_query:
                data_loss(
                    f"there is no session {name!r} any more: it was closed, or has expired, with "
                    "what it owed",
                    fail=self._options.fail_on_data_loss,
                    error=LocalError,
                )
            session = client.session(name, prefetch=window, ack_wait_s=ACK_WAIT_S)
        else:
            _check_subscriptions(row, filter)
            session = client.session(name, prefetch=window)
        if filter:
            session.subscribe(filter)
        self._life = round(session.status().created_s * 1e6)
        return session


def row_of(client: sync.Client, name: str) -> SessionRow | None:
    """Return what the home knows of the session; None if there is none of this name."""
    return next((row for row in client.sessions() if row.name == name), None)


def missing(name: str, url: str) -> ConfigurationError:
    """Return the error for a session that is not there."""
    return ConfigurationError(
        f"there is no session {name!r} at {url}: open it and subscribe it before, or give a stream "
        "the option filter (or subscribe), with which it makes the session"
    )


def _check_subscriptions(row: SessionRow, filter: str) -> None:
    others = [text for text in row.subscriptions.values() if text != filter]
    if filter and others:
        raise ConfigurationError(
            f"session {row.name!r} is subscribed to more than this query's filter ({filter}): "
            f"{'; '.join(others)}. Leave out the options filter and subscribe to read all that the "
            "session gets, or end its other subscriptions with session.unsubscribe(...)"
        )

"""The synchronous twin of the client: the same names, without `await`.

    with reefcast.sync.connect("reefcast://127.0.0.1:7301") as client:
        client.publish(symbol="IBM", price=99.5)
        for event in client.subscribe("symbol = 'IBM' AND price < 100"):
            print(event["price"])

The asyncio client runs in a thread of its own. Methods that wait have a `timeout` in seconds (None:
for ever) and raise `TimeoutError` after it. All methods may be called from any thread. Callbacks
run in the client's thread and must not wait for their own client (`LocalError`).
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Generic, Literal, Self, TypeVar, Unpack, overload

from reefcast.client import Options
from reefcast.client.backlog import BackloggedClient
from reefcast.client.batches import Published, encode_batch
from reefcast.client.beside import MAX_ROWS, Beside, check_max_rows
from reefcast.client.blocks import special_of
from reefcast.client.durable_sync import DurableSession, OwedEvent, SessionClient
from reefcast.client.encoding import encode_event, merge_attributes
from reefcast.client.handles import Advertisement as AsyncAdvertisement
from reefcast.client.handles import Subscription as AsyncSubscription
from reefcast.client.iterating import Events
from reefcast.client.last_values import LastValues as AsyncLastValues
from reefcast.client.past_sync import History, LastValues, PastClient, Replay
from reefcast.client.replay import Replay as AsyncReplay
from reefcast.client.requesting_sync import Event, Requesting
from reefcast.client.retaining import Retain, check_not_retained, check_only
from reefcast.client.retaining_sync import RetainingClient
from reefcast.client.thread import LoopThread
from reefcast.client.unconfirmed import Group
from reefcast.errors import ReefcastError
from reefcast.extras import extra_for
from reefcast.model.flat import Attributes
from reefcast.model.publication import PublicationId
from reefcast.timing import now_us

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "Advertisement",
    "Client",
    "DurableSession",
    "Event",
    "History",
    "LastValues",
    "OwedEvent",
    "Replay",
    "Subscription",
    "connect",
]

BACKLOG = 1000
"""Events that may wait between the threads."""

T = TypeVar("T")
H = TypeVar("H", AsyncAdvertisement, AsyncSubscription)


class _Handle(Generic[H]):
    def __init__(self, thread: LoopThread, handle: H) -> None:
        self._thread = thread
        self._handle: H = handle

    @property
    def filters(self) -> tuple[str, ...]:
        """The present filters, without those being removed."""
        return self._handle.filters

    def settled(self, timeout: float | None = None) -> None:
        """Wait until every broker that must know the filters knows them.

        Raises `RefusedError` with the broker's reason, `ConnectionLostError` if the connection is
        given up, and `TimeoutError` after `timeout` seconds.
        """
        self._thread.run(self._handle.settled(), timeout)


class Advertisement(_Handle[AsyncAdvertisement]):
    """A filter that says what this client will publish. The broker holds publications back until
    the advertisement has settled."""

    def withdraw(self, timeout: float | None = None) -> None:
        """Withdraw the advertisement, and wait until every broker has forgotten it."""
        self._thread.run(self._handle.withdraw(), timeout)


class Subscription(Events, _Handle[AsyncSubscription]):
    """An iterator over the events that match at least one of its filters, each once.

        for event in client.subscribe("symbol = 'IBM'", "price < 100"):
            ...

    The iteration ends when the subscription is cancelled or the client closed. It raises
    `RefusedError` if a filter was refused, `ConnectionLostError` if the connection is given up, and
    `SlowConsumerError` if the broker closed it because this program did not keep up.
    """

    def __init__(self, thread: LoopThread, handle: AsyncSubscription) -> None:
        _Handle.__init__(self, thread, handle)
        Events.__init__(self, thread, handle)

    @property
    def numbers(self) -> tuple[int, ...]:
        """The numbers of its filters on the present connection (see `on_deliveries`)."""
        return self._handle.numbers

    @property
    def waiting(self) -> int:
        """How many events have arrived and have not been read."""
        return len(self._batch) + self._handle.waiting

    @property
    def dropped(self) -> int:
        """How many of its events the broker dropped because this program did not keep up."""
        return self._handle.dropped

    def add(self, filter: str, timeout: float | None = None) -> None:
        """Add a filter and wait until it has settled. Raises `RefusedError` if the broker refuses
        it; the other filters stay as they are."""
        self._thread.run(self._handle.add(filter), timeout)

    def remove(self, filter: str, timeout: float | None = None) -> None:
        """Remove a filter and wait until every broker has forgotten it. Raises `LocalError` if the
        subscription does not have it."""
        self._thread.run(self._handle.remove(filter), timeout)

    def replace(self, old: str, new: str, timeout: float | None = None) -> None:
        """Replace the filter `old` by `new` without a gap: `old` is removed once `new` has settled.
        An event that matches both meanwhile arrives once."""
        self._thread.run(self._handle.replace(old, new), timeout)

    def next_table(
        self,
        timeout: float | None = None,
        *,
        max_rows: int = MAX_ROWS,
        max_wait_s: float = 0.0,
        schema: pa.Schema | None = None,
        **beside: Unpack[Beside],
    ) -> pa.Table | None:
        """Wait for at least one event and return those that have arrived as an Arrow table; None at
        the end. `timeout`: for the first event; the other arguments are those of
        `reefcast.Subscription.next_table`.

        Raises `TimeoutError` after `timeout` seconds, `InvalidValueError` for events that do not
        fit the table (and drops nothing then), and what iterating raises."""
        with extra_for("next_table"):
            from reefcast.client.tables import table_of
        rows = check_max_rows(max_rows)
        events = self._next_many(rows, timeout, max_wait_s)
        try:
            return table_of([event.body for event in events], beside, schema) if events else None
        except BaseException:
            self._batch.extendleft(reversed(events))
            raise

    def cancel(self, timeout: float | None = None) -> None:
        """Remove all filters and end the iteration; events not yet read are dropped."""
        self._batch.clear()
        self._thread.run(self._handle.cancel(), timeout)


class Client(SessionClient, RetainingClient, PastClient, Requesting):
    """A connection to the network, as `reefcast.Client`; made by `connect`, for any thread."""

    def __init__(self, thread: LoopThread, client: BackloggedClient) -> None:
        self._thread = thread
        self._client = client
        self._seq = self._client.last_seq
        self._lock = threading.Lock()
        self._sending = False
        self._failure: ReefcastError | None = None
        client.serve(self._enqueue, self, Event)

    @property
    def id(self) -> str:
        """The client's id, unique for ever; the `publisher` of its events."""
        return self._client.id

    @property
    def connected(self) -> bool:
        """Whether there is a connection now; without one the client tries to reconnect."""
        return self._client.connected

    @property
    def ended(self) -> ReefcastError | None:
        """Why the client cannot be used any more; None while it can."""
        return self._client.ended

    @property
    def unacknowledged(self) -> int:
        """How many publications the broker has not acknowledged yet."""
        return self._client.unacknowledged

    @property
    def unconfirmed(self) -> int:
        """How many publications that were to be confirmed are not yet."""
        return self._client.unconfirmed

    def publish(
        self,
        attributes: Attributes | None = None,
        /,
        *,
        payload: bytes = b"",
        topics: Iterable[str] = (),
        confirm: bool = False,
        retain: Retain = False,
        **named: object,
    ) -> PublicationId:
        """Publish one event and return its id, (publisher, seq).

        `attributes`: a mapping, a msgspec Struct or a dataclass, or keywords; None means missing.
        docs/reference/values.md says which values travel, and how. Encodes the event and leaves the
        rest to the client's thread; waits only while 1000 events (`BACKLOG`) wait there for the
        broker's credit. `confirm`: wait until every durable session that it is for has it on disk,
        and raise what goes wrong; `retain`: keep it as the last value, and wait until the broker
        has it; see `reefcast.Client.publish`. Raises `InvalidValueError` if this
        is no event; an error in sending (`RefusedError`, `ConnectionLostError`) is raised by a
        later call."""
        group = Group() if confirm else None
        values = merge_attributes(attributes, named)
        identity = self._enqueue(values, topics, payload, group, retain)
        if retain is not False:
            self._thread.run(self._client.sent_and_retained(identity[1]))
        if group is not None:
            self._thread.run(self._client.sent_and_confirmed(group))
        self._wait_until_taken(identity[1])
        return identity

    def _enqueue(
        self,
        values: Mapping[str, object],
        topics: Iterable[str],
        payload: bytes,
        group: Group | None = None,
        retain: Retain = False,
    ) -> PublicationId:
        """Encode an event with the next number and queue it; `group` waits for its confirmation."""
        with self._lock:
            identity = (self._client.id, self._seq + 1)
            frame = encode_event(identity, now_us(), values, topics, payload)
            if retain is not False:
                self._client.expect_retained(identity[1], frame, retain)
            if group is not None:
                self._client.expect(identity[1], group)
            self._start_sending([frame])
        return identity

    @contextmanager
    def confirming(self, timeout: float | None = None) -> Iterator[None]:
        """Have everything confirmed that this client publishes inside the `with` block, which ends
        when all of it is; see `reefcast.Client.confirming`. Raises `RefusedError`, which names all
        that were refused, and `TimeoutError` after `timeout` seconds of waiting at the end."""
        block = self._client.confirming()
        self._thread.run(block.__aenter__())
        try:
            yield
        except BaseException as error:
            self._thread.run(block.__aexit__(type(error), error, error.__traceback__))
            raise
        self._thread.run(block.__aexit__(None, None, None), timeout)

    def all_done(self, timeout: float | None = None) -> None:
        """Wait until all that is confirmed of what was published so far is on the disk of every
        durable session that is to have it; errors as of `reefcast.Client.all_done`, and
        `TimeoutError` after `timeout` seconds."""
        self._raise_failure()
        self._thread.run(self._client.all_done(), timeout)

    def publish_many(
        self,
        events: object,
        /,
        *,
        topics: Iterable[str] = (),
        topics_column: str = "",
        payload_column: str = "",
        retain: Literal[False] = False,
    ) -> Published:
        """Publish a batch of events in its order and return their ids.

        The arguments, and the errors for rows that are no events, are those of
        `reefcast.Client.publish_many`. Otherwise waits and raises as `publish` does."""
        check_not_retained(retain)
        special = special_of(topics, topics_column, payload_column)
        with self._lock:
            first_seq = self._seq + 1
            frames = encode_batch(self._client.id, first_seq, now_us(), events, special)
            published = Published(self._client.id, first_seq, len(frames))
            self._start_sending(frames)
            self._client.note_batch(published)
        self._wait_until_taken(first_seq + len(frames) - 1)
        return published

    def _start_sending(self, frames: Sequence[bytes]) -> None:
        """Hand over the next events; the caller holds the lock."""
        self._raise_failure()
        self._seq += len(frames)
        self._client.backlog.extend(frames)
        if not self._sending:
            self._sending = True
            self._thread.begin(self._send)

    def _wait_until_taken(self, seq: int) -> None:
        """Wait without the lock, and never in a callback: the client's thread does the sending."""
        if self._client.stores and not self._thread.is_current:
            self._thread.run(self._client.taken(seq))
        elif len(self._client.backlog) >= BACKLOG and not self._thread.is_current:
            self._thread.run(self._client.send_backlog())

    async def _send(self) -> None:
        """Send, in the client's thread, while there is something to send."""
        try:
            while self._client.backlog:
                await self._client.send_backlog()
                self._sending = False  # then look again: who comes now may have seen True
        except ReefcastError as error:
            self._failure = error
        finally:
            self._sending = False

    def _raise_failure(self) -> None:
        failure, self._failure = self._failure or self._client.ended, None
        if failure is not None:
            raise failure

    def flush(self, timeout: float | None = None) -> None:
        """Wait until the broker has acknowledged every event published so far.

        Raises `RefusedError` if publications were refused, `ConnectionLostError`, and
        `TimeoutError` after `timeout` seconds.
        """
        self._raise_failure()
        self._thread.run(self._client.flush(), timeout)

    def advertise(self, filter: str) -> Advertisement:
        """Advertise what this client will publish; `.settled()` waits for the network.

        A client that never advertises may publish anything. Raises `FilterSyntaxError`.
        """
        return Advertisement(self._thread, self._thread.run(self._client.advertise_next(filter)))

    @overload
    def subscribe(
        self,
        *filters: str,
        local_queue_limit: int | None = None,
        order_s: float = 0.0,
        replay: Literal[False] = False,
    ) -> Subscription: ...
    @overload
    def subscribe(
        self,
        *filters: str,
        local_queue_limit: int | None = None,
        order_s: float = 0.0,
        replay: datetime | Literal[True],
        handover_s: float = 2.0,
    ) -> Replay: ...
    @overload
    def subscribe(
        self,
        *filters: str,
        local_queue_limit: int | None = None,
        order_s: float = 0.0,
        retained: Literal[True],
        handover_s: float = 2.0,
    ) -> LastValues: ...
    def subscribe(
        self,
        *filters: str,
        local_queue_limit: int | None = None,
        order_s: float = 0.0,
        replay: datetime | bool = False,
        retained: bool = False,
        handover_s: float = 2.0,
    ) -> Subscription | Replay | LastValues:
        """Subscribe to the events that match at least one of the filters; `.settled()` waits for
        the network, iterating does not. `local_queue_limit` (events) overrides the client's;
        `order_s`, `replay`, `retained` and `handover_s`: as in `reefcast.Client.subscribe`. Raises
        `FilterSyntaxError`, and `ConfigurationError`."""
        client = self._client
        if retained:
            check_only(retained=retained, replay=replay)
            last = _last_values(client, filters, local_queue_limit, order_s, handover_s)
            return LastValues(self._thread, self._thread.run(last))
        if replay is False:
            work = _subscribe(client, filters, local_queue_limit, order_s)
            return Subscription(self._thread, self._thread.run(work))
        past = _replay(client, filters, local_queue_limit, order_s, replay, handover_s)
        return Replay(self._thread, self._thread.run(past))

    def close(self) -> None:
        """Wait for acknowledgements, close the connection, and end all iterations and the thread.

        Raises `RefusedError` if publications were refused and nothing has reported it yet, and
        `ConnectionLostError` if some were not acknowledged within `close_timeout_s`.
        """
        self._end(None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end(error)

    def _end(self, error: BaseException | None) -> None:
        try:
            self._thread.run(self._client.__aexit__(type(error) if error else None, error, None))
        finally:
            self._thread.stop()
        if error is None and self._failure is not None:
            raise self._failure


async def _subscribe(
    client: BackloggedClient,
    filters: tuple[str, ...],
    local_queue_limit: int | None,
    order_s: float,
) -> AsyncSubscription:
    return client.subscribe(*filters, local_queue_limit=local_queue_limit, order_s=order_s)


async def _replay(
    client: BackloggedClient,
    filters: tuple[str, ...],
    local_queue_limit: int | None,
    order_s: float,
    replay: datetime | Literal[True],
    handover_s: float,
) -> AsyncReplay:
    return client.subscribe(
        *filters,
        local_queue_limit=local_queue_limit,
        order_s=order_s,
        replay=replay,
        handover_s=handover_s,
    )


async def _last_values(
    client: BackloggedClient,
    filters: tuple[str, ...],
    local_queue_limit: int | None,
    order_s: float,
    handover_s: float,
) -> AsyncLastValues:
    return client.subscribe(
        *filters,
        local_queue_limit=local_queue_limit,
        order_s=order_s,
        retained=True,
        handover_s=handover_s,
    )


def connect(urls: str | Sequence[str] | None = None, **options: Unpack[Options]) -> Client:
    """Connect to a broker; arguments and errors as in `reefcast.connect`. The callbacks among the
    options are called in the client's thread."""
    thread = LoopThread()
    try:
        return Client(thread, thread.run(BackloggedClient.connected_to(urls, options)))
    except BaseException:
        thread.stop()
        raise

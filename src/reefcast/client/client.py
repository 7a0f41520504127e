"""The asyncio client: connections that come and go around one `Session` that stays.

async with reefcast.connect("reefcast://127.0.0.1:7301") as client:
    await client.publish(symbol="IBM", price=99.5)
    async for event in client.subscribe("symbol = 'IBM' AND price < 100"):
        print(event["price"])
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from types import TracebackType
from typing import Literal, Self, overload

from reefcast.client.address import Address
from reefcast.client.batches import Published, encode_batch
from reefcast.client.blocks import special_of
from reefcast.client.connection import Connection, Handler
from reefcast.client.dialling import Dialler
from reefcast.client.encoding import encode_event, merge_attributes
from reefcast.client.handles import Advertisement, Subscription
from reefcast.client.history import (
    HistoryClient,
    check_handover,
    either,
    past_of,
)
from reefcast.client.last_values import LastValues
from reefcast.client.replay import Replay
from reefcast.client.requesting import Requesting
from reefcast.client.requests import Requests
from reefcast.client.retaining import Retain, RetainingClient, check_not_retained, check_only
from reefcast.client.secure import security
from reefcast.client.session import Session
from reefcast.client.sessions import SessionClient
from reefcast.client.settings import (
    Options,
    call_application,
    check_local_queue_limit,
    check_order_s,
)
from reefcast.client.storing import open_outbox
from reefcast.client.storing_client import StoringClient
from reefcast.client.unconfirmed import Group
from reefcast.errors import ConnectionLostError, InternalError, ReefcastError
from reefcast.model.flat import Attributes
from reefcast.model.publication import PublicationId
from reefcast.model.wire import Hello
from reefcast.protocol.client_ids import SECRET_BYTES, Identity, identity_of
from reefcast.security.credentials import credentials_of
from reefcast.timing import MACHINE, Backoff, now_us

WRITE_AT_BYTES = 64 * 1024
ASK_AGAIN_S = 0.5
"""How long a client waits before it asks again for a session whose home cannot be reached."""
_log = logging.getLogger("reefcast.client")


class Client(SessionClient, StoringClient, HistoryClient, RetainingClient, Requesting):
    """A connection to the network, made by `connect` and used in one event loop.

    It reconnects by itself. A broker that is reached again within `session_s` (60 s, see its
    network file) has kept the session: it delivers what was published meanwhile, each event once.
    At another broker, or one that was restarted, the client subscribes and advertises again and
    repeats unacknowledged publications; what others published meanwhile is not delivered, unless
    the former broker was drained, and so sent it there.
    """

    def __init__(
        self, addresses: Sequence[Address], settings: Options, identity: Identity | None = None
    ) -> None:
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._closing = False
        machine = MACHINE.get()
        self._write_is_due = False
        identity = identity or identity_of(settings["name"], machine.token(SECRET_BYTES))
        self._stored = open_outbox(settings["outbox"], identity, self._written)
        if self._stored is not None:
            identity = self._stored.left.identity
        self._session = Session(
            *(identity, machine.token(16), settings, self._output_came, self._watch_reading),
            *(partial(self._loop.call_later, ASK_AGAIN_S), self._stored),
        )
        self._session.replier = self
        self._outbox = self._session.outbox
        self._requests = Requests(self._session, self._session.reply_address)
        handler = Handler(
            *(self._on_hello, self._session.on_frames, self._session.room.fire),
            *(lambda: self._session.taken, settings["silence_s"], credentials_of(settings)),
        )
        self._dialler = Dialler(
            addresses,
            Backoff(settings["backoff_first_s"], settings["backoff_max_s"], machine.generator()),
            handler,
            self._session.hello,
            security(settings, addresses),
            redirects=settings["redirects"],
            session=self._session,
        )
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._runner = self._loop.create_task(self._run(), name=f"reefcast {identity.id}")

    # --- what can be seen -------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The client's id, unique for ever; the `publisher` of its events."""
        return self._session.client_id

    @property
    def connected(self) -> bool:
        """Whether there is a connection now; without one the client tries to reconnect."""
        return self._session.connected

    @property
    def ended(self) -> ReefcastError | None:
        """Why the client cannot be used any more; None while it can."""
        return self._session.ending() if self._session.ended else None

    @property
    def unacknowledged(self) -> int:
        """How many publications the broker has not acknowledged yet."""
        return self._outbox.seq - self._outbox.acknowledged_seq

    # --- publishing -------------------------------------------------------------------------------

    async def publish(
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
        docs/reference/values.md says which values travel, and how. Waits only while the broker
        gives no credit or there is no connection; the event is written in the next turn of the
        loop. With an outbox file, returns when the event is in it. `confirm`: wait until every
        durable session that it is for has it on disk; meanwhile the client keeps the event, and
        sends it again after reconnects. Use `confirming` for many.
        `retain`: keep it as the last value of its topic (True) or of these attributes (a name, or
        several), for those who subscribe later, and wait until the broker has it.

        Raises `InvalidValueError` if this is no event, `ConfigurationError` if it has no such key,
        `RefusedError` if earlier publications were refused, a session did not take this one or the
        broker does not retain it, and `ConnectionLostError`."""
        session, outbox = self._session, self._outbox
        asks = confirm or session.unconfirmed.asking
        if asks and session.unconfirmed.full:
            await self._until_room_to_ask()
        if session.refusals or not self._has_room():
            await self._until_room()
        attributes = merge_attributes(attributes, named)
        identity = (session.client_id, outbox.seq + 1)
        time_us = now_us()
        frame = encode_event(identity, time_us, attributes, topics, payload)
        if asks or retain is not False:
            await self._publish_and_wait(frame, identity[1], confirm=confirm, retain=retain)
        else:
            self._publish(frame)
        return identity

    async def publish_many(
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

        `events`: an iterable of what `publish` takes (mappings, Structs, dataclasses), a pandas
        data frame, or a table of Arrow, polars or any library that exports tables to Arrow (which
        needs pyarrow). A row is an event, and a column (or key) an attribute; null and None mean
        missing. `topics`: the topics of all events; `topics_column`, `payload_column`: the names of
        the columns with each event's topics (a text, or a list of them) and payload.

        A batch is published whole or not at all: raises `InvalidValueError`, which names the row,
        before anything is published. Returns when the events are on their way; until then it waits
        for credit, and other publications of this client wait behind it. Cancelling the wait does
        not take events back. Raises what `publish` raises; if the broker refuses events later,
        `RefusedError` names their rows. Batches are not retained (`ConfigurationError`)."""
        check_not_retained(retain)
        special = special_of(topics, topics_column, payload_column)
        session, outbox = self._session, self._outbox
        if session.unconfirmed.asking and session.unconfirmed.full:
            await self._until_room_to_ask()
        if session.refusals or not self._has_room():
            await self._until_room()
        first_seq = outbox.seq + 1
        frames = encode_batch(session.client_id, first_seq, now_us(), events, special)
        published = Published(session.client_id, first_seq, len(frames))
        session.note_batch(published)
        self._publish_all(frames)
        await self._until_taken(outbox.seq)
        return published

    async def flush(self, timeout: float | None = None) -> None:  # noqa: ASYNC109 (for convenience)
        """Wait until the broker has acknowledged every event published so far.

        Raises `RefusedError` if publications were refused, `ConnectionLostError`, and
        `TimeoutError` after `timeout` seconds.
        """
        session, outbox = self._session, self._outbox
        session.check()
        with session.awaiting_answer():
            async with asyncio.timeout(timeout):
                last = outbox.seq
                while outbox.acknowledged_seq < last:
                    await session.acknowledged.wait()
                    session.check()

    def advertise(self, filter: str) -> Advertisement:
        """Advertise what this client will publish; await the result to wait until it has settled.

        A client that never advertises may publish anything. Raises `FilterSyntaxError`.
        """
        return Advertisement(self._session, filter)

    # --- subscribing ------------------------------------------------------------------------------

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
        """Subscribe to the events that match at least one of the filters; see `Subscription`.

        Await the result to wait until it has settled, or iterate over it at once.
        `local_queue_limit` (events) overrides the client's. `order_s`: for how many seconds the
        broker may hold events back so that those of each publisher arrive in order although they
        took several paths (routings mesh and TID); 0: events arrive as they come.

        `replay`: deliver first what storages have from that time on (True: everything), then new
        events, without a gap and nothing twice; see `Replay`. `handover_s`: for how many seconds
        storages add new events to their answers; at least as long as an event travels to them on
        the longest path.

        `retained`: deliver first the last values that match (see `publish`), then new events; see
        `LastValues`. Raises `FilterSyntaxError` and `ConfigurationError`.
        """
        if local_queue_limit is None:
            local_queue_limit = self._settings["local_queue_limit"]
        history = None
        if retained:
            check_only(retained=retained, replay=replay)
        if replay is not False:
            history = past_of(self._session, either(filters), replay, handover_s)
        subscription = Subscription(
            self._session,
            filters,
            check_local_queue_limit(local_queue_limit),
            check_order_s(order_s),
        )
        if retained:
            return self._last_values(subscription, either(filters), check_handover(handover_s))
        return subscription if history is None else Replay(subscription, history)

    # --- closing ----------------------------------------------------------------------------------

    async def close(self) -> None:
        """Wait for acknowledgements, close the connection and end all iterations. What a broker on
        the way has in custody is not waited for; see `all_done`.

        Raises `RefusedError` if publications were refused and nothing has reported it yet, and
        `ConnectionLostError` if some were not acknowledged within `close_timeout_s`; with an outbox
        file these stay in it. For a client that has ended before, raises the reason if some were
        not acknowledged.
        """
        if self._closing:
            await self._stop()
            return
        if self._session.ended:
            await self._stop()
            if self.unacknowledged:
                raise self._session.ending()
            return
        try:
            async with asyncio.timeout(self._settings["close_timeout_s"]):
                await self._until_events_acknowledged()
                await self._until_all_confirmed()
                await self.flush()
        except TimeoutError:
            if self._stored is not None:
                return
            raise ConnectionLostError(
                f"closed with {self.unacknowledged} publications that no broker acknowledged, "
                f"{self.unconfirmed} that are not confirmed, and "
                f"{self._session.consuming.unanswered} events of durable sessions whose home has "
                "not answered their acknowledgements: they may come again"
            ) from None
        finally:
            if self._stored is not None and self.unconfirmed:
                _log.warning(
                    "%d publications are not done; they stay in the outbox", self.unconfirmed
                )
            await self._stop()

    async def _open(self) -> Self:
        """Wait for the first connection. Raises the reason why there is none."""
        try:
            await asyncio.wait([self._opened])
            self._opened.result()
        except BaseException:
            await self._stop()
            raise
        return self

    async def _stop(self) -> None:
        self._closing = True
        if self._connection is not None and self.connected:
            self._write()
            self._connection.close("the client has done")
        else:
            self._runner.cancel()
        self._session.end()
        _, late = await asyncio.wait([self._runner], timeout=self._settings["close_timeout_s"])
        if late and self._connection is not None:
            self._connection.abort()
        if self._stored is not None:
            await self._stored.writer.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None:
            await self.close()
        else:
            await self._stop()

    # --- inside -----------------------------------------------------------------------------------

    def _on_hello(self, hello: Hello, connection: Connection) -> None:
        self._connection = connection
        self._session.established(hello)
        self._watch_reading()

    def _publish(self, frame: bytes) -> None:
        """Publish a frame, for which there must be room."""
        self._outbox.publish(frame)
        if self._outbox.output_bytes >= WRITE_AT_BYTES:
            self._write()

    async def _publish_and_wait(
        self, frame: bytes, seq: int, *, confirm: bool, retain: Retain
    ) -> None:
        """Publish a frame, and wait until it is in the outbox file, if there is one, and confirmed
        and retained, as far as the caller asks for that."""
        order = None if retain is False else self._retain(frame, retain, seq)
        group = Group()
        if confirm:
            self._expect(seq, group)
        self._publish_all([frame])
        await self._until_written(seq)
        if confirm:
            await self._until_confirmed(group)
        if order is not None:
            await self._until_retained(order, seq)

    def _publish_all(self, frames: Sequence[bytes]) -> None:
        """Send frames as far as there is credit; the others wait for it in the outbox."""
        if self._stored is not None:
            self._stored.writer.put(frames)
        self._outbox.publish_all(self._session.unconfirmed.noted(self._outbox.seq + 1, frames))
        if self._outbox.output_bytes >= WRITE_AT_BYTES:
            self._write()

    def _has_room(self) -> bool:
        """Return whether something may be published now. With an outbox file it always may: what
        waits there is limited by `Unconfirmed.full`."""
        return self._stored is not None or (self._outbox.has_room and self._is_writable)

    @property
    def _is_writable(self) -> bool:
        return self._connection is not None and self._connection.writable

    def _output_came(self) -> None:
        if not self._write_is_due:
            self._write_is_due = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._write_is_due = False
        if self._connection is not None:
            self._connection.write(self._outbox.drain())

    def _watch_reading(self) -> None:
        if self._connection is not None:
            self._connection.read(self._session.may_read)

    async def _run(self) -> None:
        """Connect, and reconnect when the connection is lost, until closed or given up."""
        error: BaseException | None = None
        try:
            connection = await self._dialler.connect(
                self._settings["connect_timeout_s"], pause_first=False
            )
            self._opened.set_result(None)
            while True:
                opened_at_s = self._loop.time()
                failure = await connection.lost
                if self._loop.time() - opened_at_s > self._settings["backoff_max_s"]:
                    self._dialler.backoff.reset()
                self._disconnected(connection.reason)
                if failure is not None:
                    raise failure
                if self._closing:
                    break
                connection = await self._reconnect()
        except Exception as failure:
            error = failure
        finally:
            self._end(error)

    async def _reconnect(self) -> Connection:
        call_application(self._settings["on_disconnect"])
        patience_s = self._settings["reconnect_timeout_s"]
        try:
            connection = await self._dialler.connect(patience_s, pause_first=True)
        except ReefcastError as error:
            _log.error("client %s gives up: %s", self.id, error)
            raise
        _log.warning("client %s is connected again, to %s", self.id, self._dialler.address)
        call_application(self._settings["on_reconnect"])
        return connection

    def _disconnected(self, reason: str) -> None:
        if not self._closing:
            where = self._dialler.address
            _log.warning("client %s lost its connection to %s: %s", self.id, where, reason)
        self._connection = None
        self._session.lost()

    def _end(self, error: BaseException | None) -> None:
        self._connection = None
        reason = error if isinstance(error, ReefcastError) else None
        if error is not None and reason is None:
            reason = InternalError(f"the client failed: {error!r}")
            reason.__cause__ = error
        self._session.end(reason)
        if not self._opened.done():
            if reason is None:  # cancelled: nobody waits any more
                self._opened.cancel()
            else:
                self._opened.set_exception(reason)


def session_of(client: Client) -> Session:
    """Return the protocol state of a client, for clients built upon it."""
    return client._session

"""GET /v1/events: server-sent events.

The client of a stream is its own, so that its queue, and what happens when that is full, is that of
any subscriber: a reader that is too slow stops the writing here, which stops the reading from the
broker.

A stream of a durable session
-----------------------------
- The id of an event says which positions its reader has not acknowledged yet (`streams`). One that
  comes back with it acknowledges them.
- A page cannot acknowledge by an EventSource, but it comes back by itself when a stream ends, with
  the last id. So the stream ends when `prefetch` events are unacknowledged for `FULL_S`, or one of
  them for `RENEW_S`, or half of the session's `ack_wait_s`. A reader that acknowledges by
  `/v1/sessions/{session}/acknowledgements` in time never sees that."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from reefcast.client.durable import DurableSession
from reefcast.client.event import Event, publication_of
from reefcast.client.owed import OwedEvent
from reefcast.errors import ReefcastError
from reefcast.http.bodies import EventsQuery
from reefcast.http.content import told
from reefcast.http.problems import refused
from reefcast.http.streams import (
    EVENT_STREAM,
    KEEP_ALIVE,
    Positions,
    event_bytes,
    owed_id,
    positions_in,
)
from reefcast.server.http.asking import Asked
from reefcast.server.http.cloudevents import (
    as_cloudevent,
    owed_cloudevent,
    wants_cloudevents,
)
from reefcast.server.http.filters import admitted, subscribed
from reefcast.server.http.front import Writing, as_json
from reefcast.server.http.inner import InnerClient
from reefcast.server.http.writing import Writer

WAITING = 256
"""How many events of a stream wait here, beyond those that wait at the broker."""
FULL_S, RENEW_S = 1.0, 10.0
RETRY = b"retry: 100\n\n"
"""Tells an EventSource to come back soon (in milliseconds)."""


async def events(asked: Asked) -> web.StreamResponse:
    """Answer with a stream of events."""
    query: EventsQuery = asked.query()
    if query.session:
        return await _of_session(asked, query)
    if not query.filter:
        said = "which events? Give a filter, as in ?filter=price > 100, or a session"
        raise refused(400, "query", said, where="query parameter filter")
    async with own_client(asked, query) as (client, dropped):
        subscription = await subscribed(asked.front, client, query.filter, WAITING)
        writer = Writer(asked.request, asked.streams(EVENT_STREAM))
        await writer.begin(KEEP_ALIVE)
        write = as_cloudevent if wants_cloudevents(asked, query) else as_json
        try:
            while True:
                batch = await writer.wait_for(subscription.next_batch)
                if lost := dropped.take():
                    await writer.write(event_bytes(b'{"count":%d}' % lost, name="dropped"))
                await writer.write(_lines(asked, batch, write))
        except (ReefcastError, StopAsyncIteration) as error:
            await writer.end(error)
        return writer.response


def _lines(asked: Asked, batch: Sequence[Event], write: Writing) -> bytes:
    encoded = asked.front.encoded
    ids = [f"{event.publisher}:{event.seq}" for event in batch]
    pairs = zip(batch, ids, strict=True)
    return b"".join([event_bytes(encoded(e, write), id=id) for e, id in pairs])


class Counted:
    """Counts events that the broker dropped."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        """Count some."""
        self._count += count

    def take(self) -> int:
        """Return how many there were since this was last called."""
        count, self._count = self._count, 0
        return count


@asynccontextmanager
async def own_client(
    asked: Asked, query: EventsQuery
) -> AsyncIterator[tuple[InnerClient, Counted]]:
    """Open a client for this request alone, with its queue; and count what its broker drops."""
    dropped = Counted()
    client = await asked.front.open_client(
        asked.principal,
        asked.shown,
        queue_policy=query.queue_policy,
        queue_limit=query.queue_limit,
        on_dropped=dropped.add,
    )
    asked.front.streams += 1
    try:
        yield client, dropped
    finally:
        asked.front.streams -= 1
        asked.front.leave(client)


# --- of a durable session ------------------------------------------------------------------------


async def _of_session(asked: Asked, query: EventsQuery) -> web.StreamResponse:
    """Answer with the events that a session owes."""
    if len(query.filter) > 1:
        said = "a stream of a session takes one filter; combine several with OR"
        raise refused(400, "query", said, where="query parameter filter")
    kept = admitted(asked.front, query.filter)
    last = asked.request.headers.get("Last-Event-ID") or query.last_event_id
    async with own_client(asked, query) as (client, _):
        filter = query.filter[0] if query.filter else ""
        durable = client.session(query.session, prefetch=query.prefetch, filter=filter)
        row = await durable.status()  # whether there is one is told before the answer
        life = round(row.created_s * 1e6)
        if had := positions_in(last, life):
            await durable.ack_positions(had, wait=True)
        del kept
        writer = Writer(asked.request, asked.streams(EVENT_STREAM))
        await writer.begin(RETRY)
        with asked.consumers.streaming(asked.principal, durable):
            renew_s = min(RENEW_S, row.options.ack_wait_s / 2)
            write = owed_cloudevent if wants_cloudevents(asked, query) else owed_json
            stream = OwedStream(durable, life, query.prefetch, renew_s, write)
            try:
                while await stream.go_on(writer):
                    pass
                await writer.response.write_eof()
            except (ReefcastError, StopAsyncIteration) as error:
                await writer.end(error)
        return writer.response


class OwedStream:
    """The events of a session on their way to one reader, who has at most `prefetch` of them
    unacknowledged, each for `renew_s` at most. `life`: when the session was made, in microseconds
    since 1970; `write`: writes one event in one line."""

    def __init__(
        self,
        durable: DurableSession,
        life: int,
        prefetch: int,
        renew_s: float,
        write: Callable[[OwedEvent], bytes],
    ) -> None:
        self._durable, self._life = durable, life
        self._write = write
        self._prefetch, self._renew_s = prefetch, renew_s
        self._since_s: dict[int, float] = {}
        self._loop = asyncio.get_running_loop()

    async def go_on(self, writer: Writer) -> bool:
        """Write the next events; return False if the reader is to come back for more."""
        due_s = self._due_s()
        batch = await writer.wait_for(self._durable.next_batch, due_s)
        if not batch:
            return self._due_s() > self._loop.time()  # it may have acknowledged meanwhile
        fresh = {event.position for event in batch}
        positions = Positions(each for each in self._durable.in_hand if each not in fresh)
        pieces = []
        for event in batch:
            positions.add(event.position)
            self._since_s[event.position] = self._loop.time()
            pieces.append(event_bytes(self._write(event), id=owed_id(self._life, positions)))
        await writer.write(b"".join(pieces))
        return True

    def _due_s(self) -> float:
        """Return when the reader is to come back, in seconds of the loop."""
        in_hand = self._durable.in_hand
        since_s = {each: self._since_s[each] for each in in_hand if each in self._since_s}
        self._since_s = since_s
        if not since_s:
            return math.inf
        due_s = min(since_s.values()) + self._renew_s
        full = len(in_hand) >= self._prefetch
        return min(due_s, max(since_s.values()) + FULL_S) if full else due_s


def owed_json(event: OwedEvent) -> bytes:
    """Return an event of a session as JSON, in one line."""
    return msgspec.json.encode(told(publication_of(event), event.position, event.deliveries))

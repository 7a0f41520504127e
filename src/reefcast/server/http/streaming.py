"""GET /v1/events: server-sent events.

The client of a stream is its own, so that its queue, and what happens when that is full, is that of
any subscriber: a reader that is too slow stops the writing here, which stops the reading from the
broker. A reader that takes nothing for `STALLED_S` is disconnected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from reefcast.client.event import Event
from reefcast.errors import ReefcastError
from reefcast.http.bodies import EventsQuery
from reefcast.http.problems import error_of, refused
from reefcast.http.streams import EVENT_STREAM, KEEP_ALIVE, event_bytes
from reefcast.server.http.asking import Asked
from reefcast.server.http.filters import subscribed
from reefcast.server.http.inner import InnerClient

KEEP_ALIVE_S = 15.0
"""How often a stream that brings nothing says that it is there."""
STALLED_S = 60.0
WAITING = 256
"""How many events of a stream wait here, beyond those that wait at the broker."""


async def events(asked: Asked) -> web.StreamResponse:
    """Answer with a stream of events."""
    query: EventsQuery = asked.query()
    if not query.filter:
        said = "which events? Give a filter, as in ?filter=price > 100, or a session"
        raise refused(400, "query", said, where="query parameter filter")
    async with own_client(asked, query) as (client, dropped):
        subscription = await subscribed(asked.front, client, query.filter, WAITING)
        writer = Writer(asked.streams(EVENT_STREAM))
        await writer.begin(asked.request)
        encoded = asked.front.encoded

        def write(batch: Sequence[Event]) -> bytes:
            return b"".join(
                [
                    event_bytes(encoded(event), id=f"{event.publisher}:{event.seq}")
                    for event in batch
                ]
            )

        try:
            while True:
                batch = await writer.wait_for(subscription.next_batch)
                if lost := dropped.take():
                    await writer.write(event_bytes(b'{"count":%d}' % lost, name="dropped"))
                await writer.write(write(batch))
        except (ReefcastError, StopAsyncIteration) as error:
            await writer.end(error)
        return writer.response


class Counted:
    """Counts events that the broker dropped. `take` returns how many since it was last called."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        self._count += count

    def take(self) -> int:
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


class Writer:
    """Writes a stream of server-sent events."""

    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response

    async def begin(self, request: web.BaseRequest) -> None:
        """Send the head, so that the reader knows that it has subscribed."""
        await self.response.prepare(request)
        await self.write(KEEP_ALIVE)

    async def write(self, data: bytes) -> None:
        """Write, and wait until the reader has room for more. Raises `ConnectionError` if it takes
        nothing for too long."""
        if not data:
            return
        try:
            async with asyncio.timeout(STALLED_S):
                await self.response.write(data)
        except TimeoutError:
            raise ConnectionResetError("the reader of a stream takes nothing") from None

    async def wait_for(self, batch: Callable[[], object]) -> Sequence[Event]:
        """Wait for events; say meanwhile that the stream is there."""
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    return await batch()  # type: ignore[no-any-return, misc]  # any kind of event
            except TimeoutError:
                await self.write(KEEP_ALIVE)

    async def end(self, error: Exception) -> None:
        """Say why there are no more events, as the last one, `end`."""
        told = None if isinstance(error, StopAsyncIteration) else error_of(error)
        data = b"{}" if told is None else msgspec.json.encode(told.problem)
        await self.write(event_bytes(data, name="end"))
        await self.response.write_eof()

"""A storage's answer to one request, read from its store in a worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from functools import partial
from typing import Protocol

from reefcast.history.messages import Position, Request
from reefcast.history.replying import ITEMS, Reply
from reefcast.history.spread import Stretch, encoded
from reefcast.model import wire
from reefcast.model.filters import Filter
from reefcast.model.messages import ServiceMessage
from reefcast.model.publication import Publication

Say = Callable[[Sequence[ServiceMessage]], None]
Bodies = list[bytes] | None
InThread = Callable[[Callable[[], Bodies]], Awaitable[Bodies]]
"""Runs a blocking function in a worker thread."""


class Store(Protocol):
    """The part of `HistoryStore` that answering needs."""

    def read(
        self,
        topics: tuple[str, ...],
        now_us: int,
        *,
        filter: Filter,
        since_us: int | None,
        until_us: int | None,
        after: Position | None,
        limit: int,
        batch: int,
    ) -> Iterator[list[bytes]]: ...

    def stretches(
        self,
        topics: tuple[str, ...],
        now_us: int,
        *,
        filter: Filter,
        since_us: int | None,
        until_us: int | None,
        most: int,
    ) -> list[Stretch]: ...


class Answering:
    """The answer to one request, which came to the storage `me`."""

    def __init__(self, request: Request, me: str, say: Say) -> None:
        self.request = request
        self._me = me
        self._reply = Reply(request, me)
        self._say = say
        self._granted = asyncio.Event()

    # --- told from outside ------------------------------------------------------------------------

    def grant(self, count: int) -> None:
        self._say(self._reply.grant(count))
        self._granted.set()

    def came(self, publication: Publication, body: bytes) -> None:
        """Add a publication that has just been stored."""
        self._say(self._reply.came(publication, body))

    def fail(self, reason: str) -> None:
        """End the answer with an error."""
        self._say(self._reply.fail(reason))

    # --- the answer -------------------------------------------------------------------------------

    async def run(self, store: Store, now_us: int, in_thread: InThread) -> None:
        """Answer the request until its end has been sent."""
        loop = asyncio.get_running_loop()
        closing = loop.call_later(self.request.handover_s, self._close)
        try:
            await self._read(store, now_us, in_thread)
        finally:
            closing.cancel()

    def _close(self) -> None:
        """Close the answer: events that come in from now on are not part of it, however long it
        takes to read."""
        self._say(self._reply.close())
        self._granted.set()

    async def _read(self, store: Store, now_us: int, in_thread: InThread) -> None:
        reply = self._reply
        find = self._stretches if self.request.stretches else self._events
        found = find(store, now_us)
        while (bodies := await in_thread(partial(next, found, None))) is not None:
            self._say(reply.found(bodies))
            await self._credit()
        self._say(reply.all_found())
        while not reply.over:
            self._granted.clear()
            await self._granted.wait()

    def _events(self, store: Store, now_us: int) -> Iterator[list[bytes]]:
        request, reply = self.request, self._reply
        found = store.read(
            request.topics,
            now_us,
            filter=reply.filter,
            since_us=request.since_us,
            until_us=request.until_us,
            after=request.after,
            limit=request.limit,
            batch=ITEMS,
        )
        return map(reply.projection.cut, found)

    def _stretches(self, store: Store, now_us: int) -> Iterator[list[bytes]]:
        """Yield how many events lie where, instead of the events."""
        request = self.request
        found = store.stretches(
            request.topics,
            now_us,
            filter=self._reply.filter,
            since_us=request.since_us,
            until_us=request.until_us,
            most=request.stretches,
        )
        yield encoded(found, self._me, request.after)

    async def _credit(self) -> None:
        while self._reply.waits:
            self._granted.clear()
            await self._granted.wait()


def decoded(body: bytes) -> Publication:
    return wire.decode_publication(body)

"""How a storage answers one request: what it has, in order, and then what comes in meanwhile."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from typing import Protocol

from reefcast.model import wire
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import ServiceMessage
from reefcast.model.patterns import is_topic_match
from reefcast.model.publication import Publication
from reefcast.storage.history.messages import End, Items, Position, Request

ITEMS = 256
"""Publications in one message."""
ITEMS_BYTES = 1 << 20

Say = Callable[[ServiceMessage], None]
Bodies = list[bytes] | None
InThread = Callable[[Callable[[], Bodies]], Awaitable[Bodies]]
"""Runs what blocks in a worker thread."""


class Store(Protocol):
    """What is needed of `HistoryStore`."""

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


class Answering:
    """One request, which came to this storage by `path`. `late` holds what came in since, if the
    request has a handover."""

    def __init__(self, request: Request, me: str, say: Say) -> None:
        self.request = request
        self.filter = parse_filter(request.filter)
        self._path = (*request.path, me)
        self._at = len(self._path) - 2
        self._say = say
        self._credit = request.window
        self._more = asyncio.Event()
        self._sent = 0
        self._late: deque[bytes] = deque()
        self._came = asyncio.Event()

    # --- told from outside ------------------------------------------------------------------------

    def grant(self, count: int) -> None:
        self._credit += count
        self._more.set()

    def came(self, publication: Publication, body: bytes) -> None:
        """A publication that has just been stored."""
        if self._wants(publication):
            self._late.append(body)
            self._came.set()

    def _wants(self, publication: Publication) -> bool:
        request, time_us = self.request, publication.time_us
        if request.since_us is not None and time_us < request.since_us:
            return False
        if request.until_us is not None and time_us >= request.until_us:
            return False
        asked = any(is_topic_match(t, p) for t in publication.topics for p in request.topics)
        return asked and self.filter.matches(publication)

    # --- the answer -------------------------------------------------------------------------------

    async def run(self, store: Store, now_us: int, in_thread: InThread) -> None:
        """Until the end is said. What comes in after the handover is not part of the answer."""
        request, loop = self.request, asyncio.get_running_loop()
        until_s = loop.time() + request.handover_s
        found = store.read(
            request.topics,
            now_us,
            filter=self.filter,
            since_us=request.since_us,
            until_us=request.until_us,
            after=request.after,
            limit=request.limit,
            batch=ITEMS,
        )
        while (bodies := await in_thread(partial(next, found, None))) is not None:
            await self._send(bodies, late=False)
        if request.handover_s:
            await self._hand_over(until_s)
        self._say(End(id=request.id, path=self._path, at=self._at, before=self._sent))

    async def _hand_over(self, until_s: float) -> None:
        loop = asyncio.get_running_loop()
        await self._send([], late=True)  # all that was stored has been said
        while True:
            late, self._late = list(self._late), deque()
            self._came.clear()
            if late:
                await self._send(late, late=True)
            elif loop.time() >= until_s:
                return
            else:
                try:
                    async with asyncio.timeout(until_s - loop.time()):
                        await self._came.wait()
                except TimeoutError:
                    continue

    async def _send(self, bodies: list[bytes], *, late: bool) -> None:
        """As far as there is credit; then when there is."""
        start = 0
        while start < len(bodies) or not bodies:
            while bodies and self._credit <= 0:
                self._more.clear()
                await self._more.wait()
            end = self._end_of_message(bodies, start)
            some = tuple(bodies[start:end])
            items = Items(
                id=self.request.id,
                path=self._path,
                at=self._at,
                before=self._sent,
                bodies=some,
                late=late,
            )
            self._say(items)
            self._sent += len(some)
            self._credit -= len(some)
            if not bodies:
                return
            start = end

    def _end_of_message(self, bodies: list[bytes], start: int) -> int:
        size, end = 0, start
        most = min(len(bodies), start + min(ITEMS, max(self._credit, 0)))
        while end < most and (end == start or size + len(bodies[end]) <= ITEMS_BYTES):
            size += len(bodies[end])
            end += 1
        return end

    def fail(self, reason: str) -> None:
        """It cannot go on."""
        self._say(
            End(id=self.request.id, path=self._path, at=self._at, before=self._sent, reason=reason)
        )


def decoded(body: bytes) -> Publication:
    return wire.decode_publication(body)

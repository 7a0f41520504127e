"""Answers that go on: written as fast as they are read."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec
from aiohttp import web

from reefcast.http.problems import error_of
from reefcast.http.streams import KEEP_ALIVE, event_bytes

KEEP_ALIVE_S = 15.0
"""How often a stream that brings nothing says that it is there."""
STALLED_S = 60.0
T = TypeVar("T")


def abort(request: web.BaseRequest) -> None:
    """End the connection of a request at once: what waits to be sent would keep it open."""
    if request.transport is not None:
        request.transport.abort()


class Writer:
    """Writes an answer. A reader that takes nothing for `STALLED_S` is disconnected."""

    def __init__(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        self.response = response
        self._request = request

    async def begin(self, first: bytes = b"") -> None:
        """Send the head and `first`, so that the reader knows that it has subscribed."""
        await self.response.prepare(self._request)
        await self.write(first)

    async def write(self, data: bytes) -> None:
        """Write, and wait until the reader has room for more. Raises `ConnectionError` if it takes
        nothing for too long."""
        if not data:
            return
        try:
            async with asyncio.timeout(STALLED_S):
                await self.response.write(data)
        except TimeoutError:
            abort(self._request)
            raise ConnectionResetError("the reader of a stream takes nothing") from None

    async def wait_for(
        self, batch: Callable[[], Awaitable[Sequence[T]]], until_s: float = math.inf
    ) -> Sequence[T]:
        """Wait for events; say meanwhile that the stream is there. Return none at `until_s`, in
        seconds of the loop."""
        loop = asyncio.get_running_loop()
        while (left_s := until_s - loop.time()) > 0:
            try:
                async with asyncio.timeout(min(KEEP_ALIVE_S, left_s)):
                    return await batch()
            except TimeoutError:
                if left_s > KEEP_ALIVE_S:
                    await self.write(KEEP_ALIVE)
        return ()

    async def end(self, error: Exception) -> None:
        """Write the last event, `end`, with the reason why no more follow."""
        told = None if isinstance(error, StopAsyncIteration) else error_of(error)
        data = b"{}" if told is None else msgspec.json.encode(told.problem)
        await self.write(event_bytes(data, name="end"))
        await self.response.write_eof()

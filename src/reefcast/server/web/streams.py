"""Server-sent events: a response that goes on while the page is looked at."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from reefcast.server.web.http import HEADERS
from reefcast.server.web.visits import Visits


async def stream(
    request: web.BaseRequest,
    visits: Visits,
    events: AsyncIterator[tuple[str, bytes]],
    ended: Callable[[], str],
) -> web.StreamResponse:
    """Send `events` (name, JSON) until the page is closed, or `ended` returns why it must end,
    which is sent as the last event, `end`."""
    headers = {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"}
    response = web.StreamResponse(headers=headers)
    await response.prepare(request)
    try:
        async for name, data in events:
            why = ended()
            if why:
                await response.write(_event("end", why.encode()))
                break
            await response.write(_event(name, data))
            visits.answered(request.transport)
        await response.write_eof()
    except (ConnectionError, asyncio.CancelledError):  # the page was closed, or the broker ends
        response.force_close()
    return response


def _event(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data.replace(b"\n", b" ") + b"\n\n"

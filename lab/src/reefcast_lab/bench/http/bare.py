"""A server that does the least for the same requests: the baseline. It decodes what is posted, and
passes each event on to all who read. It has no filters, users, limits or queues."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

import msgspec
from aiohttp import web

ACCEPTED = b'{"accepted":1}'


class Bare:
    """The server. `readers`: the streams that are open."""

    def __init__(self) -> None:
        self._readers: set[asyncio.Queue[bytes]] = set()
        self._number = 0

    def app(self) -> web.Application:
        app = web.Application(client_max_size=1 << 24)
        app.router.add_post("/v1/events", self._post)
        app.router.add_get("/v1/events", self._stream)
        return app

    async def _post(self, request: web.Request) -> web.Response:
        posted = msgspec.json.decode(await request.read())
        events: list[Any] = posted if isinstance(posted, list) else [posted]
        if self._readers:
            text = b"".join(map(self._line, events))
            for reader in self._readers:
                reader.put_nowait(text)
        return web.Response(body=ACCEPTED, status=202, content_type="application/json")

    def _line(self, event: object) -> bytes:
        self._number += 1
        return b"id: %d\ndata: %s\n\n" % (self._number, msgspec.json.encode(event))

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._readers.add(queue)
        try:
            while True:
                await response.write(await queue.get())
        finally:
            self._readers.discard(queue)


if __name__ == "__main__":
    import uvloop

    web.run_app(
        Bare().app(),
        host="127.0.0.1",
        port=int(sys.argv[1]),
        loop=uvloop.new_event_loop(),
        shutdown_timeout=0.1,  # readers' streams never end by themselves
        access_log=None,
        print=None,
    )

"""Sinks of CloudEvents subscriptions, which answer as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from reefcast.cloudevents.events import CloudEvent
from reefcast.cloudevents.http_modes import decode_message


class Sink:
    """A webhook. `permits`: the headers of its answer to OPTIONS; `answer`: what it answers to each
    delivery; `asked`, `got`: what came."""

    def __init__(self) -> None:
        self.url = ""
        self.permits = {"WebHook-Allowed-Origin": "*", "WebHook-Allowed-Rate": "*"}
        self.answer: Callable[[int], web.Response] = lambda number: web.Response(status=204)
        self.asked: list[dict[str, str]] = []
        self.got: list[tuple[dict[str, str], CloudEvent]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        if request.method == "OPTIONS":
            self.asked.append(headers)
            return web.Response(status=200, headers=self.permits)
        (event,) = decode_message(request.headers.items(), await request.read())
        self.got.append((headers, event))
        return self.answer(len(self.got))

    @property
    def ids(self) -> list[str]:
        return [str(event.context["n"]) for _, event in self.got]


@asynccontextmanager
async def sink() -> AsyncIterator[Sink]:
    made = Sink()
    server = web.Server(made.handle)
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(server, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/hook"
    try:
        yield made
    finally:
        listening.close()
        await server.shutdown(1.0)

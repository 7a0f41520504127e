"""A broker in the test's loop that listens for HTTP, and what asks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import aiohttp

import reefcast
import reefcast.testing
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports

PATIENCE_S = 240.0
_numbers = count(1)


def fresh(text: str = "t") -> str:
    """Return a name that no other test has."""
    return f"{text}{next(_numbers)}"


class Stream:
    """A stream of server-sent events, as an EventSource reads it."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.response = response
        self.last_id = ""

    async def next(self) -> tuple[str, Any]:
        """Return the name of the next event and its data; "over" at the end."""
        fields: dict[str, str] = {}
        async with asyncio.timeout(PATIENCE_S):
            while True:
                raw = await self.response.content.readline()
                line = raw.decode().rstrip("\n")
                if not raw:
                    return "over", None
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif "data" in fields:
                    self.last_id = fields.get("id", self.last_id)
                    return fields.get("event", "message"), json.loads(fields["data"])
                else:
                    fields.clear()

    async def message(self) -> dict[str, Any]:
        """Return the next event of the network."""
        name, data = await self.next()
        assert name == "message", (name, data)
        found: dict[str, Any] = data
        return found


class HttpPlace:
    """A broker with an HTTP listener. `url`: of that; `web`: a client of it; `native`: the URL of
    the broker; `client`: a native client, for what the network sees."""

    def __init__(self, node: Node, url: str, web: aiohttp.ClientSession, native: str = "") -> None:
        self.node, self.url, self.web, self.native = node, url, web, native
        self.client: reefcast.Client

    async def ask(self, method: str, path: str, **how: Any) -> tuple[int, Any]:
        """Return the status of an answer, and what it says."""
        async with self.web.request(method, self.url + path, **how) as response:
            body = await response.read()
            return response.status, json.loads(body) if body else None

    async def post(self, body: Any, query: str = "", path: str = "/v1/events") -> tuple[int, Any]:
        """Post something as JSON, or bytes as they are."""
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        return await self.ask("POST", path + query, data=data, headers=headers)

    @asynccontextmanager
    async def stream(self, last_id: str = "", **query: Any) -> AsyncIterator[Stream]:
        """Read a stream of events, which has subscribed when the block begins."""
        headers = {"Last-Event-ID": last_id} if last_id else {}
        request = self.web.get(f"{self.url}/v1/events", params=query, headers=headers)
        async with request as response:
            assert response.status == 200, await response.text()
            yield Stream(response)

    @asynccontextmanager
    async def socket(self, **query: Any) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
        """Open a WebSocket."""
        url = f"{self.url}/v1/events"
        async with self.web.ws_connect(url, params=query, protocols=("reefcast",)) as socket:
            yield socket


@asynccontextmanager
async def http_broker(settings: str = "", **listener: Any) -> AsyncIterator[HttpPlace]:
    """Run a broker with durable sessions, history and a listener with these keys. `settings`: more
    of its network file."""
    async with (
        http_network("b1", settings, **listener) as places,
        reefcast.connect(places["b1"].native) as client,
    ):
        places["b1"].client = client
        yield places["b1"]


@asynccontextmanager
async def http_network(
    links: str, settings: str = "", **listener: Any
) -> AsyncIterator[dict[str, HttpPlace]]:
    """Run brokers, each with a listener with these keys. `settings`: more of their network file."""
    names = dict.fromkeys(links.replace(" - ", " ").split())
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    for name, port in ports.items():
        keys = {"broker": name, "protocol": "http", "listen": f"127.0.0.1:{port}", **listener}
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items())
        settings += f"\n[[listener]]\n{text}\n"
    async with (
        reefcast.testing.network(links, settings) as brokers,
        aiohttp.ClientSession() as web,
    ):
        yield {
            name: HttpPlace(brokers[name].node, f"http://127.0.0.1:{port}", web, brokers[name].url)
            for name, port in ports.items()
        }

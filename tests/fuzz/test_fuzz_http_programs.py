"""Requests of every kind at the HTTP listener for programs: bodies, queries, ids and messages that
are nearly right. The broker goes on, fails on none, and answers the next request."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import time
from contextlib import suppress
from urllib.parse import quote

import msgspec
import pytest
from broker_doors import BrokerDoor, Transport

from fuzzing import (
    FEW,
    MANY,
    MOST_CPU_S,
    OFTEN_AND_SOAKED,
    ONLY,
    changed_bytes,
    changed_text,
    knock,
)
from live_networks import until
from reefcast.http import talk
from reefcast.http.content import event_of, split
from reefcast.http.problems import HttpError
from reefcast.http.reading import body_of, query_of, time_of
from reefcast.http.routes import ROUTES
from reefcast.http.streams import positions_in

TRIED = 100
TURNS = 150
"""Turns of the loop after which a request has been answered, or goes on for long."""
BODIES = (
    '{"topic":"a/b","price":3,"order":{"n":1.5,"buy":true},"tags":[1,2]}',
    '[{"topic":["a","b"],"n":1},{"n":null},{"é":"x"}]',
    '{"n":1}\n\n{"n":9223372036854775808}\n{"n":1e999}\n',
    '{"filter":"n > 1 AND s LIKE \'a%\'","event":{"n":2},"topics":["t"]}',
    '{"filters":["n = 1"],"expiry_s":10,"policy":"refuse"}',
    '{"positions":[1,2],"up_to":3,"reject":[{"position":4,"delay_s":0.5}]}',
    '{"filter":"TRUE","retained":true,"replay":"2026-01-01T00:00:00Z"}',
    '{"type":"publish","id":1,"events":[{"n":1}],"topics":["t"],"confirm":true,"expires_s":5}',
    '{"type":"subscribe","id":2,"filter":"n > 1"}',
    '{"type":"acknowledge","session":"s","positions":[1],"reject":[]}',
)
QUERIES = (
    "topic=a&topic=b&confirm=true&expires_s=5",
    "filter=n%20%3E%201&queue_policy=drop_oldest&queue_limit=5",
    "session=s&prefetch=5&last_event_id=1-3,7",
    "filter=topic%20%3D%20%27a%27&from=2026-01-01T00:00:00Z&to=1e9&limit=3",
    "max=5&wait_s=0",
)
WORDS = (
    *("[", "]", "{", "}", ",", ":", '"', "\\", "\\u0000", "\\ud800", "null", "true", "1e400", "-0"),
    *('"topic":', '"topic":7', "[" * 300, '{"a":' * 120, "9" * 30, "é", "\0", "\n", "%00", "%zz"),
    *("&", "=", "filter=", "nan", "inf", "-1", "1-99999999999", "limit=0", "access_token=x", "$"),
)
HEADERS = (
    "Content-Type: application/json",
    "Content-Type: application/x-ndjson; charset=utf-8",
    "Content-Type: text/plain",
    "Content-Encoding: gzip",
    "Origin: https://other.example",
    "Last-Event-ID: 1-3",
    "Authorization: Bearer x.y.z",
    "Expect: 100-continue",
    "Transfer-Encoding: chunked",
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
)


def text(rng: random.Random, *chosen: str) -> str:
    given = rng.choice(chosen)
    return changed_text(given, rng, WORDS) if rng.random() < 0.5 else given


def request(rng: random.Random) -> bytes:
    """One request to a path that there is, mostly."""
    route = rng.choice(ROUTES)
    path = route.path.replace("{session}", rng.choice(("s", "a%2Fb", "%00", "x" * 300)))
    path = path.replace("{subscription}", rng.choice(("1", "x", "%zz")))
    query = text(rng, *QUERIES, "") if rng.random() < 0.5 else ""
    if rng.random() < 0.5:
        query = quote(query, safe="=&%")
    body = text(rng, *BODIES).encode(errors="replace") if route.method != "GET" else b""
    if rng.random() < 0.2:
        body = changed_bytes(body, rng)
    lines = [f"{route.method} {path}?{query} HTTP/1.1", "Host: localhost"]
    lines.append(HEADERS[0] if rng.random() < 0.7 else rng.choice(HEADERS))
    lines += rng.choices(HEADERS, k=rng.choice((0, 0, 0, 1)))
    if body:
        lines.append(f"Content-Length: {len(body)}")
    return ("\r\n".join(lines) + "\r\n\r\n").encode(errors="replace") + body


class ProgramDoor(BrokerDoor):
    """One broker with an HTTP listener; each input is a connection to it."""

    def __init__(self) -> None:
        super().__init__(http="127.0.0.1:8080")
        assert self.node.http is not None
        self.http = self.node.http

    async def visit(self, data: bytes, turns: int = TURNS) -> bytes:
        """Return what the visitor got by the time that he leaves."""
        visit, transport = self.http.listeners[0].new_visit(), Transport()
        assert isinstance(visit, asyncio.Protocol)
        visit.connection_made(transport)
        visit.data_received(data)
        for _ in range(turns):
            if transport.closed or transport.written:
                break
            await asyncio.sleep(0)
        transport.abort()
        visit.connection_lost(None)
        await asyncio.sleep(0)
        return b"".join(transport.written)

    async def look(self) -> None:
        await super().look()
        post = b"POST /v1/events HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        answer = await self.visit(post + b"Content-Length: 7\r\n\r\n" + b'{"n":1}', 10_000)
        assert answer.startswith(b"HTTP/1.1 202 "), answer
        await until(lambda: not (self.http.front.leaving or self.http.front.streams))
        assert not self.http.status()["connections"]


@pytest.mark.parametrize("count", [FEW // 2, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_requests(count: int, caplog: pytest.LogCaptureFixture) -> None:
    door = ProgramDoor()
    await door.look()
    answered = 0
    gc.disable()  # or it would be blamed on an input
    try:
        for at, seed in enumerate([ONLY] if ONLY else map(str, range(count))):
            answered += await _knock(door, seed)
            if at % TRIED == 0:
                await door.look()
                gc.collect()
    finally:
        gc.enable()
    await door.look()
    assert ONLY or answered > count / 50
    assert not [record for record in caplog.records if record.exc_info]


async def _knock(door: ProgramDoor, seed: str) -> bool:
    data = request(random.Random(seed))
    began_s = time.process_time()
    try:
        answer = await door.visit(data)
        assert time.process_time() - began_s < 5 * MOST_CPU_S
        assert not answer or answer.startswith(b"HTTP/")
        assert not answer.startswith((b"HTTP/1.1 500", b"HTTP/1.0 500"))
        door.check()
    except Exception as error:
        error.add_note(f"REEFCAST_FUZZ_ONLY={seed} {data!r:.3000}")
        raise
    return answer.startswith((b"HTTP/1.1 2", b"HTTP/1.1 101"))


# --- without a broker ----------------------------------------------------------------------------


def drawn(rng: random.Random) -> tuple[bytes, str, str]:
    body = text(rng, *BODIES).encode(errors="replace")
    if rng.random() < 0.3:
        body = changed_bytes(body, rng)
    kind = rng.choice(("application/json", "application/x-ndjson", "a/b+json", "text/plain", ""))
    return body, kind, text(rng, *QUERIES)


def read(given: tuple[bytes, str, str]) -> None:
    """Reads a body in each way that there is, and a query as each route does. Only errors that are
    for the sender may come."""
    body, kind, query = given
    pairs = [(n, v) for n, _, v in (each.partition("=") for each in query.split("&"))]
    for route in ROUTES:
        with suppress(HttpError):
            query_of(route.query, pairs)
        for taken in route.takes.values():
            with suppress(HttpError):
                body_of(taken, body)
    for _, value in pairs:
        with suppress(HttpError):
            positions_in(value, 7)
        with suppress(HttpError):
            positions_in(f"7:{value}", 7)
        with suppress(HttpError):
            time_of(value, "from")
    with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        talk.said(body)
    with suppress(HttpError):
        items, _ = split(body, kind)
        for item in items:
            posted = event_of(item, (), None)
            assert json.loads(posted.payload) is not None


@OFTEN_AND_SOAKED
def test_reading(count: int) -> None:
    knock(read, drawn, count)

"""Bytes of every kind at the admin listener: the broker goes on, and answers the next request."""

from __future__ import annotations

import asyncio
import gc
import random
import time

import pytest
from broker_doors import BrokerDoor, Transport

from fuzzing import FEW, MANY, MOST_CPU_S, ONLY, changed_bytes, changed_text
from reefcast.server.web.visits import MOST_BYTES

TRIED = 250
"""Inputs between two looks at the broker."""
TURNS = 20
"""Turns of the loop after which a request has been answered."""
REQUESTS = (
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET /readyz?a=b&c=%20 HTTP/1.1\r\nHost: 127.0.0.1:9464\r\nConnection: close\r\n\r\n",
    "GET /status?table=PRT&rows=3 HTTP/1.1\r\nHost: [::1]:1\r\nAccept: application/json\r\n\r\n",
    "HEAD /status HTTP/1.0\r\nAuthorization: Basic YTpi\r\nHost: localhost\r\n\r\n",
    "POST /status HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nabcde",
    "PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "GET /healthz HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
    "OPTIONS * HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 9\r\n\r\n",
    "GET http://localhost/healthz HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=d\r\n\r\n",
)
SCRAPE = "GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: text/plain;version=0.0.4\r\n\r\n"
WORDS = (
    *("GET", "HEAD", "CONNECT", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "HTTP/1.1", "HTTP/0.9"),
    *("\r\n", "\n", "\r", "\r\n\r\n", ":", " ", "\t", "\0", "%00", "%zz", "//", "/..", "?", "#"),
    *("Host: localhost", "Host:", "Content-Length: -1", "Content-Length: 99999999999999999999"),
    *("Transfer-Encoding: chunked", "Transfer-Encoding: gzip, chunked", "ffffffffffffffff\r\n"),
    *("Content-Encoding: br", "Content-Encoding: deflate", "Accept: */*;q=x", "é", "\ud7ff"),
    *("Authorization: Bearer " + "a" * 300, "rows=" + "9" * 12, "table=" + "T" * 200, "&" * 99),
    *("Accept: application/openmetrics-text; version=99; escaping=what", "Range: bytes=0-"),
)


def made(rng: random.Random) -> list[bytes]:
    """What a visitor sends, read by read."""
    chosen = [SCRAPE if rng.random() < 0.02 else rng.choice(REQUESTS)]
    chosen += rng.choices(REQUESTS, k=rng.choice((0, 0, 0, 1, 30)))
    text = "".join(chosen)
    if rng.random() < 0.6:
        text = changed_text(text, rng, WORDS)
    data = text.encode(errors="replace")
    if rng.random() < 0.4:
        data = changed_bytes(data, rng)
    if rng.random() < 0.02:
        data *= 1 + MOST_BYTES // max(1, len(data))
    cuts = sorted(rng.randrange(len(data) + 1) for _ in range(rng.choice((0, 0, 1, 3))))
    return [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]


class HttpDoor(BrokerDoor):
    """One broker with an admin listener; each input is a visit."""

    def __init__(self) -> None:
        super().__init__(admin="127.0.0.1:9464")
        assert self.node.door is not None
        self.door = self.node.door

    async def visit(self, reads: list[bytes]) -> bytes:
        """Returns what the visitor got."""
        visit, transport = self.door.new_visit(), Transport()
        visit.connection_made(transport)
        for data in reads:
            if not transport.closed:
                visit.data_received(data)
                await asyncio.sleep(0)
        for _ in range(TURNS):
            if transport.closed:
                break
            await asyncio.sleep(0)
        transport.abort()
        visit.connection_lost(None)
        await asyncio.sleep(0)
        return b"".join(transport.written)

    async def look(self) -> None:
        await super().look()
        scraped = await self.visit([SCRAPE.encode()])
        assert scraped.startswith(b"HTTP/1.1 200 OK\r\n")
        assert b"reefcast_failures_total 0.0" in scraped
        assert not len(self.door.visits)


@pytest.mark.parametrize("count", [FEW, pytest.param(MANY, marks=pytest.mark.soak)])
async def test_requests(count: int, caplog: pytest.LogCaptureFixture) -> None:
    door = HttpDoor()
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
    assert ONLY or answered > count / 10
    assert not [record for record in caplog.records if record.exc_info]


async def _knock(door: HttpDoor, seed: str) -> bool:
    reads = made(random.Random(seed))
    began_s = time.process_time()
    try:
        answer = await door.visit(reads)
        assert time.process_time() - began_s < 3 * MOST_CPU_S
        assert not answer or answer.startswith(b"HTTP/")
        door.check()
    except Exception as error:
        error.add_note(f"REEFCAST_FUZZ_ONLY={seed} {reads!r:.3000}")
        raise
    return answer.startswith((b"HTTP/1.1 200", b"HTTP/1.0 200"))

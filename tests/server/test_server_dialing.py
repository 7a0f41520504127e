"""Dialling: an attempt that is cancelled half-way leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import uvloop

from reefcast.errors import ProtocolError
from reefcast.model.wire import Hello
from reefcast.server.connection import Connection
from reefcast.server.dialing import dial
from reefcast.server.end import End
from reefcast.server.floods import Floods
from reefcast.server.outbox import Flusher
from reefcast.server.shared import Shared
from reefcast.tls.credentials import BrokerCredentials, broker_credentials
from reefcast.tls.identity import broker_uri
from tls_files import Office

TURNS = 12
"""More turns of the loop than it takes to make a connection on loopback."""


def greet(connection: Connection, hello: Hello) -> End:
    raise ProtocolError("nobody says hello here")


async def cancelled_after(turns: int, tls: BrokerCredentials | None = None) -> tuple[bool, int]:
    """Cancel dialling after so many turns of the loop; return whether the connection was made
    before, and how many connections are left."""
    loop = asyncio.get_running_loop()
    shared = Shared(Flusher(loop), set(), 10, Floods(Counter()), tls=tls)
    context = None if tls is None else tls.value.answering
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0, ssl=context)
    address = server.sockets[0].getsockname()[:2]
    dialling = loop.create_task(dial(shared, address, lambda: Connection(shared, greet)))
    for _ in range(turns):
        await asyncio.sleep(0.001 if turns > TURNS else 0)
    was_made = bool(shared.all)
    dialling.cancel()
    (connection,) = await asyncio.gather(dialling, return_exceptions=True)
    if isinstance(connection, Connection):
        connection.abort()
    await asyncio.sleep(0.01)
    server.close()
    return was_made, len(shared.all)


def test_a_connection_that_was_just_made_as_dialling_was_cancelled_is_closed():
    outcomes = [
        uvloop.run(cancelled_after(turns)) for turns in (*range(TURNS), 3 * TURNS) for _ in range(5)
    ]
    assert {was_made for was_made, _ in outcomes} == {True, False}
    assert not any(left for _, left in outcomes)


def test_nor_does_a_handshake_that_was_cancelled(tmp_path: Path):
    files = Office(tmp_path).broker("test", "a")
    tls = broker_credentials(files, "none", broker_uri("test", "a"), "broker a")
    outcomes = [uvloop.run(cancelled_after(turns, tls)) for turns in range(3, 60)]
    outcomes += [uvloop.run(cancelled_after(10 * TURNS, tls))]
    assert {was_made for was_made, _ in outcomes} == {True, False}
    assert not any(left for _, left in outcomes)

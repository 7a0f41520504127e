"""Dialling: an attempt that is cancelled half-way leaves nothing behind."""

from __future__ import annotations

import asyncio
from collections import Counter

import uvloop

from reefcast.errors import ProtocolError
from reefcast.model.wire import Hello
from reefcast.server.connection import Connection, End, Shared
from reefcast.server.dialing import dial
from reefcast.server.floods import Floods
from reefcast.server.outbox import Flusher

TURNS = 12
"""More turns of the loop than it takes to make a connection on loopback."""


def greet(connection: Connection, hello: Hello) -> End:
    raise ProtocolError("nobody says hello here")


async def cancelled_after(turns: int) -> tuple[bool, int]:
    """Cancel dialling after so many turns of the loop; return whether the connection was made
    before, and how many connections are left."""
    loop = asyncio.get_running_loop()
    shared = Shared(Flusher(loop), set(), 10, Floods(Counter()))
    server = await loop.create_server(asyncio.Protocol, "127.0.0.1", 0)
    address = server.sockets[0].getsockname()[:2]
    dialling = loop.create_task(dial(address, lambda: Connection(shared, greet)))
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

"""The publishing side of the live measurement: as fast as it goes, or at a given rate."""

from __future__ import annotations

import asyncio
import socket
import time
from multiprocessing.connection import Connection

from reefcast.client import connect
from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast_lab.bench import mqtt, quotes

WRITE_AT_BYTES = 64 * 1024
EVENTS = 20_000


async def _publish_reefcast(port: int, count: int, rate_per_s: float) -> tuple[int, int]:
    events = quotes.events(EVENTS)
    async with connect(f"reefcast://127.0.0.1:{port}", name="publisher") as client:
        advertisement = client.advertise("price > 0")
        await advertisement
        start_ns = time.time_ns()
        publish = client.publish
        for i in range(count):
            if rate_per_s:
                await _until(start_ns + int(i / rate_per_s * 1e9))
            await publish(events[i % EVENTS])
        await client.flush()
        return start_ns, time.time_ns()


async def _until(due_ns: int) -> None:
    """Returns when the time has come; the loop's timer knows milliseconds, so what is due comes in
    small bursts."""
    ahead_ns = due_ns - time.time_ns()
    if ahead_ns > 0:
        await asyncio.sleep(ahead_ns / 1e9)


def _publish_mqtt(port: int, count: int, rate_per_s: float) -> tuple[int, int]:
    events = quotes.events(EVENTS)
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.sendall(mqtt.connect("publisher"))
        connection.recv(4)
        start_ns = time.time_ns()
        waiting: list[bytes] = []
        size = 0
        for i in range(count):
            due_ns = start_ns + int(i / rate_per_s * 1e9) if rate_per_s else 0
            if (size >= WRITE_AT_BYTES or due_ns > time.time_ns()) and waiting:
                connection.sendall(b"".join(waiting))
                waiting, size = [], 0
            while due_ns > time.time_ns():
                time.sleep(0.001)
            event = Publication("publisher", i, time.time_ns() // 1000, events[i % EVENTS])
            waiting.append(mqtt.publish(wire.encode_publication(event)))
            size += len(waiting[-1])
        connection.sendall(b"".join(waiting))
        return start_ns, time.time_ns()


def run(broker: str, port: int, count: int, rate_per_s: float, pipe: Connection) -> None:
    """The publishing process: `rate_per_s` 0 is as fast as it goes; sends start and end (ns)."""
    import uvloop

    if broker == "reefcast":
        pipe.send(uvloop.run(_publish_reefcast(port, count, rate_per_s)))
    else:
        pipe.send(_publish_mqtt(port, count, rate_per_s))

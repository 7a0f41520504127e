"""A process between the load generators and a broker. What they send in plain text goes to the
broker with TLS, or as it is.

The generators are compiled code that reads sockets itself, and knows no TLS. So a broker with TLS
is measured through a tunnel, and is to be compared with one without TLS through the same tunnel:
both then get and write the same pieces."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from reefcast.errors import PeerError
from reefcast.tls.credentials import dialling_context
from reefcast.tls.files import TlsFiles

HOST = "127.0.0.1"


class Side(asyncio.Protocol):
    """One of the two connections; what comes on it goes to the `other`."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.other: Side | None = None
        self._early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._pass_on(b"")

    def join(self, other: Side) -> None:
        """Pass everything on to the other side, also what came before it was there."""
        self.other = other
        self._pass_on(b"")

    def data_received(self, data: bytes) -> None:
        self._pass_on(data)

    def _pass_on(self, data: bytes) -> None:
        if data:
            self._early.append(data)
        if self._early and self.other is not None and self.other.transport is not None:
            early, self._early = self._early, []
            self.other.transport.write(b"".join(early))

    def pause_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.pause_reading()

    def resume_writing(self) -> None:
        if self.other is not None and self.other.transport is not None:
            self.other.transport.resume_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.transport = None
        if self.other is not None and self.other.transport is not None:
            self.other.transport.close()


class Entrance(Side):
    """The side of a load generator, which has the other one made."""

    def __init__(self, port: int, context: ssl.SSLContext | None) -> None:
        super().__init__()
        self._port = port
        self._context = context
        self._dialling: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._dialling = asyncio.get_running_loop().create_task(self._dial())

    async def _dial(self) -> None:
        loop = asyncio.get_running_loop()
        _, broker = await loop.create_connection(Side, HOST, self._port, ssl=self._context)
        broker.join(self)
        self.join(broker)


async def serve(ports: dict[int, int], authority: str) -> None:
    """Listen on the ports, each for a broker's, until standard input ends."""
    context = dialling_context(TlsFiles(authority)) if authority else None
    loop = asyncio.get_running_loop()
    for own, brokers in ports.items():
        await loop.create_server(lambda port=brokers: Entrance(port, context), HOST, own)  # type: ignore[misc]  # a port each
    print("ready", flush=True)
    await loop.run_in_executor(None, sys.stdin.read)


@contextmanager
def tunnel(ports: dict[int, int], authority: Path | None) -> Iterator[None]:
    """Run such a process in the block. `ports`: of its own, each for one of a broker's;
    `authority`: of the brokers, if they speak TLS. Raises `PeerError` if it does not start."""
    named = [f"{own}:{brokers}" for own, brokers in ports.items()]
    command = [sys.executable, "-m", __name__, str(authority or ""), *named]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            if not process.stdout.readline():
                raise PeerError("the tunnel to the brokers did not start")
            yield
        finally:
            process.stdin.close()


def main() -> None:
    """Run it, with the authority and the ports on the command line."""
    import uvloop

    authority, *named = sys.argv[1:]
    pairs = (each.split(":") for each in named)
    uvloop.run(serve({int(own): int(brokers) for own, brokers in pairs}, authority))


if __name__ == "__main__":
    main()

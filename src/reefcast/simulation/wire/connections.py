"""Connections in simulated time, between protocols of asyncio.

Bytes take a while (`latency_s`), and come in pieces that have nothing to do with how they were
written (`piece`). What networks do to connections is done to a `Pair`: both ends are told that it
is broken (`reset`), at once or after so many bytes (`cut_after`), or only one is, and the other
waits for what never comes (`half_open`). What is under way is lost then.
"""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

Address = tuple[str, int]
BUFFER_BYTES = 64 * 1024
"""What the operating systems hold of one direction."""
INSTANT_S = 1e-9


class _Socket(NamedTuple):
    address: Address

    def getsockname(self) -> Address:
        return self.address


class Server:
    """What `create_server` returns: it listens until it is closed."""

    def __init__(
        self, connections: Connections, factory: Callable[[], asyncio.Protocol], address: Address
    ) -> None:
        if address in connections.servers:
            raise OSError(errno.EADDRINUSE, "address in use")
        self.factory = factory
        self.sockets = (_Socket(address),)
        self._connections = connections
        self._address = address
        connections.servers[address] = self

    def close(self) -> None:
        if self._connections.servers.get(self._address) is self:
            del self._connections.servers[self._address]

    async def wait_closed(self) -> None:
        """Closing takes no time."""


class Connections:
    """All of one simulation. `latency_s()`: of one write; `piece(n)`: how many of `n` bytes that
    are here come in the next read."""

    def __init__(
        self,
        latency_s: Callable[[], float] = lambda: 0.001,
        piece: Callable[[int], int] = lambda count: count,
    ) -> None:
        self.servers: dict[Address, Server] = {}
        self.pairs: list[Pair] = []
        self.latency_s = latency_s
        self.piece = piece

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], address: Address
    ) -> tuple[End, asyncio.Protocol]:
        await asyncio.sleep(self.latency_s())
        server = self.servers.get(address)
        if server is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        pair = Pair(self)
        near, far = pair.ends
        near.begin(factory(), address)
        far.begin(server.factory(), ("127.0.0.1", 50_000 + len(self.pairs)))
        self.pairs.append(pair)
        assert near.protocol is not None
        return near, near.protocol


class Pair:
    """One connection: the end of who dialled, and that of who was dialled."""

    def __init__(self, connections: Connections) -> None:
        self.connections = connections
        self.ends = End(self), End(self)
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]

    @property
    def alive(self) -> bool:
        return not any(end.gone for end in self.ends)

    def reset(self) -> None:
        for end in self.ends:
            end.lose(ConnectionResetError(errno.ECONNRESET, "connection reset"))

    def cut_after(self, count: int, *, forward: bool) -> None:
        """Both ends are told when so many more bytes have come; `forward`: to who was dialled."""
        self.ends[forward].left = count

    def half_open(self, *, dialled: bool) -> None:
        """Only one end is told; `dialled`: it is the one that was dialled."""
        end = self.ends[dialled]
        end.other.deaf = True
        end.lose(ConnectionResetError(errno.ECONNRESET, "connection reset"))


class End(asyncio.Transport):
    """One end of a connection. `gone`: its protocol was told so; `deaf`: nothing comes or goes any
    more, and nobody says so; `left`: bytes that may still come (see `Pair.cut_after`)."""

    other: End

    def __init__(self, pair: Pair) -> None:
        super().__init__()
        self._pair = pair
        self._loop = asyncio.get_running_loop()
        self._coming: deque[bytes] = deque()  # arrived, and not read
        self._arrives_s = 0.0
        self._under_way = 0
        self._high = BUFFER_BYTES
        self._paused = self._closing = self._asked_to_wait = self._reading = False
        self._address: Address = ("", 0)
        self.protocol: asyncio.Protocol | None = None
        self.gone = self.deaf = False
        self.left: int | None = None

    def begin(self, protocol: asyncio.Protocol, address: Address) -> None:
        self.protocol, self._address = protocol, address
        protocol.connection_made(self)

    # --- what protocols ask of a transport --------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._address if name == "peername" else default

    def is_closing(self) -> bool:
        return self._closing or self.gone

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = BUFFER_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, self._under_way - BUFFER_BYTES)

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.gone, "uvloop would raise"
        if data and not self._closing:
            self._send(bytes(data))

    def write_eof(self) -> None:
        self._send(b"")

    def close(self) -> None:
        """What was written goes out first."""
        if not self.is_closing():
            self._closing = True
            self._send(b"")
            self._loop.call_soon(self.lose, None)

    def abort(self) -> None:
        if not self.gone:
            self._closing = True
            self._loop.call_soon(self._pair.reset)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._read_soon()

    # --- bytes ------------------------------------------------------------------------------------

    def _send(self, data: bytes) -> None:
        """Nothing stands for the end."""
        self._under_way += len(data)
        now_s = self._loop.time()
        # Loops do not keep the order of what is due at the very same time.
        soonest_s = self._arrives_s + INSTANT_S
        self._arrives_s = max(soonest_s, now_s + self._pair.connections.latency_s())
        self._loop.call_at(self._arrives_s, self.other.arrive, data)
        if self._under_way > BUFFER_BYTES + self._high and not self._asked_to_wait:
            self._asked_to_wait = True
            assert self.protocol is not None
            self.protocol.pause_writing()

    def arrive(self, data: bytes) -> None:
        if not (self.gone or self.deaf):
            self._coming.append(data)
            self._read_soon()

    def _read_soon(self) -> None:
        if not (self._reading or self._paused or self.gone) and self._coming:
            self._reading = True
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        self._reading = False
        if self._paused or self.gone or self.deaf or not self._coming:
            return
        assert self.protocol is not None
        data = self._coming.popleft()
        if not data:
            if not self.protocol.eof_received():
                self.close()
            return
        count = max(1, min(self._pair.connections.piece(len(data)), len(data)))
        if self.left is not None:
            count = min(count, self.left)
        if count < len(data):
            self._coming.appendleft(data[count:])
        if count:
            self.other.has_sent(count)
            self.protocol.data_received(data[:count])
        if self.left is not None:
            self.left -= count
            if self.left <= 0:
                self._pair.reset()
        self._read_soon()

    def has_sent(self, count: int) -> None:
        """So much of what it wrote has been read."""
        self._under_way -= count
        if self._asked_to_wait and self._under_way <= BUFFER_BYTES:
            self._asked_to_wait = False
            if not self.gone and self.protocol is not None:
                self.protocol.resume_writing()

    def lose(self, error: Exception | None) -> None:
        """It is gone, and its protocol is told."""
        if not self.gone:
            self.gone = True
            self._coming.clear()
            assert self.protocol is not None
            self.protocol.connection_lost(error)

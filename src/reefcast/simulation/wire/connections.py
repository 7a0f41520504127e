"""Connections in simulated time, between protocols of asyncio on simulated machines.

Rules
-----
- Bytes arrive in their order, at the time that the cable computes, and are read in pieces that do
  not depend on how they were written.
- An end that writes to one that is gone is told, as by TCP (RST). It then drops what it has not
  read.
- A transport calls its protocol in the context of its own program, and never before the machine is
  thawed; a program that is dead is not called at all.
- These transports support only what uvloop's do."""

from __future__ import annotations

import asyncio
import errno
from collections import deque
from collections.abc import Callable
from contextvars import Context, copy_context
from typing import Any, NamedTuple

import xxhash

from reefcast.simulation.wire.cables import Cable
from reefcast.simulation.wire.machines import SimulatedMachine, current

Address = tuple[str, int]
BUFFER_BYTES = 64 * 1024
"""What the operating systems hold of one direction."""
INSTANT_S = 1e-9
FIRST_PORT = 50_000
_END, _RESET = b"", None


class _Socket(NamedTuple):
    address: Address

    def getsockname(self) -> Address:
        return self.address


class Server:
    """The result of `create_server`: it listens until it is closed."""

    def __init__(
        self, connections: Connections, factory: Callable[[], asyncio.Protocol], address: Address
    ) -> None:
        if address in connections.servers:
            raise OSError(errno.EADDRINUSE, "address in use")
        self.factory = factory
        self.machine = current()
        self.context = copy_context()
        self.sockets = (_Socket(address),)
        self._connections = connections
        self._address = address
        connections.servers[address] = self

    def close(self) -> None:
        if self._connections.servers.get(self._address) is self:
            del self._connections.servers[self._address]

    async def wait_closed(self) -> None:
        """Return at once: closing takes no time."""


class Connections:
    """All connections of one simulation. `names`: who listens where, also while nobody does;
    `make_cable`: makes the cable between two machines. `log`: a hash of all that was read, by whom
    and when."""

    def __init__(
        self,
        names: dict[Address, str],
        make_cable: Callable[[str, str], Cable] = lambda one, other: Cable(),
    ) -> None:
        self.servers: dict[Address, Server] = {}
        self.log = xxhash.xxh64()
        self.context = copy_context()
        self._names = names
        self._make_cable = make_cable
        self._cables: dict[tuple[str, str], Cable] = {}
        self._pairs: dict[tuple[str, str], list[Pair]] = {}
        self._last_port = FIRST_PORT

    def cable(self, one: str, other: str) -> Cable:
        """Return the cable between two machines, in whatever order."""
        ends = (min(one, other), max(one, other))
        if ends not in self._cables:
            self._cables[ends] = self._make_cable(*ends)
        return self._cables[ends]

    def pairs(self, one: str, other: str) -> list[Pair]:
        """Return the connections between two machines that are not over."""
        ends = (min(one, other), max(one, other))
        self._pairs[ends] = [pair for pair in self._pairs.get(ends, ()) if pair.alive]
        return self._pairs[ends]

    @property
    def all(self) -> list[Pair]:
        """The connections that are not over."""
        return [pair for ends in sorted(self._pairs) for pair in self.pairs(*ends)]

    async def connect(
        self, factory: Callable[[], asyncio.Protocol], address: Address
    ) -> tuple[End, asyncio.Protocol]:
        machine, other = current(), self._names.get(address, "")
        cable = self.cable(machine.name, other)
        await self._crosses(cable, machine.name)
        reached = address in self.servers
        await self._crosses(cable, other)
        server = self.servers.get(address)
        if server is None or not reached:
            raise ConnectionRefusedError(errno.ECONNREFUSED, "connection refused")
        self._last_port += 1
        own = ("127.0.0.1", self._last_port)
        pair = Pair(self, cable, (machine, server.machine))
        near, far = pair.ends
        near.address, far.address = (own, address), (address, own)
        self.pairs(machine.name, other).append(pair)
        far.begin_soon(server.factory, server.context)
        near.begin(factory(), copy_context())
        assert near.protocol is not None
        return near, near.protocol

    async def _crosses(self, cable: Cable, sender: str) -> None:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(cable.arrival_s(sender, 0, now) - now)

    def kill(self, machine: SimulatedMachine) -> None:
        """Close the sockets of a machine whose program is dead, as its operating system would."""
        for address, server in list(self.servers.items()):
            if server.machine is machine:
                del self.servers[address]
        for pair in self.all:
            for end in pair.ends:
                if end.machine is machine:
                    end.die()


class Pair:
    """One connection: the dialling end, and the dialled one. `silent`: neither end is told any more
    what becomes of the other."""

    def __init__(
        self,
        connections: Connections,
        cable: Cable,
        machines: tuple[SimulatedMachine, SimulatedMachine],
    ) -> None:
        self.connections = connections
        self.cable = cable
        self.silent = False
        self.ends = End(self, machines[0]), End(self, machines[1])
        self.ends[0].other, self.ends[1].other = self.ends[1], self.ends[0]

    @property
    def alive(self) -> bool:
        """Whether an end is left that may do something."""
        return not all(end.gone for end in self.ends)

    def reset(self) -> None:
        """Reset the connection: both ends learn it at once."""
        self._harmed()
        for end in self.ends:
            end.lose(ConnectionResetError(errno.ECONNRESET, "connection reset"))

    def cut_after(self, count: int, at: str) -> None:
        """Reset the connection when `count` more bytes have arrived at machine `at`."""
        for end in self.ends:
            if end.machine.name == at:
                end.left = count

    def vanish(self, told: tuple[str, ...], *, drains: bool = False) -> None:
        """Break the connection, and tell only the machines in `told`. `drains`: what is under way
        to the other arrives."""
        self._harmed()
        self.silent = True
        for end in self.ends:
            if end.machine.name in told:
                end.lose(ConnectionResetError(errno.ECONNRESET, "connection reset"))
            else:
                end.deaf = not drains
                end.other.mute = True

    def _harmed(self) -> None:
        self.cable.harmed.append(asyncio.get_running_loop().time())


class End(asyncio.Transport):
    """One end of a connection. `gone`: it is over for this end; `deaf`: what comes is thrown away;
    `mute`: what is written never arrives; `left`: bytes that may still come (see `cut_after`);
    `under_way`: bytes that were written and not read. `address`: its own, and the other's."""

    other: End

    def __init__(self, pair: Pair, machine: SimulatedMachine) -> None:
        super().__init__()
        self.machine = machine
        self.address: tuple[Address, Address] = (("", 0), ("", 0))
        self.protocol: asyncio.Protocol | None = None
        self.gone = self.deaf = self.mute = False
        self.left: int | None = None
        self.under_way = 0
        self._pair = pair
        self._loop = asyncio.get_running_loop()
        self._context: Context
        self._coming: deque[bytes | None] = deque()  # arrived, and not read
        self._arrives_s = 0.0
        self._high = BUFFER_BYTES
        self._paused = self._closing = self._asked_to_wait = self._reading = self._told = False

    def begin_soon(self, factory: Callable[[], asyncio.Protocol], context: Context) -> None:
        """Connect the program's protocol as soon as the program runs."""

        def begin() -> None:
            if not self.gone:
                self.begin(factory(), context)

        self._call(begin, context)

    def begin(self, protocol: asyncio.Protocol, context: Context) -> None:
        self.protocol, self._context = protocol, context
        protocol.connection_made(self)
        self._read_soon()

    def _call(self, what: Callable[[], None], context: Context) -> None:
        """Call something in this end's program, as soon as that does anything."""
        if self.machine.dead:
            return
        at_s = self.machine.frozen_until_s
        if at_s > self._loop.time():
            self._loop.call_at(at_s, what, context=context)
        else:
            self._loop.call_soon(what, context=context)

    # --- what protocols ask of a transport --------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"sockname": self.address[0], "peername": self.address[1]}.get(name, default)

    def is_closing(self) -> bool:
        return self._closing or self.gone

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = BUFFER_BYTES if high is None else high

    def get_write_buffer_size(self) -> int:
        return max(0, self.under_way - BUFFER_BYTES)

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._told:
            raise RuntimeError("written to a transport that is gone: uvloop raises")
        if data and not self.is_closing():
            self._send(bytes(data))

    def write_eof(self) -> None:
        if not self.is_closing():
            self._send(_END)

    def close(self) -> None:
        """Close the connection after what was written has gone out."""
        if not self.is_closing():
            self._closing = True
            self._send(_END)
            self._close_when_written()

    def _close_when_written(self) -> None:
        if self._closing and not self.get_write_buffer_size():
            self.lose(None)

    def abort(self) -> None:
        if not self.gone:
            self._send(_RESET)
            self.lose(None)

    def pause_reading(self) -> None:
        self._paused = True

    def resume_reading(self) -> None:
        self._paused = False
        self._read_soon()

    # --- bytes ------------------------------------------------------------------------------------

    def _send(self, data: bytes | None) -> None:
        size = len(data) if data else 0
        self.under_way += size
        if self.mute:
            return
        now_s = self._loop.time()
        arrives_s = self._pair.cable.arrival_s(self.machine.name, size, now_s)
        # Loops do not keep the order of what is due at the very same time.
        self._arrives_s = max(self._arrives_s + INSTANT_S, arrives_s)
        # What is on its way is in nobody's program: it arrives whatever becomes of the sender.
        context = self._pair.connections.context
        self._loop.call_at(self._arrives_s, self.other._arrive, data, context=context)
        if self.under_way > BUFFER_BYTES + self._high and not self._asked_to_wait:
            self._asked_to_wait = True
            assert self.protocol is not None
            self.protocol.pause_writing()

    def _arrive(self, data: bytes | None) -> None:
        if self.deaf:
            return
        if not self.gone:
            self._coming.append(data)
            self._read_soon()
        elif data and not self._pair.silent:
            self._send(_RESET)

    def _read_soon(self) -> None:
        ready = self.protocol is not None and self._coming
        if ready and not (self._reading or self._paused or self.gone):
            self._reading = True
            self._call(self._read, self._context)

    def _read(self) -> None:
        self._reading = False
        if self._paused or self.gone or self.deaf or not self._coming:
            return
        data = self._coming.popleft()
        if data is _RESET:
            self.lose(ConnectionResetError(errno.ECONNRESET, "connection reset by peer"))
        elif data == _END:
            assert self.protocol is not None
            if not self.protocol.eof_received():
                self.close()
        else:
            self._read_some(data)
        self._read_soon()

    def _read_some(self, data: bytes) -> None:
        count = self._pair.cable.piece(len(data), self._loop.time())
        if self.left is not None:
            count = min(count, self.left)
            self.left -= count
        if count < len(data):
            self._coming.appendleft(data[count:])
        if count:
            self._note(data[:count])
            self.other.has_sent(count)
            assert self.protocol is not None
            self.protocol.data_received(data[:count])
        if self.left == 0:
            self._pair.reset()

    def _note(self, data: bytes) -> None:
        log, ends = self._pair.connections.log, (self.other.machine.name, self.machine.name)
        log.update(f"{self._loop.time():.9f} {ends} {len(data)}:".encode())
        log.update(data)

    def has_sent(self, count: int) -> None:
        """Note that the other end has read `count` bytes of what this one wrote."""
        self.under_way -= count
        if self.gone or self.machine.dead:
            return
        self._close_when_written()
        if self._asked_to_wait and self.under_way <= BUFFER_BYTES and not self.gone:
            self._asked_to_wait = False
            assert self.protocol is not None
            self._call(self.protocol.resume_writing, self._context)

    # --- the end ----------------------------------------------------------------------------------

    def lose(self, error: Exception | None) -> None:
        """End the connection for this end, and tell its protocol."""
        if self.gone:
            return
        self.gone = True
        self._coming.clear()
        if self.protocol is not None:
            self._call(lambda: self._tell(error), self._context)

    def _tell(self, error: Exception | None) -> None:
        self._told = True
        assert self.protocol is not None
        self.protocol.connection_lost(error)

    def die(self) -> None:
        """Reset the connection, because the program of this end is dead."""
        if not self.gone:
            self._pair.cable.harmed.append(self._loop.time())
            self._send(_RESET)
            self.gone = True
            self._coming.clear()

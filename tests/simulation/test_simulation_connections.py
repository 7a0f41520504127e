"""Connections in simulated time: bytes arrive in order, or the ends learn of the failure as with
TCP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from reefcast.simulation.links import LinkSpec
from reefcast.simulation.wire.cables import Cable
from reefcast.simulation.wire.connections import BUFFER_BYTES, Connections, End, Pair
from reefcast.simulation.wire.faults import Pieces
from reefcast.simulation.wire.loop import SimulatedLoop
from reefcast.simulation.wire.machines import SimulatedMachine

ADDRESS = ("127.0.0.1", 1)
RESET = "ConnectionResetError"


class Peer(asyncio.Protocol):
    """A protocol that records what comes, and how its connection ends."""

    transport: End

    def __init__(self) -> None:
        self.reads: list[bytes] = []
        self.end: list[object] = []
        self.flow: list[str] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, End)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.reads.append(data)

    def eof_received(self) -> bool:
        self.end.append("eof")
        return False

    def connection_lost(self, error: Exception | None) -> None:
        self.end.append(type(error).__name__)

    def pause_writing(self) -> None:
        self.flow.append("pause")

    def resume_writing(self) -> None:
        self.flow.append("resume")


class Bench:
    """Two machines, `near` that dials and `far` that listens, with a cable between them."""

    def __init__(self, cable: Cable) -> None:
        connections = Connections({ADDRESS: "far"}, lambda one, other: cable)
        self.loop = SimulatedLoop(connections)
        self.machines = {name: SimulatedMachine(name, name, self.loop) for name in ("near", "far")}

    async def on(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run some work as a program on that machine."""
        machine = self.machines[name]

        async def run() -> Any:
            return await work()

        return await self.loop.create_task(run(), context=machine.context)

    async def listen(self, factory: Callable[[], Peer]) -> Any:
        return await self.on("far", lambda: self.loop.create_server(factory, *ADDRESS))

    async def dial(self) -> Peer:
        _, near = await self.on("near", lambda: self.loop.create_connection(Peer, *ADDRESS))
        return near

    async def two_peers(self) -> tuple[Peer, Peer, Pair]:
        came: list[Peer] = []

        def accept() -> Peer:
            came.append(Peer())
            return came[-1]

        await self.listen(accept)
        near = await self.dial()
        await asyncio.sleep(0)
        (pair,) = self.loop.connections.pairs("near", "far")
        return near, came[0], pair


def bench(work: Callable[[Bench], Awaitable[None]], cable: Cable | None = None) -> None:
    """Run some work on a bench, from outside all machines."""
    made = Bench(cable or Cable())

    async def run() -> None:
        await work(made)

    made.loop.run_until_complete(run())


def test_bytes_come_in_order_and_in_other_pieces() -> None:
    async def work(bench: Bench) -> None:
        near, far, _ = await bench.two_peers()
        near.transport.write(b"abc")
        near.transport.write(b"defg")
        near.transport.close()
        await asyncio.sleep(1)
        assert b"".join(far.reads) == b"abcdefg"
        assert max(map(len, far.reads)) <= 2
        assert (near.end, far.end) == (["NoneType"], ["eof", "NoneType"])

    bench(work, Cable(spells=[Pieces(most=2)]))


def test_nothing_overtakes() -> None:
    async def work(bench: Bench) -> None:
        near, far, _ = await bench.two_peers()
        for number in range(100):
            near.transport.write(bytes([number]))
            await asyncio.sleep(1e-4)
        await asyncio.sleep(10)
        assert b"".join(far.reads) == bytes(range(100))

    bench(work, Cable(LinkSpec(1e-3, jitter_s=0.1)))


def test_a_reset_loses_what_is_under_way_and_both_ends_are_told() -> None:
    async def work(bench: Bench) -> None:
        near, far, pair = await bench.two_peers()
        near.transport.write(b"abc")
        pair.reset()
        await asyncio.sleep(1)
        assert far.reads == []
        assert near.end == far.end == [RESET]
        assert not pair.alive and bench.loop.connections.all == []

    bench(work)


def test_who_writes_to_an_end_that_is_gone_is_told() -> None:
    async def work(bench: Bench) -> None:
        near, far, _ = await bench.two_peers()
        far.transport.abort()
        near.transport.write(b"abc")
        await asyncio.sleep(1)
        assert (near.end, far.end, far.reads) == ([RESET], ["NoneType"], [])
        with pytest.raises(RuntimeError, match="gone"):
            near.transport.write(b"abc")

    bench(work)


@pytest.mark.parametrize("told", [(), ("near",), ("far",)])
def test_of_a_connection_that_vanished_only_some_are_told(told: tuple[str, ...]) -> None:
    async def work(bench: Bench) -> None:
        near, far, pair = await bench.two_peers()
        far.transport.write(b"abc")
        pair.vanish(told)
        if not told:
            near.transport.write(b"abc")
        await asyncio.sleep(1000)
        assert (near.reads, far.reads) == ([], [])
        ends = {"near": near.end, "far": far.end}
        assert ends == {name: [RESET] if name in told else [] for name in ends}

    bench(work)


def test_what_was_under_way_may_arrive_all_the_same() -> None:
    async def work(bench: Bench) -> None:
        near, far, pair = await bench.two_peers()
        near.transport.write(b"abc")
        pair.vanish(("near",), drains=True)
        await asyncio.sleep(1000)
        assert (far.reads, near.end, far.end) == ([b"abc"], [RESET], [])

    bench(work)


@pytest.mark.parametrize("at", ["near", "far"])
@pytest.mark.parametrize("count", range(1, 6))
def test_a_connection_is_cut_at_any_byte(at: str, count: int) -> None:
    async def work(bench: Bench) -> None:
        near, far, pair = await bench.two_peers()
        sender, receiver = (far, near) if at == "near" else (near, far)
        pair.cut_after(count, at)
        sender.transport.write(b"abc")
        sender.transport.write(b"def")
        await asyncio.sleep(1)
        assert b"".join(receiver.reads) == b"abcdef"[:count]
        assert near.end == far.end == [RESET]

    bench(work)


def test_who_is_not_read_from_is_told_to_wait() -> None:
    async def work(bench: Bench) -> None:
        near, far, _ = await bench.two_peers()
        near.transport.set_write_buffer_limits(high=10)
        far.transport.pause_reading()
        near.transport.write(bytes(BUFFER_BYTES))
        assert near.flow == []
        near.transport.write(bytes(11))
        assert (near.flow, near.transport.get_write_buffer_size()) == (["pause"], 11)
        await asyncio.sleep(1)
        assert far.reads == []
        far.transport.resume_reading()
        await asyncio.sleep(1)
        assert near.flow == ["pause", "resume"]
        assert sum(map(len, far.reads)) == BUFFER_BYTES + 11

    bench(work)


def test_where_nobody_listens_nobody_is_reached() -> None:
    async def work(bench: Bench) -> None:
        server = await bench.listen(Peer)
        with pytest.raises(OSError, match="in use"):
            await bench.listen(Peer)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await bench.dial()

    bench(work)


def test_the_connections_of_a_dead_program_end() -> None:
    async def work(bench: Bench) -> None:
        near, far, pair = await bench.two_peers()
        near.transport.write(b"abc")
        bench.loop.kill(bench.machines["far"])
        await asyncio.sleep(1)
        assert (near.end, far.end, far.reads) == ([RESET], [], [])
        assert not pair.alive
        with pytest.raises(ConnectionRefusedError):
            await bench.dial()

    bench(work)


def test_who_is_frozen_reads_when_it_goes_on() -> None:
    async def work(bench: Bench) -> None:
        near, far, _ = await bench.two_peers()
        bench.loop.freeze(bench.machines["far"], bench.loop.time() + 5)
        near.transport.write(b"abc")
        await asyncio.sleep(4)
        assert far.reads == []
        await asyncio.sleep(2)
        assert far.reads == [b"abc"]

    bench(work)

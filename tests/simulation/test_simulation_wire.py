"""Live brokers and clients in simulated time, over connections that break in all ways: as long as
no broker dies, nothing is lost, doubled or misdelivered, and no publisher's order is broken."""

from __future__ import annotations

import asyncio
import random
import secrets
import uuid
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import reefcast
from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry, LinkEntry, NetworkSection
from reefcast.server.node import Node
from reefcast.simulation.wire.connections import BUFFER_BYTES, Connections, End, Pair
from reefcast.simulation.wire.loop import SimulatedLoop
from reefcast.simulation.world import NoProgressError

TREES = {
    "one": ("a", []),
    "path": ("abc", ["ab", "bc"]),
    "star": ("abcd", ["ab", "ac", "ad"]),
}
HARM_S = 20.0
ROUTINGS = ["acyclic", "flooding", "mesh"]


@contextmanager
def tokens_of(rng: random.Random) -> Iterator[None]:
    """The random texts of sessions are of this run, too."""
    with (
        mock.patch.object(secrets, "token_hex", lambda n: rng.randbytes(n).hex()),
        mock.patch.object(uuid, "uuid4", lambda: uuid.UUID(bytes=rng.randbytes(16), version=4)),
        mock.patch.object(random, "Random", lambda *seed: _Random(*seed or (rng.random(),))),
    ):
        yield


_Random = random.Random


def network(names: str, links: list[str], routing: str) -> NetworkFile:
    file = NetworkFile(
        network=NetworkSection(name="test", routing=routing),
        broker=[BrokerEntry(name, f"127.0.0.1:{7301 + at}") for at, name in enumerate(names)],
        link=[LinkEntry(between=link) for link in links],
    )
    return file.validate()


class Subscriber:
    """Who wants the events of which `n % modulus == 0`."""

    def __init__(self, client: reefcast.Client, modulus: int) -> None:
        self.modulus = modulus
        self.subscription = client.subscribe(f"n{modulus} = 0")
        self.got: list[tuple[str, int]] = []
        self.reading = asyncio.create_task(self.read())

    async def read(self) -> None:
        async for event in self.subscription:
            self.got.append((event.publisher, event["n"]))


def harm(pairs: list[Pair], rng: random.Random) -> None:
    alive = [pair for pair in pairs if pair.alive]
    if not alive:
        return
    pair, fault = rng.choice(alive), rng.randrange(4)
    if fault == 0:
        pair.reset()
    elif fault == 1:
        pair.half_open(dialled=rng.random() < 0.5)
    else:
        pair.cut_after(rng.randrange(1, 3000), forward=rng.random() < 0.5)


async def publish(client: reefcast.Client, count: int, rng: random.Random) -> None:
    for n in range(count):
        await client.publish(n=n, n2=n % 2, n3=n % 3, text="x" * rng.randrange(200))
        await asyncio.sleep(rng.expovariate(count / HARM_S))


async def run(seed: int, tree: str, routing: str) -> list[list[tuple[str, int]]]:
    rng = random.Random(seed)
    names, links = TREES[tree]
    file = network(names, [tuple(link) for link in links], routing)
    nodes = [Node(file, name) for name in names]
    for node in nodes:
        await node.start()
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)

    async def client() -> reefcast.Client:
        host, port = file.address(rng.choice(names))
        return await reefcast.connect(f"reefcast://{host}:{port}", reconnect_timeout_s=1000.0)

    subscribers = [Subscriber(await client(), rng.choice([2, 3])) for _ in range(rng.randint(1, 3))]
    for each in subscribers:
        await each.subscription.settled()
    publishers = [await client() for _ in range(rng.randint(1, 2))]
    for each in publishers:
        await each.advertise("n >= 0")
    count = rng.randint(1, 80)
    publishing = [asyncio.create_task(publish(each, count, rng)) for each in publishers]
    while not all(task.done() for task in publishing):
        await asyncio.sleep(rng.expovariate(1.0))
        harm(loop.connections.pairs, rng)
    for each in publishers:
        await each.flush()
    await asyncio.sleep(60.0)  # longer than anybody waits for anything
    for each in subscribers:
        for publisher in publishers:
            got = [n for who, n in each.got if who == publisher.id]
            wanted = [n for n in range(count) if n % each.modulus == 0]
            got = sorted(got) if routing == "mesh" else got
            assert got == wanted
        each.reading.cancel()
    for node in nodes:
        await node.stop()
    return [[(who, n) for who, n in each.got] for each in subscribers]


def simulated(seed: int, tree: str, routing: str) -> tuple[list[list[tuple[str, int]]], float]:
    rng = random.Random(f"wire {seed}")
    piecewise = rng.choice([1, 7, 100_000])
    connections = Connections(
        latency_s=lambda: rng.choice([0.0005, 0.001, 0.02]),
        piece=lambda count: rng.randint(1, min(count, piecewise)),
    )
    with (
        tokens_of(random.Random(f"tokens {seed}")),
        asyncio.Runner(loop_factory=lambda: SimulatedLoop(connections)) as runner,
    ):
        got = runner.run(run(seed, tree, routing))
        return got, runner.get_loop().time()


@settings(max_examples=200)
@given(st.integers(0, 2**32), st.sampled_from(sorted(TREES)), st.sampled_from(ROUTINGS))
def test_nothing_is_lost_or_doubled_however_connections_break(
    seed: int, tree: str, routing: str
) -> None:
    simulated(seed, tree, routing)


@pytest.mark.soak
@pytest.mark.parametrize("routing", ROUTINGS)
@pytest.mark.parametrize("tree", sorted(TREES))
def test_nothing_is_lost_or_doubled_in_hundreds_of_runs(tree: str, routing: str) -> None:
    for seed in range(300):
        simulated(seed, tree, routing)


def test_one_seed_gives_one_run() -> None:
    assert simulated(7, "star", "acyclic") == simulated(7, "star", "acyclic")


async def in_time(times: list[float]) -> None:
    loop = asyncio.get_running_loop()
    for delay_s in (3.0, 1.0, 2.0):
        loop.call_later(delay_s, times.append, delay_s)
    await asyncio.sleep(2.5)
    times.append(loop.time())


def test_waiting_takes_no_time_and_keeps_its_order() -> None:
    times: list[float] = []
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(Connections())) as runner:
        runner.run(in_time(times))
    assert times == [1.0, 2.0, 2.5]


def test_who_waits_for_ever_is_told_so() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    loop = SimulatedLoop(Connections())
    with pytest.raises(NoProgressError, match="all wait"):
        loop.run_until_complete(wait())


class Peer(asyncio.Protocol):
    """Notes what comes, and how its connection ends."""

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


async def two_peers() -> tuple[Peer, Peer, Pair]:
    loop = asyncio.get_running_loop()
    assert isinstance(loop, SimulatedLoop)
    came: list[Peer] = []

    def accept() -> Peer:
        came.append(Peer())
        return came[-1]

    await loop.create_server(accept, "127.0.0.1", 1)
    _, near = await loop.create_connection(Peer, "127.0.0.1", 1)
    return near, came[0], loop.connections.pairs[0]


def on_a_loop(work: Callable[[], Coroutine[Any, Any, None]], **how: Any) -> None:
    with asyncio.Runner(loop_factory=lambda: SimulatedLoop(Connections(**how))) as runner:
        runner.run(work())


def test_bytes_come_in_order_and_in_other_pieces() -> None:
    async def work() -> None:
        near, far, _ = await two_peers()
        near.transport.write(b"abc")
        near.transport.write(b"defg")
        near.transport.close()
        await asyncio.sleep(1)
        assert far.reads == [b"ab", b"c", b"de", b"fg"]
        assert (near.end, far.end) == (["NoneType"], ["eof", "NoneType"])

    on_a_loop(work, piece=lambda count: 2)


def test_a_reset_loses_what_is_under_way_and_both_ends_are_told() -> None:
    async def work() -> None:
        near, far, pair = await two_peers()
        near.transport.write(b"abc")
        pair.reset()
        await asyncio.sleep(1)
        assert far.reads == []
        assert near.end == far.end == ["ConnectionResetError"]

    on_a_loop(work)


def test_of_half_a_connection_one_end_is_told() -> None:
    async def work() -> None:
        near, far, pair = await two_peers()
        far.transport.write(b"abc")
        pair.half_open(dialled=True)
        near.transport.write(b"abc")
        await asyncio.sleep(1000)
        assert (near.reads, far.reads) == ([], [])
        assert (near.end, far.end) == ([], ["ConnectionResetError"])

    on_a_loop(work)


@pytest.mark.parametrize("forward", [True, False])
def test_a_connection_is_cut_at_any_byte(forward: bool) -> None:
    async def work() -> None:
        near, far, pair = await two_peers()
        sender, receiver = (near, far) if forward else (far, near)
        pair.cut_after(4, forward=forward)
        sender.transport.write(b"abc")
        sender.transport.write(b"def")
        await asyncio.sleep(1)
        assert b"".join(receiver.reads) == b"abcd"
        assert near.end == far.end == ["ConnectionResetError"]

    on_a_loop(work)


def test_who_is_not_read_from_is_told_to_wait() -> None:
    async def work() -> None:
        near, far, _ = await two_peers()
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

    on_a_loop(work)


def test_where_nobody_listens_nobody_is_reached() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Peer, "127.0.0.1", 1)
        with pytest.raises(OSError, match="in use"):
            await loop.create_server(Peer, "127.0.0.1", 1)
        server.close()
        with pytest.raises(ConnectionRefusedError):
            await loop.create_connection(Peer, "127.0.0.1", 1)

    on_a_loop(work)

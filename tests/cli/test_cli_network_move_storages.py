"""`reefcast network move-storages` against a running network: storages move and are killed while
events flow, and every broker is asked for history all the time."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest

import reefcast
from children import CHILD_S, Children, ended, line_of
from live_networks import make_network, until, url_of
from reefcast.network.file import dump_network, load_network
from reefcast.network.sections import StorageEntry

NAMES = ["b1", "b2", "b3"]
FX, ORDERS = "topic = 'fx'", "topic MATCHES 'orders/#'"
WITHIN_S = 300.0
GAP_S, ASKED_S = 0.002, 0.02
"""The pauses between two events, and between two questions."""


def entry(folder: Path, name: str, broker: str, topics: Sequence[str]) -> StorageEntry:
    directory = str(folder / "history" / name)
    return StorageEntry(name=name, broker=broker, topics=list(topics), directory=directory)


class Running:
    """`reefcast network up`, with clients that publish and ask."""

    def __init__(self, file: Path, children: Children) -> None:
        self.file = file
        self.network = load_network(file)
        self.children = children
        self.up: Process
        self.published = 0
        self.pids: list[int] = []
        self.lines: list[str] = []
        self.known = 0
        """How many events every client has found."""

    async def start(self) -> None:
        self.up = await self.children.start("network", "up", self.file, "--json")
        self._reading = asyncio.create_task(self._read())
        told = json.loads(await line_of(self.up.stdout))
        storages = [each.name for each in load_network(self.file).storage]
        assert [each["storage"] for each in told["storages"]] == storages
        self.pids = [each["pid"] for each in told["brokers"] + told["storages"]]

    async def _read(self) -> None:
        assert self.up.stderr is not None
        while line := await self.up.stderr.readline():
            self.lines.append(line.decode().strip())

    async def stop(self) -> None:
        self.up.send_signal(signal.SIGTERM)
        async with asyncio.timeout(CHILD_S):
            assert await self.up.wait() == 0, self.lines
        await self._reading

    async def until_free(self) -> None:
        """Wait until every process under it that was not told to end has ended."""
        left = [*self.pids, *self.storage_pids("at-b3")]
        await until(lambda: not any(map(is_there, left)))

    def storage_pids(self, storage: str) -> list[int]:
        """Return the ids of a storage's processes so far."""
        words = f"storage {storage} runs (process "
        return [int(line[len(words) : -1]) for line in self.lines if line.startswith(words)]

    async def pid(self, storage: str, *, after: int = 0) -> int:
        """Return the id of a storage's process, once one runs that is not `after`."""
        while True:
            pids = self.storage_pids(storage)
            if pids and pids[-1] != after:
                return pids[-1]
            await asyncio.sleep(0.005)

    async def place(self, plan: str, *options: object) -> tuple[int | None, str, str]:
        return await self.children.run(*self.placing(plan, *options))

    def placing(self, plan: str, *options: object) -> tuple[object, ...]:
        file = self.file.with_name("plan.toml")
        file.write_text(plan)
        folder = self.file.parent / "history"
        return ("network", "move-storages", self.file, file, "--directory", folder, *options)

    # --- events -----------------------------------------------------------------------------------

    async def publish(self, count: int) -> None:
        """Publish each number on both topics."""
        async with reefcast.connect(url_of(self.network, "b2")) as client:
            for n in range(self.published, self.published + count):
                await client.publish(n=n, topics=["fx", "orders/1"])
                self.published = n + 1
            await client.flush()

    @asynccontextmanager
    async def publishing(self) -> AsyncIterator[None]:
        async def go_on() -> None:
            async with reefcast.connect(url_of(self.network, "b2")) as client:
                while True:
                    await client.publish(n=self.published, topics=["fx", "orders/1"])
                    self.published += 1
                    await asyncio.sleep(GAP_S)

        task = asyncio.create_task(go_on())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def until_all_found(self) -> None:
        """Wait until all clients find everything that was published."""
        async with asyncio.timeout(WITHIN_S):
            for name in NAMES:
                async with reefcast.connect(url_of(self.network, name)) as client:
                    for filter in (FX, ORDERS):
                        while await self._count(client, filter) < self.published:
                            pass
        self.known = self.published

    async def _count(self, client: reefcast.Client, filter: str) -> int:
        """Return how many events are found. None may be missing in between, come twice, or have
        disappeared."""
        found = [event["n"] async for event in client.history(filter)]
        assert found == list(range(len(found)))
        assert len(found) >= self.known
        return len(found)

    @asynccontextmanager
    async def asking(self) -> AsyncIterator[None]:
        """Ask all the time, at every broker."""

        async def ask(name: str) -> None:
            async with reefcast.connect(url_of(self.network, name)) as client:
                while True:
                    for filter in (FX, ORDERS):
                        await self._count(client, filter)
                        await asyncio.sleep(ASKED_S)

        async with asyncio.TaskGroup() as tasks:
            asked = [tasks.create_task(ask(name)) for name in NAMES]
            yield
            for task in asked:
                task.cancel()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
async def children() -> AsyncIterator[Children]:
    async with Children() as children:
        yield children


@asynccontextmanager
async def running(
    folder: Path, children: Children, *storages: StorageEntry
) -> AsyncIterator[Running]:
    network = make_network(NAMES, list(pairwise(NAMES)))
    network.storage = list(storages)
    file = folder / "net.toml"
    file.write_text("# of three brokers\n" + dump_network(network))
    running = Running(file, children)
    await running.start()
    yield running
    await running.stop()


def kept(file: Path) -> dict[str, tuple[str, list[str]]]:
    """Return broker and topics of each storage, by its name; check that none joins any more."""
    storages = load_network(file).storage
    assert not any(each.joining for each in storages)
    return {each.name: (each.broker, sorted(each.topics)) for each in storages}


PLAN = """
[[storage]]
broker = "b2"
topics = ["fx"]

[[storage]]
broker = "b3"
topics = ["fx", "orders/#"]
"""
PLACED = {"s2": ("b2", ["fx"]), "at-b3": ("b3", ["fx", "orders/#"])}


async def test_storages_move_while_events_flow(tmp_path: Path, children: Children) -> None:
    s1 = entry(tmp_path, "s1", "b1", ["fx", "orders/#"])
    s2 = entry(tmp_path, "s2", "b2", ["orders/#"])
    async with running(tmp_path, children, s1, s2) as network:
        await network.publish(2000)
        await network.until_all_found()
        async with network.publishing(), network.asking():
            code, output, errors = await network.place(PLAN)
            assert code == 0, (output, errors, network.lines)
            await asyncio.sleep(0.5)
        assert output.splitlines() == [
            f"s1 at b1 has ended; what it had is in {s1.directory}",
            "s2 at b2 keeps fx; got fx; gave up orders/#",
            "at-b3 at b3 keeps fx, orders/#; got fx, orders/#",
            f"{network.file} says so, too",
        ]
        assert kept(network.file) == PLACED
        assert network.published > 2000
        await network.until_all_found()
        code, output, errors = await network.place(PLAN, "--json")
        assert (code, errors, json.loads(output)["missing"]) == (0, "", [])
        assert [each["got"] + each["gave_up"] for each in json.loads(output)["storages"]] == [
            [],
            [],
        ]
    # what it says is what is started again
    network.lines.clear()
    await network.start()
    await network.until_all_found()
    await network.stop()


@pytest.mark.soak
async def test_both_are_killed_in_the_middle_and_so_is_the_command(
    tmp_path: Path, children: Children
) -> None:
    """One of two old storages is left, so that everything is stored at any time."""
    s1, s2 = (entry(tmp_path, f"s{n}", f"b{n}", ["fx", "orders/#"]) for n in (1, 2))
    async with running(tmp_path, children, s1, s2) as network:
        await network.publish(2000)
        await network.until_all_found()
        async with network.publishing(), network.asking():
            command = await children.start(*network.placing(PLAN))
            new = await network.pid("at-b3")
            old = await network.pid("s1")
            os.kill(new, signal.SIGKILL)
            os.kill(old, signal.SIGKILL)
            command.kill()
            await ended(command)
            assert {"s1", "s2", "at-b3"} == {e.name for e in load_network(network.file).storage}
            new = await network.pid("at-b3", after=new)
            os.kill(new, signal.SIGKILL)
            code, output, errors = await network.place(PLAN)
            assert code == 0, (output, errors, network.lines)
        assert kept(network.file) == PLACED
        await network.until_all_found()


async def test_a_new_storage_waits_for_the_old_one_though_it_is_gone(
    tmp_path: Path, children: Children
) -> None:
    """The only storage dies when the new one has begun; nobody publishes meanwhile."""
    s1 = entry(tmp_path, "s1", "b1", ["fx", "orders/#"])
    async with running(tmp_path, children, s1) as network:
        await network.publish(5000)
        await network.until_all_found()
        command = await children.start(*network.placing(PLAN.replace("fx", "fx", 1)))
        await network.pid("at-b3")
        os.kill(await network.pid("s1"), signal.SIGKILL)
        code, output, errors = await ended(command)
        assert code == 0, (output, errors, network.lines)
        assert kept(network.file) == {"at-b2": ("b2", ["fx"]), "at-b3": PLACED["at-b3"]}
        await network.until_all_found()


@pytest.mark.soak
async def test_all_of_it_is_killed_in_the_middle(tmp_path: Path, children: Children) -> None:
    """The supervisor of the network is killed, and everything ends with it; the command waits until
    the network is back."""
    s1 = entry(tmp_path, "s1", "b1", ["fx", "orders/#"])
    async with running(tmp_path, children, s1) as network:
        await network.publish(500)
        await network.until_all_found()
        command = await children.start(*network.placing(PLAN))
        await network.pid("at-b3")
        network.up.kill()
        await network.up.wait()
        await network.until_free()
        await network.start()
        code, output, errors = await ended(command)
        assert code == 0, (output, errors, network.lines)
        assert kept(network.file) == {"at-b2": ("b2", ["fx"]), "at-b3": PLACED["at-b3"]}
        await network.until_all_found()

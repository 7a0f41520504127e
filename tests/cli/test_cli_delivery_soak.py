"""Every process of a network is killed again and again, frozen, and finds its disk full, while
events are confirmed and consumed. A long run, for `make soak`.

A publisher with an outbox file publishes, consumers share a durable session, and brokers run under
`reefcast network up`. Victims are drawn at random: brokers, publisher, consumers, and the
supervisor with all of its brokers. At the end each event that `publish` took has been consumed, and
none was handed out twice as if it were new.
"""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import reefcast
from children import Children, line_of
from live_networks import path_network, url_of
from reefcast.client.outbox_file import read_outbox
from reefcast.network.file import NetworkFile, dump_network, scot_network
from reefcast.network.sections import SessionsSection
from reefcast.network.tree_sources import tree_of
from reefcast.overlay.scot import scot
from reefcast.server.supervisor import free_ports

KILLS = 260
FROZEN_S, FULL_S = 10.0, 3.0
REST_S = 600.0
"""How long the network has at the end to hand everything over."""
OPTIONS = "backoff_first_s=0.02, backoff_max_s=0.3, reconnect_timeout_s=86400"
OPTIONS += ", connect_timeout_s=86400"
PUBLISHER = f"""
import asyncio, sys
import reefcast

async def main():
    async with reefcast.connect(sys.argv[1], outbox=sys.argv[2], {OPTIONS}) as client:
        async def publish():
            while True:
                await client.publish(x=1)
                await asyncio.sleep(0.02)
        await asyncio.gather(*(publish() for _ in range(4)))

asyncio.run(main())
"""
CONSUMER = f"""
import asyncio, sys
import reefcast

async def main():
    got = open(sys.argv[2], "a", buffering=1)
    async with reefcast.connect(sys.argv[1], {OPTIONS}) as client:
        async for event in client.session("billing", prefetch=50):
            got.write(f"{{event.id[1]}} {{event.deliveries}}\\n")
            await event.ack()

asyncio.run(main())
"""


class Victims:
    """The processes of one run; each can be killed, and is started again."""

    def __init__(self, children: Children, network: NetworkFile, folder: Path) -> None:
        self._children = children
        self.network = network
        self.folder = folder
        self.outbox = folder / "orders.outbox"
        self.running: dict[str, Process] = {}
        self.killed = 0
        names = network.names
        self.home, self.far = url_of(network, names[0]), url_of(network, names[-1])
        (folder / "net.toml").write_text(dump_network(network))
        (folder / "publisher.py").write_text(PUBLISHER)
        (folder / "consumer.py").write_text(CONSUMER)

    async def start(self, name: str) -> None:
        start_file, folder = self._children.start_file, self.folder
        if name == "supervisor":
            process = await self._children.start(
                "network", "up", folder / "net.toml", "--json", stderr=None
            )
            assert b"brokers" in await line_of(process.stdout)
        elif name == "publisher":
            file = folder / "publisher.py"
            process = await start_file(file, self.far, self.outbox, stderr=None)
        else:
            file, got = folder / "consumer.py", folder / f"{name}.got"
            process = await start_file(file, self.home, got, stderr=None)
        self.running[name] = process

    async def kill(self, name: str) -> None:
        if name in self.network.names:  # its supervisor starts it again
            for pid in self.pids(name):
                signal_process(pid, signal.SIGKILL)
                self.killed += 1
            return
        self.killed += 1
        self.running[name].kill()
        await self.running[name].wait()
        await self.start(name)

    def pids(self, broker: str) -> list[int]:
        """Return the process id of a broker, or None while it is being restarted."""
        supervisor = self.running["supervisor"].pid
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                words = (folder / "cmdline").read_bytes().decode().split("\0")
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == supervisor and broker in words:
                    found.append(int(folder.name))
        return found

    def consumed(self) -> Counter[int]:
        """Return how often each event was handed out as new."""
        lines = [line for file in self.folder.glob("*.got") for line in file.open()]
        whole = [line.split() for line in lines if line.endswith("\n")]
        return Counter(int(seq) for seq, deliveries in whole if deliveries == "1")

    def seen(self) -> set[int]:
        """Return all events that were handed out."""
        lines = [line for file in self.folder.glob("*.got") for line in file.open()]
        return {int(line.split()[0]) for line in lines if line.endswith("\n")}


def signal_process(pid: int, number: int) -> None:
    """Send a signal to a process that may be gone."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


async def freeze(pid: int) -> None:
    signal_process(pid, signal.SIGSTOP)
    await asyncio.sleep(FROZEN_S)
    signal_process(pid, signal.SIGCONT)


def size_of(store: Path) -> int:
    """Return the size of the largest file of a store."""
    return max(each.stat().st_size for each in store.parent.glob(f"{store.name}*"))


async def fill_disk(pid: int, store: Path) -> None:
    """Let no file of the process grow, for a while."""
    most = size_of(store) + 4096
    try:
        before = resource.prlimit(pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))
        await asyncio.sleep(FULL_S)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, before)
    except ProcessLookupError:
        return


async def torment(victims: Victims, rng: random.Random, kills: int) -> None:
    names = victims.network.names
    others = ["publisher", "consumer1", "consumer2"]
    number = 0
    while victims.killed < kills:
        number += 1
        await asyncio.sleep(rng.choice((0.05, 0.3, 1.0, 2.5)))
        if number % 60 == 0:
            await victims.kill("supervisor")
        elif number % 25 == 0 and (pids := victims.pids(rng.choice(names))):
            await freeze(pids[0])
        elif number % 20 == 0 and (pids := victims.pids(names[0])):
            store = victims.folder / "sessions" / f"{names[0]}.sqlite"
            await fill_disk(pids[0], store)
        else:
            some = rng.sample([*names, *names, *others], rng.choice((1, 1, 2)))
            await asyncio.gather(*(victims.kill(name) for name in dict.fromkeys(some)))


def tree() -> NetworkFile:
    return path_network(4)


def product() -> NetworkFile:
    made = scot(tree_of("path:2"), 3)
    listen = [f"127.0.0.1:{port}" for port in free_ports(len(made.graph))]
    return scot_network(made, listen, name="test", routing="spr")


async def run(folder: Path, network: NetworkFile, kills: int, seed: int) -> None:
    network.sessions = SessionsSection(directory=str(folder / "sessions"))
    async with Children() as children:
        victims = Victims(children, network, folder)
        await victims.start("supervisor")
        async with reefcast.connect(victims.home) as client:
            session = await client.session("billing", expiry_s=0)
            await session.subscribe("x = 1")
        for name in ("publisher", "consumer1", "consumer2"):
            await victims.start(name)
        await torment(victims, random.Random(seed), kills)
        victims.running["publisher"].kill()
        await victims.running["publisher"].wait()
        last = read_outbox(victims.outbox).last_seq
        await victims.start("publisher")
        async with asyncio.timeout(REST_S):
            while not victims.seen() >= set(range(1, last + 1)):  # noqa: ASYNC110 (of files)
                await asyncio.sleep(1.0)
        twice = [seq for seq, times in victims.consumed().items() if times > 1]
        assert not twice, f"of {last} events, these came twice as if new: {twice[:20]}"


@pytest.mark.soak
@pytest.mark.parametrize("overlay", [tree, product])
async def test_no_event_is_lost_and_none_is_new_twice(
    tmp_path: Path, overlay: Callable[[], NetworkFile]
) -> None:
    await run(tmp_path, overlay(), KILLS, 1)

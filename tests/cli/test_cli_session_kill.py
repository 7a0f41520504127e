"""Brokers killed again and again while events are confirmed, handed out and acknowledged."""

from __future__ import annotations

import asyncio
from asyncio.subprocess import Process
from pathlib import Path

import pytest

import reefcast
from children import Children, line_of
from live_networks import PATIENCE_S, path_network, until, url_of
from reefcast.client import Client
from reefcast.network.file import NetworkFile, dump_network
from reefcast.network.sections import SessionsSection

QUICK = {"backoff_first_s": 0.01, "backoff_max_s": 0.1, "reconnect_timeout_s": PATIENCE_S}
EACH, TOGETHER = 40, 8
"""How many events are published between two kills, and how many at the same time."""


class Network:
    """Brokers as processes, each of which may be killed and restarted."""

    def __init__(self, children: Children, network: NetworkFile, file: Path) -> None:
        self._children = children
        self._file = file
        self._processes: dict[str, Process] = {}
        self.network = network
        file.write_text(dump_network(network))

    async def start(self, name: str) -> None:
        process = await self._children.start("broker", self._file, name, stderr=None)
        assert b"listens" in await line_of(process.stdout)
        self._processes[name] = process

    async def kill(self, name: str) -> None:
        self._processes[name].kill()
        await self._processes[name].wait()


class Traffic:
    """A publisher whose events are confirmed, and a consumer of a session that acknowledges
    them."""

    def __init__(self, publisher: Client, consumer: Client) -> None:
        self._publisher = publisher
        self._consumer = consumer
        self.wanted = self.published = 0
        self.acknowledged: list[int] = []
        self._more = asyncio.Event()

    async def publish(self) -> None:
        while True:
            while self.published == self.wanted:
                self._more.clear()
                await self._more.wait()
            first = self.published + 1
            numbers = range(first, min(first + TOGETHER, self.wanted + 1))
            async with self._publisher.confirming():
                for n in numbers:
                    await self._publisher.publish(n=n)
            self.published = numbers[-1]

    async def consume(self) -> None:
        async for event in self._consumer.session("billing", prefetch=10):
            n = event["n"]
            assert isinstance(n, int)
            assert n not in self.acknowledged, "handed out again although it was acknowledged"
            self.acknowledged.append(n)
            await event.ack(wait=n % 5 == 0)

    def want(self, count: int) -> None:
        self.wanted += count
        self._more.set()


@pytest.mark.long
@pytest.mark.parametrize("victims", ["aaa", "bab"])
async def test_what_was_confirmed_is_handed_out_and_what_was_acknowledged_is_not(
    tmp_path: Path, victims: str
) -> None:
    """`a` is the home, `b` the publisher's broker. They are killed in this order, while events are
    under way."""
    network = path_network(2)
    names = dict(zip("ab", network.names, strict=True))
    network.sessions = SessionsSection(directory=str(tmp_path / "sessions"))
    async with Children() as children:
        brokers = Network(children, network, tmp_path / "net.toml")
        for name in network.names:
            await brokers.start(name)
        async with (
            reefcast.connect(url_of(network, names["a"]), **QUICK) as consumer,
            reefcast.connect(url_of(network, names["b"]), **QUICK) as publisher,
        ):
            session = await consumer.session("billing")
            await session.subscribe("n > 0")
            traffic = Traffic(publisher, consumer)
            async with asyncio.timeout(3 * PATIENCE_S), asyncio.TaskGroup() as tasks:
                running = [tasks.create_task(traffic.publish())]
                running.append(tasks.create_task(traffic.consume()))
                for victim in victims:
                    some = len(traffic.acknowledged) + EACH // 4
                    traffic.want(EACH)
                    await until(lambda some=some: len(traffic.acknowledged) >= some)
                    await brokers.kill(names[victim])
                    await brokers.start(names[victim])
                await until(lambda: traffic.published == traffic.wanted)
                await until(lambda: len(traffic.acknowledged) == traffic.wanted)
                for task in running:
                    task.cancel()
            assert sorted(traffic.acknowledged) == list(range(1, traffic.wanted + 1))
            assert traffic.acknowledged == sorted(traffic.acknowledged)
        # What was acknowledged stays so, and the session is there after one kill more.
        await brokers.kill(names["a"])
        await brokers.start(names["a"])
        async with reefcast.connect(url_of(network, names["a"])) as client:
            [row] = await client.sessions()
            assert (row.name, row.events, row.subscriptions) == ("billing", 0, {1: "n > 0"})

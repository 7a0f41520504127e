"""Meshes of live brokers, with clients that must get everything exactly once."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from live_brokers import one_by_one

import reefcast
from live_networks import PATIENCE_S, make_network, until
from reefcast.network.file import NetworkFile
from reefcast.routing.capabilities import SoftLink
from reefcast.server.node import Node

NEVER_S = 1e6
TREE = [
    ("a", "b"),
    ("b", "c"),
    ("b", "d"),
    ("d", "e"),
    ("e", "f"),
    ("e", "g"),
    ("g", "h"),
    ("h", "i"),
]
"""Nine brokers, at most five links apart."""


def mesh_network(
    names: str, edges: Iterable[tuple[str, str]], limits: Mapping[str, Any], **options: Any
) -> NetworkFile:
    """Return a mesh; rounds are due every `round_s`, by default never."""
    options = {"round_s": NEVER_S, **options}
    return make_network(names, list(edges), routing="mesh", options=options, **limits)


def line(names: str, **limits: Any) -> NetworkFile:
    return mesh_network(names, pairwise(names), limits)


# --- soft links as the core asks for them ---------------------------------------------------------


def wish(node: Node, to: str) -> None:
    """Open a soft link, as if a round had promoted a candidate."""
    node.host.core.router.soft_links[to] = SoftLink.OPENING
    node.soft_links.open(to)


def drop(node: Node, link: str) -> None:
    """Close a soft link, as if a round had dropped it."""
    router: Any = node.host.core.router
    node.host.core.plain_way.forget()  # as before any change
    router.soft_links[link] = SoftLink.CLOSING
    router.mesh._relink([])
    node.soft_links.close(link)


def cut(node: Node, link: str) -> None:
    """Break the connection; this end learns of it first."""
    connection = node.soft_links.links[link].connection
    assert connection is not None
    connection.transport.abort()


def cut_after(count: int, node: Node, link: str) -> asyncio.Future[None]:
    """Break the connection when `count` + 1 more publications have been put on it."""
    queue, loop = node.soft_links.links[link].queue, asyncio.get_running_loop()
    broken: asyncio.Future[None] = loop.create_future()
    send = one_by_one(queue)

    def counting(*args: Any) -> None:
        nonlocal count
        send(*args)
        if count == 0:
            loop.call_soon(breaks)
        count -= 1

    def breaks() -> None:
        if link in node.soft_links.links:
            cut(node, link)
        broken.set_result(None)

    queue.send_publication = counting
    return broken


def core_has(node: Node, link: str) -> bool:
    state = node.host.core.router.soft_links.get(link)
    return state is not None and state.up


async def opened(node: Node, other: Node) -> None:
    """Dial, and wait until both ends have the link."""
    wish(node, other.name)
    await both_up(node, other)


async def both_up(node: Node, other: Node) -> None:
    await until(lambda: core_has(node, other.name) and core_has(other, node.name))


async def gone(node: Node, other: Node) -> None:
    """Wait until neither end has anything left of the link."""
    ends = ((node, other.name), (other, node.name))
    await until(
        lambda: (
            not any(
                to in end.soft_links.links
                or to in end.host.core.router.soft_links
                or to in end.host.outputs.links
                for end, to in ends
            )
        )
    )


def soft_count(nodes: Iterable[Node]) -> int:
    return sum(len(node.soft_links.links) for node in nodes) // 2


def counted(nodes: Iterable[Node], counter: str) -> int:
    return sum(
        node.host.core.counters[counter] + node.host.journal.counters[counter] for node in nodes
    )


# --- clients --------------------------------------------------------------------------------------


class Member:
    """A client at one broker that publishes, and subscribes to everything. `before`: how many
    publications are not to be judged any more."""

    def __init__(self, client: reefcast.Client) -> None:
        self.client = client
        self.subscription = client.subscribe("n > 0")
        self.got: Counter[tuple[str, int]] = Counter()
        self.sent = self.before = 0
        self.reading = asyncio.create_task(self._read())

    @classmethod
    async def at(cls, network: NetworkFile, name: str) -> Member:
        return cls(await reefcast.connect(f"reefcast://{network.entry(name).listen}"))

    async def _read(self) -> None:
        async for event in self.subscription:
            self.got[event.publisher, event["n"]] += 1

    async def publish(self, count: int, pause_s: float = 0.0) -> None:
        """Publish `count` events; with a pause, it comes after each ten of them."""
        for number in range(count):
            self.sent += 1
            await self.client.publish(n=self.sent)
            if pause_s and number % 10 == 0:
                await asyncio.sleep(pause_s)

    async def close(self) -> None:
        async with asyncio.timeout(PATIENCE_S):
            await self.client.close()
            await self.reading


class Members:
    """The members at these brokers, by broker."""

    def __init__(self, network: NetworkFile, names: Iterable[str]) -> None:
        self.network = network
        self.names = list(names)
        self.all: dict[str, Member] = {}

    async def __aenter__(self) -> Members:
        for name in self.names:
            self.all[name] = await Member.at(self.network, name)
        for member in self.all.values():
            await member.subscription.settled()
            await member.client.advertise("n > 0").settled()
        return self

    async def __aexit__(self, *_: object) -> None:
        for member in self.all.values():
            await member.close()

    def __getitem__(self, name: str) -> Member:
        return self.all[name]

    def expected(self) -> dict[tuple[str, int], int]:
        """Return everything that was published, once."""
        members = self.all.values()
        return {(m.client.id, n): 1 for m in members for n in range(m.before + 1, m.sent + 1)}

    async def all_got_everything_once(self) -> None:
        """Wait until everybody has everything, and check that nothing comes twice afterwards."""
        expected = self.expected()
        try:
            await until(lambda: all(len(m.got) == len(expected) for m in self.all.values()))
        except TimeoutError:
            pass
        else:
            await asyncio.sleep(0.05)
        for name, member in self.all.items():
            missing = expected.keys() - member.got.keys()
            assert not missing, f"{name} misses {len(missing)}: {sorted(missing)[:5]}"
            twice = [id for id, times in member.got.items() if times > 1]
            assert not twice, f"{name} got {len(twice)} twice: {sorted(twice)[:5]}"
            assert member.got == expected

    def begin_anew(self) -> None:
        """Judge only what is published from now on."""
        for member in self.all.values():
            member.got.clear()
            member.before = member.sent

    @asynccontextmanager
    async def publishing(self, burst: int = 3) -> AsyncIterator[None]:
        """Let everybody publish meanwhile, so many events fifty times a second; at the end check
        that all have everything once. With ten, brokers of one process do little else."""
        over = False

        async def publish(member: Member) -> None:
            while not over:
                await member.publish(burst)
                await asyncio.sleep(0.02)

        async with asyncio.TaskGroup() as tasks:
            for member in self.all.values():
                tasks.create_task(publish(member))
            yield
            over = True
        await self.all_got_everything_once()

    async def everybody_publishes(self, count: int, pause_s: float = 0.0) -> None:
        async with asyncio.TaskGroup() as tasks:
            for member in self.all.values():
                tasks.create_task(member.publish(count, pause_s))

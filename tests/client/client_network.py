"""Real brokers in the test's own event loop."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise

from reefcast.network.file import NetworkFile
from reefcast.network.sections import BrokerEntry, LimitsSection, LinkEntry
from reefcast.server.node import Node


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nobody has now."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def path_network(count: int, **limits: object) -> NetworkFile:
    """b1 - b2 - ... on free ports."""
    names = [f"b{i + 1}" for i in range(count)]
    return NetworkFile(
        limits=LimitsSection(**limits),
        broker=[
            BrokerEntry(name, f"127.0.0.1:{port}")
            for name, port in zip(names, free_ports(count), strict=True)
        ],
        link=[LinkEntry(pair) for pair in pairwise(names)],
    ).validate()


def url_of(network: NetworkFile, name: str) -> str:
    host, port = network.address(name)
    return f"reefcast://{host}:{port}"


async def until(condition: Callable[[], object]) -> None:
    """Waits, at most 20 s, for what nobody signals."""
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 (a condition without an event)
            await asyncio.sleep(0.002)


def is_linked(node: Node) -> bool:
    """Whether it knows all that its neighbours know."""
    return set(node.core.router.brokers) >= set(node.links) and not node.core.relearning


@asynccontextmanager
async def running(network: NetworkFile) -> AsyncIterator[list[str]]:
    """The URLs of all brokers of the network, which run meanwhile."""
    nodes = [Node(network, name) for name in network.names]
    for node in nodes:
        await node.start()
    await until(lambda: all(is_linked(node) for node in nodes))
    try:
        yield [url_of(network, name) for name in network.names]
    finally:
        for node in nodes:
            await node.stop()

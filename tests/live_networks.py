"""Real brokers in the test's own event loop, on free ports of loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest

from reefcast.network.file import NetworkFile
from reefcast.network.sections import (
    BrokerEntry,
    LimitsSection,
    LinkEntry,
    NetworkSection,
    TraceSection,
)
from reefcast.server.greeting import Authenticator
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports

PATIENCE_S = 240.0
"""How long a test waits before it concludes that something will never happen: far longer than it
takes on a busy machine, and shorter than the limit of a whole test."""


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition that nobody signals."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 (a condition without an event)
            await asyncio.sleep(0.002)


def make_network(
    names: str | Sequence[str],
    links: Sequence[tuple[str, str]] = (),
    *,
    routing: str = "acyclic",
    options: Mapping[str, Any] | None = None,
    trace: TraceSection | None = None,
    **limits: Any,
) -> NetworkFile:
    ports = free_ports(len(names))
    return NetworkFile(
        network=NetworkSection(name="test", routing=routing),
        trace=trace or TraceSection(),
        limits=LimitsSection(**limits),
        routing=dict(options or {}),
        broker=[
            BrokerEntry(name, f"127.0.0.1:{port}") for name, port in zip(names, ports, strict=True)
        ],
        link=[LinkEntry(between=link) for link in links],
    ).validate()


def path_network(count: int, **limits: Any) -> NetworkFile:
    """Return a network of brokers b1 - b2 - ..."""
    names = [f"b{i + 1}" for i in range(count)]
    return make_network(names, list(pairwise(names)), **limits)


def url_of(network: NetworkFile, name: str) -> str:
    host, port = network.address(name)
    return f"reefcast://{host}:{port}"


def has_traceback(caplog: pytest.LogCaptureFixture) -> bool:
    """Return whether a traceback was logged. The text is of no use: a Spark session in the same
    process logs lines of JSON."""
    return any(record.exc_info for record in caplog.records)


async def linked(nodes: Collection[Node]) -> None:
    """Wait until each broker has all of its links up and empty, and knows everything that its
    neighbours know."""
    await until(
        lambda: all(
            not node.host.core.relearning
            and all(
                link.state == "up" and not link.queue.window.queue_len
                for link in node.links.values()
            )
            for node in nodes
        )
    )


@asynccontextmanager
async def running(
    network: NetworkFile, authenticator: Authenticator | None = None
) -> AsyncIterator[list[str]]:
    """Run the brokers of the network; yield their URLs."""
    nodes = [Node(network, name, authenticator=authenticator) for name in network.names]
    for node in nodes:
        await node.start()
    await linked(nodes)
    try:
        yield [url_of(network, name) for name in network.names]
    finally:
        for node in nodes:
            await node.stop()

"""Live brokers inside the test's own process, and a proxy that cuts connections."""

from __future__ import annotations

import asyncio
import copy
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, suppress
from typing import Any

from raw_client import RawClient

from live_networks import PATIENCE_S, linked
from reefcast.model import wire
from reefcast.model.versions import Offer
from reefcast.network.file import NetworkFile, scot_network
from reefcast.network.sections import (
    TraceSection,
)
from reefcast.network.tree_sources import tree_of
from reefcast.overlay.scot import scot
from reefcast.protocol.batches import Batch
from reefcast.protocol.client_ids import Identity
from reefcast.protocol.window import decoded
from reefcast.server.connection import Connection
from reefcast.server.greeting import Authenticator
from reefcast.server.node import Node
from reefcast.server.outputs import LinkQueue
from reefcast.server.supervisor import free_ports


def make_scot(
    tree: str, clusters: int, *, routing: str = "idr", trace: TraceSection | None = None
) -> NetworkFile:
    """Return a SCOT on free ports of loopback; its brokers are `b1-0`, `b2-0`, ..., cluster by
    cluster."""
    made = scot(tree_of(tree), clusters)
    listen = [f"127.0.0.1:{port}" for port in free_ports(len(made.graph))]
    network = scot_network(made, listen, name="test", routing=routing)
    network.trace = trace or TraceSection()
    return network


def as_seen(network: NetworkFile, ports: Mapping[str, int]) -> NetworkFile:
    """Return the network file as one broker is to see it: these other brokers listen on these ports
    of loopback."""
    seen = copy.deepcopy(network)
    for name, port in ports.items():
        seen.entry(name).listen = f"127.0.0.1:{port}"
    return seen


def shut(node: Node) -> None:
    """Let the broker accept no connection and dial nobody."""
    for listener in node.listeners:
        listener.close()
    node.overlay_links.hang_up()
    node.soft_links.refuse()


class Live:
    """Brokers and clients that are stopped when the test is over."""

    def __init__(self, stack: AsyncExitStack) -> None:
        self._stack = stack
        self.nodes: dict[str, Node] = {}

    async def node(
        self,
        network: NetworkFile,
        name: str,
        offer: Offer = wire.OFFER,
        authenticator: Authenticator | None = None,
    ) -> Node:
        node = Node(network, name, offer, authenticator)
        await node.start()
        self.nodes[name] = node
        self._stack.push_async_callback(self.crash, node)
        return node

    async def up(self, network: NetworkFile) -> dict[str, Node]:
        """Start all brokers, and wait until all links are up."""
        for name in network.names:
            await self.node(network, name)
        await linked(self.nodes.values())
        return self.nodes

    async def crash(self, node: Node) -> None:
        """Kill a broker without a close frame, as if its process had been killed."""
        shut(node)
        connections = list(node.shared.all)
        for connection in connections:
            if isinstance(connection, Connection):
                connection.end = None
            connection.transport.abort()
        async with asyncio.timeout(PATIENCE_S):
            for connection in connections:
                await connection.closed.wait()
            await node._close_connections("")
        if self.nodes.get(node.name) is node:
            del self.nodes[node.name]

    async def client(self, node: Node, name: str = "c", **fields: Any) -> RawClient:
        client = await RawClient.connect(node.network.address(node.name), name, **fields)
        self._stack.push_async_callback(client.close)
        return client

    async def dial(self, node: Node, who: str | Identity = "c") -> RawClient:
        """Return a connection that has not sent a hello."""
        client = await RawClient.dial(node.network.address(node.name), who)
        self._stack.push_async_callback(client.close)
        return client


def one_by_one(queue: LinkQueue) -> Callable[..., None]:
    """Return the `send_publication` of a queue, which from now on also gets publications that come
    in batches."""

    def send_batch(batch: Batch) -> None:
        for frame, publish in decoded(batch, queue._codec):
            queue.send_publication(frame, publish)

    queue.send_batch = send_batch
    return queue.send_publication


def count_sent(nodes: Mapping[str, Node]) -> Counter[tuple[str, str]]:
    """Return a counter, by (broker, neighbour), of the publications put on each link from now
    on."""
    sent: Counter[tuple[str, str]] = Counter()

    def watch(name: str, queue: LinkQueue) -> None:
        send = one_by_one(queue)

        def counting(*args: Any) -> None:
            sent[name, queue.name] += 1
            send(*args)

        queue.send_publication = counting

    for name, node in nodes.items():
        for queue in node.host.outputs.links.values():
            watch(name, queue)
    return sent


OneBroker = Callable[..., Awaitable[Node]]


class Proxy:
    """A proxy that passes bytes between those who dial `port` and `target`, until `cut`."""

    def __init__(self, target: tuple[str, int]) -> None:
        self.target = target
        self.port = 0
        self.connections = 0
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()

    async def start(self) -> Proxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection(*self.target)
        except OSError:
            writer.close()
            return
        self.connections += 1
        self._writers |= {writer, back}
        await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        self._writers -= {writer, back}

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(4096):
                await self._pass_on(data, writer)
        except ConnectionError:
            pass
        finally:
            await self._end(writer)

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        await writer.drain()

    async def _end(self, writer: asyncio.StreamWriter) -> None:
        """Handle that the connection of the other side has ended."""
        writer.close()

    def cut(self) -> None:
        """Break every connection; what is under way is lost."""
        for writer in self._writers:
            writer.transport.abort()

    async def stop(self) -> None:
        self._server.close()
        self.cut()


class Throttle(Proxy):
    """A proxy that passes at most `bytes_per_s` in each direction, until `release`."""

    def __init__(self, target: tuple[str, int]) -> None:
        super().__init__(target)
        self.bytes_per_s = 0.0
        self._released = asyncio.Event()
        self._released.set()

    def throttle(self, bytes_per_s: float) -> None:
        self.bytes_per_s = bytes_per_s
        self._released.clear()

    def release(self) -> None:
        """Pass everything that waits, and from now on everything as it comes."""
        self._released.set()

    async def _pass_on(self, data: bytes, writer: asyncio.StreamWriter) -> None:
        for start in range(0, len(data), 64):
            piece = data[start : start + 64]
            if not self._released.is_set():
                with suppress(TimeoutError):
                    async with asyncio.timeout(len(piece) / self.bytes_per_s):
                        await self._released.wait()
            await super()._pass_on(piece, writer)

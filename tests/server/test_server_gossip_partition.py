"""Live brokers of routing gossip, of which two halves cannot reach each other for some time, or of
which all connections break at once, while everybody publishes: nothing is lost, and nothing comes
twice."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import AsyncExitStack
from itertools import count

import networkx as nx
import pytest
from live_brokers import Live
from live_gates import Gates

import reefcast
from live_networks import make_network, until, url_of
from reefcast.network.file import NetworkFile
from reefcast.routing.gossip.router import Gossip
from reefcast.server.node import Node

NAMES = "abcdefgh"
HALVES = ("aceg", "bdfh")
TOPICS = ("t0", "t1", "t2", "t3")
CONTACTS = {"t0": ["a", "b"], "t1": ["a", "c"], "t2": ["b", "d"], "t3": ["e"]}
"""The contacts: in both halves, or in one only."""
PAUSE_S = 0.1
"""The pause between two publications at one broker."""
HEALED_S = 5.0


def gossip(**options: float) -> NetworkFile:
    return make_network(NAMES, routing="gossip", options={"topics": CONTACTS, **options})


class Everybody:
    """A client at each broker, subscribed to three of the topics. From the moment that these are
    whole, it publishes to them until `stop`."""

    def __init__(self, network: NetworkFile, nodes: Mapping[str, Node]) -> None:
        self._network = network
        self._nodes = nodes
        self._topics = {name: TOPICS[: i % 4] + TOPICS[i % 4 + 1 :] for i, name in enumerate(NAMES)}
        self._got: dict[str, Counter[int]] = {name: Counter() for name in NAMES}
        self._sent: dict[int, tuple[str, float]] = {}
        self._numbers = count(1)
        self._stopped = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Everybody:
        clients: dict[str, reefcast.Client] = {}
        for name, topics in self._topics.items():
            client = clients[name] = await reefcast.connect(url_of(self._network, name))
            self._stack.push_async_callback(client.close)
            listed = ", ".join(f"'{topic}'" for topic in topics)
            subscription = await client.subscribe(f"topic IN ({listed})")
            self._tasks.append(asyncio.create_task(self._read(name, subscription)))
        await until(lambda: whole(self._nodes))
        for name, client in clients.items():
            self._tasks.append(asyncio.create_task(self._publish(name, client)))
        return self

    async def __aexit__(self, *error: object) -> None:
        self._stopped.set()
        await self._stack.aclose()
        await asyncio.gather(*self._tasks)

    async def _read(self, name: str, subscription: reefcast.Subscription) -> None:
        async for event in subscription:
            self._got[name][event["n"]] += 1

    async def _publish(self, name: str, client: reefcast.Client) -> None:
        rng = random.Random(name)
        while not self._stopped.is_set():
            number, topic = next(self._numbers), rng.choice(self._topics[name])
            self._sent[number] = (topic, time.monotonic())
            await client.publish(n=number, topics=[topic])
            await asyncio.sleep(PAUSE_S)

    def missing(self, after_s: float = 0.0) -> list[tuple[str, int]]:
        """Return what each client lacks of what was published after that; fail if a client has
        anything twice."""
        assert all(times == 1 for got in self._got.values() for times in got.values())
        return [
            (name, number)
            for number, (topic, at_s) in self._sent.items()
            for name, topics in self._topics.items()
            if topic in topics and at_s > after_s and number not in self._got[name]
        ]

    async def stop(self) -> None:
        """Stop publishing; return when everybody has everything."""
        self._stopped.set()
        await until(lambda: not self.missing())


def whole(nodes: Mapping[str, Node]) -> bool:
    """Return whether the overlay of each topic is strongly connected."""
    for topic in TOPICS:
        graph = nx.DiGraph()
        for name, node in nodes.items():
            router = node.host.core.router
            assert isinstance(router, Gossip)
            if topic in router.memberships:
                graph.add_node(name)
                view = router.memberships[topic].overlay.view
                graph.add_edges_from((name, other) for other in view)
        if not graph or not nx.is_strongly_connected(graph):
            return False
    return True


@pytest.mark.parametrize("refuses", [True, False])
async def test_after_a_partition_both_halves_get_all(live: Live, refuses: bool):
    network = gossip(round_s=0.5)
    async with Gates(live, network, *HALVES) as gates, Everybody(network, live.nodes) as all_of:
        gates.shut(ends=True, refuses=refuses)
        await until(lambda: not whole(live.nodes))
        await asyncio.sleep(2.0)
        assert all_of.missing()
        gates.reopen()
        await until(lambda: whole(live.nodes))
        await asyncio.sleep(0.5)
        await all_of.stop()


async def test_all_connections_break_at_once_and_some_ends_hear_of_it_late(live: Live):
    network = gossip()
    async with Gates(live, network, late_s=0.3) as gates, Everybody(network, live.nodes) as all_of:
        for _ in range(4):
            gates.reset()
            await asyncio.sleep(0.7)
        await all_of.stop()


@pytest.mark.soak
@pytest.mark.parametrize(
    ("ends", "refuses"), [(True, True), (True, False), (False, True), (False, False)]
)
async def test_after_half_a_minute_topics_are_whole_in_five_seconds(
    live: Live, ends: bool, refuses: bool
):
    """Nothing is lost from then on, and what was published before arrives as well."""
    network = gossip()
    async with Gates(live, network, *HALVES) as gates, Everybody(network, live.nodes) as all_of:
        gates.shut(ends=ends, refuses=refuses)
        await asyncio.sleep(30.0)
        assert all_of.missing()
        gates.reopen()
        healed_s = time.monotonic()
        await until(lambda: whole(live.nodes))
        assert time.monotonic() - healed_s < HEALED_S
        await asyncio.sleep(HEALED_S)
        await all_of.stop()

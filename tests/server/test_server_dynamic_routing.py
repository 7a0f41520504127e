"""Dynamic routing over real TCP: a SCOT of which some iLinks are throttled."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Iterable
from contextlib import AsyncExitStack

import pytest
from live_brokers import Live, Throttle, as_seen, count_sent, make_scot
from raw_client import RawClient

from live_networks import linked, until
from reefcast.model.wire import FrameKind
from reefcast.network.file import NetworkFile
from reefcast.overlay.topology import Edge

BURST = 300
SLOW_BYTES_PER_S = 250.0
"""About five publications a second: where a burst takes long, because the machine is busy, a slow
link still takes much less of it than a fast one."""


class Throttled:
    """A SCOT in this process; `throttles` are the proxies on the iLinks asked for."""

    def __init__(self, live: Live, network: NetworkFile) -> None:
        self.live = live
        self.network = network
        self.throttles: dict[Edge, Throttle] = {}

    async def start(self, slow: Iterable[Edge], stack: AsyncExitStack) -> None:
        """Start the brokers, with nothing slow yet. The first of the two ends of a link dials."""
        for edge in sorted(slow):
            throttle = await Throttle(self.network.address(edge[1])).start()
            stack.push_async_callback(throttle.stop)
            self.throttles[edge] = throttle
        for name in self.network.names:
            ports = {b: each.port for (a, b), each in self.throttles.items() if a == name}
            await self.live.node(as_seen(self.network, ports), name)
        await linked(self.live.nodes.values())

    def throttle(self) -> None:
        for each in self.throttles.values():
            each.throttle(SLOW_BYTES_PER_S)

    def release(self) -> None:
        for each in self.throttles.values():
            each.release()

    async def subscribers(self, filter: str = "TRUE") -> dict[str, RawClient]:
        """Connect one subscriber at each broker."""
        nodes = self.live.nodes
        clients = {name: await self.live.client(node, f"s-{name}") for name, node in nodes.items()}
        for client in clients.values():
            await client.subscribe(filter)
        return clients

    async def publisher(self, broker: str, filter: str = "TRUE") -> RawClient:
        client = await self.live.client(self.live.nodes[broker], f"p-{broker}")
        await client.advertise(filter)
        return client

    def counters(self) -> Counter[str]:
        return sum((node.host.core.counters for node in self.live.nodes.values()), Counter[str]())


async def all_once(client: RawClient, expected: list[tuple[str, int]]) -> None:
    """Check that all of these come once each, in any order, and that nothing more comes after
    them."""
    got = [(await client.delivery())[1].id for _ in expected]
    assert sorted(got) == sorted(expected), client.name
    await client.subscribe("FALSE")  # its answer comes after all that was delivered before
    assert not [kind for kind, _ in client.inbox if kind == FrameKind.DELIVER], client.name


@pytest.fixture
async def stack():
    async with AsyncExitStack() as stack:
        yield stack


SCOT = ("path:2", 3)


HOST = "b1-0"


async def burst(
    live: Live, stack: AsyncExitStack, routing: str, slow: list[Edge], at_once: int = 5
) -> tuple[Throttled, Counter[Edge], Counter[str]]:
    """Publish a burst at the host broker while `slow` links are throttled, `at_once` publications
    at a time, as fast as the broker's other links take them. The slow links are released when the
    host has routed all of it, so that the test need not wait for them. Return the network, what was
    sent over all links, and what the host had sent until then."""
    scene = Throttled(live, make_scot(*SCOT, routing=routing))
    await scene.start(slow, stack)
    subscribers = await scene.subscribers()
    publisher = await scene.publisher(HOST)
    links = live.nodes[HOST].links
    fast = [link for name, link in links.items() if (HOST, name) not in slow]
    sent = count_sent(live.nodes)
    scene.throttle()
    for done in range(at_once, BURST + 1, at_once):
        publisher.publish(at_once)
        await publisher.until_acknowledged(1 + done)
        await until(lambda: not any(link.queue.window.queue_len for link in fast))
    first = Counter({name: sent[HOST, name] for name in links})
    scene.release()
    for client in subscribers.values():
        await all_once(client, [(f"p-{HOST}", seq) for seq in range(1, BURST + 1)])
    return scene, sent, first


def entries(sent: Counter[Edge], cluster: int) -> int:
    """Return how many publications were sent over iLinks into a cluster."""
    end = f"-{cluster}"
    return sum(n for (a, b), n in sent.items() if b.endswith(end) and not a.endswith(end))


async def test_copies_bypass_a_throttled_ilink_by_another_one(live: Live, stack: AsyncExitStack):
    """Case I: the cluster behind the slow link is reached by the third one."""
    scene, sent, first = await burst(live, stack, "idr", [(HOST, "b1-1")])
    assert 10 < first["b1-1"] < BURST / 2
    assert first["b1-2"] == first["b2-0"] == BURST
    assert sent["b1-2", "b1-1"] > BURST / 2
    assert entries(sent, 1) == entries(sent, 2) == BURST
    assert scene.counters()["idr_case_1"] >= BURST - first["b1-1"]
    lst = live.nodes[HOST].host.core.links.lst
    assert lst.found_overloaded["b1-1"] == BURST - first["b1-1"]
    assert not any(node.host.congestion.announced for node in live.nodes.values())


async def test_where_all_ilinks_are_throttled_the_alink_takes_their_clusters(
    live: Live, stack: AsyncExitStack
):
    """Case II: the neighbour in the cluster, which has a subscriber, goes on with the bits."""
    scene, sent, first = await burst(live, stack, "idr", [(HOST, "b1-1"), (HOST, "b1-2")])
    assert min(first["b1-1"], first["b1-2"]) > 10
    assert max(first["b1-1"], first["b1-2"]) < BURST / 2
    assert first["b2-0"] == BURST
    assert sent["b2-0", "b2-1"] + sent["b2-0", "b2-2"] > BURST
    assert entries(sent, 1) == entries(sent, 2) == BURST
    # The two need not be overloaded by the same publications; where only one is, that is case I.
    assert scene.counters()["idr_case_2"] >= BURST - first["b1-1"] - first["b1-2"]


async def test_a_burst_in_one_read_is_spread(live: Live, stack: AsyncExitStack):
    """What a batch has put on a link counts for the rest of the batch. With both iLinks overloaded
    (case III) each carries about half of what goes between clusters."""
    _, sent, first = await burst(live, stack, "idr", [], at_once=BURST)
    assert entries(sent, 1) == entries(sent, 2) == BURST
    assert BURST / 4 < first["b1-1"] < BURST * 3 / 4
    assert BURST / 4 < first["b1-2"] < BURST * 3 / 4


async def test_static_routing_sends_all_over_the_throttled_link(live: Live, stack: AsyncExitStack):
    """The control: the same with SPR."""
    _, sent, first = await burst(live, stack, "spr", [(HOST, "b1-1")])
    assert first["b1-1"] == first["b1-2"] == first["b2-0"] == BURST
    assert entries(sent, 1) == entries(sent, 2) == BURST


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(20))
async def test_whatever_is_throttled_all_arrive_once(live: Live, stack: AsyncExitStack, seed: int):
    rng = random.Random(seed)
    network = make_scot(rng.choice(("path:2", "path:3", "star:4")), rng.choice((2, 3)))
    scene = Throttled(live, network)
    links = [link.between for link in network.link]
    await scene.start(rng.sample(links, rng.randint(1, len(links))), stack)
    subscribers = await scene.subscribers()
    hosts = rng.sample(network.names, 3)
    publishers = [await scene.publisher(host) for host in hosts]
    scene.throttle()
    sizes = dict.fromkeys(hosts, 0)
    for _ in range(12):
        for host, publisher in zip(hosts, publishers, strict=True):
            count = rng.randint(0, 60)
            publisher.publish(count)
            sizes[host] += count
        if rng.random() < 0.3:
            scene.release()
        elif rng.random() < 0.5:
            scene.throttle()
        await asyncio.sleep(rng.random() * 0.1)
    for host, publisher in zip(hosts, publishers, strict=True):
        await publisher.until_acknowledged(1 + sizes[host])
    scene.release()
    expected = [(f"p-{host}", n) for host, size in sizes.items() for n in range(1, size + 1)]
    for client in subscribers.values():
        await all_once(client, expected)
    counters = scene.counters()
    assert counters["idr_case_1"] + counters["idr_case_2"] + counters["idr_case_3"] > 0
    assert not counters["link_lost"] + counters["idr_unreachable"]

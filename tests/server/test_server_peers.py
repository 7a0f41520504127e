"""Peers: brokers of routing gossip that are in no network file."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from live_brokers import Live
from raw_client import Closed

import reefcast
from live_networks import make_network, path_network, until, url_of
from reefcast.errors import ConfigurationError, ConnectionLostError
from reefcast.network.file import NetworkFile
from reefcast.routing.capabilities import SoftLink
from reefcast.routing.gossip.router import Gossip
from reefcast.server.peer import Peer
from reefcast.server.supervisor import free_ports

GUIDE = Path(__file__).parents[2] / "docs" / "how-to" / "run-gossip.md"
QUICK: dict[str, Any] = {"round_s": 0.05}


def addresses(count: int) -> list[str]:
    return [f"127.0.0.1:{port}" for port in free_ports(count)]


def gossip_network(names: str) -> NetworkFile:
    return make_network(names, routing="gossip", options={"contacts": list(names), **QUICK})


def view(peer: Peer, topic: str) -> set[str]:
    router = peer.node.host.core.router
    assert isinstance(router, Gossip)
    known = router.memberships.get(topic)
    return set(known.overlay.view) if known is not None else set()


async def numbers(subscription: reefcast.Subscription, count: int) -> set[int]:
    async with asyncio.timeout(120):
        return {(await anext(subscription))["n"] for _ in range(count)}


async def test_a_peer_joins_through_any_broker_or_peer(live: Live):
    """The second peer asks the first one; brokers that know neither dial them."""
    network = gossip_network("ab")
    await live.up(network)
    first, second, dead = addresses(3)
    async with (
        Peer(first, join=[dead, network.entry("b").listen]) as one,
        Peer(second, join=[first]) as two,
        reefcast.connect(url_of(network, "a")) as at_a,
        reefcast.connect(one.url) as at_one,
        reefcast.connect(two.url) as at_two,
    ):
        for each in (one, two):
            assert each.node.network.network.name == "test"
            assert each.node.network.routing == network.routing
            assert each.node.network.names == ["a", "b", each.name]
        clients = (at_a, at_one, at_two)
        subscriptions = [await client.subscribe("topic = 'fx' AND n > 0") for client in clients]
        for n, client in enumerate(clients, 1):
            await client.publish(n=n, topics=["fx"])
        for subscription in subscriptions:
            assert await numbers(subscription, 3) == {1, 2, 3}
        assert any(name in live.nodes["a"].soft_links.links for name in (first, second))


async def test_a_network_of_peers_alone(live: Live):
    first, second, third = addresses(3)
    async with (
        Peer(first, name="pets", options=QUICK) as one,
        Peer(second, join=[first]) as two,
        reefcast.connect(one.url) as at_one,
        reefcast.connect(two.url) as at_two,
    ):
        assert two.node.network.network.name == "pets"
        subscription = await at_one.subscribe("topic = 'cats'")
        another = await at_two.subscribe("topic = 'cats'")
        await at_two.publish(n=1, topics=["cats"])
        assert await numbers(subscription, 1) == {1}
        async with Peer(third, join=[second]) as three, reefcast.connect(three.url) as at_three:
            last = await at_three.subscribe("topic = 'cats'")
            await at_one.publish(n=2, topics=["cats"])
            assert await numbers(last, 1) == {2}
            assert await numbers(another, 2) == {1, 2}
        # It said that it leaves; nobody had to find out.
        await until(lambda: not {third} & (view(one, "cats") | view(two, "cats")))
        await until(lambda: view(one, "cats") == {second} and view(two, "cats") == {first})


async def test_the_example_of_the_page(capsys: pytest.CaptureFixture[str]):
    section = GUIDE.read_text(encoding="utf-8").split("## Peers")[1]
    (source,) = re.findall(r"```python\n(.*?)```", section, flags=re.DOTALL)[:1]
    for shown, free in zip(("127.0.0.1:7421", "127.0.0.1:7422"), addresses(2), strict=True):
        source = source.replace(shown, free)
    code = compile(source, str(GUIDE), "exec")
    await asyncio.to_thread(exec, code, {"__name__": "example"})
    assert capsys.readouterr().out == "12\n"


async def test_nobody_answers():
    listen, *dead = addresses(3)
    with pytest.raises(ConnectionLostError, match=f"{dead[0]} .* {dead[1]} cannot be reached"):
        await Peer(listen, join=dead).start()


async def test_a_network_whose_brokers_do_not_find_each_other_cannot_be_joined(live: Live):
    network = path_network(2)
    await live.up(network)
    (listen,) = addresses(1)
    with pytest.raises(ConfigurationError, match=r"'acyclic'.* nobody else can join"):
        await Peer(listen, join=[network.entry("b1").listen]).start()


async def test_no_module_is_imported_at_the_word_of_another(live: Live):
    network = gossip_network("a")
    node = await live.node(network, "a")
    network.network.routing = "this:Zen"
    (listen,) = addresses(1)
    with pytest.raises(ConfigurationError, match="'this:Zen'"):
        await Peer(listen, join=[network.entry("a").listen]).start()
    network.network.routing = "gossip"
    assert node.network is network


def test_only_loopback_unless_insecure():
    with pytest.raises(ConfigurationError, match=r"0\.0\.0\.0:7411 is an address that other"):
        Peer("0.0.0.0:7411")
    assert Peer("0.0.0.0:7411", insecure=True).url == "reefcast://0.0.0.0:7411"


async def test_no_broker_of_a_network_on_loopback_dials_another_machine(live: Live):
    node = await live.node(gossip_network("a"), "a")
    for stranger in ("192.0.2.1:80", "b", "127.0.0.1", "a"):
        node.host.core.router.soft_links[stranger] = SoftLink.OPENING
        node.soft_links.open(stranger)
        assert stranger not in node.soft_links._dials
        assert stranger not in node.host.core.router.soft_links


async def test_brokers_with_links_dial_no_peers(live: Live):
    nodes = await live.up(path_network(2))
    assert not nodes["b1"].network.is_node("127.0.0.1:7411")


async def test_no_client_has_the_name_of_a_peer(live: Live):
    node = await live.node(gossip_network("a"), "a")
    with pytest.raises(Closed, match=r"'127\.0\.0\.1:7411' is the name of a broker"):
        await live.client(node, "127.0.0.1:7411")


def test_who_joins_has_no_options_of_its_own():
    with pytest.raises(ConfigurationError, match="one that joins has the network's"):
        Peer("127.0.0.1:7411", join=["127.0.0.1:7412"], options=QUICK)
    with pytest.raises(ConfigurationError, match="is not host:port"):
        Peer("7411")

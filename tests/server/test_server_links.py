"""Links between brokers: cut, resumed, restarted, given up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
from live_brokers import Live, Proxy, as_seen
from raw_client import RawClient, expect

from live_networks import linked, make_network, until
from reefcast.model.messages import Timer
from reefcast.model.wire import Role
from reefcast.network.file import NetworkFile
from reefcast.routing.neighbour_links import ABSENT_TIMER
from reefcast.server.node import Node


@pytest.fixture
async def proxied(live: Live) -> AsyncIterator[tuple[dict[str, Node], Proxy]]:
    """Start brokers a and b; a reaches b through a proxy."""
    network = make_network("ab", [("a", "b")])
    proxy = await Proxy(network.address("b")).start()
    await live.node(network, "b")
    await live.node(as_seen(network, {"b": proxy.port}), "a")
    await linked(live.nodes.values())
    yield live.nodes, proxy
    await proxy.stop()


async def test_cuts_in_mid_traffic_lose_double_and_disorder_nothing(
    live: Live, proxied: tuple[dict[str, Node], Proxy]
):
    nodes, proxy = proxied
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe("n > 0")
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    session = nodes["a"].links["b"].status()["peer_session"]
    got: list[int] = []
    for _ in range(8):
        publisher.publish(500)
        got += await subscriber.seqs_of(100)
        proxy.cut()
    got += await subscriber.seqs_of(4000 - len(got))
    expect(got, 1, 4000)
    await until(lambda: not nodes["a"].links["b"].queue.window.queue_len)
    assert nodes["a"].links["b"].status()["peer_session"] == session
    assert nodes["a"].links["b"].reconnects >= 1
    await subscriber.subscribe("n = 1")  # control messages pass as well


async def test_control_messages_survive_a_cut(live: Live, proxied: tuple[dict[str, Node], Proxy]):
    nodes, proxy = proxied
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    subscriber = await live.client(nodes["b"], "s")
    asking = [asyncio.create_task(live.client(nodes["b"], f"s{i}")) for i in range(20)]
    clients = await asyncio.gather(*asking)
    settling = [
        asyncio.create_task(client.subscribe(f"n = {i}")) for i, client in enumerate(clients)
    ]
    proxy.cut()
    await asyncio.gather(*settling)
    assert nodes["a"].host.core.tables()["PRT"] == 20
    await subscriber.subscribe("n > 0")


async def test_a_restarted_broker_relearns(live: Live):
    network = make_network("abc", [("a", "b"), ("b", "c")])
    nodes = await live.up(network)
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    subscriber = await live.client(nodes["c"], "s")
    await subscriber.subscribe("n > 0")
    publisher.publish(10)
    expect(await subscriber.seqs_of(10), 1, 10)
    await live.crash(nodes["b"])
    await until(lambda: live.nodes["a"].links["b"].state == "broken")
    await live.node(network, "b")
    await linked(live.nodes.values())
    assert live.nodes["b"].host.core.tables() == {"SRT": 1, "PRT": 1}
    publisher.publish(10)
    expect((await subscriber.seqs_of(10))[-10:], 11, 20)


async def left_alone(live: Live, network: NetworkFile) -> tuple[Node, RawClient]:
    """Return broker a, whose neighbour b has crashed with a subscriber to everything, and a
    publisher."""
    nodes = await live.up(network)
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe("n > 0")
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    await live.crash(nodes["b"])
    return nodes["a"], publisher


async def test_publications_for_a_broker_that_restarts_reach_it(live: Live):
    network = make_network("ab", [("a", "b")])
    a, publisher = await left_alone(live, network)
    await until(lambda: a.links["b"].state == "broken")
    publisher.publish(5)
    await publisher.until_acknowledged(6)
    assert a.links["b"].queue.window.queue_len == 5
    b = await live.node(network, "b")
    await linked(live.nodes.values())
    await until(lambda: b.host.core.counters["false_positive"] == 5)
    assert a.host.journal.counters["link_lost"] == 0
    assert a.host.core.tables()["PRT"] == 0  # the subscriber has not come back


async def test_the_buffer_for_a_broker_that_is_away_is_bounded(live: Live):
    a, publisher = await left_alone(live, make_network("ab", [("a", "b")], link_buffer=10))
    await until(lambda: a.links["b"].state == "broken")
    publisher.publish(25)
    await publisher.until_acknowledged(26)
    assert a.links["b"].queue.window.queue_len == 10
    assert a.host.journal.counters["link_lost"] == 15


async def test_what_waits_for_a_broker_that_never_comes_is_lost_with_a_word(
    live: Live, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Two of three brokers were started: what the third one may want is held for a while."""
    monkeypatch.setattr("reefcast.routing.neighbour_links.RELEARN_S", 0.05)
    monkeypatch.setattr("reefcast.routing.gate.HOLD_S", 0.05)
    network = make_network("abc", [("a", "b"), ("b", "c")])
    a, b = await live.node(network, "a"), await live.node(network, "b")
    publisher = await live.client(a, "p")
    await until(lambda: b.host.core.router.absent == ["c"])
    publisher.publish(3)
    await until(lambda: len(list(b.host.core.waiting())) == 3)
    journal = b.host.journal
    assert journal.counters["link_lost"] == 0
    b.host.driver.handle(Timer(ABSENT_TIMER), "")
    assert journal.counters["link_lost"] == 3
    assert "publication 3 of p did not reach c, and is lost" in caplog.text
    await until(lambda: not a.host.core.router.absent)
    publisher.publish(2)
    await until(lambda: a.host.core.counters["unwanted"] == 2)
    assert journal.counters["link_lost"] == 3


async def test_a_broker_that_stays_away_is_given_up(live: Live):
    network = make_network("ab", [("a", "b")], link_patience_s=0.05)
    a, _ = await left_alone(live, network)
    await until(lambda: a.links["b"].state == "away")
    assert a.host.core.tables()["PRT"] == 0
    await live.node(network, "b")
    await linked(live.nodes.values())
    assert live.nodes["b"].host.core.tables()["SRT"] == 1


async def test_a_broker_must_not_dial_the_wrong_way(live: Live):
    network = make_network("ab", [("a", "b")])
    node = await live.node(network, "a")
    wrong: RawClient = await live.dial(node, "b")
    wrong.say_hello(role=Role.BROKER, network="test")
    assert "dials b, not the other way round" in await wrong.reason()

"""Clients at one broker, and brokers that carry publications to each other."""

from __future__ import annotations

import asyncio

import pytest
from live_brokers import Live, OneBroker, make_scot
from msgspec.structs import replace
from raw_client import Closed, RawClient, expect

from children import CHILD_S
from live_networks import make_network, until
from reefcast.errors import ConfigurationError
from reefcast.model.messages import Refused
from reefcast.model.wire import FrameKind
from reefcast.server.admin import ask_status
from reefcast.server.connection import Connection


async def test_an_event_reaches_those_whose_filter_holds(live: Live, one: OneBroker):
    node = await one()
    subscriber = await live.client(node, "s")
    await subscriber.subscribe("n > 2")
    await subscriber.subscribe("n = 4 OR n = 1")
    publisher = await live.client(node, "p")
    publisher.publish(4)
    got = [await subscriber.delivery() for _ in range(3)]
    assert [(numbers, event.seq) for numbers, event in got] == [((2,), 1), ((1,), 3), ((1, 2), 4)]


@pytest.mark.parametrize("routing", ["acyclic", "flooding"])
async def test_events_cross_brokers_in_order_and_once(live: Live, routing: str):
    network = make_network("abc", [("a", "b"), ("b", "c")], routing=routing)
    nodes = await live.up(network)
    subscriber = await live.client(nodes["c"], "s")
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    await subscriber.subscribe("n > 0")
    publisher.publish(3000)
    expect(await subscriber.seqs_of(3000), 1, 3000)
    publisher.publish(1)
    expect(await subscriber.seqs_of(1), 3001, 3001)


async def test_the_answer_to_unsubscribe_comes_after_the_last_event(live: Live, one: OneBroker):
    node = await one()
    client = await live.client(node, "c")
    number = await client.subscribe()
    await client.advertise()
    client.publish(100)
    await client.unsubscribe(number)
    assert sum(kind == FrameKind.DELIVER for kind, _ in client.inbox) == 100


async def test_a_publication_outside_the_advertisement_is_refused(live: Live, one: OneBroker):
    node = await one()
    client = await live.client(node, "c")
    await client.advertise("n < 2")
    client.publish(2)
    answer = await client.answer()
    assert isinstance(answer, Refused) and answer.publication == ("c", 2)


async def test_a_client_that_returns_learns_what_was_taken_over(live: Live, one: OneBroker):
    node = await one()
    first = await live.client(node, "c")
    first.publish(5)
    await first.until_acknowledged(5)
    await first.close()
    await until(lambda: "c" not in node.clients.sessions)
    again = await live.client(node, "c", peer_session=node.host.me.session)
    assert (again.hello.received, again.hello.peer_session) == (5, "s")
    assert again.hello.session == node.host.me.session
    again.publish(1)
    await again.until_acknowledged(6)


async def test_another_program_with_the_same_id_starts_at_zero(live: Live, one: OneBroker):
    node = await one()
    first = await live.client(node, "c")
    first.publish(5)
    await first.until_acknowledged(5)
    second = await live.client(node, "c", session="other")
    assert (second.hello.received, second.hello.peer_session) == (0, "")
    assert "took over" in await first.reason()


async def test_what_a_publisher_repeats_is_passed_on_once(live: Live, one: OneBroker):
    """The publisher may have been killed, and publishes everything again; or it runs twice at the
    same time."""
    node = await one()
    subscriber = await live.client(node, "s")
    await subscriber.subscribe("n > 0")
    first = await live.client(node, "c")
    first.publish(5)
    await first.until_acknowledged(5)
    second = await live.client(node, "c", session="other")
    second.publish(3)
    await second.until_acknowledged(3)
    second.publish(4)
    await second.until_acknowledged(7)
    await second.close()
    await until(lambda: "c" not in node.clients.sessions)
    third = await live.client(node, "c", session="third")
    third.publish(9)
    expect(await subscriber.seqs_of(9), 1, 9)
    assert node.host.core.counters["published"] == 9


async def test_what_is_repeated_takes_credit_and_gives_it_back(live: Live, one: OneBroker):
    node = await one(credit=10)
    first = await live.client(node, "c")
    first.publish(10)
    await first.until_acknowledged(10)
    again = await live.client(node, "c", session="other")
    for count in range(10, 100, 10):
        again.publish(10)
        await again.until_acknowledged(count)
    assert again.hello.credit + again.credit() >= 90


async def test_a_client_is_forgotten_after_a_while(live: Live, one: OneBroker):
    node = await one(session_s=0.001)
    first = await live.client(node, "c")
    first.publish(5)
    await first.until_acknowledged(5)
    await first.close()
    await until(lambda: "c" not in node.host.congestion.accounts)
    again = await live.client(node, "c")
    assert again.hello.received == 0
    subscriber = await live.client(node, "s")
    await subscriber.subscribe("n > 0")
    again.publish(5)
    expect(await subscriber.seqs_of(5), 1, 5)


async def test_subscriptions_go_with_the_connection(live: Live):
    nodes = await live.up(make_network("ab", [("a", "b")]))
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe()
    assert nodes["a"].host.core.tables()["PRT"] == 1
    await subscriber.close()
    await until(lambda: nodes["a"].host.core.tables()["PRT"] == 0)


async def test_status_tells_of_links_clients_and_counters(live: Live):
    network = make_network("ab", [("a", "b")])
    nodes = await live.up(network)
    client = await live.client(nodes["a"], "c", queue_policy="drop_oldest", queue_limit=7)
    client.publish(1)
    await client.until_acknowledged(1)
    status = await ask_status(*network.address("a"))
    assert status["broker"] == "a" and status["network"] == "test"
    assert [(link["link"], link["state"]) for link in status["links"]] == [("b", "up")]
    (told,) = status["clients"]
    assert (told["client"], told["queue_policy"], told["queue_limit"]) == ("c", "drop_oldest", 7)
    assert status["counters"]["published"] == 1
    assert status["memory_mb"] > 1 and status["uptime_s"] > 0


async def test_draining_gives_subscribers_all_that_waits(live: Live):
    network = make_network("ab", [("a", "b")])
    nodes = await live.up(network)
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe()
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    publisher.publish(2000, text="x" * 500)
    await publisher.until_acknowledged(2001)
    await nodes["a"].stop()
    expect(await subscriber.seqs_of(2000), 1, 2000)
    assert "told to stop" in await publisher.reason()
    assert publisher.close_frame is not None and publisher.close_frame.retry
    await nodes["b"].stop()
    with pytest.raises(Closed):
        await subscriber.delivery()


async def test_draining_sends_what_waits_for_an_advertisement_to_settle(live: Live):
    nodes = await live.up(make_network("ab", [("a", "b")]))
    subscribers = [await live.client(nodes[name], f"s-{name}") for name in "ab"]
    for subscriber in subscribers:
        await subscriber.subscribe()
    deaf = nodes["b"].links["a"].connection
    assert deaf is not None
    deaf.transport.pause_reading()
    publisher = await live.client(nodes["a"], "p")
    publisher.publish(5)
    await publisher.until_acknowledged(5)
    assert nodes["a"].host.core.holds_publications
    stopping = asyncio.create_task(nodes["a"].stop())
    await until(lambda: nodes["a"].stopping)
    deaf.transport.resume_reading()
    for subscriber in subscribers:
        expect(await subscriber.seqs_of(5), 1, 5)
    await stopping


async def test_draining_does_not_wait_for_a_subscriber_that_has_gone(live: Live, one: OneBroker):
    node = await one(drain_s=60.0)
    subscriber = await live.client(node, "s")
    await subscriber.subscribe()
    publisher = await live.client(node, "p")
    publisher.publish(200, text="x" * 100_000)  # more than the sockets take
    await until(lambda: node.host.outputs.queue_len("s"))
    stopping = asyncio.create_task(node.stop())
    await until(lambda: node.stopping)
    subscriber.writer.transport.abort()
    await asyncio.wait_for(stopping, 120)


async def test_one_event_for_very_many_subscriptions(live: Live, one: OneBroker):
    """The numbers of these subscriptions need more than 64 KiB."""
    node = await one()
    client = await live.client(node, "c")
    client.numbers = iter(range(2**32, 2**32 + 7300))  # of nine bytes each
    for _ in range(7300):
        await client.subscribe()
    publisher = await live.client(node, "p")
    publisher.publish(1)
    numbers, _ = await client.delivery()
    assert len(numbers) == 7300


async def test_an_address_in_use_is_said_so(live: Live):
    network = make_network("a")
    await live.node(network, "a")
    with pytest.raises(ConfigurationError, match=r"cannot listen on .*: another program listens"):
        await live.node(network, "a")


async def test_a_large_event_passes(live: Live):
    nodes = await live.up(make_network("ab", [("a", "b")]))
    subscriber = await live.client(nodes["b"], "s")
    await subscriber.subscribe()
    publisher: RawClient = await live.client(nodes["a"], "p")
    await publisher.advertise()
    publisher.publish(3, text="x" * 5_000_000)
    expect(await subscriber.seqs_of(3), 1, 3)


@pytest.mark.parametrize("routing", ["flooding", "spr"])
async def test_brokers_of_a_cycle_that_stop_together_do_not_wait_for_each_other(
    live: Live, routing: str
) -> None:
    network = make_scot("path:2", 3, routing=routing)
    network.limits = replace(network.limits, drain_s=CHILD_S)
    nodes = await live.up(network)
    async with asyncio.timeout(CHILD_S / 2):
        await asyncio.gather(*(node.stop() for node in nodes.values()))


async def test_a_client_that_the_broker_does_not_read_is_not_blamed_for_its_silence(
    live: Live, one: OneBroker
) -> None:
    node = await one()
    await live.client(node, "c")
    line = node.clients.sessions["c"].port.line
    assert isinstance(line, Connection) and line.link.listening
    line.stop_reading()
    assert not line.link.listening

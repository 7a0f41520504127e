"""Sessions under other faults than a broken connection: old hellos, clients that close or never
come back, brokers that stop."""

from __future__ import annotations

import asyncio

import pytest
from live_brokers import Live
from raw_client import LARGE, Closed, RawClient, publish_within_credit

import reefcast
from live_networks import make_network, until
from reefcast.history.messages import CLIENT_CODEC, Stores
from reefcast.model import wire
from reefcast.model.messages import Refused, Settled, Subscribe
from reefcast.model.wire import RESUME, FrameKind
from reefcast.protocol.principal import Principal, UserRole
from reefcast.server import client_port
from reefcast.server.greeting import Authenticator, Greeting
from reefcast.server.node import Node
from torture.proxy import Proxy

CAN = {"features": (RESUME,)}


async def cut(node: Node, client: RawClient) -> None:
    client.writer.transport.abort()
    await until(lambda: node.clients.sessions[client.name].port.line is None)


async def back(live: Live, node: Node, before: RawClient, received: int) -> RawClient:
    ticket = before.hello.ticket
    return await live.client(node, before.name, **CAN, ticket=ticket, received=received)


async def published(live: Live, node: Node, count: int, name: str = "p") -> None:
    publisher = await live.client(node, name)
    publisher.publish(count, text=LARGE)
    await publisher.until_acknowledged(count)


async def test_the_hello_of_a_session_that_ended_does_not_begin_where_it_was(live: Live) -> None:
    """The session ended, and the hello of the next one was lost on its way to the client."""
    node = await live.node(make_network("a"), "a")
    first = await live.client(node, **CAN)
    await first.subscribe()
    await cut(node, first)
    node.clients.sessions["c"].end()
    lost = await back(live, node, first, 1)
    assert not lost.hello.resumed
    await cut(node, lost)
    again = await back(live, node, first, 1)
    assert not again.hello.resumed
    assert again.hello.ticket not in (first.hello.ticket, lost.hello.ticket)


async def test_a_hello_that_was_delayed_costs_the_true_client_nothing(live: Live) -> None:
    node = await live.node(make_network("a", queue_limit=1_000_000), "a")
    first = await live.client(node, **CAN)
    await first.subscribe()
    await cut(node, first)
    await published(live, node, 1500)
    true = await back(live, node, first, 1)
    await true.seqs_of(1500)
    stale = await live.dial(node, "c")
    stale.writer.transport.pause_reading()
    stale.say_hello(**CAN, ticket=first.hello.ticket, received=1)
    assert "took over" in await true.reason()
    await cut(node, stale)
    assert (await back(live, node, first, 1501)).hello.resumed


async def test_of_two_hellos_of_a_program_the_newer_one_stays(live: Live) -> None:
    """A broker that was frozen reads hellos in any order; neither of these has a ticket."""
    node = await live.node(make_network("a"), "a")
    newer = await live.client(node, **CAN, attempt=1)
    await newer.subscribe()
    older = await live.dial(node, "c")
    older.say_hello(**CAN, attempt=0)
    assert await older.reason() == "a newer connection of this client is here"
    await published(live, node, 1)
    await newer.seqs_of(1)
    again = await live.client(node, **CAN, attempt=2, ticket=newer.hello.ticket, received=1)
    assert again.hello.resumed
    for attempt in (0, 1):
        late = await live.dial(node, "c")
        late.say_hello(**CAN, attempt=attempt)
        assert await late.reason() == "a newer connection of this client is here"
    await published(live, node, 1, "q")
    await again.seqs_of(1)


async def test_a_hello_that_cannot_be_true_does_not_cut_the_line_that_works(live: Live) -> None:
    node = await live.node(make_network("a"), "a")
    good = await live.client(node, **CAN)
    await good.subscribe()
    good.send(FrameKind.ACK, 1)
    session = node.clients.sessions["c"]
    await until(lambda: not session.port._sent)
    for received, but in ((0, "acknowledged 1"), (2, "was sent 1")):
        bad = await live.dial(node, "c")
        bad.say_hello(**CAN, ticket=good.hello.ticket, received=received)
        assert but in await bad.reason()
    await good.subscribe()


async def test_a_refusal_is_not_overtaken_by_its_acknowledgement_across_a_cut(live: Live) -> None:
    node = await live.node(make_network("a"), "a")
    proxy = Proxy(node.network.address("a"))
    await proxy.start()
    try:
        client = await reefcast.connect(
            f"reefcast://127.0.0.1:{proxy.port}", backoff_first_s=0.001, backoff_max_s=0.01
        )
        await client.advertise("n < 3")
        proxy.cut_after(0, forward=False)  # nothing of what the broker says comes any more
        await client.publish(n=100)
        with pytest.raises(reefcast.RefusedError, match="advertise"):
            await client.flush(20)
        await client.close()
    finally:
        await proxy.stop()


async def test_nobody_waits_for_a_client_that_is_away(live: Live) -> None:
    """The client asked for `block`; it is told what it missed."""
    node = await live.node(make_network("a", queue_limit=10, block_s=1000.0), "a")
    first = await live.client(node, queue_policy="block", **CAN)
    await first.subscribe()
    await cut(node, first)
    await published(live, node, 100)
    again = await back(live, node, first, 1)
    assert wire.decode_dropped(await again.next(FrameKind.DROPPED)).count == 90
    assert await again.seqs_of(10) == list(range(91, 101))


async def test_publishers_go_on_when_the_client_that_they_wait_for_goes_away(live: Live) -> None:
    node = await live.node(make_network("a", queue_limit=10, block_s=1000.0, credit=64), "a")
    slow = await live.client(node, "s", queue_policy="block", **CAN)
    await slow.subscribe()
    slow.writer.transport.pause_reading()
    publisher = await live.client(node, "p")
    publishing = asyncio.create_task(publish_within_credit(publisher, 3000, asyncio.Event()))
    await until(lambda: node.host.congestion.targets)
    await cut(node, slow)
    assert await publishing == 3000


async def test_a_client_that_closes_under_load_ends_its_session_at_once(live: Live) -> None:
    """What it has not read must not make its connection look broken."""
    node = await live.node(make_network("a"), "a")
    client = await reefcast.connect(
        "reefcast://{}:{}".format(*node.network.address("a")), local_queue_limit=1
    )
    subscription = await client.subscribe("TRUE")
    publisher = await live.client(node, "p")
    publishing = asyncio.create_task(publish_within_credit(publisher, 1500, asyncio.Event()))
    [session] = [each for each in node.clients.sessions.values() if each.name != "p"]
    await until(lambda: session.port.paused)
    await client.close()
    await until(lambda: client.id not in node.clients.sessions)
    assert await publishing == 1500
    assert not node.clients._away
    assert subscription.waiting > 0


async def test_a_client_whose_program_failed_leaves_no_session(live: Live) -> None:
    def fail(_: list[bytes]) -> None:
        raise ValueError("no")

    node = await live.node(make_network("a"), "a")
    client = await reefcast.connect(
        "reefcast://{}:{}".format(*node.network.address("a")), on_deliveries=fail
    )
    subscription = await client.subscribe("TRUE")
    await published(live, node, 1)
    await until(lambda: client.id not in node.clients.sessions)
    with pytest.raises(reefcast.ReefcastError, match="on_deliveries failed"):
        await client.publish(n=1)
    assert subscription.waiting == 0
    await client._stop()


class Granting(Authenticator):
    def __init__(self) -> None:
        self.roles = frozenset({UserRole.CLIENT, UserRole.STORAGE})

    def prove(self, greeting: Greeting) -> Principal:
        return Principal("anna", self.roles, "test")


async def test_a_session_has_the_roles_of_its_present_line(live: Live) -> None:
    granting = Granting()
    node = await live.node(make_network("a"), "a", authenticator=granting)
    first = await live.client(node, **CAN)
    await cut(node, first)
    granting.roles = frozenset({UserRole.CLIENT})
    again = await back(live, node, first, 0)
    assert again.hello.resumed
    again.send(FrameKind.CONTROL, Stores(topics=("fx",)))
    assert "role 'storage'" in await again.reason()


async def test_a_broker_that_stops_takes_its_clients_rows_along_and_says_what_is_lost(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    nodes = await live.up(make_network("ab", [("a", "b")]))
    publisher = await live.client(nodes["a"], "p")
    await publisher.advertise()
    subscriber = await live.client(nodes["b"], **CAN)
    await subscriber.subscribe()
    await cut(nodes["b"], subscriber)
    publisher.publish(3)
    await until(lambda: nodes["b"].clients.sessions["c"].port.queue_len == 3)
    await nodes["b"].stop()
    await until(lambda: nodes["a"].host.core.tables()["PRT"] == 0)
    assert "client c did not come back: 3 publications" in caplog.text


async def test_a_broker_that_stops_has_lost_nothing_that_it_has_written(
    live: Live, caplog: pytest.LogCaptureFixture
) -> None:
    """That holds whether or not its client had the time to acknowledge it."""
    node = await live.node(make_network("a"), "a")
    publisher, subscriber = await live.client(node, "p"), await live.client(node, **CAN)
    await subscriber.subscribe()
    publisher.publish(3)
    port = node.clients.sessions["c"].port
    await until(lambda: port.kept == 3 and not port.unwritten)
    await node.stop()
    assert "dropped" not in caplog.text


async def test_messages_for_a_client_that_is_away_have_a_bound(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_port, "MOST_MESSAGES", 10)
    node = await live.node(make_network("a"), "a")
    client = await live.client(node, **CAN)
    await cut(node, client)
    port = node.clients.sessions["c"].port
    for token in range(12):
        port.tell(Settled(token))
    assert "c" not in node.clients.sessions
    with pytest.raises(Closed) as closed:
        await live.client(node, **CAN)
    assert closed.value.close_frame.too_slow


async def test_who_never_acknowledges_is_cut_off(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client_port, "MOST_UNACKNOWLEDGED", 50)
    node = await live.node(make_network("a"), "a")
    client = await live.client(node, **CAN)
    await client.subscribe()
    await published(live, node, 100)
    assert "neither acknowledged" in await client.reason()


async def test_an_answer_that_was_on_its_way_comes_after_the_cut(live: Live) -> None:
    node = await live.node(make_network("a"), "a")
    first = await live.client(node, **CAN)
    first.send(FrameKind.CONTROL, Subscribe(("c", 1), "n >", 7))
    await until(lambda: node.clients.sessions["c"].port._sent)
    await cut(node, first)
    again = await back(live, node, first, 0)
    answer = CLIENT_CODEC.decode_control(await again.next(FrameKind.CONTROL))
    assert isinstance(answer, Refused) and answer.token == 7

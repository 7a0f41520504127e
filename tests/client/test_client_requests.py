"""Requests and replies: with real brokers of each kind of routing, and with a scripted broker."""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from fake_broker import FakeBroker
from hypothesis import given, settings
from hypothesis import strategies as st

import reefcast
from inner_loop import examples
from live_networks import make_network, path_network, running, until, url_of
from reefcast.client import Client, Event
from reefcast.errors import (
    ConfigurationError,
    ConnectionLostError,
    InvalidValueError,
    LocalError,
    NoReplyError,
    RefusedError,
)
from reefcast.model.messages import Refused, Settled, Subscribe
from reefcast.network.file import NetworkFile, scot_network
from reefcast.network.tree_sources import tree_of
from reefcast.overlay.scot import scot
from reefcast.server.node import Node
from reefcast.server.supervisor import free_ports

LONG_S = 60.0
"""How long to wait for a reply that must come."""
Answer = Callable[[Event], dict[str, Any]]


def twice(event: Event) -> dict[str, Any]:
    return {"result": event["n"] * 2}


@asynccontextmanager
async def answering(client: Client, filter: str, answer: Answer = twice) -> AsyncIterator[None]:
    subscription = await client.subscribe(filter)

    async def answer_all() -> None:
        async for event in subscription:
            await event.reply(answer(event))

    task = asyncio.create_task(answer_all())
    try:
        yield
    finally:
        await subscription.cancel()
        await task


def cycle_of_clusters(routing: str) -> NetworkFile:
    made = scot(tree_of("path:2"), 3)
    listen = [f"127.0.0.1:{port}" for port in free_ports(len(made.graph))]
    return scot_network(made, listen, name="test", routing=routing)


NETWORKS = {
    "one broker": lambda: path_network(1),
    "tree": lambda: path_network(3),
    "flooding": lambda: make_network("abc", [("a", "b"), ("b", "c")], routing="flooding"),
    "mesh": lambda: make_network("abc", [("a", "b"), ("b", "c")], routing="mesh"),
    **{name: lambda name=name: cycle_of_clusters(name) for name in ("spr", "idr", "tid-s")},
}


@pytest.mark.parametrize("network", NETWORKS)
async def test_a_request_gets_its_reply_on_every_routing(network: str) -> None:
    async with (
        running(NETWORKS[network]()) as urls,
        reefcast.connect(urls[0]) as asker,
        reefcast.connect(urls[-1]) as server,
        answering(server, "kind = 'double'"),
    ):
        reply = await asker.request({"kind": "double"}, n=21, timeout_s=LONG_S)
        assert (reply["result"], reply.publisher) == (42, server.id)
        again = [asker.request(kind="double", n=n, timeout_s=LONG_S) for n in range(20)]
        assert [reply["result"] for reply in await asyncio.gather(*again)] == [
            2 * n for n in range(20)
        ]
        assert asker.late_replies == 0


@pytest.fixture
async def urls():
    async with running(path_network(2)) as urls:
        yield urls


@pytest.fixture
async def two(urls):
    async with reefcast.connect(urls[0]) as asker, reefcast.connect(urls[1]) as server:
        yield asker, server


async def test_what_a_request_and_its_reply_carry(two: tuple[Client, Client]) -> None:
    asker, server = two
    subscription = await server.subscribe("n = 1 AND reply.to IS NOT NULL")
    watching = await server.subscribe("reply.for IS NOT NULL")
    asking = asyncio.create_task(asker.request(n=1, payload=b"p", topics=["t"], timeout_s=LONG_S))
    request = await anext(subscription)
    assert request.publisher == asker.id
    assert request.reply_to is not None and request.reply_to.startswith(asker.id + "/")
    assert dict(request) == {"n": 1, "reply.to": request.reply_to, "reply.number": 1}
    assert (request.payload, request.topics) == (b"p", ("t",))
    identity = await request.reply({"answer": 2}, payload=b"q", topics=["u"], more=True)
    reply = await asking
    assert reply.id == identity == (server.id, 1)
    assert dict(reply) == {
        "answer": 2,
        "more": True,
        "reply.for": request.reply_to,
        "reply.number": 1,
    }
    assert (reply.payload, reply.topics, reply.reply_to) == (b"q", ("u",), None)
    assert (await anext(watching)).id == identity


async def test_a_reply_goes_to_its_own_request_whatever_the_order(urls: list[str]) -> None:
    """Several clients send random numbers of concurrent requests, which are answered in a random
    order, some of them twice."""
    async with (
        reefcast.connect(urls[0]) as one,
        reefcast.connect(urls[0]) as other,
        reefcast.connect(urls[1]) as server,
    ):
        subscription = await server.subscribe("n >= 0")
        clients = [one, other]

        async def check(askers: list[int], order: list[int], doubles: list[bool]) -> None:
            late = sum(client.late_replies for client in clients)
            asking = [
                asyncio.create_task(clients[who].request(n=n, timeout_s=LONG_S))
                for n, who in enumerate(askers)
            ]
            requests = [await anext(subscription) for _ in askers]
            requests.sort(key=lambda request: order[request["n"]])
            for request, double in zip(requests, doubles, strict=True):
                for _ in range(1 + double):
                    await request.reply(of=request["n"])
            replies = await asyncio.gather(*asking)
            assert [reply["of"] for reply in replies] == list(range(len(askers)))
            extra = late + sum(doubles)
            await until(lambda: sum(client.late_replies for client in clients) == extra)

        loop = asyncio.get_running_loop()

        @settings(max_examples=examples(80), deadline=None)
        @given(st.data())
        def run(data: st.DataObject) -> None:
            askers = data.draw(st.lists(st.integers(0, 1), min_size=1, max_size=30))
            order = data.draw(st.permutations(range(len(askers))))
            size = len(askers)
            doubles = data.draw(st.lists(st.booleans(), min_size=size, max_size=size))
            asyncio.run_coroutine_threadsafe(check(askers, order, doubles), loop).result()

        await asyncio.to_thread(run)
        assert_nothing_is_kept(*clients)


def assert_nothing_is_kept(*clients: Client) -> None:
    for client in clients:
        assert client._requests._waiting == {}
        assert client._session.awaited == {}


async def test_without_a_reply_the_time_is_over_and_a_late_one_is_dropped_and_counted(two) -> None:
    asker, server = two
    subscription = await server.subscribe("n = 1")
    with pytest.raises(NoReplyError, match=r"no reply within 0\.05 s") as raised:
        await asker.request(n=1, timeout_s=0.05)
    assert isinstance(raised.value, TimeoutError)
    await (await anext(subscription)).reply(too="late")
    await until(lambda: asker.late_replies == 1)
    assert_nothing_is_kept(asker)


async def test_many_replies_to_one_request(two) -> None:
    asker, server = two
    async with (
        answering(server, "n = 1", lambda event: {"who": 1}),
        answering(server, "n >= 1", lambda event: {"who": 2}),
    ):
        several = asker.request_many(n=1, replies=2, timeout_s=LONG_S)
        assert {reply["who"] async for reply in several} == {1, 2}
        found = {reply["who"] async for reply in asker.request_many(n=1, timeout_s=0.5)}
        assert found <= {1, 2}  # whose time is over has what came until then
        async for _ in asker.request_many(n=1, timeout_s=LONG_S):
            break
        gc.collect()
        await until(lambda: not asker._requests._waiting)


async def test_all_requests_share_one_subscription_which_settles_before_the_first() -> None:
    async with FakeBroker() as broker:
        broker.answers = False
        client = await reefcast.connect(broker.url, close_timeout_s=0.1)
        asking = [asyncio.create_task(client.request(n=n, timeout_s=LONG_S)) for n in range(5)]
        await broker.until(lambda: broker.controls)
        assert not broker.publications
        [subscribe] = broker.controls
        assert subscribe.filter == client._requests.filter
        broker.send_control(Settled(subscribe.token))
        await broker.until(lambda: len(broker.publications) == 5)
        assert len(broker.standing(Subscribe)) == 1
        for publication in broker.publications:
            broker.deliver((1,), **{"reply.number": publication.attributes["reply.number"], "n": 7})
        assert {reply["n"] for reply in await asyncio.gather(*asking)} == {7}
        await client._stop()


async def test_a_request_that_cannot_leave_says_so() -> None:
    async with FakeBroker() as broker:
        broker.answers = False
        client = await reefcast.connect(broker.url)
        with pytest.raises(NoReplyError, match=r"could not leave within 0\.05 s"):
            await client.request(n=1, timeout_s=0.05)
        assert not broker.publications
        assert_nothing_is_kept(client)
        await client._stop()


async def test_after_a_reconnect_to_a_broker_without_memory_a_request_waits_for_settlement() -> (
    None
):
    async with FakeBroker() as broker:
        client = await reefcast.connect(broker.url, backoff_first_s=0.005, backoff_max_s=0.02)
        asking = asyncio.create_task(client.request(n=1, timeout_s=LONG_S))
        await broker.until(lambda: broker.publications)
        broker.answers = False
        broker.restart()
        await broker.until(lambda: len(broker.standing(Subscribe)) == 2)
        second = asyncio.create_task(client.request(n=2, timeout_s=LONG_S))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert {p.attributes["n"] for p in broker.publications} == {1}
        broker.send_control(Settled(broker.controls[-1].token))
        await broker.until(lambda: broker.publications[-1].attributes["n"] == 2)
        number = broker.controls[-1].id[1]
        broker.deliver((number,), **{"reply.number": 1})
        broker.deliver((number,), **{"reply.number": 2})
        assert [(await each)["reply.number"] for each in (asking, second)] == [1, 2]
        await client._stop()


async def test_a_reply_arrives_across_a_broken_connection(two) -> None:
    """The broker has kept the session, in which the reply waits meanwhile."""
    asker, server = two
    subscription = await server.subscribe("n = 1")
    asking = asyncio.create_task(asker.request(n=1, timeout_s=LONG_S))
    request = await anext(subscription)
    asker._connection.abort()
    await request.reply(answer=1)
    assert (await asking)["answer"] == 1


async def test_requests_go_on_at_a_broker_that_was_restarted() -> None:
    network = path_network(1)
    node = Node(network, "b1")
    await node.start()
    try:
        url = url_of(network, "b1")
        quick = {"backoff_first_s": 0.01, "backoff_max_s": 0.05}
        async with (
            reefcast.connect(url, **quick) as asker,
            reefcast.connect(url, **quick) as server,
            answering(server, "n >= 0"),
        ):
            assert (await asker.request(n=1, timeout_s=LONG_S))["result"] == 2
            await node.stop()
            node = Node(network, "b1")
            await node.start()
            await until(lambda: asker.connected and server.connected)
            await (await server.subscribe("TRUE"))  # hence the others have settled, too
            assert (await asker.request(n=2, timeout_s=LONG_S))["result"] == 4
    finally:
        await node.stop()


async def test_a_client_that_advertises_may_reply_all_the_same(two) -> None:
    asker, server = two
    await server.advertise("symbol = 'IBM'")
    async with answering(server, "n >= 0"):
        for n in (1, 2):
            assert (await asker.request(n=n, timeout_s=LONG_S))["result"] == 2 * n
    await server.publish(symbol="IBM")
    await server.flush()


async def test_a_request_outside_of_the_advertisements_is_refused_to_its_caller(two) -> None:
    asker, _ = two
    await asker.advertise("symbol = 'IBM'")
    with pytest.raises(RefusedError, match="request 1 was refused"):
        await asker.request(n=1, timeout_s=LONG_S)
    await asker.publish(symbol="IBM")  # nobody else is told
    await asker.flush()
    assert_nothing_is_kept(asker)


async def test_a_broker_that_refuses_the_subscription_to_replies_is_asked_again() -> None:
    async with FakeBroker() as broker:
        client = await reefcast.connect(broker.url)
        broker.answers = False
        for count in (1, 2):
            asking = [asyncio.create_task(client.request(n=n, timeout_s=LONG_S)) for n in range(3)]
            await broker.until(lambda count=count: len(broker.controls) == count)
            broker.send_control(Refused(broker.controls[-1].token, "no"))
            for each in asking:
                with pytest.raises(RefusedError, match="was refused: no"):
                    await each
        assert not broker.publications
        await client._stop()


async def test_gossip_refuses_with_a_sentence() -> None:
    network = make_network("a", routing="gossip", options={"contacts": ["a"]})
    async with running(network) as [url], reefcast.connect(url) as client:
        with pytest.raises(RefusedError, match="needs to know the topics"):
            await client.request(n=1, topics=["t"], timeout_s=LONG_S)


async def test_the_end_of_the_client_ends_all_requests(urls) -> None:
    client = await reefcast.connect(urls[0])
    asking = asyncio.create_task(client.request(n=1, timeout_s=None))
    await until(lambda: client.unacknowledged == 0 and client._session.awaited)
    await client.close()
    with pytest.raises(LocalError, match="has been closed"):
        await asking
    with pytest.raises((LocalError, ConnectionLostError)):
        await client.request(n=1)


async def test_a_request_is_answered_although_a_subscription_here_is_full(two) -> None:
    """The program that waits for the reply may be the one that would read the subscription."""
    asker, server = two
    full = await asker.subscribe("fill = TRUE", local_queue_limit=1)
    async with answering(server, "n >= 0"):
        for _ in range(5):
            await server.publish(fill=True)
        await until(lambda: full.waiting)
        assert (await asker.request(n=4, timeout_s=LONG_S))["result"] == 8


async def test_what_cannot_be_asked_or_answered(two) -> None:
    asker, server = two
    for name in ("reply.to", "reply.for", "reply.number"):
        with pytest.raises(InvalidValueError, match=name):
            await asker.request({name: 1})
    for timeout_s in (0, -1, float("nan")):
        with pytest.raises(ConfigurationError, match="timeout_s"):
            await asker.request(n=1, timeout_s=timeout_s)
    subscription = await server.subscribe("n = 1")
    await asker.publish(n=1)
    event = await anext(subscription)
    with pytest.raises(LocalError, match="asks for no reply"):
        await event.reply(answer=1)
    with pytest.raises(LocalError, match="only where it came to a subscription"):
        await Event(event.body).reply(answer=1)
    async with reefcast.connect(
        str(asker._dialler.address), on_deliveries=lambda deliveries: None
    ) as receiver:
        with pytest.raises(LocalError, match="on_deliveries"):
            await receiver.request(n=1)


async def test_a_reply_that_says_nothing_readable_is_dropped_and_counted(two) -> None:
    asker, server = two
    await asker._requests.until_settled()
    for number in ("one", None, 7):
        await server.publish({"reply.for": asker._requests.address, "reply.number": number})
    await until(lambda: asker.late_replies == 3)


async def test_the_synchronous_client(urls) -> None:
    def serve(server: reefcast.sync.Client, requests: reefcast.sync.Subscription) -> None:
        for event in requests:
            assert event.reply(result=event["n"] * 2, by=event.publisher)[0] == server.id
            server.publish(done=event["n"])

    def work(url: str, other: str) -> None:
        with reefcast.sync.connect(url) as asker, reefcast.sync.connect(other) as server:
            requests = server.subscribe("n >= 0")
            requests.settled(LONG_S)
            done = asker.subscribe("done >= 0")
            done.settled(LONG_S)
            serving = threading.Thread(target=serve, args=(server, requests))
            serving.start()
            for n in range(5):
                asker.publish(unasked=n)  # its numbers and those of requests are of one row
                assert asker.request(n=n, timeout_s=LONG_S)["result"] == 2 * n
                assert done.next(LONG_S)["done"] == n
            with ThreadPoolExecutor(8) as threads:
                together = list(
                    threads.map(lambda n: asker.request(n=n, timeout_s=LONG_S), range(40))
                )
            assert [reply["result"] for reply in together] == [2 * n for n in range(40)]
            several = asker.request_many({"n": 7}, replies=1, timeout_s=LONG_S)
            assert [reply["result"] for reply in several] == [14]
            with pytest.raises(NoReplyError):
                asker.request(m=1, timeout_s=0.05)
            assert asker.late_replies == 0
            asker.flush(LONG_S)
            requests.cancel()
            serving.join()

    async with asyncio.timeout(2 * LONG_S):
        await asyncio.to_thread(work, *urls)


async def test_a_durable_session_may_answer(tmp_path: Path) -> None:
    network = path_network(1)
    network.sessions.directory = str(tmp_path)
    async with (
        running(network) as [url],
        reefcast.connect(url) as asker,
        reefcast.connect(url) as server,
    ):
        session = await server.session("work")
        await session.subscribe("n >= 0")

        async def answer() -> None:
            async with session.processing() as event:
                await event.reply(result=event["n"] * 2)

        answering = asyncio.create_task(answer())
        assert (await asker.request(n=4, timeout_s=LONG_S))["result"] == 8
        await answering
        await session.close()

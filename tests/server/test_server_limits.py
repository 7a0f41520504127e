"""Limits of a broker: what exceeds one is refused with the name of its key, and clients within
theirs go on."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from authenticators import Granting, Stepping
from hypothesis import given
from hypothesis import strategies as st
from live_brokers import Live
from raw_client import LARGE, RawClient, expect

from live_networks import make_network, until
from reefcast.history.messages import MESSAGES, Find, Request
from reefcast.model.messages import Advertise, Refused, ServiceMessage, Subscribe, Unsubscribe
from reefcast.model.wire import FrameKind, Role
from reefcast.network.sections import LimitsSection
from reefcast.protocol.principal import ALL_ROLES, NETWORK, Principal
from reefcast.retaining.messages import CLIENT_MESSAGES, NotRetained, Recall
from reefcast.server.asking import LIMITED
from reefcast.server.greeting import LOCAL, Greeting
from reefcast.server.rates import Bucket, Rates, payer_of
from reefcast.sessions.messages import SESSION_MESSAGES, AddFilter, Attach, Failed, RemoveFilter

HOSTILE = " OR ".join(f"a{i} = 1" for i in range(2000))
UNPARSED = (RemoveFilter,)
"""Has a filter that is compared with others as a text."""


def test_whatever_has_a_filter_or_topics_is_looked_at() -> None:
    kinds: list[Any] = [Advertise, Subscribe, *MESSAGES, *SESSION_MESSAGES, *CLIENT_MESSAGES]
    for kind in kinds:
        fields = {field.name: field.type for field in msgspec.structs.fields(kind)}
        from_broker = not issubclass(kind, ServiceMessage) or kind.__name__ in ("Found", "Stored")
        if "filter" in fields or ("topics" in fields and not from_broker):
            assert kind in (*LIMITED, *UNPARSED), kind


@pytest.mark.parametrize("kind", [Subscribe, Advertise])
async def test_a_hostile_filter_is_refused_and_the_client_goes_on(live: Live, kind: Any) -> None:
    node = await live.node(make_network("a"), "a")
    client = await live.client(node)
    with pytest.raises(ValueError, match="filter_steps"):
        await client.ask(kind(("c", next(client.numbers)), HOSTILE, 7))
    await client.subscribe("n = 1")
    assert node.host.journal.counters["over_limit"] == 1


@pytest.mark.parametrize(
    ("asked", "answer"),
    [
        (AddFilter(token=1, session="s", filter=HOSTILE), Failed),
        (Attach(token=1, session="s", consumer=1, window=1, filter=HOSTILE), Failed),
        (Recall(token=1, filter=HOSTILE), NotRetained),
        (Request(id=("c", 1), storage="s", topics=("t",), filter=HOSTILE), None),
        (Request(id=("c", 1), storage="s", topics=("t" * 1001,), filter="a = 1"), None),
    ],
)
async def test_each_question_is_answered_in_its_own_way(
    live: Live, asked: Any, answer: type[Any] | None
) -> None:
    from reefcast.history.messages import CLIENT_CODEC, End

    node = await live.node(make_network("a"), "a")
    client = await live.client(node)
    client.send(FrameKind.CONTROL, asked)
    said = CLIENT_CODEC.decode_control(await client.next(FrameKind.CONTROL))
    assert isinstance(said, answer or End)
    assert "in [limits]" in said.reason
    await client.subscribe()


async def test_long_topics_to_find_end_the_connection(live: Live) -> None:
    node = await live.node(make_network("a"), "a")
    client = await live.client(node)
    client.send(FrameKind.CONTROL, Find(number=1, topics=("t" * 1001,)))
    assert "topic_chars" in await client.reason()


async def test_subscriptions_and_advertisements_of_a_client(live: Live) -> None:
    node = await live.node(make_network("a", max_subscriptions=3), "a")
    client, other = await live.client(node), await live.client(node, "other")
    await client.advertise()
    numbers = [await client.subscribe(f"n = {i}") for i in range(2)]
    with pytest.raises(ValueError, match="max_subscriptions"):
        await client.subscribe("n = 5")
    await other.subscribe()
    await client.unsubscribe(numbers[0])
    await client.subscribe("n = 6")
    with pytest.raises(ValueError, match="max_subscriptions"):
        await client.advertise()


async def test_bytes_of_filters_of_a_client(live: Live) -> None:
    node = await live.node(make_network("a", max_filter_bytes=100), "a")
    client = await live.client(node)
    number = await client.subscribe("n = '" + "ä" * 40 + "'")
    with pytest.raises(ValueError, match=r"106 bytes.*max_filter_bytes"):
        await client.subscribe("n = '" + "x" * 14 + "'")
    await client.unsubscribe(number)
    await client.subscribe("n = '" + "x" * 14 + "'")


async def test_refused_subscriptions_do_not_count(live: Live) -> None:
    node = await live.node(make_network("a", max_subscriptions=1), "a")
    client = await live.client(node)
    for message in (Subscribe(("c", 1), "n >", 5), Subscribe(("x", 1), "n = 1", 6)):
        with pytest.raises(ValueError, match=r"line 1|not one of"):
            await client.ask(message)
    with pytest.raises(ValueError, match="no subscription"):
        await client.ask(Unsubscribe(("c", 9), 7))
    await client.subscribe("n = 1")


# --- connections ---------------------------------------------------------------------------------


async def test_connections_of_one_user(live: Live) -> None:
    network = make_network("a", max_user_connections=2)
    node = await live.node(network, "a", authenticator=Granting(*ALL_ROLES))
    first = await live.client(node, "c1")
    await live.client(node, "c2")
    third = await live.dial(node)
    third.say_hello(name="c3")
    assert "max_user_connections" in await third.reason()
    operator = await live.dial(node)
    operator.say_hello(role=Role.ADMIN, name="")
    assert "max_user_connections" in await operator.reason()
    await first.close()
    await until(lambda: len(node.shared.all) == 1)
    await live.client(node, "c4")


async def test_who_has_no_user_is_not_counted(live: Live) -> None:
    node = await live.node(make_network("a", max_user_connections=1), "a")
    for name in ("c1", "c2", "c3"):
        await live.client(node, name)


async def test_connections_in_all(live: Live) -> None:
    node = await live.node(make_network("a", max_connections=1), "a")
    client = await live.client(node)
    assert "max_connections" in await (await live.dial(node)).reason()
    await client.subscribe()


async def test_connections_that_say_nothing_keep_nobody_out(live: Live) -> None:
    node = await live.node(make_network("a", max_greetings=3), "a")
    client = await live.client(node)
    silent = [await live.dial(node) for _ in range(5)]
    assert "max_greetings" in await silent[0].reason()
    assert "max_greetings" in await silent[1].reason()
    await live.client(node, "honest")
    await client.subscribe()


# --- publications --------------------------------------------------------------------------------


@pytest.mark.parametrize("readable", [False, True])
async def test_size_of_a_publication(live: Live, readable: bool) -> None:
    node = await live.node(make_network("a", publication_bytes=1000), "a")
    subscriber, client = await live.client(node, "s"), await live.client(node)
    await subscriber.subscribe()
    await client.advertise()
    text = "ä" if readable else "a"
    client.publish(2, text=text)
    client.publish(1, text="x" * 1000)
    client.publish(2, text=text)
    assert await subscriber.seqs_of(4) == [1, 2, 4, 5]
    refused = await client.answer()
    assert isinstance(refused, Refused)
    assert refused.publication == ("c", 3)
    assert "publication_bytes" in refused.reason


@given(
    st.integers(1, 1000),
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 500)), max_size=50),
)
def test_the_average_stays_below_the_rate(rate: int, steps: list[tuple[float, int]]) -> None:
    """Who sends only when it need not wait never has sent more than the rate allows, and what one
    may send at once."""
    bucket, now, sent = Bucket(rate, 0, 0.0), 0.0, 0
    for passed_s, count in steps:
        now += passed_s
        if bucket.wait_s(now) == 0:
            bucket.take(count, 10**9, now)
            sent += count
        assert sent <= rate * (1 + now) + 500 + 1e-6


def test_a_bucket_of_bytes() -> None:
    bucket = Bucket(0, 100, 0.0)
    assert bucket.take(1000, 350, 0.0) == pytest.approx(2.5)
    assert bucket.wait_s(2.0) == pytest.approx(0.5)
    assert not bucket.is_full(2.6)
    assert bucket.is_full(4.0)


def test_full_buckets_are_forgotten() -> None:
    rates = Rates(LimitsSection(user_publications_per_s=10))
    payer = payer_of(Principal("anna", ALL_ROLES, "test"), "c")
    first = rates.bucket(payer, 0.0)
    first.take(15, 0, 0.0)
    rates.forget_old(1.0)
    assert rates.bucket(payer, 1.0) is first
    rates.forget_old(2.0)
    assert rates.bucket(payer, 2.0) is not first


def test_who_has_proved_no_user_pays_for_itself() -> None:
    assert payer_of(LOCAL, "c") != payer_of(LOCAL, "d")
    anna = Principal("anna", ALL_ROLES, "test")
    assert payer_of(anna, "c") == payer_of(anna, "d") != payer_of(LOCAL, "anna")
    network = Principal(NETWORK, ALL_ROLES, "key")
    assert payer_of(network, "c") != payer_of(network, "d")


async def test_a_user_beyond_its_rate_waits_and_others_do_not(live: Live) -> None:
    """Anna's publications come all the same; her second client begins without credit."""

    async def steps(greeting: Greeting) -> Principal:
        user = greeting.hello.name.split("-")[0]
        return Principal(user, ALL_ROLES, "test")

    network = make_network("a", user_publications_per_s=100, credit=50)
    node = await live.node(network, "a", authenticator=Stepping(steps))
    subscriber = await live.client(node, "s")
    await subscriber.subscribe()
    anna, ben = await live.client(node, "anna-1"), await live.client(node, "ben-1")
    assert anna.hello.credit == 50
    await anna.advertise()
    await ben.advertise()
    anna.publish(130)  # more than a second's worth and the credit, but not grossly
    accounts = node.host.congestion.accounts
    expect(await subscriber.seqs_of(130), 1, 130)
    assert accounts["anna-1"].throttled
    ben.publish(20)
    expect(await subscriber.seqs_of(20), 1, 20)
    assert not accounts["ben-1"].throttled
    await until(lambda: not accounts["anna-1"].throttled and accounts["anna-1"].allowance > 0)
    anna.publish(60)
    expect(await subscriber.seqs_of(60), 131, 190)


async def test_a_second_client_of_a_user_beyond_its_rate_begins_without_credit(live: Live) -> None:
    network = make_network("a", user_bytes_per_s=10_000)
    node = await live.node(network, "a", authenticator=Granting(*ALL_ROLES))
    first = await live.client(node, "c1")
    await first.advertise()
    first.publish(20, text="x" * 20_000)
    await first.until_acknowledged(21)
    second = await live.client(node, "c2")
    assert second.hello.credit == 0
    status: Any = node.clients.sessions["c2"].status()
    assert status["throttled"]


# --- memory of all queues ------------------------------------------------------------------------


async def asleep(live: Live, node: Any, name: str, policy: str) -> RawClient:
    client = await live.client(node, name, queue_policy=policy)
    await client.subscribe()
    client.writer.transport.pause_reading()
    return client


async def test_the_longest_queue_gives_way(live: Live) -> None:
    """Five million bytes for all: the one that reads gets everything, the ones that sleep do
    not."""
    node = await live.node(make_network("a", queue_bytes=5_000_000), "a")
    sleeper = await asleep(live, node, "s", "drop_oldest")
    awake = await live.client(node, "awake")
    await awake.subscribe()
    publisher = await live.client(node, "p")
    await publisher.advertise()
    for first in range(1, 1500, 50):
        publisher.publish(50, text=LARGE)
        expect(await awake.seqs_of(50), first, first + 49)
    port = node.host.outputs.clients["s"]
    memory = node.clients.memory
    memory.weigh_all()
    assert memory.gave_way > 0
    assert memory.total <= 5_000_000
    dropped = node.host.journal.counters["queue_full"]
    assert dropped == port.dropped > 0
    sleeper.writer.transport.resume_reading()
    seqs = await sleeper.seqs_of(1500 - dropped)
    assert seqs == sorted(set(seqs))
    assert seqs[-1] == 1500


async def test_a_queue_that_must_not_drop_is_disconnected(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("reefcast.protocol.link.LINGER_S", 120.0)
    node = await live.node(make_network("a", queue_bytes=5_000_000), "a")
    sleeper = await asleep(live, node, "s", "disconnect")
    publisher = await live.client(node, "p")
    await publisher.advertise()
    publisher.publish(1500, text=LARGE)
    await until(lambda: "s" not in node.clients.sessions)
    assert "p" in node.clients.sessions
    sleeper.writer.transport.resume_reading()
    assert "queue_bytes" in await sleeper.reason()


async def test_what_is_not_acknowledged_counts(live: Live) -> None:
    """A client that reads everything and acknowledges nothing is cut off."""
    node = await live.node(make_network("a", queue_bytes=3_000_000), "a")
    client = await live.client(node, "s", features=("resume",), oldest=1)
    await client.subscribe()
    publisher = await live.client(node, "p")
    await publisher.advertise()
    publisher.publish(50, text=LARGE)
    expect(await client.seqs_of(50), 1, 50)
    port = node.host.outputs.clients["s"]
    assert 1_000_000 < port.held_bytes < 1_100_000
    client.send(FrameKind.ACK, 51)
    await until(lambda: port.held_bytes == 0)
    publisher.publish(300, text=LARGE)
    reading = asyncio.create_task(client.reason())
    await until(lambda: len(port._sent) == 300 or "s" not in node.clients.sessions)
    node.clients.memory.weigh_all()
    assert "queue_bytes" in await reading


async def test_clients_within_their_limits_go_on_while_others_exceed_theirs(live: Live) -> None:
    """One that floods with hostile filters, one that says nothing, one that does not read, and one
    that publishes too fast; beside them a publisher and a subscriber."""
    network = make_network("a", max_greetings=3, queue_bytes=5_000_000, user_bytes_per_s=100_000)
    node = await live.node(network, "a")
    subscriber, publisher = await live.client(node, "good"), await live.client(node, "p")
    await subscriber.subscribe("n < 1000 AND of = 'p'")
    await publisher.advertise()
    hostile, fast = await live.client(node, "hostile"), await live.client(node, "fast")
    await asleep(live, node, "asleep", "drop_oldest")
    await fast.advertise()
    for _ in range(20):
        await live.dial(node)
        for i in range(20):
            hostile.send(FrameKind.CONTROL, Subscribe(("hostile", 2 + i), HOSTILE, 5))
        fast.publish(50, of="fast", text=LARGE)
        publisher.publish(10, of="p")
        seqs = await subscriber.seqs_of(10)
        assert seqs == list(range(seqs[0], seqs[0] + 10))
    assert node.host.journal.counters["over_limit"] > 0
    assert node.host.congestion.accounts["fast"].throttled
    assert not node.host.congestion.accounts["p"].throttled

"""The client against real brokers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from uuid import UUID, uuid4

import msgspec
import pytest

import reefcast
from live_networks import path_network, running, until
from reefcast.client import Client, Subscription
from reefcast.client.event import decode_delivery


async def take(subscription: Subscription, count: int) -> list[reefcast.Event]:
    events = []
    async with asyncio.timeout(20):
        async for event in subscription:
            events.append(event)
            if len(events) == count:
                break
    return events


@pytest.fixture
async def urls():
    async with running(path_network(2)) as urls:
        yield urls


@pytest.fixture
async def two(urls):
    """Yield a client at each of two linked brokers."""
    async with (
        reefcast.connect(urls[0], name="one") as one,
        reefcast.connect(urls[1], name="two") as two,
    ):
        yield one, two


async def test_an_event_crosses_the_network_as_it_was_published(two: tuple[Client, Client]) -> None:
    one, other = two
    subscription = await other.subscribe("symbol = 'IBM' AND price < 100")
    await one.publish(symbol="IBM", price=200.0)
    published = await one.publish(
        {"symbol": "IBM", "open": None}, price=99.5, payload=b"\x00\x01", topics=["a/b", "a/c"]
    )
    [event] = await take(subscription, 1)
    assert event.id == published == (one.id, 2)
    assert (event.publisher, event.seq) == published
    assert dict(event) == event.attributes == {"symbol": "IBM", "price": 99.5}
    assert (event["price"], event.get("open"), event.get("open", 1), "open" in event) == (
        99.5,
        None,
        1,
        False,
    )
    assert (event.payload, event.topics) == (b"\x00\x01", ("a/b", "a/c"))
    assert event.time.timestamp() == pytest.approx(event.time_us / 1e6)


async def test_one_subscription_gets_an_event_once_whatever_the_filters_that_match(two) -> None:
    one, other = two
    subscription = await other.subscribe("price < 100", "price < 200", "price > 500")
    another = await other.subscribe("price < 150")
    for price in (50, 150, 300, 600):
        await one.publish(price=price)
    assert [event["price"] for event in await take(subscription, 3)] == [50, 150, 600]
    assert [event["price"] for event in await take(another, 1)] == [50]


async def test_replacing_a_filter_under_a_running_publisher_leaves_no_gap(two) -> None:
    publisher, subscriber = two
    subscription = await subscriber.subscribe("kind = 'a' OR kind = 'both'")
    stop = asyncio.Event()

    async def publish() -> int:
        while not stop.is_set():
            await publisher.publish(kind="both")
            await asyncio.sleep(0)
        await publisher.flush()
        return (await publisher.publish(kind="both"))[1]

    publishing = asyncio.create_task(publish())
    for old, new in [("a", "b"), ("b", "a")] * 10:
        await subscription.replace(
            f"kind = '{old}' OR kind = 'both'", f"kind = '{new}' OR kind = 'both'"
        )
    stop.set()
    last = await publishing
    events = await take(subscription, last)
    assert [event.seq for event in events] == list(range(1, last + 1))
    assert subscription.filters == ("kind = 'a' OR kind = 'both'",)


async def test_filters_come_and_go(two) -> None:
    one, other = two
    subscription = await other.subscribe("x = 1")
    await subscription.add("x = 2")
    await subscription.remove("x = 1")
    for x in (1, 2, 1, 2):
        await one.publish(x=x)
    assert [event["x"] for event in await take(subscription, 2)] == [2, 2]
    with pytest.raises(reefcast.LocalError, match="has no filter 'x = 1'"):
        await subscription.remove("x = 1")
    await subscription.cancel()
    assert [event async for event in subscription] == []


async def test_a_filter_that_cannot_be_read_is_refused_at_once_with_its_place(two) -> None:
    client, _ = two
    with pytest.raises(reefcast.FilterSyntaxError) as caught:
        client.subscribe("price < ")
    assert caught.value.column >= 8
    with pytest.raises(reefcast.FilterSyntaxError):
        client.advertise("AND")
    subscription = await client.subscribe("x = 1")
    with pytest.raises(reefcast.FilterSyntaxError):
        await subscription.replace("x = 1", "x = = 2")
    assert subscription.filters == ("x = 1",)


async def test_a_publication_outside_the_advertisement_is_never_refused_silently(two) -> None:
    client, _ = two
    advertisement = await client.advertise("x > 0")
    await client.publish(x=1)
    await client.publish(x=-1)
    with pytest.raises(reefcast.RefusedError, match=r"publication 2 .*x > 0"):
        await client.flush()
    await advertisement.withdraw()
    await client.publish(x=1)
    with pytest.raises(reefcast.RefusedError):
        await client.close()


async def test_the_application_may_look_after_refused_publications_itself(urls) -> None:
    refused = []
    async with reefcast.connect(
        urls[0], on_refused=lambda identity, reason: refused.append((identity, reason))
    ) as client:
        await client.advertise("x > 0")
        identity = await client.publish(x=-1)
        await client.flush()
    assert [identity] == [each for each, _ in refused]


async def test_an_advertised_publisher_reaches_subscribers_that_settled_before_it(two) -> None:
    publisher, subscriber = two
    subscription = await subscriber.subscribe("x > 5")
    client_events = asyncio.create_task(take(subscription, 1))
    advertisement = publisher.advertise("x > 0")
    await publisher.publish(x=7)
    await advertisement.settled(timeout=10)
    assert (await client_events)[0]["x"] == 7


async def test_a_subscription_that_nobody_holds_is_cancelled(two) -> None:
    publisher, subscriber = two

    async def first() -> int:
        async for event in subscriber.subscribe("TRUE"):
            return event["x"]
        return -1

    reading = asyncio.create_task(first())
    while not reading.done():
        await publisher.publish(x=1)
        await asyncio.sleep(0.01)
    assert reading.result() == 1
    await until(lambda: not subscriber._session.registrations.by_number)


async def test_a_slow_reader_stops_the_socket_and_loses_nothing() -> None:
    """The broker's queue (policy block) fills up, and the publisher gets no more credit."""
    async with (
        running(path_network(1, credit=64, queue_limit=50)) as [url],
        reefcast.connect(url, name="slow", local_queue_limit=10, queue_policy="block") as slow,
        reefcast.connect(url, name="fast") as fast,
    ):
        subscription = await slow.subscribe("TRUE")
        payload = b"x" * 50_000
        publishing = asyncio.create_task(publish_many(fast, 1000, payload))
        await until(lambda: not slow._session.may_read)
        await until(lambda: fast._outbox.credit == 0)
        assert not publishing.done()
        events = await take(subscription, 1000)
        await publishing
    assert [event["i"] for event in events] == list(range(1000))


async def publish_many(client: Client, count: int, payload: bytes) -> None:
    for i in range(count):
        await client.publish(i=i, payload=payload)


async def test_a_pipeline_that_reads_and_publishes_with_one_client_does_not_block() -> None:
    """The client waits for credit while its own queue is full: the credit comes behind the
    events."""
    async with (
        running(path_network(1, credit=16)) as [url],
        reefcast.connect(url, name="pipe", local_queue_limit=5) as pipe,
        reefcast.connect(url, name="source") as source,
        reefcast.connect(url, name="sink") as sink,
    ):
        incoming = await pipe.subscribe("stage = 1")
        outgoing = await sink.subscribe("stage = 2")
        feeding = asyncio.create_task(publish_stage(source, 500))

        async def pump() -> None:
            async for event in incoming:
                await pipe.publish(stage=2, i=event["i"])

        pumping = asyncio.create_task(pump())
        events = await take(outgoing, 500)
        await feeding
        pumping.cancel()
    assert [event["i"] for event in events] == list(range(500))


async def publish_stage(client: Client, count: int) -> None:
    for i in range(count):
        await client.publish(stage=1, i=i)


async def test_a_cancelled_wait_loses_no_event(two) -> None:
    publisher, subscriber = two
    subscription = await subscriber.subscribe("TRUE")
    seen: list[int] = []

    async def read() -> None:
        async for event in subscription:
            seen.append(event["i"])

    for i in range(50):
        reading = asyncio.create_task(read())
        await publisher.publish(i=i)
        await asyncio.sleep(0.001 * (i % 3))
        reading.cancel()
        await asyncio.wait([reading])
    reading = asyncio.create_task(read())
    await until(lambda: len(seen) == 50)
    reading.cancel()
    assert seen == list(range(50))


async def test_closing_ends_iterations_after_what_has_come(two) -> None:
    publisher, subscriber = two
    subscription = await subscriber.subscribe("TRUE")
    await publisher.publish(i=1)
    await until(lambda: subscription.waiting == 1)
    await subscriber.close()
    assert [event["i"] async for event in subscription] == [1]
    with pytest.raises(reefcast.LocalError, match="closed"):
        await subscriber.publish(i=2)
    with pytest.raises(reefcast.LocalError, match="closed"):
        subscriber.subscribe("TRUE")
    await subscriber.close()


async def test_closing_waits_until_all_was_taken_over(urls) -> None:
    async with reefcast.connect(urls[1]) as subscriber:
        subscription = await subscriber.subscribe("TRUE")
        async with reefcast.connect(urls[0]) as publisher:
            for i in range(2000):
                await publisher.publish(i=i)
        assert publisher.unacknowledged == 0
        assert len(await take(subscription, 2000)) == 2000


async def test_the_low_level_way_gets_undecoded_deliveries(urls) -> None:
    deliveries: list[bytes] = []
    async with (
        reefcast.connect(urls[0], on_deliveries=deliveries.extend) as receiver,
        reefcast.connect(urls[0]) as publisher,
    ):
        one = await receiver.subscribe("x > 0")
        two = await receiver.subscribe("x > 1")
        await publisher.publish(x=1)
        await publisher.publish(x=2)
        await until(lambda: len(deliveries) == 2)
    (first, _), (second, event) = map(decode_delivery, deliveries)
    assert first == one.numbers
    assert second == one.numbers + two.numbers
    assert event["x"] == 2


async def test_a_subscription_without_room_for_an_event_is_refused_here(two) -> None:
    for limit in (0, -1):
        with pytest.raises(reefcast.ConfigurationError, match=f"local_queue_limit {limit} is less"):
            two[1].subscribe("TRUE", local_queue_limit=limit)


async def test_values_of_other_libraries_and_wrong_ones(two) -> None:
    import numpy as np

    publisher, subscriber = two
    subscription = await subscriber.subscribe("TRUE")
    await publisher.publish(a=np.float64(1.5), b=np.int64(2), c=np.bool_(True), d=np.str_("x"))
    [event] = await take(subscription, 1)
    assert event.attributes == {"a": 1.5, "b": 2, "c": True, "d": "x"}
    for wrong, message in [
        ({"x": [1]}, "'x' has the value"),
        ({"x": 2**63}, "64 bits"),
        ({"": 1}, "name"),
    ]:
        with pytest.raises(reefcast.InvalidValueError, match=message):
            await publisher.publish(wrong)
    with pytest.raises(reefcast.InvalidValueError, match="pass a list"):
        await publisher.publish(x=1, topics="a/b")
    with pytest.raises(reefcast.InvalidValueError, match=r"\.encode"):
        await publisher.publish(x=1, payload="text")
    with pytest.raises(reefcast.InvalidValueError, match="at most"):
        await publisher.publish(x=1, payload=bytes(9_000_000))
    assert (await publisher.publish(x=1))[1] == 2


async def test_a_publisher_whose_connection_breaks_again_and_again_loses_and_doubles_nothing(
    urls: list[str],
) -> None:
    async with (
        reefcast.connect(urls[1]) as subscriber,
        reefcast.connect(urls[0], backoff_first_s=0.001, backoff_max_s=0.01) as publisher,
    ):
        subscription = await subscriber.subscribe("TRUE")
        for i in range(5000):
            await publisher.publish(i=i)
            if i % 500 == 250:
                await asyncio.sleep(0.002 * (i // 500 % 3))  # more or less is on its way
                await until(lambda: publisher.connected)
                broken = publisher._connection
                broken.abort()
                await until(lambda broken=broken: publisher._connection is not broken)
        await publisher.flush(timeout=20)
        events = await take(subscription, 5000)
        assert [event["i"] for event in events] == list(range(5000))
        await publisher.publish(i=-1)
        assert [event["i"] for event in await take(subscription, 1)] == [-1]


async def test_a_client_outlives_its_broker() -> None:
    network = path_network(1)
    async with running(network) as [url]:
        client = await reefcast.connect(url, backoff_first_s=0.005, backoff_max_s=0.05)
        subscription = await client.subscribe("x > 0")
    assert not client.connected
    async with running(network):
        await subscription.settled(timeout=10)
        await client.publish(x=1)
        assert [event["x"] for event in await take(subscription, 1)] == [1]
        await client.close()


async def test_who_asks_for_order_gets_all_in_order_though_there_are_gaps(
    two: tuple[Client, Client],
) -> None:
    """On a tree the events come in order anyway. What follows a gap is held, and comes all the
    same."""
    one, other = two
    subscription = await other.subscribe("n = 0", order_s=0.2)
    await subscription.add("n = 2")
    for n in (0, 1, 2, 1, 0):
        await one.publish(n=n)
    events = await take(subscription, 3)
    assert [event.seq for event in events] == [1, 3, 5]


async def test_no_broker_holds_events_for_ever(two: tuple[Client, Client]) -> None:
    _, other = two
    with pytest.raises(reefcast.ConfigurationError, match=r"order_s 61 is not between 0 and 60"):
        other.subscribe("TRUE", order_s=61)


async def test_who_advertises_after_publishing_may_publish_nothing_else_from_then_on() -> None:
    async with (
        running(path_network(2)) as [first, second],
        reefcast.connect(first) as publisher,
        reefcast.connect(second) as reader,
    ):
        subscription = await reader.subscribe("TRUE")
        await publisher.publish(symbol="HPQ")
        await publisher.advertise("symbol = 'IBM'")
        with pytest.raises(reefcast.RefusedError, match="outside what this client advertised"):
            await publisher.publish(symbol="HPQ")
            await publisher.flush()
        await publisher.publish(symbol="IBM")
        assert [(await anext(subscription)).id[1] for _ in range(2)] == [1, 3]


class Customer(msgspec.Struct):
    id: UUID
    since: date | None


class Order(msgspec.Struct):
    placed: datetime
    price: Decimal
    customer: Customer


@dataclass
class Parcel:
    order: Order
    weight_kg: float = 1.0


async def test_filters_see_what_is_nested_and_when_it_was(two: tuple[Client, Client]) -> None:
    """The wanted event is published last."""
    one, other = two
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)
    subscription = await other.subscribe(
        f"order.placed > {reefcast.literal(noon)} AND order.price < 9.95 "
        "AND order.customer.since >= '2025-01-01'"
    )
    new, old = Customer(uuid4(), date(2025, 12, 31)), Customer(uuid4(), None)
    later = noon + timedelta(microseconds=1)
    wanted = Parcel(Order(later, Decimal("9.94"), new))
    await one.publish(Parcel(Order(noon, Decimal("9.94"), new)))
    await one.publish(Parcel(Order(later, Decimal("9.95"), new)))
    await one.publish(Parcel(Order(later, Decimal("9.94"), old)))
    await one.publish(wanted, weight_kg=2.5)
    [event] = await take(subscription, 1)
    assert event.as_(Parcel) == replace(wanted, weight_kg=2.5)
    assert event.seq == 4

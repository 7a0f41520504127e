"""A client that does not keep up, and what it is told, by a real broker and by a scripted one."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

import pytest
from fake_broker import FakeBroker

import reefcast
from live_networks import path_network, running, until
from reefcast.client import Client
from reefcast.model.wire import Close, Dropped, FrameKind

QUICK = {"backoff_first_s": 0.005, "backoff_max_s": 0.02}
PAYLOAD = b"x" * 20_000
MANY = 1500
"""More events than the buffers of the sockets hold."""


@pytest.fixture
async def broker():
    async with FakeBroker() as broker:
        yield broker


async def publish_many(client: Client) -> None:
    for i in range(MANY):
        await client.publish(i=i, payload=PAYLOAD)
    await client.flush(20)


async def test_dropped_events_are_counted_where_they_belong(broker: FakeBroker) -> None:
    told: list[int] = []
    async with reefcast.connect(broker.url, on_dropped=told.append, **QUICK) as client:
        both = await client.subscribe("x = 1", "x = 2")
        other = await client.subscribe("x = 3")
        first, second = both.numbers
        [third] = other.numbers
        groups = (((first,), 2), ((first, second), 3), ((second, third), 1), ((99,), 7))
        broker.send(FrameKind.DROPPED, Dropped(20, groups))
        broker.deliver((third,), x=3)
        assert (await anext(other))["x"] == 3
        assert (both.dropped, other.dropped, told) == (6, 1, [20])


async def test_the_log_says_once_what_no_callback_is_there_to_hear(
    broker: FakeBroker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "reefcast.client")
    async with reefcast.connect(broker.url, name="lagging", **QUICK) as client:
        subscription = await client.subscribe("TRUE")
        for _ in range(3):
            broker.send(FrameKind.DROPPED, Dropped(5, ((subscription.numbers, 5),)))
        await until(lambda: subscription.dropped == 15)
    [record] = caplog.records
    assert "lagging-" in record.message and "subscription.dropped" in record.message


async def test_by_default_what_a_slow_client_misses_is_counted_to_the_last_event() -> None:
    async with (
        running(path_network(1, queue_limit=50)) as [url],
        reefcast.connect(url, name="slow", local_queue_limit=10) as slow,
        reefcast.connect(url, name="fast") as fast,
    ):
        subscription = await slow.subscribe("TRUE")
        await publish_many(fast)
        events: list[int] = []
        async with asyncio.timeout(20):
            while not events or events[-1] < MANY - 1:
                events.append((await anext(subscription))["i"])
        assert events == sorted(set(events))
        assert subscription.dropped == MANY - len(events) > 0


@pytest.mark.parametrize("lingers", [True, False])
async def test_a_client_that_asked_to_be_disconnected_ends_with_an_error(
    monkeypatch: pytest.MonkeyPatch, lingers: bool
) -> None:
    """This includes the case that the broker's close frame was lost with the connection: it is sent
    again."""
    if not lingers:
        monkeypatch.setattr("reefcast.protocol.link.LINGER_S", 0.0)
    network = path_network(1, queue_limit=50)
    async with running(network) as [url], reefcast.connect(url, name="fast") as fast:
        slow = await reefcast.connect(url, queue_policy="disconnect", local_queue_limit=10, **QUICK)
        subscription = await slow.subscribe("TRUE")
        other = await slow.subscribe("i < 0")
        waiting = asyncio.create_task(anext(other))
        await publish_many(fast)
        events = []
        with pytest.raises(reefcast.SlowConsumerError, match="queue_policy"):
            async with asyncio.timeout(20):
                async for event in subscription:
                    events.append(event["i"])
        assert events == list(range(len(events))) and events
        with pytest.raises(reefcast.SlowConsumerError):
            await asyncio.wait_for(waiting, 10)
        with pytest.raises(reefcast.SlowConsumerError):
            await slow.publish(i=1)
        assert isinstance(slow.ended, reefcast.SlowConsumerError)
        await slow.close()


async def test_who_blocks_for_too_long_ends_with_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with (
        running(path_network(1, queue_limit=50, block_s=0.2)) as [url],
        reefcast.connect(url, name="fast") as fast,
    ):
        slow = await reefcast.connect(url, queue_policy="block", local_queue_limit=10, **QUICK)
        subscription = await slow.subscribe("TRUE")
        await publish_many(fast)
        await until(lambda: "publishers waited" in caplog.text)
        with pytest.raises(reefcast.SlowConsumerError, match="block_s"):
            async with asyncio.timeout(20):
                async for _ in subscription:
                    pass
        await slow.close()


async def test_no_other_broker_is_sought_by_who_was_too_slow(broker: FakeBroker) -> None:
    async with FakeBroker() as other:
        client = await reefcast.connect(f"{broker.url},{other.url}", **QUICK)
        subscription = await client.subscribe("TRUE")
        broker.deliver(subscription.numbers, x=1)
        broker.send(FrameKind.CLOSE, Close("too slow for words", too_slow=True))
        assert (await anext(subscription))["x"] == 1
        with pytest.raises(reefcast.SlowConsumerError, match="too slow for words"):
            await asyncio.wait_for(anext(subscription), 10)
        await client.close()
        assert not other.hellos


async def test_the_synchronous_client_tells_it_too(broker: FakeBroker) -> None:
    told: list[int] = []
    loop = asyncio.get_running_loop()

    def in_the_loop(do: Callable[..., None], *arguments: object) -> None:
        loop.call_soon_threadsafe(do, *arguments)

    def work() -> None:
        client = reefcast.sync.connect(broker.url, on_dropped=told.append, **QUICK)
        subscription = client.subscribe("TRUE")
        subscription.settled(10)
        numbers = subscription.numbers
        in_the_loop(broker.send, FrameKind.DROPPED, Dropped(4, ((numbers, 4),)))
        in_the_loop(broker.deliver, numbers)
        assert subscription.next(10) is not None
        assert (subscription.dropped, told) == (4, [4])
        in_the_loop(broker.send, FrameKind.CLOSE, Close("too slow", too_slow=True))
        with pytest.raises(reefcast.SlowConsumerError, match="too slow"):
            subscription.next(10)
        client.close()

    async with asyncio.timeout(30):
        await asyncio.to_thread(work)

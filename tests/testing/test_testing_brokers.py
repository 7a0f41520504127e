"""Brokers of `reefcast.testing`: in the test's event loop, and in a thread of their own."""

from __future__ import annotations

import asyncio
import gc
import threading
from pathlib import Path

import pytest

import reefcast
from live_networks import PATIENCE_S
from reefcast import testing
from reefcast.testing import brokers as made
from reefcast.testing.describing import chains

pytestmark = pytest.mark.live


async def numbers(url: str, filter: str) -> list[object]:
    async with reefcast.connect(url) as client:
        return [event["n"] async for event in client.history(filter)]


async def test_a_broker_has_what_a_broker_has() -> None:
    """Filters, durable sessions, retained values and history, before and after a restart."""
    async with testing.broker() as broker, reefcast.connect(broker.url) as client:
        cheap = await client.subscribe("n < 2")
        await cheap.settled()
        session = await client.session("billing")
        await session.subscribe("n > 0")
        async with client.confirming():
            for n in range(3):
                await client.publish({"n": n}, topics=["fx"])
        await client.publish({"n": 9}, topics=["fx"], retain=True)
        assert [(await anext(cheap))["n"] for _ in range(2)] == [0, 1]
        await broker.stored(4)
        await broker.stop()
        with pytest.raises(reefcast.LocalError, match="broker b1 does not run"):
            _ = broker.node
        with pytest.raises(reefcast.LocalError, match="has no history"):
            await broker.stored(1)
        await broker.start()
        assert await numbers(broker.url, "topic = 'fx' AND n > 0") == [1, 2, 9]
        assert [event["n"] for event in await client.retained("topic = 'fx'")] == [9]
        owed = [await anext(session) for _ in range(3)]
        assert [event["n"] for event in owed] == [1, 2, 9]
        await client.publish({"n": 10}, topics=["fx"])
        await broker.stored(5)
        with pytest.raises(reefcast.LocalError, match="runs already"):
            await broker.start()


async def test_a_network_has_its_links_up_and_one_history() -> None:
    async with testing.network("a - b - c, b - d") as brokers, testing.broker() as other:
        assert list(brokers) == ["a", "b", "c", "d"]
        assert len({each.url for each in (*brokers.values(), other)}) == 5
        async with (
            reefcast.connect(brokers["d"].url) as reader,
            reefcast.connect(brokers["c"].url) as writer,
        ):
            subscription = await reader.subscribe("n > 0")
            await subscription.settled()
            await writer.publish({"n": 1}, topics=["fx"])
            assert (await anext(subscription))["n"] == 1
        await brokers["a"].stored(1)
        assert await numbers(brokers["c"].url, "topic = 'fx'") == [1]
        with pytest.raises(reefcast.LocalError, match="broker c has no history"):
            await brokers["c"].stored(1)


def test_without_asyncio_it_has_a_thread_of_its_own() -> None:
    before = set(threading.enumerate())
    with testing.broker() as broker:
        with reefcast.sync.connect(broker.url) as client:
            subscription = client.subscribe("n > 0")
            subscription.settled()
            client.publish({"n": 1}, topics=["fx"])
            assert next(iter(subscription))["n"] == 1
            broker.stored(1, timeout=PATIENCE_S)
            broker.stop()
            broker.start()
            assert [event["n"] for event in client.history("topic = 'fx'")] == [1]
        with pytest.raises(TimeoutError):
            broker.stored(2, timeout=0.01)
    assert set(threading.enumerate()) <= before


async def test_everything_is_closed_when_a_test_fails(tmp_path: Path) -> None:
    """Nothing listens, no task is left, and the directory can be used again."""
    before = asyncio.all_tasks()
    with pytest.raises(ZeroDivisionError):
        async with testing.broker(directory=tmp_path) as broker:
            async with reefcast.connect(broker.url) as client:
                await client.publish({"n": 1}, topics=["fx"])
                await broker.stored(1)
            _ = 1 // 0
    assert asyncio.all_tasks() == before
    with pytest.raises(OSError):
        await asyncio.open_connection("127.0.0.1", int(broker.url.rpartition(":")[2]))
    async with testing.broker(directory=tmp_path) as again:
        assert await numbers(again.url, "topic = 'fx'") == [1]
    gc.collect()  # what was left open would be reported here


async def test_settings_are_those_of_a_network_file() -> None:
    settings = """
        [security]
        anonymous = ["reader"]
        [[role]]
        name = "reader"
        subscribe = "n > 0"
        publish = "n < 5"
    """
    async with testing.broker(settings) as broker, reefcast.connect(broker.url) as client:
        with pytest.raises(reefcast.RefusedError, match="n < 5"):
            await client.publish({"n": 7}, topics=["fx"])
            await client.flush()
        await client.publish({"n": 1}, topics=["fx"])
        await broker.stored(1)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ("[limits", "the settings of the brokers cannot be read: "),
        ("[limits]\nqeue = 1", r"\[limits\] has no key 'qeue'"),
        ('[[broker]]\nname = "a"', "have no section 'broker'"),
        ("limits = 1", "cannot be read: Expected `object`, got `int`"),
    ],
)
async def test_wrong_settings_are_refused(settings: str, words: str) -> None:
    with pytest.raises(reefcast.ConfigurationError, match=words):
        async with testing.broker(settings):
            pass
    with pytest.raises(reefcast.ConfigurationError, match=words), testing.broker(settings):
        pass


def test_links_are_chains() -> None:
    links = [("a", "b"), ("b", "c"), ("b", "d")]
    assert chains("a - b - c, b - d,a - b") == (["a", "b", "c", "d"], links)
    assert chains("north-east") == (["north-east"], [])
    with pytest.raises(reefcast.ConfigurationError, match="write its links as"):
        testing.network("a - b, ")


async def test_a_port_that_another_program_takes_is_no_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = made.described
    async with testing.broker(history=False) as first:
        ports = iter([first.url.rpartition(":")[2]])

        def taken(*arguments: object) -> object:
            network = found(*arguments)  # type: ignore[arg-type]  # the same arguments
            if (port := next(ports, None)) is not None:
                network.broker[0].listen = f"127.0.0.1:{port}"
            return network

        monkeypatch.setattr(made, "described", taken)
        async with testing.broker(history=False) as second:
            assert second.url != first.url

"""History against real brokers and storages."""

from __future__ import annotations

import asyncio
import itertools
import re
import textwrap
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import reefcast
from live_networks import path_network, running, until
from live_storages import numbers, published, storing, until_found, until_stored


@pytest.fixture
async def urls() -> AsyncIterator[list[str]]:
    async with running(path_network(3)) as urls:
        yield urls


async def test_what_was_published_before_can_be_asked_for(urls: list[str], tmp_path: Path) -> None:
    async with storing(urls[2], tmp_path) as node, reefcast.connect(urls[0]) as client:
        await published(urls[1], 100)
        await until_stored(node, 100)
        await until_found(client)
        whole = client.history("topic = 'fx'")
        assert await numbers(whole) == list(range(100))
        assert whole.answered == {node.id: ("b1", "b2", "b3")}
        some = client.history("topic = 'fx' AND third = 1 AND n > 10", limit=5)
        assert await numbers(some) == [13, 16, 19, 22, 25]
        nothing = client.history("topic = 'fx'", until=datetime(2020, 1, 1, tzinfo=UTC))
        assert await numbers(nothing) == []


async def test_what_nobody_stores_and_what_nobody_can_be_asked(urls: list[str]) -> None:
    async with reefcast.connect(urls[0]) as client:
        with pytest.raises(reefcast.RefusedError, match="nobody stores 'fx': start a storage"):
            await numbers(client.history("topic = 'fx'"))
        with pytest.raises(reefcast.ConfigurationError, match="say which: topic ="):
            client.history("n > 3")


async def test_a_storage_that_dies_in_mid_answer_is_replaced(
    urls: list[str], tmp_path: Path
) -> None:
    count = 20_000
    async with storing(urls[2], tmp_path / "far") as far, reefcast.connect(urls[0]) as client:
        async with storing(urls[1], tmp_path / "near") as near:
            await published(urls[1], count)
            await until_stored(far, count)
            await until_stored(near, count)
            await until_found(client)
            events = client.history("topic = 'fx'")
            first = await numbers(events, 100)
        assert first + await numbers(events) == list(range(count))


async def test_from_the_past_into_the_present_without_a_gap(
    urls: list[str], tmp_path: Path
) -> None:
    async with storing(urls[2], tmp_path) as node, reefcast.connect(urls[0]) as client:
        await published(urls[1], 200)
        await until_stored(node, 200)
        await until_found(client)
        going_on = asyncio.create_task(published(urls[1], 3000, 200))
        events = client.subscribe("topic = 'fx'", replay=True, handover_s=0.5)
        found = await numbers(events, 3200)
        await going_on
        assert sorted(found) == list(range(3200))
        assert found[:200] == list(range(200))
        await events.cancel()


async def test_a_storage_that_comes_later_catches_up_first(urls: list[str], tmp_path: Path) -> None:
    async with storing(urls[2], tmp_path / "old") as old:
        await published(urls[1], 50)
        await until_stored(old, 50)
        async with storing(urls[0], tmp_path / "new") as new:
            assert new.stored >= 50
    async with reefcast.connect(urls[0]) as client, storing(urls[0], tmp_path / "new"):
        await until_found(client)
        assert await numbers(client.history("topic = 'fx'")) == list(range(50))


async def test_the_example_of_the_page(
    urls: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The example is that of docs/how-to/keep-history.md."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "keep-history.md"
    [example] = re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    source = textwrap.indent(example.replace("reefcast://127.0.0.1:7302", urls[0]), "    ")
    scope: dict[str, Any] = {"reefcast": reefcast}
    exec(compile(f"async def example():\n{source}", "history.md", "exec"), scope)
    async with storing(urls[2], tmp_path) as node, reefcast.connect(urls[1]) as publisher:
        for price in (5, 20, 30):
            await publisher.publish(price=price, topics=["fx"])
        await until_stored(node, 3)
        await until_found(publisher)
        task = asyncio.create_task(scope["example"]())
        printed: list[str] = []

        def has_printed() -> bool:
            printed.extend(capsys.readouterr().out.splitlines())
            return len(printed) >= 5 or task.done()

        await until(has_printed)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    assert [line.split()[-1] for line in printed] == ["20", "30", "5", "20", "30"]


async def test_the_synchronous_client_asks_as_well(urls: list[str], tmp_path: Path) -> None:
    def ask() -> list[object]:
        with reefcast.sync.connect(urls[0]) as client:
            events = client.history("topic = 'fx' AND n < 10", limit=5)
            found = [event["n"] for event in events]
            other = client.history("topic = 'fx'")
            found.append(next(other)["n"])
            other.cancel()
            assert list(other) == []
        return found

    async with storing(urls[2], tmp_path) as node, reefcast.connect(urls[0]) as client:
        await published(urls[1], 20)
        await until_stored(node, 20)
        await until_found(client)
        assert await asyncio.to_thread(ask) == [0, 1, 2, 3, 4, 0]


async def test_the_synchronous_client_goes_from_the_past_into_the_present(
    urls: list[str], tmp_path: Path
) -> None:
    def ask() -> list[object]:
        with reefcast.sync.connect(urls[0]) as client:
            events = client.subscribe("topic = 'fx'", replay=True, handover_s=0.3)
            events.settled(timeout=30)
            found = [event["n"] for event in itertools.islice(events, 3000)]
            with pytest.raises(TimeoutError):
                events.next(timeout=0.5)
            later = client.subscribe("topic = 'fx'", replay=datetime.now(UTC), handover_s=0.1)
            later.settled(timeout=30)
            client.publish(n=3000, topics=["fx"])
            for each in (events, later):
                event = each.next(timeout=30)
                assert event is not None and event["n"] == 3000
            events.cancel(timeout=30)
            assert list(events) == []
            given_up = client.subscribe("topic = 'fx'", replay=True)
        with pytest.raises(reefcast.LocalError, match="closed"):
            given_up.next()
        return found

    async with storing(urls[2], tmp_path) as node, reefcast.connect(urls[0]) as client:
        await published(urls[1], 200)
        await until_stored(node, 200)
        await until_found(client)
        going_on = asyncio.create_task(published(urls[1], 2800, 200))
        found = await asyncio.to_thread(ask)
        await going_on
    assert sorted(map(int, found)) == list(range(3000))
    assert found[:200] == list(range(200))


async def test_the_synchronous_client_says_what_nobody_can_be_asked(urls: list[str]) -> None:
    def ask() -> None:
        with reefcast.sync.connect(urls[0]) as client:
            with pytest.raises(reefcast.ConfigurationError, match="say which"):
                client.subscribe("n > 3", replay=True)
            with pytest.raises(reefcast.LocalError, match="handover_s"):
                client.subscribe("topic = 'fx'", replay=True, handover_s=-1.0)
            with pytest.raises(reefcast.RefusedError, match="nobody stores"):
                client.subscribe("topic = 'fx'", replay=True).next(timeout=30)

    await asyncio.to_thread(ask)

"""The synchronous twin against a real broker, which runs in the test's loop."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

import reefcast
from live_networks import path_network, running
from reefcast.sync import BACKLOG


async def beside(work: Callable[[str], object]) -> object:
    """Run `work` in a thread, with the URL of a broker."""
    async with running(path_network(1)) as [url]:
        async with asyncio.timeout(30):
            return await asyncio.to_thread(work, url)


async def test_publish_and_subscribe() -> None:
    def work(url: str) -> None:
        with (
            reefcast.sync.connect(url, name="reader") as reader,
            reefcast.sync.connect(url, name="writer") as writer,
        ):
            assert reader.connected and reader.id.startswith("reader-")
            subscription = reader.subscribe("price < 100", "kind = 'late'")
            subscription.settled(timeout=10)
            advertisement = writer.advertise("price > 0 OR kind = 'late'")
            advertisement.settled()
            assert writer.publish(price=99.5, payload=b"p", topics=["t"]) == (writer.id, 1)
            writer.publish({"price": 200})
            writer.publish({"price": 1}, kind="late")
            writer.flush(timeout=10)
            assert writer.unacknowledged == 0
            seen = [next(subscription), next(subscription)]
            assert [event.attributes for event in seen] == [
                {"price": 99.5},
                {"price": 1, "kind": "late"},
            ]
            subscription.replace("price < 100", "price > 100", timeout=10)
            subscription.add("price = 7", timeout=10)
            subscription.remove("kind = 'late'", timeout=10)
            assert subscription.filters == ("price > 100", "price = 7")
            with pytest.raises(TimeoutError):
                subscription.next(timeout=0.01)
            advertisement.withdraw(timeout=10)
            subscription.cancel(timeout=10)
            assert list(subscription) == []

    await beside(work)


class Reading(msgspec.Struct):
    taken: datetime
    place: dict[str, str]


async def test_a_struct_comes_back() -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            subscription = client.subscribe("taken > 0 AND place.room = 'attic'")
            subscription.settled(timeout=10)
            reading = Reading(datetime(2026, 1, 1, tzinfo=UTC), {"room": "attic"})
            client.publish(reading)
            assert next(subscription).as_(Reading) == reading

    await beside(work)


async def test_events_that_wait_come_together() -> None:
    def work(url: str) -> None:
        client = reefcast.sync.connect(url)
        subscription = client.subscribe("x >= 0")
        subscription.settled(timeout=10)
        assert subscription.numbers == (1,) and subscription.waiting == 0
        for x in range(5):
            client.publish(x=x)
        seen = subscription.next_batch(timeout=10)
        while len(seen) < 5:
            seen += subscription.next_batch(timeout=10)
        assert [event["x"] for event in seen] == [0, 1, 2, 3, 4]
        with pytest.raises(TimeoutError):
            subscription.next_batch(timeout=0.01)
        client.publish(x=5)
        while not subscription.waiting:
            time.sleep(0.002)
        client.close()
        assert [event["x"] for event in subscription] == [5], (
            "events that had come were lost by the close"
        )
        assert subscription.next_batch() == [] and subscription.next() is None
        assert isinstance(client.ended, reefcast.LocalError)

    await beside(work)


async def test_closing_from_another_thread_ends_the_iteration() -> None:
    def work(url: str) -> None:
        client = reefcast.sync.connect(url)
        subscription = client.subscribe("TRUE")
        subscription.settled()
        threads_inside = threading.active_count()
        closing = threading.Timer(0.05, client.close)
        closing.start()
        assert list(subscription) == []
        closing.join()
        assert threading.active_count() < threads_inside
        for _ in range(2):
            with pytest.raises(reefcast.LocalError, match="closed"):
                client.publish(x=1)

    await beside(work)


async def test_refused_publications_and_wrong_filters() -> None:
    def work(url: str) -> None:
        with pytest.raises(reefcast.RefusedError), reefcast.sync.connect(url) as client:
            with pytest.raises(reefcast.FilterSyntaxError):
                client.subscribe("x <")
            client.advertise("x > 0").settled()
            client.publish(x=-1)

    await beside(work)


async def test_events_go_out_in_order_and_none_stays_behind() -> None:
    """More events than backlog and credit allow come from two threads; then events come one after
    the other."""

    def work(url: str) -> None:
        with reefcast.sync.connect(url) as reader, reefcast.sync.connect(url) as client:
            subscription = reader.subscribe("TRUE")
            subscription.settled()

            def publish() -> None:
                for _ in range(3000):
                    client.publish(x=1)

            threads = [threading.Thread(target=publish) for _ in range(2)]
            for thread in threads:
                thread.start()
            assert [next(subscription).seq for _ in range(6000)] == list(range(1, 6001))
            for thread in threads:
                thread.join()
            for seq in range(6001, 6101):
                client.publish(x=1)
                assert next(subscription).seq == seq
            assert client.publish(x=1) == (client.id, 6101)
            with pytest.raises(reefcast.InvalidValueError):
                client.publish(x=b"")
            client.flush()
            assert client.unacknowledged == 0

    await beside(work)


async def test_a_callback_that_would_wait_for_itself_is_told_so() -> None:
    def work(url: str) -> None:
        told: list[str] = []

        def on_refused(identity: tuple[str, int], reason: str) -> None:
            try:
                client.flush()
            except reefcast.LocalError as error:
                told.append(str(error))

        with reefcast.sync.connect(url, on_refused=on_refused) as client:
            client.advertise("x > 0").settled()
            client.publish(x=-1)
        assert ["must not wait for its own client" in text for text in told] == [True]

    await beside(work)


async def test_events_that_come_as_the_callers_time_runs_out_are_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            subscription = client.subscribe("TRUE")
            subscription.settled()
            client.publish(x=1)
            in_time = client._thread.run

            def too_late(work: Any, timeout: float | None = None) -> None:
                in_time(work)
                raise TimeoutError

            with monkeypatch.context() as patch:
                patch.setattr(client._thread, "run", too_late)
                with pytest.raises(TimeoutError):
                    subscription.next(timeout=1)
            assert subscription.next(timeout=10)["x"] == 1

    await beside(work)


async def test_a_callback_may_publish_while_another_thread_waits_for_credit() -> None:
    """The callback runs in the thread that sends, which must not wait for the thread that waits for
    credit."""
    seqs: list[int] = []

    def work(url: str) -> None:
        def on_refused(identity: tuple[str, int], reason: str) -> None:
            while client._seq < BACKLOG:
                pass  # the other thread goes on until it has to wait
            seqs.append(client.publish(x=1)[1])

        with reefcast.sync.connect(url, on_refused=on_refused) as client:
            client.advertise("x > 0").settled()
            client.publish(x=-1)
            for _ in range(2 * BACKLOG):
                client.publish(x=1)
            client.flush()
            assert client.unacknowledged == 0

    async with running(path_network(1, credit=8)) as [url]:
        worker = threading.Thread(target=work, args=(url,), daemon=True)
        worker.start()
        async with asyncio.timeout(20):
            await asyncio.to_thread(worker.join, 15)
        assert not worker.is_alive()
    assert len(seqs) == 1


async def test_an_abandoned_subscription_is_cancelled_from_whatever_thread() -> None:
    def work(url: str) -> None:
        with reefcast.sync.connect(url) as client:
            client.subscribe("TRUE").settled()
            gc.collect()
            by_number = client._client._session.registrations.by_number
            for _ in range(1000):
                if not by_number:
                    break
                client.flush()
            assert not by_number

    await beside(work)


def test_nobody_listens_and_no_thread_is_left() -> None:
    before = threading.active_count()
    with pytest.raises(reefcast.ConnectionLostError):
        reefcast.sync.connect("reefcast://127.0.0.1:1", connect_timeout_s=0.02)
    with pytest.raises(reefcast.ConfigurationError):
        reefcast.sync.connect("nonsense")
    assert threading.active_count() == before

"""A storage among others: what it fetches before it answers, topics that come and go, its store."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

import pytest

import reefcast
from live_networks import path_network, running, until
from live_storages import (
    WITHIN_S,
    attached,
    complain,
    numbers,
    published,
    storing,
    until_found,
    until_stored,
)
from reefcast.client.address import parse_addresses
from reefcast.errors import DamagedError
from reefcast.history.messages import Stores
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.publication import Publication
from reefcast.model.wire import decode_publication, encode_publication
from reefcast.storage_node import catching_up, upkeep
from reefcast.storage_node import node as storage_node
from reefcast.storage_node.catching_up import CatchUp
from reefcast.storage_node.node import StorageNode
from torture.proxy import Proxy


@pytest.fixture
async def urls() -> AsyncIterator[list[str]]:
    async with running(path_network(3)) as urls:
        yield urls


def stored_in(directory: Path, topic: str = "fx") -> list[object]:
    """Return what the history there has of a topic, in order."""
    store = HistoryStore(directory, complain)
    bodies = [body for batch in store.read([topic], 0) for body in batch]
    store.close()
    return [decode_publication(body).attributes["n"] for body in bodies]


def old_events(directory: Path, count: int, first: int = 0, topic: str = "fx") -> None:
    """Store events as if they had been published in 2020."""
    store = HistoryStore(directory, complain)
    made = [
        Publication("p", n, 1_577_836_800_000_000 + n, {"n": n}, (topic,))
        for n in range(first, first + count)
    ]
    store.append([Incoming(encode_publication(each)) for each in made])
    store.close()


async def until_ready(node: StorageNode) -> None:
    async with asyncio.timeout(WITHIN_S):
        await node.until_ready()


# --- catching up ----------------------------------------------------------------------------------


async def test_who_is_new_fetches_what_is_old_whatever_comes_meanwhile(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This also holds if fetching was interrupted, and events that came meanwhile were stored."""
    monkeypatch.setattr(catching_up, "OVERLAP_S", 0.0)
    monkeypatch.setattr(upkeep, "NOTE_EVERY_S", 0.01)
    old_events(tmp_path / "old", 12_000)
    append, may_go_on = StorageNode._append_lacking, asyncio.Event()

    async def stuck(node: StorageNode, events: Sequence[reefcast.Event]) -> None:
        await append(node, events)
        await may_go_on.wait()

    async with storing(urls[2], tmp_path / "old") as old:
        monkeypatch.setattr(StorageNode, "_append_lacking", stuck)
        async with attached(urls[0], tmp_path / "new") as new:
            await until_stored(new, 1)
            going_on = asyncio.create_task(published(urls[1], 2000, 12_000))
            await until(lambda: new._store.positions()["fx"] == old._store.positions()["fx"])
            await asyncio.sleep(0.1)
            assert not new.answers and new._store.whole_us("fx") is None
        assert len(stored_in(tmp_path / "new")) < 12_000
        may_go_on.set()
        async with storing(urls[0], tmp_path / "new") as new:
            await going_on
            await until_stored(old, 2000)
            await until(lambda: new._store.positions() == old._store.positions())
            await until(lambda: new._store.whole_us("fx"))
    assert sorted(map(int, stored_in(tmp_path / "new"))) == list(range(14_000))


async def test_a_joining_topic_waits_for_who_has_it(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_node, "JOINING_AGAIN_S", 0.05)
    old_events(tmp_path / "old", 10)
    async with attached(urls[0], tmp_path / "new", ("fx", "b"), ["fx"]) as new:
        await until(lambda: new.answers == ("b",))
        await asyncio.sleep(0.3)
        assert new.answers == ("b",)
        async with storing(urls[2], tmp_path / "old"):
            await until_ready(new)
    assert stored_in(tmp_path / "new") == list(range(10))


async def test_who_is_new_asks_all_others(urls: list[str], tmp_path: Path) -> None:
    """Each of them lacks something, and does not know it."""
    for name, first in (("one", 0), ("other", 40)):
        old_events(tmp_path / name, 60, first)
        store = HistoryStore(tmp_path / name, complain)
        store.note_whole({"#": 2_000_000_000_000_000})
        store.close()
    async with (
        storing(urls[0], tmp_path / "one", ("fx",)),
        storing(urls[2], tmp_path / "other", ("#",)),
        storing(urls[1], tmp_path / "new"),
    ):
        pass
    assert stored_in(tmp_path / "one") == list(range(60))
    assert stored_in(tmp_path / "new") == list(range(100))


async def test_who_answered_alone_fetches_later_what_another_one_has(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_node, "AGAIN_S", 0.05)
    old_events(tmp_path / "old", 10)
    async with storing(urls[0], tmp_path / "new") as new, storing(urls[2], tmp_path / "old"):
        await until_stored(new, 10)
    assert stored_in(tmp_path / "new") == list(range(10))


async def test_after_a_lost_connection_it_catches_up_before_it_answers(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetch, may_go_on = CatchUp.of, asyncio.Event()

    async def later(self: CatchUp, topic: str, is_wanted: Callable[[str], bool]) -> bool:
        await may_go_on.wait()
        return await fetch(self, topic, is_wanted)

    async with (
        storing(urls[2], tmp_path / "other") as other,
        storing(urls[0], tmp_path / "ours") as ours,
        reefcast.connect(urls[0]) as client,
    ):
        monkeypatch.setattr(CatchUp, "of", later)
        connection = ours._client._connection
        assert connection is not None
        connection.abort()
        await published(urls[2], 10)
        await until_stored(other, 10)
        await until(lambda: ours._connections and ours._client.connected)
        await asyncio.sleep(0.2)
        assert ours.answers == ()
        assert await numbers(client.history("topic = 'fx'")) == list(range(10))
        may_go_on.set()
        await until_ready(ours)
    assert stored_in(tmp_path / "ours") == list(range(10))


async def test_what_the_other_one_has_in_hand_is_fetched_too(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This is an event that was routed before the new storage subscribed, and that the other one
    stores after it was asked."""
    going_on = threading.Event()
    append = HistoryStore.append

    def late(store: HistoryStore, items: list[Incoming]) -> object:
        if store.directory.name == "old":
            going_on.wait(WITHIN_S)
        return append(store, items)

    monkeypatch.setattr(HistoryStore, "append", late)
    async with storing(urls[2], tmp_path / "old") as old:
        await published(urls[2], 1)
        async with attached(urls[0], tmp_path / "new") as new:
            await asyncio.sleep(0.1)
            going_on.set()
            await until_ready(new)
            await until_stored(old, 1)
    assert stored_in(tmp_path / "new") == [0]


async def test_what_has_come_is_stored_at_the_end(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    append, first = HistoryStore.append, threading.Event()

    def slow(store: HistoryStore, items: list[Incoming]) -> object:
        first.set()
        threading.Event().wait(0.5)
        return append(store, items)

    monkeypatch.setattr(HistoryStore, "append", slow)
    async with storing(urls[0], tmp_path) as node:
        await published(urls[0], 1)
        await asyncio.to_thread(first.wait, WITHIN_S)
        await published(urls[0], 299, 1)
        await until(lambda: node.stored + node.waiting >= 300)
    assert stored_in(tmp_path) == list(range(300))


# --- topics that come and go ----------------------------------------------------------------------


async def test_topics_move_from_one_storage_to_another(urls: list[str], tmp_path: Path) -> None:
    """Nothing is lost while events are published and asked for."""
    async with (
        storing(urls[0], tmp_path / "old", ("fx", "b")) as old,
        storing(urls[2], tmp_path / "new", ("c",)) as new,
        reefcast.connect(urls[1]) as client,
    ):
        await published(urls[1], 500)
        await until_stored(old, 500)
        going_on = asyncio.create_task(published(urls[1], 1500, 500))
        new.change(("c", "fx"), ["fx"])
        await until_ready(new)
        old.change(("b",))
        await until_ready(old)
        assert (new.answers, old.answers) == (("c", "fx"), ("b",))
        await going_on
        await until(lambda: new.stored >= 2000)
        assert await numbers(client.history("topic = 'fx'")) == list(range(2000))
        before = old.stored
        await published(urls[1], 10, 2000)
        await published(urls[1], 1, topic="b")
        await until(lambda: old.stored > before)
        assert old.stored == before + 1, "the storage still subscribes to a topic that it gave up"
        old.change(("b", "fx"), ["fx"])
        await until_ready(old)
    assert stored_in(tmp_path / "old") == list(range(2010))


async def test_a_storage_whose_connection_is_cut_misses_nothing(
    urls: list[str], tmp_path: Path
) -> None:
    """What was published meanwhile waits at its broker; then the storage answers again."""
    proxy = Proxy((parse_addresses(urls[0])[0].host, parse_addresses(urls[0])[0].port))
    await proxy.start()
    try:
        url = f"reefcast://127.0.0.1:{proxy.port}"
        async with storing(url, tmp_path) as node, reefcast.connect(urls[1]) as client:
            await published(urls[1], 100)
            await until_found(client)
            proxy.refuses = True
            proxy.reset()
            await until(lambda: not node.answers)
            await published(urls[1], 100, 100)
            proxy.refuses = False
            await until_stored(node, 200)
            await until_ready(node)
            await until_found(client)
            assert await numbers(client.history("topic = 'fx'")) == list(range(200))
    finally:
        await proxy.stop()


async def test_an_answer_in_hand_goes_on_when_its_topic_goes(
    urls: list[str], tmp_path: Path
) -> None:
    count = 10_000
    old_events(tmp_path, count)
    async with storing(urls[0], tmp_path, forget=True) as node, reefcast.connect(urls[0]) as client:
        await until_found(client)
        events = client.history("topic = 'fx'")
        first = await numbers(events, 100)
        node.change(())
        await until(lambda: node.answers == ())
        with pytest.raises(reefcast.RefusedError, match="nobody stores 'fx'"):
            await numbers(client.history("topic = 'fx'"))
        assert first + await numbers(events) == list(range(count))
        await until_ready(node)


async def test_an_answer_that_takes_too_long_goes_on_elsewhere(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage_node, "ANSWERS_S", 0.05)
    count = 10_000
    for name in ("near", "far"):
        old_events(tmp_path / name, count)
    async with (
        storing(urls[2], tmp_path / "far"),
        reefcast.connect(urls[0]) as client,
        storing(urls[0], tmp_path / "near", forget=True) as near,
    ):
        events = client.history("topic = 'fx'")
        first = await numbers(events, 100)
        near.change(())
        await until_ready(near)
        assert first + await numbers(events) == list(range(count))


async def test_a_question_by_old_news_is_never_answered_with_nothing(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client's broker knew of the storage before its topic went; another one has the topic."""
    old_events(tmp_path / "far", 10)
    async with (
        storing(urls[2], tmp_path / "far"),
        reefcast.connect(urls[0]) as client,
        storing(urls[0], tmp_path / "near", ("b", "fx")) as near,
    ):
        answers_for = StorageNode._answers_for
        asked: list[tuple[str, ...]] = []

        def moved_on(node: StorageNode, topics: tuple[str, ...]) -> bool:
            if node is near and not asked:
                asked.append(topics)
                node.change(("b",))
                node._ready.discard("fx")
                node.answers = ("b",)
                node._session.say([Stores(topics=("b",))])
            return answers_for(node, topics)

        monkeypatch.setattr(StorageNode, "_answers_for", moved_on)
        assert await numbers(client.history("topic = 'fx'")) == list(range(10))
        assert asked == [("fx",)]


async def test_what_is_not_kept_any_more_is_forgotten_if_that_is_wanted(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY_S", 0.02)
    for name in ("keeping", "forgetting"):
        old_events(tmp_path / name, 5000, topic="b")
        old_events(tmp_path / name, 10)
        how = {"forget": name == "forgetting", "seal_after_s": None}
        async with storing(urls[0], tmp_path / name, ("fx", "b"), **how) as node:
            node.change(("fx",))
            await until_ready(node)
            if name == "forgetting":
                await until(lambda: not node._store.counts()["b"].rows)
            await asyncio.sleep(0.5)
        assert stored_in(tmp_path / name) == list(range(10))
        left = len(stored_in(tmp_path / name, "b"))
        assert left == (5000 if name == "keeping" else 0)


async def test_a_storage_of_nothing_can_be_given_something(urls: list[str], tmp_path: Path) -> None:
    async with storing(urls[0], tmp_path, ()) as node:
        assert node.answers == ()
        with pytest.raises(reefcast.ConfigurationError, match="topic 'a#' of a storage"):
            node.change(("a#",))
        node.change(("fx", "fx"))
        await until_ready(node)
        await published(urls[2], 3)
        await until_stored(node, 3)
    assert stored_in(tmp_path) == [0, 1, 2]


# --- its store ------------------------------------------------------------------------------------


async def test_days_that_are_over_are_sealed(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY_S", 0.02)
    old_events(tmp_path, 3000)
    files = tmp_path / "segments"
    async with storing(urls[0], tmp_path, seal_after_s=None):
        await asyncio.sleep(0.2)
        assert not list(files.glob("*/*"))
    async with storing(urls[0], tmp_path) as node, reefcast.connect(urls[0]) as client:
        await until(lambda: [path.name for path in files.glob("*/*")] == ["000000.parquet"])
        await until(lambda: node._store.counts()["fx"].rows == 0)
        await published(urls[0], 1, 3000)
        await until_stored(node, 1)
        assert await numbers(client.history("topic = 'fx'")) == list(range(3001))


async def test_what_was_sealed_is_not_fetched_again(
    urls: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY_S", 0.02)
    old_events(tmp_path / "ours", 1000)
    old_events(tmp_path / "theirs", 1500)
    async with storing(urls[0], tmp_path / "ours") as ours:
        await until(lambda: ours._store.counts()["fx"].rows == 0)
    async with (
        storing(urls[2], tmp_path / "theirs", seal_after_s=None),
        storing(urls[0], tmp_path / "ours", seal_after_s=None) as ours,
    ):
        assert ours.stored == 500 == ours._store.counts()["fx"].rows
    assert stored_in(tmp_path / "ours") == list(range(1500))


async def test_damage_ends_the_storage_and_is_repaired_from_a_replica(
    urls: list[str], tmp_path: Path
) -> None:
    for name in ("ours", "theirs"):
        old_events(tmp_path / name, 3000)
    database = tmp_path / "ours" / "history.sqlite"
    data = bytearray(database.read_bytes())
    for start in range(20 * 4096, len(data), 8 * 4096):
        data[start : start + 4096] = bytes(4096)
    database.write_bytes(data)
    reports: list[DamagedError] = []
    async with storing(urls[2], tmp_path / "theirs"), reefcast.connect(urls[0]) as client:
        store = HistoryStore(tmp_path / "ours", reports.append)
        async with reefcast.connect(urls[0], name="storage") as own:
            node = StorageNode(own, store, ("fx",), seal_after_s=None, handover_s=0.2)
            store.note_whole({"fx": 2_000_000_000_000_000})
            running = asyncio.create_task(node.run())
            await until_ready(node)
            assert await numbers(client.history("topic = 'fx'")) == list(range(3000))
            with pytest.raises(DamagedError):
                async with asyncio.timeout(WITHIN_S):
                    await running
        store.close()
        store = HistoryStore(tmp_path / "ours", reports.append, repair=True)
        assert "let replicas tell what is lacking" in str(reports[-1])
        store.close()
        async with storing(urls[0], tmp_path / "ours"):
            pass
    assert stored_in(tmp_path / "ours") == list(range(3000))

"""The thread of the keeper: group commits, a disk that fails, the end."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Sequence

import pytest

from reefcast.keeping.interface import Bodies
from reefcast.model.keeping import Change, PutEvent, PutRow
from reefcast.network.sections import SessionsSection
from reefcast.server import keeper as module
from reefcast.server.keeper import Keeper, open_keeper
from reefcast_lab.torture.stores import SimulatedStore


class SlowStore(SimulatedStore):
    """A store that commits when the test says (`go`), and fails while `fails` is set."""

    def __init__(self) -> None:
        super().__init__()
        self.go = threading.Semaphore(0)
        self.begun = threading.Semaphore(0)
        self.batches: list[Sequence[Change]] = []
        self.syncs = threading.Semaphore(0)
        self.closed = False

    def commit(self, changes: Sequence[Change]) -> None:
        self.begun.release()
        self.go.acquire()
        super().commit(changes)
        self.batches.append(changes)

    def sync(self, batches: int | None = None) -> None:
        super().sync(batches)
        self.syncs.release()

    def close(self) -> None:
        super().close()
        self.closed = True


class Told:
    """What the keeper reports, in order."""

    def __init__(self, keeper: Keeper) -> None:
        self.said: asyncio.Queue[object] = asyncio.Queue()
        keeper.listen(self.said.put_nowait, self.said.put_nowait)


def row(number: int) -> PutRow:
    return PutRow("t", b"%d" % number, b"")


async def acquired(semaphore: threading.Semaphore) -> None:
    await asyncio.to_thread(semaphore.acquire)


async def test_what_comes_during_a_commit_is_the_next_one_as_a_whole():
    store = SlowStore()
    keeper = Keeper(store)
    told = Told(keeper)
    keeper.keep((row(1),), 1)
    await acquired(store.begun)
    for number in (2, 3, 4):
        keeper.keep((row(number),), number)
    keeper.keep((row(5),), 0)
    assert told.said.empty()
    store.go.release(2)
    assert [await told.said.get() for _ in range(2)] == [1, 4]
    assert store.batches == [[row(1)], [row(2), row(3), row(4), row(5)]]
    await keeper.close()
    assert store.closed


async def test_a_batch_has_an_end(monkeypatch):
    monkeypatch.setattr(module, "MOST_CHANGES", 3)
    store = SlowStore()
    keeper = Keeper(store)
    told = Told(keeper)
    keeper.keep((row(0),), 1)
    await acquired(store.begun)
    for number in range(2, 6):
        keeper.keep((row(number), row(10 * number)), number)
    store.go.release(3)
    assert [await told.said.get() for _ in range(3)] == [1, 3, 5]
    await keeper.close()


async def test_bodies_are_read_behind_what_is_to_be_kept():
    store = SlowStore()
    keeper = Keeper(store)
    told = Told(keeper)
    keeper.keep((row(1),), 1)
    await acquired(store.begun)
    keeper.keep((PutEvent(7, ("p", 1), 0.0, b"body"),), 2)
    keeper.fetch([7, 8])
    store.go.release(2)
    said = [await told.said.get() for _ in range(3)]
    assert said == [1, 2, Bodies({7: b"body"}, (8,))]
    await keeper.close()


async def test_a_disk_that_fails_confirms_nothing_and_is_tried_again(monkeypatch, caplog):
    monkeypatch.setattr(module, "AGAIN_S", (0.001, 0.002))
    store = SlowStore()
    store.fails = True
    keeper = Keeper(store)
    told = Told(keeper)
    store.go.release(3)
    with caplog.at_level(logging.WARNING):
        keeper.keep((row(1),), 1)
        for _ in range(3):
            await acquired(store.begun)
        assert told.said.empty()
        keeper.keep((row(2),), 2)
        store.fails = False
        store.go.release(3)
        assert [await told.said.get() for _ in range(2)] == [1, 2]
    assert store.batches == [[row(1)], [row(2)]]
    assert "no space left" in caplog.text
    assert "works again" in caplog.text
    await keeper.close()


async def test_a_broker_ends_although_its_disk_fails():
    store = SlowStore()
    store.fails = True
    keeper = Keeper(store)
    told = Told(keeper)
    keeper.keep((row(1),), 1)
    store.go.release(10)
    await keeper.close()
    assert told.said.empty()
    assert store.closed


async def test_what_is_left_is_written_at_the_end():
    store = SlowStore()
    keeper = Keeper(store)
    store.go.release(10)
    for number in range(20):
        keeper.keep((row(number),), number + 1)
    store.go.release(20)
    await keeper.close()
    assert len(store.load().rows["t"]) == 20


async def test_with_an_interval_a_sync_follows_even_if_nothing_else_does():
    store = SlowStore()
    keeper = Keeper(store, 0.3)
    told = Told(keeper)
    while store.syncs.acquire(blocking=False):  # those of the start
        pass
    store.go.release(2)
    for number in (1, 2):
        keeper.keep((row(number),), number)
        assert await told.said.get() == number
        await acquired(store.syncs)  # the simulated commit's own
        async with asyncio.timeout(60):
            await acquired(store.syncs)
    await keeper.close()


async def test_bodies_that_are_in_a_later_batch_are_found(monkeypatch):
    monkeypatch.setattr(module, "MOST_CHANGES", 1)
    store = SlowStore()
    keeper = Keeper(store)
    told = Told(keeper)
    keeper.keep((row(1),), 1)
    await acquired(store.begun)
    keeper.keep((row(2),), 2)
    keeper.keep((PutEvent(7, ("p", 1), 0.0, b"body"),), 3)
    keeper.fetch([7])
    store.go.release(3)
    assert [await told.said.get() for _ in range(4)] == [1, 2, 3, Bodies({7: b"body"}, ())]
    await keeper.close()


async def test_a_failure_of_ours_is_logged(caplog):
    store = SlowStore()
    keeper = Keeper(store)
    store.go.release()
    keeper.keep(("no change",), 1)
    await keeper.close()
    assert "the keeper of this broker failed" in caplog.text


@pytest.mark.parametrize("fsync", ["always", "interval"])
async def test_a_network_file_names_the_directory(tmp_path, fsync):
    section = SessionsSection(directory=str(tmp_path / "new"), fsync=fsync)
    assert open_keeper(SessionsSection(), "b") is None
    for count in range(2):
        keeper = open_keeper(section, "b")
        assert keeper is not None
        assert len(keeper.contents.rows.get("t", {})) == count
        told = Told(keeper)
        keeper.keep((row(1),), 1)
        assert await told.said.get() == 1
        await keeper.close()
    assert (tmp_path / "new" / "b.sqlite").exists()

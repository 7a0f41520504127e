"""What a storage does besides storing and answering."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from live_networks import until
from reefcast.history.store import HistoryStore, Incoming
from reefcast.model.publication import Publication
from reefcast.model.wire import encode_publication
from reefcast.storage_node import upkeep
from reefcast.storage_node.upkeep import Pace, StoppedError, Upkeep


class Store:
    """A store played by the test. `more`: what each call of `clean` returns; `last_us`: of the only
    topic."""

    def __init__(self) -> None:
        self.damage: Exception | None = None
        self.more: list[bool] = []
        self.last_us = 0
        self.noted: list[dict[str, int]] = []
        self.cleaned = asyncio.Event()

    def clean(self, now_us: int) -> object:
        if len(self.more) == 1:
            self.cleaned.set()
        return SimpleNamespace(more=self.more.pop(0))

    def positions(self, topics: list[str]) -> dict[str, tuple[int, str, int]]:
        return {"fx": (self.last_us, "p", 1)} if topics == ["fx"] else {}

    def note_whole(self, marks: dict[str, int]) -> None:
        self.noted.append(marks)


async def do(work: Callable[[], Any]) -> Any:
    await asyncio.sleep(0)
    return work()


@pytest.fixture
async def store() -> Store:
    return Store()


def upkeep_of(store: Store) -> Upkeep:
    return Upkeep(cast(Any, store), do, do, None)


async def test_cleaning_goes_on_while_there_is_more(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This happens in one round: the next one would be in an hour."""
    pauses = iter((0.0, 3600.0))
    sleep = asyncio.sleep
    clock = SimpleNamespace(sleep=lambda _: sleep(next(pauses)))
    monkeypatch.setattr(upkeep, "asyncio", clock)
    store.more = [True, True, True, False]
    task = asyncio.create_task(upkeep_of(store).clean())
    async with asyncio.timeout(10):
        await store.cleaned.wait()
    task.cancel()
    assert store.more == []


async def test_damage_that_cleaning_meets_ends_it(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(upkeep, "CLEAN_EVERY_S", 0.0)
    store.more, store.damage = [True, True], ValueError("damaged")
    with pytest.raises(ValueError, match="damaged"):
        await upkeep_of(store).clean()
    assert store.more == [True]


async def test_what_is_whole_is_noted_when_it_changes(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is complete up to what was stored last, but not beyond now, whatever a publisher's clock
    says."""
    monkeypatch.setattr(upkeep, "NOTE_EVERY_S", 0.0)
    topics = {"fx"}
    store.last_us = 5
    task = asyncio.create_task(upkeep_of(store).note_whole(lambda: topics))
    for last_us, more in ((7, "a"), (1 << 62, "b")):
        for _ in range(20):
            await asyncio.sleep(0)
        store.last_us = last_us
        topics.add(more)
    for _ in range(20):
        await asyncio.sleep(0)
    task.cancel()
    first, second, *_, last = store.noted
    assert (first, second) == ({"fx": 5}, {"fx": 7, "a": 0})
    assert last.keys() == {"fx", "a", "b"}
    assert 7 < last["fx"] <= time.time_ns() // 1000


async def test_what_cannot_be_sealed_is_tried_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(upkeep, "SEAL_EVERY_S", 0.01)
    history = HistoryStore(tmp_path, lambda error: None, segment_us=1000)
    event = Publication("p", 1, 500, {}, ("fx",))
    history.append([Incoming(encode_publication(event))])
    (tmp_path / "segments").write_text("in the way")
    task = asyncio.create_task(Upkeep(history, do, do, 0.0).seal())
    await asyncio.sleep(0.05)
    assert history.closed(1000) == [0] and not task.done()
    (tmp_path / "segments").unlink()
    await until(lambda: not history.closed(1000))
    task.cancel()
    [segment] = history._segments.all
    assert segment.footer.rows == 1
    history.close()


def test_a_pace_rests_for_what_was_done(monkeypatch: pytest.MonkeyPatch) -> None:
    done_s = iter((1.0, 1.5, 1.5, 2.0, 2.0))
    rested: list[float] = []
    clock = SimpleNamespace(thread_time=lambda: next(done_s), sleep=rested.append)
    monkeypatch.setattr(upkeep, "time", clock)
    pace = Pace(0.25)
    for _ in range(3):
        pace.pause()
    assert rested == pytest.approx([1.5, 1.5])
    pace.stopped = True
    with pytest.raises(StoppedError):
        pace.pause()


async def test_sealing_ends_when_it_is_not_wanted_any_more(tmp_path: Path) -> None:
    """What was written so far is removed."""
    history = HistoryStore(tmp_path, lambda error: None, segment_us=1000)
    event = Publication("p", 1, 500, {}, ("fx",))
    history.append([Incoming(encode_publication(event))])
    begun, stopped = threading.Event(), threading.Event()
    ended: list[Exception] = []

    def export(since_us: int, at_us: int, pause: Callable[[], None]) -> None:
        def wait() -> None:
            begun.set()
            stopped.wait(10)
            pause()

        try:
            HistoryStore.export(history, since_us, at_us, wait)
        except StoppedError as error:
            ended.append(error)

    store = SimpleNamespace(closed=history.closed, export=export, damage=None)
    task = asyncio.create_task(Upkeep(cast(Any, store), do, asyncio.to_thread, 0.0).seal())
    await asyncio.to_thread(begun.wait, 10)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    stopped.set()
    await until(lambda: ended)
    assert list((tmp_path / "segments").rglob("*.parquet")) == []
    history.close()

"""Batches of a streaming query as exact sets of events, while the past goes on changing."""

from __future__ import annotations

import json
import random
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ConnectionLostError
from reefcast.history.spread import Stretch
from reefcast.pipeline.connector.ids import Ids, mixed
from reefcast.pipeline.connector.offsets import Offset
from reefcast.pipeline.connector.planning import LATE_SPANS, MOST_LATE, Planner, Rules
from reefcast.pipeline.connector.reading import Slice

SETTLE, LATE = 10, 80
RULES = Rules(settle_us=SETTLE, late_us=LATE, partitions=3, fail=True)


def hash_of(number: int) -> int:
    return int(mixed(np.array([number + 1], np.int64).view(np.uint64))[0])


class Storage:
    """Events by number, with the times at which they were published and arrived. `publishers`: the
    number of an event modulo this one says whose it is."""

    def __init__(self, times: dict[int, tuple[int, int]], publishers: int = 3) -> None:
        self.now = 0
        self.events = sorted(
            (time, hash_of(n), came, hash_of(-1 - n % publishers), n)
            for n, (time, came) in times.items()
        )
        self.asked = self.counted = 0
        self.spans: list[tuple[int, int]] = []

    def ids(self, since_us: int, until_us: int, limit: int = 0) -> Ids:
        found = [
            event
            for event in self.events
            if since_us <= event[0] < until_us and event[2] <= self.now
        ]
        found = found[:limit] if limit else found
        self.asked += len(found)
        self.spans.append((since_us, until_us))
        times, hashes, _, publishers, seqs = zip(*found, strict=True) if found else ((),) * 5
        return Ids(
            np.array(times, np.int64),
            np.array(hashes, np.uint64),
            np.array(publishers, np.uint64),
            np.array(seqs, np.int64),
        )

    def stretches(self, since_us: int, until_us: int, most: int) -> list[Stretch] | None:
        self.counted += 1
        times = [
            time
            for time, _, came, *_ in self.events
            if since_us <= time < until_us and came <= self.now
        ]
        step = max(len(times) // most, 1)
        return [
            Stretch(times[k], "t", min(step, len(times) - k)) for k in range(0, len(times), step)
        ]

    def read(self, part: Slice) -> list[int]:
        """Read a part of a batch as a task does."""
        found = [h for span in part.spans for h in self.ids(*span).hashes.tolist()]
        expected = part.expected
        if expected is None:
            return found
        assert set(expected.tolist()) <= set(found), "a planned event is missing"
        return [hash for hash in found if hash in set(expected.tolist())]


class Query:
    """A query that is killed now and then; it keeps the events of its batches, each from the last
    run."""

    def __init__(self, storage: Storage, rules: Rules = RULES, start: int = 0) -> None:
        self.storage = storage
        self.rules = rules
        self.done = Offset(start)
        self.planned: Offset | None = None
        self.rows: list[int] = []
        self.restart()

    def restart(self) -> None:
        self.planner = Planner(self.storage, self.rules, lambda: self.storage.now)

    def plan(self, most: int | None) -> None:
        """Plan a batch as Spark does, unless one was begun: that one comes first."""
        if self.planned is None:
            end = stored(self.planner.latest(self.done, most))
            self.planned = None if end == self.done else end

    def run(self) -> list[int]:
        if self.planned is None:
            return []
        slices = self.planner.slices(self.done, self.planned)
        return [hash for part in slices for hash in self.storage.read(part)]

    def finish(self, rows: list[int]) -> None:
        self.rows += rows
        self.done, self.planned = self.planned or self.done, None


def stored(offset: Offset) -> Offset:
    """Return an offset as it comes back from a checkpoint. Sketches compare by their texts."""
    text = json.dumps(offset.to_json())
    again = Offset.of_json(json.loads(text))
    assert json.dumps(again.to_json()) == text
    return Same(again)


class Same(Offset):
    """An offset that equals others by what is stored."""

    def __new__(cls, offset: Offset) -> Same:
        return super().__new__(cls, *offset)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Offset) and self.to_json() == other.to_json()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.until_us)


@pytest.mark.long
@given(st.integers(0, 2**32), st.booleans())
def test_whatever_is_late_and_killed_each_event_is_read_once(seed: int, limited: bool) -> None:
    rng = random.Random(seed)
    times = {}
    for number in range(rng.randrange(1, 120)):
        time = rng.randrange(500) if rng.random() < 0.7 else 100 * rng.randrange(5)
        delay = rng.randrange(LATE + 1) if rng.random() < 0.2 else rng.randrange(SETTLE)
        times[number] = (time, time + delay)
    storage = Storage(times)
    storage.now = rng.randrange(300)
    query = Query(storage)
    while storage.now < 900:
        storage.now += rng.choice((1, 7, 30, 150))
        query.plan(rng.randrange(1, 20) if limited else None)
        storage.now += rng.randrange(5)  # tasks begin later
        rows = query.run()
        if rng.random() < 0.25:
            query.restart()  # before the batch is committed: it is run again
        else:
            query.finish(rows)
    for _ in range(200):  # what is left
        storage.now += LATE
        query.plan(None)
        query.finish(query.run())
    assert Counter(query.rows) == Counter(map(hash_of, times))


@pytest.mark.long
@pytest.mark.parametrize("events", [3_000, pytest.param(10_000, marks=pytest.mark.soak)])
def test_a_query_that_is_up_to_date_reads_each_event_twice(events: int) -> None:
    storage = Storage({n: (n, n) for n in range(events)})
    query = Query(storage)
    while storage.now < events + 200:
        storage.now += 20
        query.plan(None)
        query.planner.slices(query.done, query.planned or query.done)
        query.finish([])
    assert storage.asked == 2 * events


def test_what_is_old_is_left_to_the_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only so many events are asked for as show that there are more than the tasks need; then the
    storage says where they are: most are in a burst, which no task has alone."""
    monkeypatch.setattr("reefcast.pipeline.connector.cutting.MOST_PROBED", 100)
    times = [*range(0, 9000, 3), *range(9000, 9500)] * 2
    storage = Storage({n: (time, time) for n, time in enumerate(times)})
    storage.now = 20_000
    query = Query(storage)
    query.plan(None)
    assert (storage.asked, storage.counted) == (1 + 100, 1)
    slices = query.planner.slices(query.done, query.planned or query.done)
    sizes = [len(storage.read(part)) for part in slices]
    assert sum(sizes) == len(times)
    assert len(sizes) == 3 and max(sizes) < 1.1 * min(sizes)


def test_a_batch_of_old_events_is_divided_as_its_offset_says() -> None:
    """Whatever came or was lost since it was planned, its partitions are the same: writers number
    the rows of each."""
    storage = Storage({n: (n, n if n % 2 else 30_000) for n in range(10_000)})
    storage.now = 20_000
    query = Query(storage)
    query.plan(None)
    assert query.planned is not None
    spans = [part.spans for part in query.planner.slices(query.done, query.planned)]
    assert len(spans) == 3
    storage.now = 40_000
    query.restart()
    assert [p.spans for p in query.planner.slices(query.done, query.planned)] == spans


def test_few_old_events_are_read_by_few_tasks() -> None:
    storage = Storage({n: (n, n) for n in range(8)})
    storage.now = 20_000
    query = Query(storage, RULES._replace(partitions=1000))
    query.plan(None)
    slices = query.planner.slices(query.done, query.planned or query.done)
    assert len(slices) == 1
    assert sorted(storage.read(slices[0])) == sorted(map(hash_of, range(8)))


@pytest.mark.long
def test_recent_events_are_cut_into_tasks_of_equal_size() -> None:
    rules = RULES._replace(late_us=100_000, settle_us=0)
    storage = Storage({n: (n, n) for n in range(6000)})
    storage.now = 7000
    query = Query(storage, rules)
    query.plan(None)
    sizes = [len(storage.read(part)) for part in query.planner.slices(query.done, query.planned)]
    assert sizes == [2000, 2000, 2000]


def test_there_is_no_batch_without_events() -> None:
    storage = Storage({1: (5000, 5000)})
    query = Query(storage)
    for storage.now in (10, 1000, 4000):
        query.plan(None)
        assert query.planned is None
    query.plan(None)
    assert (0, 4000 - LATE) not in storage.spans[-2:], (
        "a span that is known to be empty was read again"
    )


@pytest.mark.parametrize("now", [50, 5000])
def test_events_of_the_same_time_are_in_one_batch(now: int) -> None:
    storage = Storage({n: (10 + n // 50, 10) for n in range(100)})
    query = Query(storage)
    storage.now = now
    for _ in range(2):
        query.plan(10)
        rows = query.run()
        assert len(rows) == 50
        query.finish(rows)
    assert len(set(query.rows)) == 100


@pytest.mark.long
@pytest.mark.parametrize("count", [3 * MOST_LATE, 7])
def test_many_late_events_come_in_several_batches(count: int) -> None:
    """They come like that after a publisher lost its broker for a while."""
    storage = Storage({0: (0, 0)} | dict.fromkeys(range(1, count + 1), (1, 60)))
    query = Query(storage)
    for storage.now in (15, 30, 90, 120, 150, 180, 210):
        query.plan(None)
        rows = query.run()
        assert len(rows) <= MOST_LATE
        query.finish(rows)
    assert Counter(query.rows) == Counter(map(hash_of, range(count + 1)))


def test_what_is_left_of_many_late_events_survives_a_restart() -> None:
    count = MOST_LATE + 50
    storage = Storage({0: (0, 0)} | dict.fromkeys(range(1, count + 1), (1, 60)))
    query = Query(storage)
    for storage.now in (15, 90, 120, 150):
        query.plan(None)
        query.finish(query.run())
        if len(query.rows) == MOST_LATE + 1:
            query.restart()
    assert Counter(query.rows) == Counter(map(hash_of, range(count + 1)))


def test_many_late_events_in_a_batch_that_is_run_again() -> None:
    """New events follow directly on those that were read before."""
    count = MOST_LATE + 50
    late = dict.fromkeys(range(1, count + 1), (1, 60))
    storage = Storage({0: (0, 0)} | late | {count + 1: (95, 95)})
    query = Query(storage)
    storage.now = 15
    query.plan(None)
    query.finish(query.run())
    storage.now = 106
    query.plan(None)
    query.restart()
    query.finish(query.run())
    assert len(query.rows) == 1 + MOST_LATE + 1


def late_in_a_restart(late: dict[int, tuple[int, int]], publishers: int, *, fail: bool) -> Query:
    """Return a query during whose absence events came late that follow on those of number 0 on."""
    early = dict.fromkeys(range(publishers), (0, 0))
    storage = Storage(early | late, publishers)
    query = Query(storage, RULES._replace(fail=fail))
    storage.now = 15
    query.plan(None)
    query.finish(query.run())
    query.restart()
    for storage.now in (200, 210):
        query.plan(None)
        query.finish(query.run())
    return query


@pytest.mark.long
def test_however_many_events_came_late_while_the_query_was_down_each_is_read_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of 40 publishers which had been cut off, in one batch."""
    monkeypatch.setattr("reefcast.pipeline.connector.planning.MOST_LATE", 20_000)
    late = {n: (1 + n % 3, 60) for n in range(100, 20_000) if n % 100 < 40}
    query = late_in_a_restart(late, 100, fail=True)
    assert Counter(query.rows) == Counter(map(hash_of, [*range(100), *late]))


def test_late_events_are_told_of_publishers_that_came_when_their_bucket_had_begun() -> None:
    """The first batch has events of two publishers."""
    count = 150
    early = {n: (20 if n < 2 else 21, 0) for n in range(count)}
    late = dict.fromkeys(range(count, 8 * count), (22, 100))
    storage = Storage(early | late, count)
    query = Query(storage, RULES._replace(late_us=400), start=20)
    for storage.now in (31, 32):
        query.plan(None)
        query.finish(query.run())
    assert len(query.rows) == count and len(query.done.seen) == 1
    query.restart()
    for storage.now in (900, 901, 902):
        query.plan(None)
        query.finish(query.run())
    assert Counter(query.rows) == Counter(map(hash_of, early | late))


def test_late_events_of_many_times_are_asked_for_in_few_stretches() -> None:
    times = range(0, 180, 3)
    storage = Storage({n: (time, 0 if n % 2 else 190) for n, time in enumerate(times)})
    query = Query(storage, RULES._replace(late_us=200))
    storage.now = 189
    query.plan(None)
    query.finish(query.run())
    storage.now = 500
    query.plan(None)
    parts = query.planner.slices(query.done, query.planned or query.done)
    assert len(parts[-1].spans) == LATE_SPANS
    query.finish(query.run())
    assert Counter(query.rows) == Counter(map(hash_of, range(len(times))))


def lost_in_a_restart(*, fail: bool) -> Query:
    """Return a query during whose absence more events came late, in no order, than its sketch can
    tell."""
    late = dict.fromkeys(range(1, 1000, 2), (1, 60)) | dict.fromkeys(range(2, 1000, 2), (1, 1))
    return late_in_a_restart(late, 1, fail=fail)


def test_too_many_late_events_are_an_error() -> None:
    with pytest.raises(ConnectionLostError, match="failOnDataLoss"):
        lost_in_a_restart(fail=True)


def test_too_many_late_events_are_only_a_warning_if_so_wished(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert len(lost_in_a_restart(fail=False).rows) == 500
    assert "more events came late than can be told" in caplog.text


def test_a_batch_that_cannot_be_read_again_is_an_error() -> None:
    storage = Storage({n: (n, n) for n in range(5)})
    query = Query(storage)
    storage.now = 20
    query.plan(None)
    query.restart()
    storage.events = storage.events[1:]
    with pytest.raises(ConnectionLostError, match=r"1 event of a batch .* not stored any more"):
        query.run()


@pytest.mark.parametrize("fail", [True, False])
def test_a_batch_of_which_nothing_is_stored_any_more(
    fail: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """It is larger than what its sketch can tell."""
    storage = Storage({n: (n % 15, 15) for n in range(1000)})
    query = Query(storage, RULES._replace(fail=fail))
    storage.now = 20
    query.plan(None)
    query.restart()
    storage.events = []
    words = r"cannot be told which were planned \(of the time from 0 to \d+, in microseconds"
    if fail:
        with pytest.raises(ConnectionLostError, match=words):
            query.run()
    else:
        query.finish(query.run())
        assert not query.rows and re.search(words, caplog.text)

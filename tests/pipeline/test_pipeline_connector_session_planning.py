"""Batches of a query that reads a durable session, under kills at any step: each event is in one
batch, and is acknowledged only when that batch is committed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from random import Random

import pytest

from reefcast.errors import ConfigurationError, LocalError
from reefcast.pipeline.connector.offsets import Offset
from reefcast.pipeline.connector.options import is_of_session, look_options, session_options
from reefcast.pipeline.connector.session_planning import (
    MOST_BATCH_BYTES,
    SessionOffset,
    SessionPlanner,
    SessionRules,
)

RULES = SessionRules("s", partitions=3, fail=True)


class KilledError(Exception):
    """The query's driver died here."""


class Home:
    """The home of a session, seen from outside. `window`: that of the query's consumer. Another
    consumer takes events now and then."""

    def __init__(self, rng: Random, window: int) -> None:
        self.rng = rng
        self.window = window
        self.born = 1
        self.last = 0
        self.quiet = self.alone = False
        self.queue: dict[int, bytes] = {}
        self.out: dict[int, None] = {}
        self.others: list[int] = []
        self.reads: list[int] = []
        self.handed: set[int] = set()

    def publish(self, count: int) -> None:
        for _ in range(count):
            self.last += 1
            self.queue[self.last] = b"%d" % self.last

    def restart(self) -> None:
        self.out.clear()

    def die_perhaps(self) -> None:
        if not self.quiet and self.rng.random() < 0.04:
            raise KilledError

    def other_takes(self) -> None:
        """Let the other consumer take an event, but none that the query has had: those wait for
        it."""
        fresh = [each for each in self.queue if each > max(self.handed, default=0)]
        if fresh and not self.alone and self.rng.random() < 0.3:
            self.others.append(fresh[0])
            del self.queue[fresh[0]]

    # --- as the planner sees it -------------------------------------------------------------------

    def life(self, *, new_query: bool) -> int:
        return self.born

    def owed(self) -> int:
        return len(self.queue)

    def take(self, *, final: bool) -> Mapping[int, bytes]:
        self.other_takes()
        ready = [each for each in self.queue if each not in self.out]
        most = self.window - len(self.out)
        if not final and not self.quiet:
            most = self.rng.randint(0, most)
        some = ready[:most]
        if self.rng.random() < 0.1:  # the time to acknowledge these is over
            some += [each for each in self.out if self.rng.random() < 0.5]
        self.out |= dict.fromkeys(some)
        self.handed.update(some)
        return {each: self.queue[each] for each in some}

    def read(self, positions: Sequence[int]) -> Mapping[int, bytes]:
        self.reads += positions
        return {each: self.queue[each] for each in positions if each in self.queue}

    def acknowledge(self, positions: Sequence[int]) -> None:
        self.die_perhaps()
        for each in positions:
            assert each in self.handed
            self.queue.pop(each, None)
            self.out.pop(each, None)
        self.die_perhaps()


class Spark:
    """What Spark does with a source: the two logs of a checkpoint, and a sink that writes each
    batch under its number, so that a batch that is run again replaces its first run."""

    def __init__(self, home: Home, most: int) -> None:
        self.home = home
        self.most = most
        self.offsets: list[str] = []
        self.committed = 0
        self.sink: dict[int, list[bytes]] = {}

    def life(self, *, final: bool = False) -> None:
        """Run until it is killed, or there is nothing to do."""
        planner = SessionPlanner(self.home, RULES)
        if final:
            planner.end_with_what_is_owed()
        if len(self.offsets) > self.committed:
            self._run(planner)
        while self._plan(planner):
            self._run(planner)

    def _end(self, planner: SessionPlanner, number: int) -> SessionOffset:
        """Return where a batch ends; for number -1, where the query began."""
        if number < 0:
            return planner.initial()
        return SessionOffset.of_json(json.loads(self.offsets[number]))

    def _plan(self, planner: SessionPlanner) -> bool:
        number = len(self.offsets)
        start = self._end(planner, number - 1)
        most = None if self.home.rng.random() < 0.1 else self.most
        end = json.dumps(planner.latest(start, most).to_json())
        self.home.die_perhaps()
        if end == json.dumps(start.to_json()):
            return False
        self.offsets.append(end)
        self.home.die_perhaps()
        if number:
            planner.commit(self._end(planner, number - 1))
        self.home.die_perhaps()
        return True

    def _run(self, planner: SessionPlanner) -> None:
        number = len(self.offsets) - 1
        start, end = self._end(planner, number - 1), self._end(planner, number)
        for _ in range(self.home.rng.randint(1, 2)):  # foreachBatch may read its batch twice
            handfuls = planner.handfuls(start, end)
            rows = [body for handful in handfuls for body in handful.bodies]
            assert self.sink.setdefault(number, rows) == rows, "a batch is the same again"
            self.home.die_perhaps()
        self.committed = len(self.offsets)
        self.home.die_perhaps()


def run(seed: int) -> Home:
    rng = Random(seed)
    most = rng.randint(1, 6)
    home = Home(rng, 2 * most)
    spark = Spark(home, most)
    for _ in range(25):
        home.publish(rng.randint(0, 12))
        home.restart()
        with suppress(KilledError):
            spark.life(final=rng.random() < 0.5)
    home.quiet = True
    home.restart()
    spark.life()
    had = Counter(int(body) for rows in spark.sink.values() for body in rows)
    assert set(had.values()) <= {1}, "no event is in two batches"
    assert had.keys() | set(home.others) == set(range(1, home.last + 1))
    assert not home.queue, "what was committed is acknowledged"
    return home


@pytest.mark.long
def test_each_event_is_in_one_batch_whenever_the_query_is_killed() -> None:
    homes = [run(seed) for seed in range(150)]
    assert any(home.reads for home in homes), "batches were found again"
    assert any(home.others for home in homes)


@pytest.mark.soak
def test_each_event_is_in_one_batch_in_many_more_runs() -> None:
    for seed in range(150, 6000):
        run(seed)


# --- one by one -----------------------------------------------------------------------------------


def planned(*, published: int = 0, fail: bool = True) -> tuple[Home, SessionPlanner]:
    home = Home(Random(1), 100)
    home.quiet = True
    home.alone = True
    home.publish(published)
    return home, SessionPlanner(home, RULES._replace(fail=fail))


def test_nothing_is_acknowledged_before_the_commit_and_a_pause_brings_it() -> None:
    home, planner = planned(published=5)
    start = planner.initial()
    first = planner.latest(start, 3)
    assert first.positions == ((1, 3),)
    assert [list(each.bodies) for each in planner.handfuls(start, first)] == [[b"1", b"2", b"3"]]
    second = planner.latest(first, 3)
    assert (second.positions, second.before) == (((4, 5),), ((1, 3),))
    assert len(home.queue) == 5
    planner.commit(first)
    assert sorted(home.queue) == [4, 5]
    pause = planner.latest(second, 3)
    assert (pause.positions, pause.before) == ((), ((4, 5),))
    assert planner.handfuls(second, pause) == []
    planner.commit(second)
    assert not home.queue
    assert planner.latest(pause, 3) == pause


def test_a_batch_is_cut_where_its_bodies_are_many_bytes() -> None:
    home, planner = planned(published=4)
    home.queue |= dict.fromkeys((1, 2, 4), bytes(MOST_BATCH_BYTES // 2))
    offset = planner.initial()
    cuts = []
    while offset.number < 3:
        offset = planner.latest(offset, None)
        cuts.append(offset.positions)
    assert cuts == [((1, 2),), ((3, 4),), ()]


def test_rows_are_cut_into_tasks_in_their_order() -> None:
    home, planner = planned(published=5000)
    home.window = 5000
    start = planner.initial()
    handfuls = planner.handfuls(start, planner.latest(start, None))
    assert len(handfuls) == 3
    assert [int(body) for each in handfuls for body in each.bodies] == list(range(1, 5001))


def test_a_query_that_is_to_end_takes_what_was_owed_when_it_began() -> None:
    home, planner = planned(published=5)
    planner.end_with_what_is_owed()
    home.publish(5)
    offset = planner.initial()
    had = 0
    while (end := planner.latest(offset, 2)) != offset:
        had += sum(len(each.bodies) for each in planner.handfuls(offset, end))
        planner.commit(offset)
        offset = end
    assert had == 5
    assert sorted(home.queue) == [6, 7, 8, 9, 10]


def test_what_the_session_does_not_owe_any_more_is_data_loss() -> None:
    home, planner = planned(published=3)
    start = planner.initial()
    end = planner.latest(start, None)
    del home.queue[2]
    again = SessionPlanner(home, RULES)
    with pytest.raises(LocalError, match=r"1 event of a batch .* session 's' .* failOnDataLoss"):
        again.handfuls(start, end)
    [rest] = SessionPlanner(home, RULES._replace(fail=False)).handfuls(start, end)
    assert rest.bodies == (b"1", b"3")


def test_a_session_that_was_made_anew_is_not_the_one_of_the_checkpoint() -> None:
    home, planner = planned(published=3)
    old = planner.latest(planner.initial(), None)
    home.born = 2
    home.queue.clear()
    home.last = 0
    home.publish(2)
    with pytest.raises(LocalError, match="not the one that the checkpoint speaks of"):
        SessionPlanner(home, RULES).latest(old, None)
    again = SessionPlanner(home, RULES._replace(fail=False))
    assert again.handfuls(again.initial(), old) == []
    home.out.clear()
    new = again.latest(old, None)
    again.commit(old)
    assert len(home.queue) == 2, "positions of the other session are not acknowledged in this one"
    assert (new.life, new.positions, new.before) == (2, ((1, 2),), ())


def test_a_checkpoint_of_another_kind_of_query_is_told_in_a_sentence() -> None:
    with pytest.raises(ConfigurationError, match="without the option session"):
        SessionOffset.of_json(Offset(7).to_json())
    with pytest.raises(ConfigurationError, match="with the option session"):
        Offset.of_json(SessionOffset(7, 1).to_json())


# --- options --------------------------------------------------------------------------------------

HOME = {"url": "reefcast://127.0.0.1:1", "session": "billing"}


def test_topics_and_a_filter_are_one_subscription() -> None:
    given = HOME | {"subscribe": "fx", "filter": "n > 1", "maxoffsetspertrigger": "5"}
    options = session_options(given)
    assert (options.filter, options.most_rows) == ("(topic MATCHES 'fx') AND (n > 1)", 5)
    assert session_options(HOME).filter == ""
    assert is_of_session({"Session": "x"})
    assert not is_of_session({"session": " "})


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"since": "0"}, "options session and since contradict each other: a session hands out"),
        ({"startingoffsets": "earliest"}, "options session and startingOffsets contradict"),
        ({"settleSeconds": "1"}, "options session and settleSeconds contradict"),
        ({"lateSeconds": "1"}, "options session and lateSeconds contradict"),
        ({"until": "1"}, "options session and until contradict"),
        ({"maxOffsetsPerTrigger": "40000"}, "a batch of a session has at most 32768 events"),
        ({"filtr": "n = 1"}, "no option 'filtr' .* did you mean filter"),
        ({"session": "x" * 201}, "at most 200 characters"),
        ({"url": "reefcast://127.0.0.1:1,reefcast://127.0.0.1:2"}, "the address of that broker"),
    ],
)
def test_options_that_contradict_a_session_are_refused(
    options: dict[str, str], sentence: str
) -> None:
    with pytest.raises(ConfigurationError, match=sentence):
        session_options(HOME | options)


def test_what_does_not_go_with_a_look_into_a_session_is_refused() -> None:
    assert look_options(HOME).name == "billing"
    for name in ("filter", "subscribe", "since", "until", "minPartitions", "startingOffsets"):
        with pytest.raises(ConfigurationError, match=f"session and {name} .* where"):
            look_options(HOME | {name: "x"})

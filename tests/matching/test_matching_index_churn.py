"""The index against its twin while filters come and go, for long enough that every change of its
tables happens. Which changes happened is read from its memory, so that the tests cannot miss them
unnoticed."""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from matching_harness import WORKLOADS, Both, Workload, change, default_blocks, event

from reefcast.model.filters import Filter, parse_filter
from reefcast.model.publication import Publication


class Churn:
    """A machine that adds and removes random filters of a pool, and compares with the twin now and
    then, and after each of the first few changes of a kind."""

    def __init__(self, rng: Random, make_event: Workload | None = None) -> None:
        self.rng = rng
        self.both = Both()
        self.live: list[int] = []
        self.keys = count()
        self.workload = make_event
        self.pool: list[Filter] = []
        self.changes: Counter[str] = Counter()
        self._blocks = default_blocks(self.both.index)

    def event(self) -> Publication:
        assert self.workload is not None
        return self.workload.event(self.rng)

    def check(self, events: int = 8) -> None:
        self.both.check([self.event() for _ in range(events)])

    def add(self) -> None:
        key = next(self.keys)
        self.both.add(key, self.rng.choice(self.pool))
        self.live.append(key)
        self._look()

    def remove(self, oldest: bool = False) -> None:
        i = 0 if oldest else self.rng.randrange(len(self.live))
        self.live[i], self.live[-1] = self.live[-1], self.live[i]
        self.both.remove(self.live.pop())
        self._look()

    def _look(self) -> None:
        after = default_blocks(self.both.index)
        name = change(self._blocks, after)
        self._blocks = after
        if name:
            self.changes[name] += 1
            if self.changes[name] <= 3:
                self.check(3)

    def grow(self, to: int, share_of_removes: float = 0.25, every: int = 200) -> None:
        while len(self.live) < to:
            self.add()
            if self.rng.random() < share_of_removes:
                self.remove()
            if len(self.live) % every == 0:
                self.check()

    def shrink(self, to: int, every: int = 300) -> None:
        while len(self.live) > to:
            self.remove()
            if len(self.live) % every == 0:
                self.check()

    def use(self, workload: Workload, filters: int) -> None:
        self.workload = workload
        self.pool = [workload.filter(self.rng) for _ in range(filters)]


# --- blocks of the default partition --------------------------------------------------------------


def range_workload(centre: float) -> Workload:
    """Return filters without equalities, so that nothing leaves the default partition."""

    def predicate(rng: Random) -> str:
        low = centre + rng.gauss(0, 10)
        text = f"{centre:g} {rng.randrange(60)}"
        return rng.choice(
            (
                f"x BETWEEN {low} AND {low + 8 * rng.random()}",
                f"y > {low}",
                f"y IN ({low}, {int(low)}, {int(low) + 1})",
                f"x <> {int(low)}",
                f"s < '{text}'",
                f"s IN ('{text}', '{centre:g} 7')",
                f"s LIKE '{text}%'",
                f"s NOT LIKE '%{text[-1]}'",
                "b IS NULL",
                "b",
                f"x > y + {int(rng.gauss(0, 9))}",
            )
        )

    def draw(rng: Random) -> Publication:
        number = centre + rng.gauss(0, 10)
        attributes = {
            "x": rng.choice((number, int(number))),
            "y": rng.choice((centre + rng.gauss(0, 10), int(number), "no number")),
            "s": rng.choice((f"{centre:g} {rng.randrange(60)}", f"{centre:g} 7 or more", "é")),
            "b": rng.random() < 0.5,
        }
        return event({name: value for name, value in attributes.items() if rng.random() < 0.85})

    return Workload(predicate, draw)


@pytest.mark.long
def test_blocks_come_grow_and_go() -> None:
    churn = Churn(Random(1))
    churn.use(range_workload(0), 250)
    churn.grow(to=60, every=10)
    churn.shrink(to=4, every=10)  # a list again
    churn.grow(to=600, share_of_removes=0.6)
    churn.grow(to=5300, share_of_removes=0.15, every=400)
    assert [block.capacity for block in default_blocks(churn.both.index)][:-1] == [4096]
    churn.use(range_workload(1000), 250)  # what comes now, the cuts do not fit
    churn.grow(to=16_000, share_of_removes=0, every=1500)
    while len(churn.live) > 9000:  # mostly the first, so that whole blocks become empty
        churn.remove(oldest=churn.rng.random() < 0.9)
    churn.check()
    churn.shrink(to=3, every=800)
    assert churn.changes.keys() >= {
        *("to blocks", "to a list", "grown anew", "grown", "next block", "compacted", "shrunk"),
        "merged",
    }
    while churn.live:
        churn.remove()
    churn.check(2)
    assert default_blocks(churn.both.index) == []


@pytest.mark.long
def test_cuts_follow_the_values() -> None:
    """Later rows lie beyond all cuts of the first ones, and share a slot until there are new
    cuts."""

    def predicate(rng: Random) -> str:
        low = centre + 100 * rng.random()
        return f"{rng.choice('xyz')} BETWEEN {low} AND {low + 4}"

    def draw(rng: Random) -> Publication:
        return event({name: centre + 100 * rng.random() for name in "xyz"})

    centre = 0
    churn = Churn(Random(4))
    churn.use(Workload(predicate, draw), 400)
    churn.grow(to=5000, share_of_removes=0, every=1000)
    assert not churn.changes["refitted"]
    centre = 1000
    churn.use(Workload(predicate, draw), 400)
    churn.grow(to=9500, share_of_removes=0, every=1000)
    assert churn.changes["refitted"]
    first, *_, last = default_blocks(churn.both.index)
    assert first.cuts < last.cuts
    churn.shrink(to=1000, every=1000)


def test_rows_that_stay_when_others_have_partitions_get_cuts_of_their_own() -> None:
    both = Both()
    for key in range(1100):
        both.add(key, parse_filter(f"s = 'v{key % 40}' AND x > {key % 7}"))
    assert [each["attribute"] for each in both.index.plan()["partitions"]] == ["s"]
    for key in range(1100, 1400):
        both.add(key, parse_filter(f"x > {key} AND y < {key % 50}"))
    found = both.index.plan()["default"]
    assert found["rows"] == 300
    assert [each["name"] for each in found["attributes"]] == ["x", "y"]
    both.check([event({"x": 1300, "y": y}) for y in (0, 25, 60)])


# --- partitions -----------------------------------------------------------------------------------


def by(churn: Churn) -> dict[tuple[str, str], dict[str, int]]:
    """Return what `plan` says of the partitions, by attribute and kind."""
    partitions = churn.both.index.plan()["partitions"]
    return {(each["attribute"], each["by"]): each for each in partitions}


@pytest.mark.long
def test_partitions_by_value_come_and_go() -> None:
    churn = Churn(Random(2))
    churn.use(WORKLOADS["symbols"], 900)
    churn.grow(to=3000, share_of_removes=0, every=500)
    rows = churn.both.index.plan()["default"]["rows"]
    largest = by(churn)
    for name in ("sym", "id"):
        assert largest[name, "value"]["bitmaps"] > 0
        assert largest[name, "value"]["checked_one_by_one"] > 50
    churn.grow(to=9000, share_of_removes=0.3, every=1000)
    assert by(churn)["sym", "value"]["largest_rows"] > 128  # grown in a partition
    # What is learned is moved: rows wait in the default partition no longer than for a block.
    assert churn.both.index.plan()["default"]["rows"] < 4 * rows + 4000
    churn.shrink(to=400, every=900)
    assert by(churn)["sym", "value"]["values"] < largest["sym", "value"]["values"]
    churn.grow(to=800)
    churn.shrink(to=0)
    churn.check(2)
    assert by(churn) == {}


@pytest.mark.long
def test_partitions_by_presence_come_and_go() -> None:
    churn = Churn(Random(3))
    churn.use(WORKLOADS["rare"], 900)
    churn.grow(to=6000, share_of_removes=0.1, every=1000)
    present = [each for (_, way), each in by(churn).items() if way == "presence"]
    assert len(present) > 100
    assert sum(each["bitmaps"] for each in present) > 0
    assert sum(each["checked_one_by_one"] for each in present) > 0
    churn.shrink(to=0, every=1500)
    churn.check(2)
    assert by(churn) == {}


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(1, 3))]
)
def test_everything_at_once(seed: int) -> None:
    churn = Churn(Random(seed))
    churn.use(WORKLOADS["any"], 700)
    churn.grow(to=2600, every=250)
    plan = churn.both.index.plan()
    assert plan["with_residuals"] > 100
    assert len(plan["partitions"]) >= 2
    churn.shrink(to=100)
    churn.use(WORKLOADS["any"], 300)
    churn.grow(to=900)
    churn.shrink(to=0)
    churn.check(2)


def test_filters_learn_together_and_part_again() -> None:
    """An attribute keeps the type that was learned only while some filter knows it."""
    both = Both()
    for cycle in range(3):
        for key in range(1500):
            value = f"'v{key % 40}'" if cycle == 1 else str(key % 40)
            both.add(key, parse_filter(f"n{cycle} = {value} AND x > {key % 7}"))
        events = [
            event({f"n{cycle}": value, "x": x})
            for value in (3, "v3", 3.0, 3.5, True)
            for x in (0, 4, "v3")
        ]
        both.check(events)
        assert [each["attribute"] for each in both.index.plan()["partitions"]] == [f"n{cycle}"]
        for key in range(1500):
            both.remove(key)
        both.check(events)
        assert both.index.plan()["partitions"] == []


# --- any sequence of calls ------------------------------------------------------------------------


class Calls(RuleBasedStateMachine):
    """A state machine in which hypothesis looks for a short sequence of calls that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.both = Both()
        self.keys = count()

    @initialize(seed=st.integers(0, 2**32))
    def start(self, seed: int) -> None:
        self.rng = Random(seed)

    @rule(workload=st.sampled_from(list(WORKLOADS)), copies=st.sampled_from([1, 2, 30, 70]))
    def add(self, workload: str, copies: int) -> None:
        filter = WORKLOADS[workload].filter(self.rng)
        for _ in range(copies):
            self.both.add(next(self.keys), filter)

    @rule(share=st.sampled_from([0.02, 0.5, 0.9, 1]), oldest=st.booleans())
    def remove(self, share: float, oldest: bool) -> None:
        keys = list(self.both.filters)
        if not oldest:
            self.rng.shuffle(keys)
        for key in keys[: int(share * len(keys) + 0.99)]:
            self.both.remove(key)

    @invariant()
    def agrees(self) -> None:
        if self.both.filters:
            self.both.check([WORKLOADS[name].event(self.rng) for name in WORKLOADS])


CallsTest = Calls.TestCase
CallsTest.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


# --- long -----------------------------------------------------------------------------------------


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", [*WORKLOADS, "ranges"])
def test_soak_of_churn(name: str, seed: int) -> None:
    """Twenty thousand filters, most of them different, come and go three times."""
    churn = Churn(Random(seed))
    for cycle in range(3):
        churn.use(WORKLOADS[name] if name in WORKLOADS else range_workload(300 * cycle), 4000)
        churn.grow(to=20_000, share_of_removes=0.1 * cycle, every=2000)
        churn.shrink(to=(7000, 30, 0)[cycle], every=2000)
        churn.check(20)
    assert churn.both.index.plan()["rows"] == 0

"""Sketches against plain sets: what there is now and was not then."""

from __future__ import annotations

import random
from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.pipeline.connector.ids import Ids, mixed
from reefcast.pipeline.connector.sketches import Sketch

Event = tuple[int, int]
"""The number of a publisher, and that of its event."""


def ids(events: Iterable[Event]) -> Ids:
    """Return the ids of events: their times are in no order."""
    some = list(events)
    publishers = mixed(np.array([publisher for publisher, _ in some], np.uint64))
    seqs = np.array([seq for _, seq in some], np.int64)
    hashes = mixed(publishers + seqs.view(np.uint64))
    return Ids(hashes.view(np.int64), hashes, publishers, seqs)


def hashes(events: Iterable[Event]) -> set[int]:
    return set(ids(events).hashes.tolist())


def stored(sketch: Sketch) -> Sketch:
    return Sketch.of_text(str(sketch))


events = st.sets(st.tuples(st.integers(0, 3), st.integers(0, 40)), max_size=25)


@given(events, events, events)
@example({(0, 0)}, set(), {(1, 0)})
def test_what_two_sets_differ_in_is_told(
    both: set[Event], now: set[Event], then: set[Event]
) -> None:
    crowd = [(9, seq) for seq in range(1000)]
    now, then = now - both, then - both
    before = stored(Sketch(ids(crowd)).plus(Sketch(ids(both)))).plus(Sketch(ids(then)))
    found = before.missed(ids([*crowd, *both, *now]))
    assert found is not None
    assert set(found.more.tolist()) == hashes(now - then)
    assert set(found.less.tolist()) == hashes(then - now)


@given(st.integers(0, 2**32))
def test_runs_of_some_publishers_and_single_events_are_told_together(seed: int) -> None:
    """Of each of some publishers any number of events is missing that follow on each other; of the
    others some 30 events, whichever."""
    rng = random.Random(seed)
    publishers = rng.choice((2, 7, 40))
    seqs = {publisher: sorted(rng.sample(range(10_000), 300)) for publisher in range(publishers)}
    cut_off = rng.sample(range(publishers), rng.randrange(publishers))
    now = [(publisher, seq) for publisher, some in seqs.items() for seq in some]
    late = set(rng.sample([each for each in now if each[0] not in cut_off], rng.randrange(30)))
    for publisher in cut_off:
        first, count = rng.randrange(300), rng.choice((1, 50, 300))
        late |= {(publisher, seq) for seq in seqs[publisher][first : first + count]}
    seen = ids(event for event in now if event not in late)
    found = stored(Sketch(seen)).missed(ids(now))
    assert found is not None and not len(found.less)
    assert set(found.more.tolist()) == hashes(late)


@pytest.mark.parametrize("heard", [0, 1, 500])
def test_all_of_hundreds_of_publishers_may_be_late(heard: int) -> None:
    """Whether they were heard of before, or not."""
    seen = ids((publisher, seq) for publisher in range(heard) for seq in range(5))
    now = ids((publisher, seq) for publisher in range(500) for seq in range(45))
    found = stored(Sketch(seen)).missed(now)
    assert found is not None and len(found.more) == 500 * 45 - heard * 5


@given(st.integers(0, 2**32))
def test_a_sketch_never_tells_anything_wrong(seed: int) -> None:
    rng = random.Random(seed)
    some = ids({(rng.randrange(9), rng.getrandbits(60)) for _ in range(rng.randrange(60, 400))})
    share = rng.choice((0.02, 0.5, 1))
    now = some.where(np.array([rng.random() > share for _ in some.hashes], bool))
    found = Sketch(now).missed(some)
    assert found is None or (
        set(found.more.tolist()) == set(some.hashes.tolist()) - set(now.hashes.tolist())
        and not len(found.less)
    )


def test_sketches_of_older_versions_tell_single_events() -> None:
    seen, now = [(1, n) for n in range(50)], [(1, n) for n in range(90)]
    old = stored(Sketch(ids(seen), third=0))
    assert old.third == 0
    found = old.missed(ids(now))
    assert found is not None and len(found.more) == 40
    assert old.missed(ids((1, n) for n in range(500))) is None


@pytest.mark.parametrize("third", [0, 48])
def test_an_empty_sketch_goes_with_those_of_any_version(third: int) -> None:
    """Its text, which is empty, does not say of which version it is."""
    empty, some = Sketch.of_text(""), Sketch(ids((1, n) for n in range(9)), third)
    assert str(some.minus(empty)) == str(some.plus(empty)) == str(empty.plus(some)) == str(some)
    assert str(empty.minus(some).plus(some)) == str(empty) == ""

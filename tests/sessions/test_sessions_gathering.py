"""Gathered happenings: none is left out, none is told too often, and none waits too long."""

from __future__ import annotations

from collections import Counter
from math import inf

from hypothesis import given
from hypothesis import strategies as st

from reefcast.sessions.gathering import Gathered
from reefcast.sessions.outcome import Advisory, Told

INTERVAL_S = 1.0

happenings = st.builds(
    Advisory,
    st.sampled_from((Told.FULL, Told.DROPPED, Told.EXPIRED)),
    st.sampled_from(("", "anna")),
    st.sampled_from(("s", "t")),
    count=st.integers(1, 5),
    ids=st.sampled_from(((), (("p", 1),), (("p", 2),))),
    quiet=st.booleans(),
)
scripts = st.lists(
    st.tuples(st.sampled_from((0.0, 0.125, 0.5, 1.0, 4.0)), st.lists(happenings, max_size=4)),
    max_size=30,
)


def subject(each: Advisory) -> tuple[object, ...]:
    return each.kind, each.owner, each.session, bool(each.ids)


@given(scripts)
def test_all_that_happened_is_told_and_no_subject_more_often_than_once_in_an_interval(
    script: list[tuple[float, list[Advisory]]],
) -> None:
    gathered, now = Gathered(INTERVAL_S), 0.0
    happened: Counter[tuple[object, ...]] = Counter()
    told: Counter[tuple[object, ...]] = Counter()
    last_s: dict[tuple[object, ...], float] = {}
    since_s: dict[tuple[object, ...], float] = {}

    def take() -> None:
        for each in gathered.take(now):
            key = subject(each)
            assert now - last_s.get(key, -inf) >= INTERVAL_S
            assert not each.quiet
            last_s[key] = now
            told[key] += each.count
            del since_s[key]

    for pause_s, news in script:
        end_s = now + pause_s
        while (due_s := max(gathered.due_s(), now)) <= end_s:
            now = due_s
            take()
        now = end_s
        gathered.add(news)
        for each in news:
            if not each.quiet:
                happened[subject(each)] += each.count
                since_s.setdefault(subject(each), now)
        # Who was not told of lately is told at once, and nobody waits for more than the interval.
        for key, from_s in since_s.items():
            assert gathered.due_s() <= max(from_s, last_s.get(key, -inf) + INTERVAL_S)
        assert (gathered.due_s() == inf) == (not since_s)
    while gathered.due_s() < inf:
        now = max(now, gathered.due_s())
        take()
    assert told == happened


def test_the_first_event_and_the_last_consumer_and_reason_are_named() -> None:
    gathered = Gathered(INTERVAL_S)
    gathered.add([Advisory(Told.DROPPED, "", "s", count=2, ids=(("p", 1),), reason="full")])
    assert [each.count for each in gathered.take(0.0)] == [2]
    gathered.add([Advisory(Told.DROPPED, "", "s", ids=(("p", 3),), reason="full")])
    gathered.add([Advisory(Told.DROPPED, "", "s", ids=(("p", 4),), reason="too old")])
    assert gathered.take(0.5) == []
    assert gathered.take(1.0) == [
        Advisory(Told.DROPPED, "", "s", count=2, ids=(("p", 3),), reason="too old")
    ]

"""The memory of ids that came before, against a list of all that ever came."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from reefcast.model.publication import PublicationId
from reefcast.routing.gossip import seen
from reefcast.routing.gossip.seen import SeenIds

IDS = st.tuples(st.sampled_from("pqr"), st.integers(1, 30))


@given(st.lists(IDS, max_size=120), st.integers(1, 8))
def test_nothing_is_new_twice_however_little_is_remembered(
    came: list[PublicationId], remembered: int
) -> None:
    memory = SeenIds(remembered)
    before: set[PublicationId] = set()
    for id in came:
        known = id in memory
        new = memory.is_new(id)
        assert new is not known
        assert not (new and id in before)
        before.add(id)


@given(st.lists(IDS, max_size=60))
def test_what_is_remembered_is_told_exactly(came: list[PublicationId]) -> None:
    memory = SeenIds(60)
    assert [memory.is_new(id) for id in came] == [id not in came[:n] for n, id in enumerate(came)]


@given(st.integers(0, 2**32))
def test_in_order_all_is_new_once(seed: int) -> None:
    """Ids that come late by less than the memory's length are recognised, too."""
    rng, memory = random.Random(seed), SeenIds(16)
    order = sorted(range(1, 200), key=lambda seq: seq + rng.uniform(0, 8))
    assert all(memory.is_new(("p", seq)) for seq in order)
    assert not any(memory.is_new(("p", seq)) for seq in order)


def test_publishers_of_long_ago_are_forgotten(monkeypatch) -> None:
    monkeypatch.setattr(seen, "MOST_PUBLISHERS", 3)
    memory = SeenIds(1)
    for number in range(10):
        memory.is_new((f"p{number}", 1))
    known = [number for number in range(10) if (f"p{number}", 1) in memory]
    assert known == [5, 6, 7, 8, 9]

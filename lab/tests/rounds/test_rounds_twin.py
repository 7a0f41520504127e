"""The twin on arrays has the views of the state machine after each round, by both rules."""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.routing.gossip.messages import Adopt, TopicMessage
from reefcast.routing.gossip.options import GossipOptions
from reefcast_lab.rounds.overlays import Overlays, starting_overlays
from reefcast_lab.rounds.rounds import Rounds
from reefcast_lab.rounds.twin import Twin

RULES = ("witness", "greedy")
Rule = Literal["witness", "greedy"]


def compared(start: Overlays, options: GossipOptions, rounds: int) -> Counter[type[TopicMessage]]:
    """Run both, and compare everything; return what was sent."""
    machine, twin = Rounds(start.views(), options), Twin(start, options)
    for _ in range(rounds):
        changed = machine.round(), twin.round()
        assert machine.views() == twin.overlays.views()
        assert changed[0] == changed[1]
        assert (machine.total(), machine.unique()) == (twin.total(), twin.unique())
    return machine.counts


def random_start(rng: random.Random) -> Overlays:
    """Return a random start with names of any length; half are sparse, so that there are orphans
    and empty views."""
    nodes = [f"{'é' * rng.randint(0, 12)}{i}" for i in range(rng.randint(2, 30))]
    interests = {f"t{i}": rng.sample(nodes, rng.randint(1, len(nodes))) for i in range(3)}
    if rng.random() < 0.5:
        return starting_overlays(interests, rng.getrandbits(32))
    views = {}
    for topic, members in interests.items():
        most = rng.randint(0, min(3, len(members) - 1))
        views[topic] = {
            me: rng.sample([x for x in members if x != me], rng.randint(0, most)) for me in members
        }
    return Overlays.of(views)


@pytest.mark.parametrize("rule", RULES)
@settings(max_examples=60)
@given(number=st.integers(0, 2**32))
def test_any_start(rule: Rule, number: int) -> None:
    rng = random.Random(number)
    options = GossipOptions(rule=rule, seed=rng.getrandbits(63), ttl=rng.randint(1, 7))
    compared(random_start(rng), options, rounds=5)


@pytest.mark.parametrize("rule", RULES)
def test_many_rounds_with_orphans(rule: Rule) -> None:
    """Searches meet in these runs: several come to one node in a step, and parents are orphans."""
    rng = random.Random(5)
    nodes = [f"n{i}" for i in range(300)]
    views = {
        f"t{size}": {
            node: rng.sample([other for other in nodes[:size] if other != node], 3)
            for node in nodes[:size]
        }
        for size in (300, 150, 40, 10)
    }
    counts = compared(Overlays.of(views), GossipOptions(rule=rule, seed=3), rounds=25)
    assert counts[Adopt] > 20


def test_the_start_is_left_as_it_was() -> None:
    start = starting_overlays({"t": [f"n{i}" for i in range(40)]}, seed=1)
    before = start.views()
    twin = Twin(start, GossipOptions())
    twin.round()
    assert start.views() == before != twin.overlays.views()
    assert twin.number == 1

"""Partitions: two halves of a network cannot reach each other for some time, or all connections
break at once. Afterwards the topics are whole again at once, and what was published meanwhile
reaches everybody."""

from __future__ import annotations

import random

import networkx as nx
import pytest
from gossip_cores import Cores
from hypothesis import given, settings
from hypothesis import strategies as st

from reefcast.routing.gossip.options import GossipOptions

SEEDS = st.integers(0, 2**32)
HEALED = 5
"""After how many rounds all topics are whole again."""
WAVES_HEAL = 50
"""The same where simultaneous walks have cut a node off, as they may at any time."""


def running(seed: int) -> tuple[Cores, random.Random, list[str]]:
    """Return a network of seven to twelve brokers in a few topics each, and the topics."""
    rng = random.Random(seed)
    names = [f"b{number:02}" for number in range(rng.randint(7, 12))]
    topics = [f"t{number}" for number in range(rng.randint(1, 4))]
    contacts = tuple(rng.sample(names, rng.randint(1, 3)))
    cores = Cores(names, GossipOptions(contacts=contacts, repair=rng.random() < 0.5), rng)
    for name in names:
        cores.subscribe(name, rng.sample(topics, rng.randint(1, len(topics))))
        cores.steps(rng.randrange(200))
    cores.settle()
    cores.rounds(rng.randint(1, 12))
    cores.publish_some(5)
    cores.rounds(2)
    return cores, rng, topics


def whole(cores: Cores, topics: list[str]) -> bool:
    graphs = [cores.graph(topic) for topic in topics]
    return all(not graph or nx.is_strongly_connected(graph) for graph in graphs)


def rounds_until_whole(cores: Cores, topics: list[str]) -> int:
    for number in range(1, WAVES_HEAL + 1):
        cores.rounds(1)
        if whole(cores, topics):
            return number
    raise AssertionError("topics did not become whole again")


def check_partition(seed: int, rounds: int, told: bool) -> int:
    """Divide and rejoin a network; return how many rounds it took until all topics were whole.
    `told`: brokers learn which publications the partition lost on the way."""
    cores, rng, topics = running(seed)
    half = rng.sample(list(cores.brokers), rng.randint(1, len(cores.brokers) - 1))
    cores.publish_some(3)
    cores.divide(half, told)
    for _ in range(rounds):
        cores.publish_some(rng.randint(0, 3))
        cores.rounds(1)
    cores.publish_some(3)
    cores.heal()
    cores.publish_some(3)
    took = rounds_until_whole(cores, topics)
    assert cores.missing() == []
    cores.publish_some(10)
    rounds_until_whole(cores, topics)
    assert cores.missing() == []
    return took


@pytest.mark.long
@given(SEEDS, st.integers(1, 45), st.booleans())
@settings(max_examples=8, deadline=None)
def test_after_a_partition_both_halves_get_all(seed: int, rounds: int, told: bool) -> None:
    check_partition(seed, rounds, told)


@pytest.mark.long
@pytest.mark.parametrize(
    "seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.soak) for seed in range(2, 8))]
)
def test_topics_are_whole_soon_after_a_partition_of_half_a_minute(seed: int) -> None:
    assert check_partition(seed, 30, told=True) <= HEALED


def check_reset(seed: int, told: bool) -> None:
    cores, _, topics = running(seed)
    for _ in range(3):
        cores.publish_some(10)
        cores.break_up(cores.connections, told)
        cores.publish_some(3)
        rounds_until_whole(cores, topics)
        assert cores.missing() == []


@given(SEEDS, st.booleans())
@settings(max_examples=15, deadline=None)
def test_all_connections_may_break_at_once_with_all_that_is_on_them(seed: int, told: bool) -> None:
    check_reset(seed, told)


def test_who_stays_away_is_called_now_and_then() -> None:
    """Calls become rarer the longer a node is away, and are spread over the rounds."""
    cores, _, _ = running(4)
    cores.divide(list(cores.brokers)[:5], told=True)
    cores.rounds(10)
    before = cores.dialled
    cores.rounds(50)
    assert cores.dialled - before <= 50 * 4 * len(cores.brokers)


@pytest.mark.soak
def test_many_partitions_and_resets() -> None:
    took = []
    for seed in range(600):
        took.append(check_partition(seed, seed % 55, bool(seed % 2)))
        check_reset(seed, bool(seed % 2))
    assert sum(rounds > HEALED for rounds in took) <= 6

"""The compiled greedy placement against its obvious twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import RANDOMS
from reefcast.overlay.topology import Graph, edges_of, graph, names, path, random_tree, star
from reefcast.pipeline.planning.placement.greedy import choices


def ways(overlay: Graph, sources: list[str]) -> dict[str, list[str]]:
    """Return the path of each broker to its nearest source, itself first."""
    found = {source: [source] for source in sources}
    waiting = list(found)
    for node in waiting:
        for other in overlay[node]:
            if other not in found:
                found[other] = [other, *found[node]]
                waiting.append(other)
    return found


def gain(overlay: Graph, rates: dict[str, int], sources: list[str], candidate: str) -> int:
    """Return the hops that a storage there would save the requests whose paths lead over it."""
    return sum(
        rates[start] * (len(way) - 1 - way.index(candidate))
        for start, way in ways(overlay, sources).items()
        if candidate in way
    )


def chosen_for(overlay: Graph, rates: dict[str, int], target: str, rounds: int) -> list[str]:
    chosen: list[str] = []
    for _ in range(rounds):
        left = [broker for broker in overlay if broker not in chosen]
        chosen.append(max(left, key=lambda one: gain(overlay, rates, [target, *chosen], one)))
    return chosen


@st.composite
def overlays(draw: st.DrawFn) -> Graph:
    rng = draw(RANDOMS)
    tree = random_tree(names(draw(st.integers(1, 9))), rng)
    pairs = [(a, b) for a in tree for b in tree if a < b and b not in tree[a]]
    more = rng.sample(pairs, min(len(pairs), draw(st.integers(0, 4))))
    return graph(tree, [*edges_of(tree), *more])


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(overlays(), st.data())
def test_as_often_as_the_twin_chooses(overlay: Graph, data: st.DataObject) -> None:
    rounds = data.draw(st.integers(1, min(4, len(overlay))))
    row = st.lists(st.integers(0, 9), min_size=len(overlay), max_size=len(overlay))
    table = data.draw(st.lists(row, min_size=1, max_size=3))
    found = choices(overlay, np.array(table, np.float64), rounds)
    for of_topic, counts in zip(table, found.tolist(), strict=True):
        rates = dict(zip(overlay, of_topic, strict=True))
        lists = [chosen_for(overlay, rates, target, rounds) for target in overlay]
        assert counts == [sum(broker in each for each in lists) for broker in overlay]


@pytest.mark.long
def test_gains_by_hand() -> None:
    """On a path of four brokers with a request a second each; of equal gains, the first broker's
    counts."""
    found = choices(path(names(4)), np.ones((1, 4)), 1)
    # Target b1: b2 3 x 1, b3 2 x 2, b4 1 x 3. b2: b1 1, b3 2, b4 2. b3: b1 2, b2 2. b4: b1 3, b2 4.
    assert found.tolist() == [[1, 1, 2, 0]]


def test_the_second_storage_knows_of_the_first() -> None:
    """All requests come from two leaves of a star: once one of them is served, the other gains
    most."""
    rates = np.array([[0.0, 0.0, 5.0, 4.0, 0.0]])
    found = choices(star(names(5)), rates, 2)[0].tolist()
    # Target b1 (the centre), b2, b5: b3 and b4, or the centre and then b3.
    assert found[2] >= 3
    assert sum(found) == 10

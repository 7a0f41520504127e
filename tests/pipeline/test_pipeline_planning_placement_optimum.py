"""The mixed-integer program against all placements, one after the other."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from draws import RANDOMS
from reefcast.overlay.topology import names, random_tree
from reefcast.pipeline.planning.placement.inputs import Inputs, checked, mean_hops
from reefcast.pipeline.planning.placement.steps import place

pytest.importorskip("scipy")

from reefcast.pipeline.planning.placement.optimum import optimum


def best_of_all(made: Inputs) -> float:
    sets = list(itertools.combinations(made.brokers, made.copies))
    found = []
    for chosen in itertools.product(sets, repeat=len(made.topics)):
        kept = Counter(broker for each in chosen for broker in each)
        if len(kept) <= made.storages and max(kept.values()) <= made.capacity:
            found.append(mean_hops(made, dict(zip(made.topics, chosen, strict=True))))
    return min(found)


@settings(max_examples=25, deadline=None)
@given(st.integers(2, 5), st.integers(1, 3), st.integers(1, 2), st.integers(1, 2), st.data())
def test_none_is_better(
    brokers: int, topics: int, copies: int, capacity: int, data: st.DataObject
) -> None:
    capacity = capacity if topics * copies <= brokers * capacity else topics
    rng = data.draw(RANDOMS)
    rates = np.array([[rng.randint(1, 9) for _ in range(brokers)] for _ in range(topics)], float)
    tree = random_tree(names(brokers), rng)
    made = checked(tree, tuple(names(topics)), rates, copies, capacity)
    found = optimum(made, time_limit_s=60)
    assert found is not None and found.proved
    best = best_of_all(made)
    assert mean_hops(made, found.placement) == pytest.approx(best)
    assert found.bound == pytest.approx(best)
    assert mean_hops(made, place(made).placement) >= best - 1e-9

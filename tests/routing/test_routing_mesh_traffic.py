"""What links carry and candidates would carry, counted when a period ends, against counting at
once."""

from __future__ import annotations

import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, some_links, some_tree

from reefcast.routing.mesh.maps import Neighbourhood, Wom
from reefcast.routing.mesh.strategies import Paths
from reefcast.routing.mesh.traffic import Traffic


@given(st.integers(0, 2**32))
def test_counts_at_the_end_are_those_of_counting_at_once(seed: int) -> None:
    """Links and candidates change in the middle of periods."""
    rng = random.Random(seed)
    tree = some_tree(rng)
    mom = neighbourhood(tree, rng.choice(sorted(tree)), rng.randint(1, 4))
    traffic = Traffic(mom)
    traffic.paths.direct = rng.random() < 0.5
    real: list[str] = []
    candidates: list[str] = []
    counted: Counter[str] = Counter()
    for _ in range(60):
        kind = rng.random()
        if kind < 0.1:
            assert traffic.end_period() == dict(counted)
            counted.clear()
        elif kind < 0.2:
            real = some_links(mom, rng)
            candidates = [x for x in some_links(mom, rng) if x not in {*real, *mom.around(mom.me)}]
            traffic.relink(mom, real, candidates)
        elif mom.brokers:
            anchors = [rng.choice(mom.brokers) for _ in range(rng.randint(1, 4))]
            came_from = rng.choice((None, *mom.around(mom.me)))
            direct = traffic.paths.direct
            expected = Paths(Wom(mom, real), direct).sends(anchors, came_from)
            assert traffic.sends(anchors, came_from) == expected
            both = Paths(Wom(mom, {*real, *candidates}), direct)
            would = both.sends(anchors, came_from) if expected else ()
            counted.update(expected)
            counted.update(x for x in would if x in candidates)
    assert traffic.end_period() == dict(counted)


def test_a_candidate_carries_nothing_and_is_counted() -> None:
    mom = Neighbourhood("A", {"B": "A", "C": "B", "D": "C"})
    traffic = Traffic(mom)
    traffic.relink(mom, [], ["D"])
    traffic.paths.direct = True
    assert traffic.sends(["D"], None) == ("B",)
    assert traffic.sends(["B"], None) == ("B",)
    assert traffic.end_period() == {"B": 2, "D": 1}
    traffic.relink(mom, ["D"], [])
    assert traffic.sends(["D"], None) == ("D",)
    assert traffic.end_period() == {"D": 1}


def test_strategy_and_counts_outlast_a_change_of_links() -> None:
    mom = Neighbourhood("A", {"B": "A", "C": "B", "D": "B"})
    traffic = Traffic(mom)
    traffic.paths.direct = True
    traffic.relink(mom, ["C"], [])
    traffic.sends(["C", "D"], None)
    traffic.relink(mom, ["C", "D"], [])
    assert traffic.sends(["C", "D"], None) == ("C", "D")
    assert traffic.end_period() == {"B": 1, "C": 1, "D": 1}

"""Gains of links and the rounds of link management."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from routing_mesh_network import neighbourhood, some_tree, tree_of

from reefcast.errors import ConfigurationError
from reefcast.routing.mesh.gains import (
    Limits,
    Links,
    Period,
    Round,
    gain,
    has_room,
    load_scaling,
    one_round,
)

MOM = neighbourhood(tree_of("A-B B-C C-D D-E B-F A-K K-L"), "A", 4)
"""Distances from A: B and K at 1, C, F and L at 2, D at 3, E at 4."""


def decide(links: Links, period: Period, limits: Limits, seed: int = 0) -> Round:
    return one_round(MOM, links, period, limits, random.Random(seed))


def limits(soft: int, candidates: int) -> Limits:
    return Limits(fanout=2 + soft, maxlinks=2 + soft + candidates)


def test_gain_is_traffic_times_bypassed_brokers() -> None:
    period = Period(sent={"B": 9, "C": 9, "E": 5})
    assert [gain(MOM, broker, period, 0.8) for broker in "BCE"] == [0, 9, 15]
    assert gain(MOM, "D", period, 0.8) == 0


def test_the_gain_is_boosted_where_bypassed_brokers_are_overloaded() -> None:
    """With the `min` that the paper prints the gain would be 10, and 10 * 0.2 where the brokers
    idle."""
    period = Period(sent={"D": 5}, loads={"B": 1.8, "C": 1.3, "D": 9.0})
    assert gain(MOM, "D", period, 0.8) == pytest.approx(5 * 2 * 2.0 * 1.5)
    assert gain(MOM, "D", Period(sent={"D": 5}, loads={"B": 0.1}), 0.8) == 10


def test_load_scaling_is_a_product_over_the_overloaded() -> None:
    assert load_scaling("xyz", {"x": 2.0, "y": 3.0, "z": 0.5, "w": 9.0}, 1.0) == 2 * 3


def test_the_best_candidates_take_the_place_of_weak_soft_links() -> None:
    made = decide(
        Links(opened={"C", "L"}, candidates={"D", "E", "F"}),
        Period(sent={"C": 4, "L": 1, "D": 6, "E": 1, "F": 2}),
        limits(soft=3, candidates=0),
    )
    assert (made.drop, made.promote, made.candidates) == (("L",), ("D", "E"), ())


def test_where_gains_are_equal_the_soft_link_stays() -> None:
    links = Links(opened={"L"}, candidates={"C"})
    made = decide(links, Period(sent={"C": 3, "L": 3}), limits(soft=1, candidates=0))
    assert (made.drop, made.promote) == ((), ())


def test_nothing_without_a_gain_is_kept_or_promoted() -> None:
    links = Links(opened={"L"}, candidates={"C"})
    made = decide(links, Period(sent={"B": 3}), limits(soft=3, candidates=0))
    assert (made.drop, made.promote) == (("L",), ())


def test_accepted_links_take_room_and_are_not_ours_to_drop() -> None:
    links = Links(opened={"C"}, accepted={"E", "L"}, candidates={"D"})
    made = decide(links, Period(sent={"C": 3, "D": 1}), limits(soft=3, candidates=0))
    assert (made.drop, made.promote) == ((), ())
    made = decide(links, Period(sent={"C": 3, "D": 1}), limits(soft=2, candidates=0))
    assert (made.drop, made.promote) == (("C",), ())
    made = decide(links, Period(sent={"C": 3, "D": 1}), limits(soft=1, candidates=0))
    assert (made.drop, made.promote) == (("C",), ())


def test_new_candidates_are_the_neighbours_of_links_that_carry_much() -> None:
    """The candidates are D, beyond C, then L, beyond K, and F, beyond B, in the order of what these
    links carry. E is next to none of them."""
    made = decide(
        Links(opened={"C"}),
        Period(sent={"C": 20, "K": 8, "B": 2}),
        Limits(fanout=4, maxlinks=5),
    )
    assert made.candidates == ("D", "L")


def test_at_the_start_primary_links_show_where_to_look() -> None:
    made = decide(Links(), Period(sent={"B": 2, "K": 9}), Limits(fanout=3, maxlinks=4))
    assert made.candidates[0] == "L"


def test_candidates_that_bypass_loaded_brokers_come_first() -> None:
    sent = {"B": 10, "K": 10}
    for loaded, first in (("B", {"C", "F"}), ("K", {"L"})):
        for seed in range(5):
            period = Period(sent=sent, loads={loaded: 1.5})
            assert decide(Links(), period, limits(0, 1), seed).candidates[0] in first


def test_candidates_that_bypass_slow_links_come_first() -> None:
    sent = {"B": 10, "K": 10}
    delays_s = dict.fromkeys("BCDEFKL", 0.001)
    for slow, first in (("B", {"C", "F"}), ("K", {"L"})):
        for seed in range(5):
            period = Period(sent=sent, delays_s=delays_s | {slow: 0.05})
            assert decide(Links(), period, limits(0, 1), seed).candidates[0] in first


def test_among_equals_the_generator_chooses() -> None:
    seen = {decide(Links(), Period(sent={}), limits(0, 1), seed).candidates for seed in range(40)}
    assert seen == {("C",), ("D",), ("E",), ("F",), ("L",)}


def test_what_was_tried_in_vain_makes_room_for_others() -> None:
    links = Links(candidates={"C", "F"})
    made = decide(links, Period(sent={"B": 10}), limits(soft=0, candidates=3))
    assert not set(made.candidates) & {"C", "F"}
    made = decide(links, Period(sent={"B": 10}), limits(soft=0, candidates=5))
    assert set(made.candidates) == {"C", "D", "E", "F", "L"}


def test_a_period_without_publications_teaches_nothing() -> None:
    links = Links(opened={"C"}, candidates={"D"})
    made = decide(links, Period(sent={"C": 0}), limits(soft=1, candidates=1))
    assert made == Round((), (), ("D",))
    made = decide(links, Period(sent={}), limits(soft=0, candidates=1))
    assert made == Round(("C",), (), ("D",))


def test_a_link_is_accepted_up_to_the_fanout() -> None:
    assert has_room(MOM, 2, Limits(fanout=5, maxlinks=5))
    assert not has_room(MOM, 3, Limits(fanout=5, maxlinks=5))


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="fanout = 6 and maxlinks = 5"):
        Limits(fanout=6, maxlinks=5)
    with pytest.raises(ConfigurationError, match="fanout = 0"):
        Limits(fanout=0, maxlinks=5)


@given(st.integers(0, 2**32))
def test_a_round_keeps_the_limits_and_the_generator_decides(seed: int) -> None:
    rng = random.Random(seed)
    tree = some_tree(rng)
    mom = neighbourhood(tree, rng.choice(sorted(tree)), 4)
    far = [broker for broker in mom.brokers if mom.distance(broker) > 1]
    kinds = {broker: rng.choice(["opened", "accepted", "candidates", ""]) for broker in far}
    links = Links(
        **{kind: {x for x in far if kinds[x] == kind} for kind in set(kinds.values()) if kind}
    )
    sent = {x: rng.randrange(4) for x in mom.brokers if kinds.get(x) != ""}
    period = Period(sent=sent, loads={x: rng.random() * 2 for x in mom.brokers})
    fanout = rng.randint(1, 12)
    bounds = Limits(fanout=fanout, maxlinks=fanout + rng.randint(0, 8))
    made = one_round(mom, links, period, bounds, random.Random(seed))
    assert made == one_round(mom, links, period, bounds, random.Random(seed))
    primary = len(mom.around(mom.me))
    soft = (links.opened | links.accepted | set(made.promote)) - set(made.drop)
    assert set(made.drop) <= links.opened
    assert set(made.promote) <= links.candidates
    assert not set(made.candidates) & soft
    assert set(made.candidates) <= set(far)
    if len(soft) > len(links.accepted):
        assert primary + len(soft) <= bounds.fanout
    if made.candidates:
        assert primary + len(soft) + len(made.candidates) <= bounds.maxlinks
    gains = {
        x: gain(mom, x, period, bounds.load_threshold) for x in links.opened | links.candidates
    }
    if not period.idle:
        kept = [gains[x] for x in soft - links.accepted]
        left = [gains[x] for x in gains if x not in soft]
        assert min(kept, default=1) > 0
        assert min(kept, default=9e9) >= max(left, default=0) or primary + len(soft) < bounds.fanout

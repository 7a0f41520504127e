"""Skewed and moving interests, small: who wants what, that nothing is lost, how loads are told."""

from __future__ import annotations

from collections import Counter

import pytest

from reefcast.simulation.checkers import CheckFailedError
from reefcast_lab.experiments.campaign import Run
from reefcast_lab.experiments.octopia.measuring import evaluation_overlay
from reefcast_lab.experiments.skew import moving, skewed
from reefcast_lab.experiments.skew.claims import PAPER
from reefcast_lab.experiments.skew.crowd import Crowd, Interest, crowd
from reefcast_lab.experiments.skew.parameters import section

BROKERS = list(evaluation_overlay().graph)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(section("skewed", "small")._values, "lasts_s", 1.0)
    monkeypatch.setitem(section("moving", "small")._values, "lasts_s", 2.5)


def test_a_crowd_is_as_skewed_as_it_should_be() -> None:
    drawn = {exponent: crowd(BROKERS, "paper", 0, exponent) for exponent in (0.0, 1.5)}
    for one in drawn.values():
        wanted = [(topic, each.broker) for each in one.interests for topic in each.topics]
        assert len(set(wanted)) == len(wanted)
        assert max(len(each.topics) for each in one.interests) == 4
        assert sum(one.chances) == pytest.approx(1.0)
    even, uneven = drawn.values()
    assert len(set(even.chances)) == 1
    favourite = uneven.chances.index(max(uneven.chances))
    counted = Counter(topic for each in uneven.interests for topic in each.topics)
    assert counted.most_common(1)[0][0] == favourite
    assert max(uneven.chances) > 0.3
    assert crowd(BROKERS, "paper", 0, 1.5) == uneven


def test_sides_are_halves_of_the_tree_in_all_clusters() -> None:
    near, far = moving.sides(evaluation_overlay())
    assert set(near) | set(far) == set(BROKERS)
    assert not set(near) & set(far)
    assert len(near) == len(far) == 28


@pytest.mark.parametrize("routing", ["idr", "tid-d"])
def test_skewed_interests_get_what_they_want(routing: str) -> None:
    run = Run("skew", "small", "skewed", routing, 1.5, "", 0)
    found = {measure.metric: measure.value for measure in skewed.measure(run)}
    assert {claim.measure for claim in PAPER.claims if claim.campaign == "skewed"} <= found.keys()
    assert found["link_imbalance"] > found["broker_imbalance"] > 1.0
    assert 0.0 < found["delay_s"] <= found["delay_99_s"]


def test_a_run_that_does_not_deliver_what_is_owed_is_no_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    publish = Crowd.publish

    def more(*given: object) -> Counter[int]:
        return publish(*given) + Counter(range(10))  # type: ignore[arg-type]  # as they came

    monkeypatch.setattr(Crowd, "publish", more)
    with pytest.raises(CheckFailedError, match="deliveries of"):
        skewed.measure(Run("skew", "small", "skewed", "spr", 0.0, "", 0))


def test_interests_that_move() -> None:
    run = Run("skew", "small", "moving", "spr", 1.0, "", 0)
    found = {measure.metric: measure.value for measure in moving.measure(run)}
    assert {claim.measure for claim in PAPER.claims if claim.campaign == "moving"} <= found.keys()
    assert found["lost_share"] == 0.0  # it settles within the overlap
    assert found["control"] > 2 * (14 - 1)  # a subscription and its end cross a cluster


def test_an_event_that_came_at_neither_broker_is_lost() -> None:
    interests = [Interest((1, 2), "x"), Interest((2,), "y")]
    topics = {("p1", 1): 1, ("p2", 1): 2, ("p2", 2): 2}
    got = {("s0", ("p1", 1)), ("m0", ("p2", 1)), ("s1", ("p2", 1)), ("m1", ("p2", 2))}
    assert moving._lost_share(interests, topics, got) == pytest.approx(1 / 5)

"""Ten times the papers' sizes, small: what is counted is what is simulated; exponents of growth."""

from __future__ import annotations

import math
import random

import pytest

from reefcast.overlay.topology import names, path, random_tree
from reefcast_lab.experiments.campaign import Measured, Point, Run, Value
from reefcast_lab.experiments.evidence_tables import Found
from reefcast_lab.experiments.tenfold import growth, simulated, structural
from reefcast_lab.experiments.tenfold.claims import PAPER
from reefcast_lab.experiments.tenfold.networks import ROUTINGS

T_OF_3 = 3.182
"""The 97.5 % quantile with three degrees of freedom, from a printed table."""


@pytest.mark.parametrize("routing", ROUTINGS)
def test_what_is_counted_is_what_is_simulated(routing: str) -> None:
    for seed in (0, 1):
        run = Run("tenfold", "small", "any", routing, 40.0, "", seed)
        counted = {each.metric: each.value for each in structural.measure(run)}
        found = {each.metric: each.value for each in simulated.measure(run)}
        uncounted = found.keys() - counted.keys()
        assert counted == {name: pytest.approx(found[name]) for name in counted}
        if routing == "flooding":  # tells nobody
            assert all(found[name] == 0.0 for name in uncounted)
        else:
            assert uncounted == ({"publication_messages"} if routing == "tid-s" else set())


def test_every_claim_is_about_something_that_is_measured() -> None:
    named = {
        (claim.campaign, routing, claim.measure)
        for claim in PAPER.claims
        for routing in filter(None, (claim.of, claim.against))
    }
    for campaign, routing in {each[:2] for each in named}:
        run = Run("tenfold", "small", campaign, routing, 40.0, "", 0)
        metrics = {each.metric for each in PAPER.campaign(campaign).measure(run)}
        assert {each[2] for each in named if each[:2] == (campaign, routing)} <= metrics


def test_links_of_ways_count_once() -> None:
    parents = structural.parents_from(path(names(5)), "b2")
    assert structural.links_to(parents, ["b1", "b4", "b5"]) == {"b1", "b3", "b4", "b5"}
    assert structural.links_to(parents, ["b2"]) == set()
    tree = random_tree(names(30), random.Random(0))
    assert len(structural.links_to(structural.parents_from(tree, "b01"), tree)) == 29


def test_an_exponent_is_found_again_and_noise_widens_its_interval() -> None:
    exact = growth.exponent([(x, 3.0 * x**0.5) for x in (10.0, 100.0, 1000.0, 1000.0)])
    assert exact is not None
    assert exact.slope == pytest.approx(0.5)
    assert exact.interval == pytest.approx(0.0, abs=1e-9)
    flat = growth.exponent([(10.0, 2.0), (10.0, 4.0), (20.0, 4.0), (20.0, 8.0), (40.0, 8.0)])
    assert flat is not None
    assert flat.interval is not None
    assert flat.interval > 0.0
    assert growth.exponent([(10.0, 1.0), (100.0, 10.0)]) == (pytest.approx(1.0), None)
    assert growth.exponent([(10.0, 0.0), (100.0, 10.0), (100.0, 11.0)]) is None


def test_the_interval_is_that_of_least_squares() -> None:
    logs = [(0.0, 0.0), (1.0, 1.5), (2.0, 1.5), (3.0, 3.5), (4.0, 3.5)]
    fitted = growth.exponent([(math.exp(x), math.exp(y)) for x, y in logs])
    assert fitted is not None
    assert fitted.slope == pytest.approx(0.9)  # 9 / 10
    residuals = [-0.2, 0.4, -0.5, 0.6, -0.3]  # by hand, from the mean 2.0 at 2.0
    error = math.sqrt(sum(each**2 for each in residuals) / 3 / 10)
    assert fitted.interval == pytest.approx(T_OF_3 * error, rel=1e-3)


def test_the_table_of_exponents() -> None:
    values = [
        Value("structural", "hops", "spr", "", x, seed, x**0.25)
        for x in (10.0, 100.0, 1000.0)
        for seed in (0, 1)
    ]
    values.append(Value("structural", "hops", "acyclic", "", 10.0, 0, 5.0))
    points = [
        Point("structural", "hops", each.routing, "", each.x, 0.0, each.value, None, 1)
        for each in values
    ]
    head, _, *lines = growth.table(
        Found(Measured("small", points, values)), "structural"
    ).splitlines()
    assert head == "| exponent of | acyclic | flooding | spr | tid-s |"
    assert "| links to a subscriber | - | - | 0.25 ± 0.00 | - |" in lines
    assert "| messages of an advertisement | - | - | - | - |" in lines

"""Covering's changes undone, tiny: without any the campaigns are covering's own, and each one that
is undone does what it is said to do."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tiny_covering import UNSUBSCRIBING

from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.covering import structure, unsubscribing
from reefcast_lab.experiments.covering.parameters import section as covering_section
from reefcast_lab.experiments.undone import counting, simulating
from reefcast_lab.experiments.undone.claims import PAPER
from reefcast_lab.experiments.undone.parameters import section
from reefcast_lab.experiments.undone.simulating import Windows

X = 8
OWN = {"roots": 12, "selectivity": 0.05}


@pytest.fixture(autouse=True, scope="module")
def tiny() -> None:
    with pytest.MonkeyPatch.context() as patch:
        for key, value in (UNSUBSCRIBING | {"compared_x": X}).items():
            patch.setitem(covering_section("unsubscribing", "small")._values, key, value)
        patch.setitem(covering_section("network", "small")._values, "rows_cost", 400.0)
        for key, value in OWN.items():
            patch.setitem(section("counted", "small")._values, key, value)
        for key, value in {"warm_s": 4.0, "observe_s": 9.0, "window": 5}.items():
            patch.setitem(section("simulated", "small")._values, key, value)
        measured.cache_clear()
        yield


def figures(found: Sequence[Measure]) -> dict[str, float]:
    return {each.metric: each.value for each in found if each.at == 0.0}


@cache
def measured(name: str, routing: str, seed: int = 0) -> dict[str, float]:
    run = Run("undone", "small", name, routing, X, "", seed)
    return figures(PAPER.campaign(name).measure(run))


@pytest.mark.live
def test_every_run_of_a_claim_is_there_and_measures_it() -> None:
    routings = {
        campaign.name: {run.routing for run in campaign.runs("small")}
        for campaign in PAPER.campaigns
    }
    for claim in PAPER.claims:
        assert {claim.of, claim.against or claim.of} <= routings[claim.campaign], claim
        assert claim.measure in measured(claim.campaign, claim.of), claim


@pytest.mark.live
@pytest.mark.parametrize("strategy", unsubscribing.COMPARED)
def test_with_nothing_undone_the_campaigns_are_covering_s(strategy: str) -> None:
    degree = covering_section("unsubscribing", "small").degree
    run = Run("covering", "small", structure.NAME, strategy, degree, "", 0)
    assert measured(counting.NAME, strategy) == figures(structure.measure(run))
    run = Run("covering", "small", unsubscribing.NAME, strategy, X, "", 0)
    assert measured(simulating.NAME, strategy) == figures(unsubscribing.measure(run))


def test_what_is_counted_follows_from_what_is_undone() -> None:
    active, roots, _, overlay = (
        measured(counting.NAME, counting.routing("active", undone)) for undone in counting.UNDONE
    )
    assert roots["rows_before"] > active["rows_before"]
    assert overlay != active and overlay["rows_before"] != active["rows_before"]
    pruned = [
        measured(counting.NAME, counting.routing("incremental", undone))["nrs_E"]
        for undone in ("", counting.SELECTIVITY)
    ]
    assert pruned[0] < pruned[1]  # what matches less meets fewer others


@pytest.mark.live
def test_what_is_simulated_follows_from_what_is_undone() -> None:
    found = {
        undone: measured(simulating.NAME, counting.routing("active", undone))
        for undone in ("", simulating.FREE, simulating.SHORT)
    }
    charged, free, short = (found[undone]["mean_delay_s"] for undone in found)
    assert free < charged and short != charged
    assert found[simulating.FREE]["nrs_E"] == found[""]["nrs_E"]


@pytest.mark.live
def test_statistics_and_the_test_of_ghosts_concern_incremental() -> None:
    found = [
        measured(simulating.NAME, counting.routing("incremental", undone))
        for undone in ("", simulating.STATISTICS, simulating.WINDOWS)
    ]
    nrs = [sum(each[f"nrs_{broker}"] for broker in "ABCDE") for each in found]
    assert nrs[2] > nrs[0]  # a test every few publications condemns ghosts sooner
    assert found[1] != found[0]


@given(st.lists(st.integers(0, 10), max_size=6), st.sampled_from((0.1, 0.2, 0.5, 0.9)), st.data())
def test_windows_are_judged_by_themselves(
    counts: list[int], limit: float, data: st.DataObject
) -> None:
    """`counts`: how many of the ten publications of each window count towards the share."""
    test, value, size = Windows(limit, 10), 0.0, 10
    condemned = None
    for number, count in enumerate(counts, 1):
        seen = data.draw(st.permutations([True] * count + [False] * (size - count)))
        for one in seen:
            assert condemned is None and not test.is_certain(value)
            value = test.after(value, one)
        if test.is_certain(value):
            condemned = number
            break
    over = [i for i, count in enumerate(counts, 1) if count > round(limit * size)]
    assert condemned == (over[0] if over else None)

"""Runs that go on from one settled network, beside networks that settled for one run alone."""

from __future__ import annotations

from typing import Any

import pytest
from tiny_octopia import make_tiny

from reefcast_lab.experiments.campaign import Measure, Run
from reefcast_lab.experiments.octopia import burst, delivery, selection, settling, subscribers
from reefcast_lab.experiments.octopia.claims import PAPER
from reefcast_lab.experiments.sweep import groups

pytestmark = pytest.mark.live

TIMED = {"matching_delay_s", "matching_delay_matched_s"}
"""In wall-clock time."""


@pytest.fixture
def settled(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Return the runs for which a network has settled so far."""
    make_tiny(monkeypatch)
    made: list[Run] = []

    def noted(run: Run, *rest: Any) -> settling.Settled:
        made.append(run)
        return settle(run, *rest)

    settle = settling.settle
    monkeypatch.setattr(settling, "settle", noted)
    return made


def run(campaign: str, routing: str, x: float) -> Run:
    return Run("octopia", "small", campaign, routing, x, "", 1)


def simulated(measures: list[Measure]) -> list[Measure]:
    return [measure for measure in measures if measure.metric not in TIMED]


def alone(one: Run, monkeypatch: pytest.MonkeyPatch) -> list[Measure]:
    with monkeypatch.context() as patch:
        patch.setattr(settling, "_last", {})
        return simulated(PAPER.campaign(one.campaign).measure(one))


@pytest.mark.parametrize("routing", ["idr", "tid-d"])
def test_bursts_of_all_rates_go_on_from_one_network_and_leave_it_alone(
    routing: str, settled: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    rates = (100_000.0, 60_000.0, 100_000.0)
    found = [burst.measure(run("burst", routing, rate)) for rate in rates]
    assert len(settled) == 1
    assert found[0] == found[2] != found[1]
    assert found[1] == alone(run("burst", routing, 60_000.0), monkeypatch)


def test_delivery_goes_on_where_subscribers_were_counted(
    settled: list[Run], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = run("delivery", "spr", 20), run("subscribers", "spr", 20)
    delivered, counted = delivery.measure(one), subscribers.measure(other)
    assert len(settled) == 1
    assert simulated(delivered) == alone(one, monkeypatch)
    assert counted == alone(other, monkeypatch)


def test_what_goes_on_from_one_network_is_one_task() -> None:
    every = [made for campaign in PAPER.campaigns for made in campaign.runs("paper")]
    tasks = groups(PAPER, every)

    def task_of(*those: tuple[str, str, float]) -> set[int]:
        return {
            number
            for number, task in enumerate(tasks)
            for made in task
            if (made.campaign, made.routing, made.x) in those
            and (made.seed, made.variant) == (0, "")
        }

    assert len(task_of(*(("burst", "idr", float(rate)) for rate in (100_000, 40_000)))) == 1
    assert len(task_of(("delivery", "spr", 4000.0), ("subscribers", "spr", 4000.0))) == 1
    assert len(task_of(("delivery", "spr", 4000.0), ("delivery", "spr", 7000.0))) == 2
    selected = [made for made in selection.CAMPAIGN.runs("paper") if made.seed == 0]
    assert len(task_of(*((made.campaign, made.routing, made.x) for made in selected))) == 1

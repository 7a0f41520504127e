"""How long runs will take, by what is known of others."""

from __future__ import annotations

import tomllib

import pytest

from reefcast_lab.cli import experiment
from reefcast_lab.experiments import store
from reefcast_lab.experiments.campaign import RUN_S, Measure, Run
from reefcast_lab.experiments.durations import FILE, durations
from reefcast_lab.experiments.registry import papers
from reefcast_lab.experiments.sweep import Ended

FIRST = Run("octopia", "paper", "burst", "spr", 1000.0, "", 0)


def test_what_was_measured_counts_before_what_is_usual(tmp_path) -> None:
    usual = durations(tmp_path, "octopia", "paper").of(FIRST)
    assert usual == tomllib.loads(FILE.read_text(encoding="utf-8"))["octopia"]["burst"]
    took = {FIRST: 4.0, FIRST._replace(seed=1): 8.0, FIRST._replace(x=2000.0): 30.0}
    for number, (run, seconds) in enumerate(took.items()):
        file = tmp_path / "octopia" / "paper" / "burst" / f"{number}.parquet"
        store.write(file, run, [Measure("delay", 0.0, 1.0), Measure(RUN_S, 0.0, seconds)])
    file.with_name("half.parquet").write_bytes(b"PAR1")  # one that was not finished
    found = durations(tmp_path, "octopia", "paper")
    assert found.of(FIRST._replace(seed=7)) == 6.0
    assert found.of(FIRST._replace(x=3000.0)) == 14.0
    assert found.of(FIRST._replace(routing="idr", x=2000.0)) == 14.0
    assert found.of(FIRST._replace(campaign="delivery")) == pytest.approx(12.0)


def test_every_campaign_has_a_usual_duration() -> None:
    told = tomllib.loads(FILE.read_text(encoding="utf-8"))
    assert {name: set(of) for name, of in told.items()} == {
        paper.name: {campaign.name for campaign in paper.campaigns} for paper in papers().values()
    }


def test_what_is_left_counts_by_how_long_runs_of_its_campaign_took() -> None:
    runs = [FIRST._replace(seed=seed) for seed in range(3)]
    takes = {0: 300.0, 1: 100.0, 2: 100.0}
    estimate = experiment._Estimate(runs, lambda run: takes[run.seed], 1)
    told = [
        estimate(Ended(run, seconds, ""))
        for run, seconds in zip(runs, (600.0, 200.0, 900.0), strict=True)
    ]
    assert told == [(1, "7 min"), (2, "3 min"), (3, "0 s")]


def test_what_is_left_of_other_campaigns_counts_by_all_that_has_ended() -> None:
    first = [FIRST._replace(seed=seed) for seed in range(2)]
    others = [FIRST._replace(campaign="delivery", seed=seed) for seed in range(9)]
    estimate = experiment._Estimate([*first, *others], lambda run: 100.0, 2)
    # a campaign of 200 s takes four times as long, and this is a part of what 55 s of doubt weigh
    assert estimate(Ended(first[0], 400.0, "")) == (1, "25 min")  # (400 + 900 * 455 / 155) / 2 s
    assert estimate(Ended(others[0], 100.0, "")) == (2, "10 min")  # (400 + 800) / 2 s

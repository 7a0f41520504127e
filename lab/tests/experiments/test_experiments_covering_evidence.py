"""The text below the covering paper's table, from literal points."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.campaign import Measured, Point
from reefcast_lab.experiments.covering import parameters
from reefcast_lab.experiments.covering.claims import FILES

THIN = "\N{NARROW NO-BREAK SPACE}"


def point(campaign: str, metric: str, routing: str, mean: float, **more: float | str) -> Point:
    place = {"x": 20.0, "at": 0.0, "interval": None, "seeds": 1, "variant": "", **more}
    return Point(campaign=campaign, metric=metric, routing=routing, mean=mean, **place)


def made(*points: Point, scale: str = "paper") -> str:
    return "\n".join(FILES.evidence(Measured(scale, list(points), []))).replace(THIN, " ")


def largest(campaign: str, active: list[float], incremental: list[float]) -> list[Point]:
    return [
        point(campaign, "largest_delay_s", routing, value, x=x)
        for routing, values in (("active", active), ("incremental", incremental))
        for x, value in zip((2100.0, 10_000.0, 30_000.0), values, strict=True)
    ]


def test_nothing_measured_has_no_evidence() -> None:
    assert FILES.evidence(Measured("paper", [], [])) == []


def test_says_from_which_size_on_active_congests_and_what_incremental_makes_of_it() -> None:
    text = made(*largest("own_engine", [0.64, 3.42, 14.7], [0.094, 1.12, 0.74]))
    assert (
        "At 100 publications a second: with 2 100, 10 000 and 30 000 subscriptions behind a root "
        "*active* holds publications back for at most 0.64 s, 3.42 s and 14.7 s, *incremental* for "
        "0.094 s, 1.12 s and 0.74 s: 6.81, 3.05 and 19.9 times less. So *active* "
        "congests from 10 000 on, of these sizes." in text
    )
    assert "Of 4 roots, over ever more subscriptions each, 2 go at once" in text
    assert "At 5 000" not in text
    assert "[See it live](../explanation/covering.md#see-it-live)" in text


def test_says_that_active_does_not_congest_where_it_does_not() -> None:
    text = made(
        *largest("own_engine", [0.1, 0.2, 1.0], [0.1] * 3),
        *largest("own_engine_fast", [0.1, 0.2, 1.1], [0.1] * 3),
    )
    slowly, fast = text.split("At 5 000 publications a second")
    assert "So *active* does not congest at any of these sizes." in slowly
    assert "So *active* congests from 30 000 on, of these sizes." in fast


def test_a_size_that_one_strategy_lacks_is_a_dash() -> None:
    text = made(point("own_engine", "largest_delay_s", "active", 2.0, x=2100.0))
    assert "back for at most 2 s, *incremental* for -: - times less. So" in text


def test_tables_have_a_row_for_each_size_strategy_and_costs() -> None:
    text = made(
        point("workflow", "steady_delay_s", "incremental", 0.25, x=1.0, variant="slow"),
        point("workflow", "steady_delay_s", "incremental", 0.125, x=1.0, interval=0.01),
        point("workflow", "delay_s", "active", 9.0, x=1.0, at=3.0),
    )
    rows = [line for line in text.splitlines() if line.startswith("| 1 |")]
    assert [row.split("|")[2:4] for row in rows] == [
        [" incremental ", " 0.125 ± 0.01 "],
        [" incremental slow ", " 0.25 "],
    ]


def test_strategies_stand_in_one_order() -> None:
    text = made(
        *(
            point("processing", "total_s", routing, 1.0, x=42_000.0)
            for routing in ("lazy", "none", "active")
        )
    )
    rows = [line.split("|")[2].strip() for line in text.splitlines() if "| 42 000 |" in line]
    assert rows == ["none", "active", "lazy"]


@pytest.mark.parametrize(("scale", "watched"), [("paper", "7 500"), ("small", "1 100")])
def test_says_for_how_long_congestion_is_watched(scale: str, watched: str) -> None:
    """21 000 or 5 000 publications 0.4 s apart, less 900 s before."""
    text = made(point("slow_engine", "congested_s", "active", 50.0), scale=scale)
    assert f"it was watched for {watched} s" in text
    assert f"more than {parameters.section('slow', scale).congested} inputs waited" in text


def test_false_positives_are_told_by_tier_over_all_its_brokers() -> None:
    """The tiers have 1, 4, 12 and 24 brokers: 10 + 40 above, 120 + 30 below."""
    means = (10.0, 10.0, 10.0, 1.25)
    text = made(
        *(
            point("mobile", f"false_positives_{tier}", "incremental", mean, x=60.0)
            for tier, mean in enumerate(means)
        ),
        point("mobile", "rows", "incremental", 5.0, x=0.0),
    )
    assert "*incremental*, the two lower tiers have 75 % (at 60 moves a minute)." in text
    silent = made(point("mobile", "rows", "incremental", 5.0, x=0.0))
    assert "lower tiers have" not in silent

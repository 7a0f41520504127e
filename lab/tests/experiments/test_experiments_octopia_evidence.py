"""The text below OctopiA's table, from literal points; and the file of parameters."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from reefcast.errors import ConfigurationError
from reefcast_lab.experiments.campaign import Measured, Point, Value
from reefcast_lab.experiments.octopia import parameters
from reefcast_lab.experiments.octopia.claims import FILES

THIN = "\N{NARROW NO-BREAK SPACE}"


def point(campaign: str, metric: str, routing: str, mean: float, **more: float) -> Point:
    place = {"x": 100_000.0, "at": 0.0, "interval": None, "seeds": 1, "variant": "", **more}
    return Point(campaign=campaign, metric=metric, routing=routing, mean=mean, **place)


def made(*points: Point, values: Iterable[Value] = (), scale: str = "paper") -> list[str]:
    return FILES.evidence(Measured(scale, list(points), list(values)))


def test_nothing_measured_has_no_evidence() -> None:
    assert made() == []


def test_counts_apart_need_no_publishers() -> None:
    assert made(point("subscribers", "civ_set_messages", "spr", 0.25, x=600.0)) == [
        "Counted apart: with 600 subscribers OctopiA sent 0.25 CIV_SETs a subscription."
    ]


def test_bursts_have_a_row_for_each_rate_and_routing_and_a_dash_for_what_is_not_there() -> None:
    text = "\n".join(
        made(
            point("burst", "stable_s", "spr", 250.4, interval=12.34),
            point("burst", "stable_s", "spr", 80.0, x=60_000.0),
            point("burst", "largest_delay_s", "spr", 9.0, at=3.0),
        )
    )
    assert f"| 100{THIN}000 | spr | 250 ± 12.3 | - |" in text
    assert f"| 60{THIN}000 | spr | 80 | - |" in text


def test_the_busiest_broker_says_how_long_a_burst_takes_at_least() -> None:
    """It has to send 50 000 publications with the 1 000 a second that are left."""
    text = "\n".join(made(point("burst", "busiest_sender_per_s", "spr", 540.0, interval=5.0)))
    assert "| spr | 540 ± 5 | 50 | - | - | - | - |" in text
    assert "| idr | - | - | - | - | - | - |" in text


@pytest.mark.parametrize(
    ("scale", "size", "window"), [("paper", f"5{THIN}000", 101), ("small", "500", 5)]
)
def test_stable_is_defined(scale: str, size: str, window: int) -> None:
    text = made(point("burst", "stable_s", "spr", 250.4), scale=scale)[0]
    assert text.startswith(f"`Stable`: a point is the largest delay of {size} consecutive")
    assert f"median of {window} points stays within 10 % of the level" in text


def test_variants_are_compared_by_the_seeds_that_all_have() -> None:
    """The preset has two more seeds; TID-S lacks one of the three runs."""
    runs = [
        *(("spr", "", seed, value) for seed, value in enumerate((100.0, 900.0, 900.0))),
        *(("spr", "half", 0, 40.0), ("spr", "double", 0, 300.0)),
        *(("tid-s", "", 0, 1.0), ("tid-s", "half", 0, 2.0)),
    ]
    values = [
        Value("burst", "stable_s", routing, variant, 1e5, seed, value)
        for routing, variant, seed, value in runs
    ]
    text = "\n".join(made(point("burst", "stable_s", "spr", 633.0), values=values))
    assert "of the same seed 0 in all three columns" in text
    assert "| spr | 40 | 100 | 300 |" in text
    assert "| tid-s | - | - | - |" in text


def test_both_limits_of_idr_say_how_often_and_how_long() -> None:
    text = "\n".join(
        made(
            point("burst", "a_link_crowded", "idr", 1_813_000.0),
            point("burst", "a_link_crowded_share", "idr", 0.3192),
            point("burst", "a_link_crowded_wait_s", "idr", 12.68),
            point("burst", "idr_overloaded_a_link", "idr", 139_400.0),
            point("burst", "idr_overloaded_a_link_queue", "idr", 44.15),
            point("burst", "idr_decisions", "idr", 139_500.0),
            point("burst", "idr_case_1_share", "idr", 0.1),
            point("burst", "idr_case_2_share", "idr", 0.0),
            point("burst", "idr_case_3_share", "idr", 0.9),
            point("burst", "idr_no_tree_link", "idr", 3.0),
            point("burst", "idr_no_tree_link_queue", "idr", 0.5),
        )
    ).replace(THIN, " ")
    assert "| 100 000 | 1 813 000 | 31.9 | 12.7 | 139 400 | 44.1 |" in text
    assert "| 100 000 | 139 500 | 10 | 0 | 90 | 3 | 0.5 |" in text


def test_matching_times_say_what_forwards_only_and_how_far_seeds_lie_apart() -> None:
    values = [
        Value("delivery", "matching_delay_s", routing, "", 1e3, seed, value)
        for routing, of in (("spr", (2e-6, 3e-6, 9e-6)), ("tid-s", (1e-6, 2e-6)))
        for seed, value in enumerate(of)
    ]
    at: dict[str, float] = {"x": 1e3}
    text = "\n".join(
        made(
            point("delivery", "matching_delay_s", "spr", 2.5e-6, **at),
            point("delivery", "matching_delay_s", "tid-s", 1.5e-6, interval=0.25e-6, **at),
            point("delivery", "forward_only_share", "tid-s", 0.4, **at),
            point("delivery", "matching_delay_matched_s", "tid-s", 2.5e-6, **at),
            values=values,
        )
    ).replace(THIN, " ")
    assert "| 1 000 | 2.5 | 1.5 ± 0.25 | 40 | 2.5 | +100, +50 |" in text


def test_a_sender_takes_its_rate_of_publications() -> None:
    """It is that of four links that would send by themselves, as an edge broker has."""
    spec, slow = parameters.link(""), parameters.link("double")
    entries = parameters.section("preset")
    assert parameters.wires("").sender == "broker"
    assert entries.send_rate == 4 * entries.link_rate
    assert spec.bytes_per_s / entries.publication_bytes == pytest.approx(1540)
    own = parameters.link("", entries.link_rate)
    assert own.bytes_per_s / entries.publication_bytes == pytest.approx(385)
    assert slow.bytes_per_s == pytest.approx(spec.bytes_per_s / 2)
    assert slow.jitter_s == 2 * spec.jitter_s
    assert parameters.costs("half").publication_s == parameters.costs("").publication_s / 2


def test_refuses_what_the_file_does_not_have() -> None:
    with pytest.raises(ConfigurationError, match="no section 'nothing'"):
        parameters.section("nothing")
    with pytest.raises(ConfigurationError, match=r"no preset\.nothing"):
        _ = parameters.section("preset").nothing

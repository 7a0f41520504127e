"""What stands under OctopiA's table, from literal points; and the file of parameters."""

from __future__ import annotations

import re

import pytest

from reefcast.errors import ConfigurationError
from reefcast.experiments.campaign import Point
from reefcast.experiments.octopia import parameters
from reefcast.experiments.octopia.evidence import evidence


def point(campaign: str, metric: str, routing: str, mean: float, **more: float) -> Point:
    place = {"x": 100_000.0, "at": 0.0, "interval": None, "seeds": 1, "variant": "", **more}
    return Point(campaign=campaign, metric=metric, routing=routing, mean=mean, **place)  # type: ignore[arg-type]


def test_nothing_measured_has_no_evidence() -> None:
    assert evidence([]) == []


def test_counts_apart_need_no_publishers() -> None:
    made = evidence([point("subscribers", "civ_set_messages", "spr", 0.25, x=600.0)])
    assert made == [
        "Counted apart: with 600 subscribers OctopiA sent 0.25 CIV_SETs a subscription."
    ]


def test_bursts_have_a_row_for_each_rate_and_routing_and_a_dash_for_what_is_not_there() -> None:
    made = "\n".join(
        evidence(
            [
                point("burst", "stable_s", "spr", 250.4, interval=12.34),
                point("burst", "stable_s", "spr", 80.0, x=60_000.0),
                point("burst", "stable_s", "spr", 120.0, variant="half"),
                point("burst", "largest_delay_s", "spr", 9.0, at=3.0),
                point("burst", "idr_decisions", "idr", 5_000.0),
            ]
        )
    )
    assert re.search(r"\| 100 000 \| spr \| 250 ± 12.3 \| - \|", made)
    assert re.search(r"\| 60 000 \| spr \| 80 \| - \|", made)
    assert "| spr | 120 | 250 ± 12.3 | - |" in made
    assert "| 100 000 | 5 000 | - |" in made


def test_a_link_takes_its_rate_of_publications() -> None:
    spec, slow = parameters.link(), parameters.link("double")
    entries = parameters.section("preset")
    assert spec.bytes_per_s / entries.publication_bytes == pytest.approx(385)
    assert slow.bytes_per_s == pytest.approx(spec.bytes_per_s / 2)
    assert slow.jitter_s == 2 * spec.jitter_s
    assert parameters.costs("half").publication_s == parameters.costs().publication_s / 2


def test_every_entry_of_the_file_has_a_value_a_unit_and_a_source() -> None:
    for name, entries in parameters._file().items():
        for scale in ("small", "paper"):
            parameters.Section(name, scale, entries)


@pytest.mark.parametrize(
    ("entry", "reason"),
    [
        ({"value": 1, "source": "s"}, "has no unit"),
        ({"value": 1, "unit": "s"}, "has no source"),
        ({"paper": 1, "unit": "s", "source": "s"}, "no value for the scale 'small'"),
    ],
)
def test_refuses_an_entry_that_does_not_say_all(entry: dict[str, object], reason: str) -> None:
    with pytest.raises(ConfigurationError, match=reason):
        parameters.Section("link", "small", {"latency_s": entry})


def test_refuses_what_the_file_does_not_have() -> None:
    with pytest.raises(ConfigurationError, match="no section 'nothing'"):
        parameters.section("nothing")
    with pytest.raises(ConfigurationError, match=r"no preset\.nothing"):
        _ = parameters.section("preset").nothing

"""The claims beside the spec's table, and the text below it, from literal points."""

from __future__ import annotations

from reefcast_lab.experiments.campaign import Measured, Point
from reefcast_lab.experiments.mesh.claims import FILES, PAPER

THIN = "\N{NARROW NO-BREAK SPACE}"


def test_every_row_has_claims_and_a_plot() -> None:
    ids = [*(f"mesh/M{number}" for number in range(1, 12)), "mesh/clusters"]
    assert list(dict.fromkeys(claim.id for claim in PAPER.claims)) == ids
    assert {id for plot in PAPER.plots for id in plot.ids} == set(ids)
    assert {c.campaign for c in PAPER.claims} == {c.name for c in PAPER.campaigns}
    assert {part.campaign for part in FILES.parts()} == {c.name for c in PAPER.campaigns}


def test_our_own_rows_have_no_figure_of_a_paper() -> None:
    own = [claim for claim in PAPER.claims if claim.id == "mesh/clusters"]
    assert all(claim.paper is None and claim.note for claim in own)
    assert {(claim.of, claim.against) for claim in own} == {
        ("spr-mesh", "spr"),
        ("idr-mesh", "idr"),
    }


def test_up_to_115_percent_is_one_claim() -> None:
    largest = [c for c in PAPER.claims if c.id == "mesh/M7" and c.paper == 1.15]
    assert [claim.explained for claim in largest] == [True]


def test_what_constants_were_chosen_by_is_never_reproduced() -> None:
    baseline = [c for c in PAPER.claims if c.kind == "level" and c.of == "S0" and c.paper]
    assert len(baseline) == 6 and all(claim.explained and claim.note for claim in baseline)


def test_what_the_paper_or_a_lost_dataset_decides_is_never_reproduced() -> None:
    decided = [c for c in PAPER.claims if c.id in ("mesh/M6", "mesh/M10") and c.paper]
    assert len(decided) == 4 and all(claim.explained and claim.note for claim in decided)
    readings = [
        c for c in PAPER.claims if "reading" in c.metric or "whatever they carry" in c.metric
    ]
    assert len(readings) == 3 and all(claim.paper is None for claim in readings)


def point(metric: str, routing: str, mean: float, **more: float | str) -> Point:
    place = {"campaign": "light", "variant": "", "x": 1.0, "at": 0.0, "interval": None, "seeds": 1}
    return Point(metric=metric, routing=routing, mean=mean, **(place | more))


def test_half_and_double_stand_apart_from_what_claims_rest_on() -> None:
    shares = {"half": (0.8, 0.9), "": (0.5, 0.75), "double": (0.2, 0.25)}
    points = [
        point("delivered_share", routing, share, campaign="friends", x=20.0, variant=variant)
        for variant, pair in shares.items()
        for routing, share in zip(("S0", "S2"), pair, strict=True)
    ]
    parts = FILES.evidence(Measured("paper", points, []))
    claimed = parts[parts.index("### A social network (M10)") + 1]
    assert "0.75" in claimed and "0.9" not in claimed
    assert "| friends | 20 | S2 | 0.9 (+12 %) | 0.75 (+50 %) | 0.25 (+25 %) |" in parts[-1]


def test_nothing_measured_has_no_evidence() -> None:
    assert FILES.evidence(Measured("paper", [], [])) == []


def test_a_row_for_each_strategy_and_a_dash_for_what_is_not_there() -> None:
    points = [
        point("deliveries", "S0", 348_123.0, interval=1000.0),
        point("yield", "S2", 0.7341),
        point("traffic", "S2", 5.0, at=10.0),
    ]
    title, _, table = FILES.evidence(Measured("paper", points, []))
    assert title == "### Nothing is full (M1 to M5)"
    assert f"| 1 | S0 | 348{THIN}123 ± 1{THIN}000 | - | - |" in table
    assert "| 1 | S2 | - | - | 0.734 |" in table

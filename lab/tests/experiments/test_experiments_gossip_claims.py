"""The claims beside the spec's table, and the text below it, from literal points."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.campaign import Measured, Point
from reefcast_lab.experiments.gossip.claims import FILES, PAPER

IDS = ("T1", "G1", "G2", "G3", "G4", "G5", "G6", "D1", "D2", "A1")
THIN = "\N{NARROW NO-BREAK SPACE}"


def claims(id: str) -> list:
    return [claim for claim in PAPER.claims if claim.id == f"gossip/{id}"]


def test_every_row_has_claims_and_a_plot() -> None:
    ids = [f"gossip/{id}" for id in IDS]
    assert [f"gossip/G{number}" for number in range(1, 7)] == [i for i in ids if "/G" in i]
    assert list(dict.fromkeys(claim.id for claim in PAPER.claims)) == ids
    assert {id for plot in PAPER.plots for id in plot.ids} == set(ids)
    assert {c.campaign for c in PAPER.claims} == {c.name for c in PAPER.campaigns}
    assert {part.campaign for part in FILES.parts()} == {c.name for c in PAPER.campaigns}


def test_the_first_table_is_the_papers_and_never_reproduced() -> None:
    """Constants were chosen by it."""
    found = claims("T1")
    assert [claim.paper for claim in found] == [0.69, 0.61, 0.51, 0.45]
    assert all(claim.explained and claim.note for claim in found)


def test_logical_links_stay_for_every_number_of_topics() -> None:
    found = claims("G1")
    assert [(c.kind, c.paper, c.of, c.against) for c in found] == [
        ("difference", 0.0, "aligned", "unaligned")
    ] * 3


@pytest.mark.parametrize(
    ("id", "measure", "below", "above"),
    [
        ("G2", "unique_view", "aligned", "unaligned"),
        ("G3", "unique_after", "more nodes", "more topics"),
        ("G4", "most_out", "aligned", "unaligned"),
        ("G4", "most_in", "aligned", "unaligned"),
        ("G5", "clustering", "aligned", "unaligned"),
        ("G6", "diameter", "unaligned", "aligned"),
        ("A1", "clustering", "aligned", "clustered"),
    ],
)
def test_directions_are_those_of_the_spec(id, measure, below, above) -> None:
    found = [c for c in claims(id) if c.measure == measure and c.kind == "wins" and c.paper]
    assert found
    assert {(c.of, c.against, c.paper) for c in found} == {(below, above, 1.0)}


def test_real_interests_are_not_beside_a_figure_of_the_paper() -> None:
    found = [claim for claim in PAPER.claims if claim.campaign == "last.fm"]
    assert len(found) == 4 and all(c.paper is None and "REEFCAST_TOPICS" in c.note for c in found)


def test_how_fast_is_told_of_the_papers_rule_and_ours_is_never_reproduced() -> None:
    found = [claim for claim in claims("G2") if claim.measure == "mostly_early"]
    assert [(claim.of, claim.explained) for claim in found] == [
        ("greedy", False),
        ("aligned", True),
    ] * 3
    assert all(claim.paper == 1.0 and claim.note for claim in found)


def test_fewer_links_at_the_start_are_not_beside_a_figure_of_the_paper() -> None:
    found = [claim for claim in claims("G6") if claim.campaign == "starting-degrees"]
    assert found and all(claim.paper is None and claim.note for claim in found)


def test_evidence_has_a_line_for_each_x_and_routing() -> None:
    place = {"campaign": "growth", "variant": "", "at": 0.0, "seeds": 3}
    points = [
        Point(metric="total_view", routing="more nodes", x=1.0, mean=1234.0, interval=5.0, **place),
        Point(
            metric="unique_after", routing="more topics", x=2.0, mean=2.5, interval=None, **place
        ),
    ]
    title, table = FILES.evidence(Measured("paper", points, []))
    assert title == "### Growth (G3)"
    assert f"| 1 | more nodes | 1{THIN}234 ± 5 | - | - |" in table
    assert "| 2 | more topics | - | - | 2.5 |" in table
    assert FILES.evidence(Measured("paper", [], [])) == []

"""The covering paper's figures as claims, beside the spec's table and the paper's text."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.campaign import Claim
from reefcast_lab.experiments.covering.claims import PAPER

A, L, P, INC, N = "active", "lazy", "packing", "incremental", "none"

FIGURES = [
    *(("C1", "covering_s", A, "", 216.0), ("C1", "covering_s", L, "", 486.0)),
    *(("C1", "matching_s", A, "", 14.5), ("C1", "matching_s", L, "", 28.8)),
    *(("C1", "matching_s", N, "", 33.7), ("C1", "unsubscriptions_s", A, "", 11.7)),
    *(("C1", "publications_s", A, "", 600.0), ("C1", "publications_s", L, "", 1240.0)),
    *(("C1", "publications_s", N, "", 1580.0), ("C1", "total_s", A, "", 842.0)),
    *(("C1", "total_s", L, "", 1754.0), ("C1", "total_s", N, "", 1614.0)),
    *(("C2", "mean_delay_s", A, "", 1000.0), ("C2", "largest_delay_s", A, "", 2400.0)),
    *(("C2", "mean_delay_s", L, A, -0.4), ("C2", "mean_delay_s", P, A, -0.4)),
    *(("C2", "mean_delay_s", INC, "", 0.4), ("C2", "mean_delay_s", INC, A, -0.99)),
    ("C2", "steady_delay_s", INC, "", 0.2),
    *(("C3", "largest_queue", A, "", 24_000.0), ("C3", "largest_queue", L, "", 1_500.0)),
    *(("C3", "largest_queue", P, "", 1_500.0), ("C3", "largest_queue", INC, "", 150.0)),
    *(("C4", "nrs_A", A, "", 700.0), ("C4", "nrs_E", A, "", 20_000.0)),
    *(("C4", "nrs_E", INC, "", 1_100.0), ("C5", "rows_after", INC, A, -0.5)),
    *(("C6", "mean_delay_s", A, "", 260.0), ("C6", "mean_delay_s", A, INC, 1.0)),
    ("C6", "mean_delay_s", INC, "", 0.5),
    *(("C7", "rows_after", A, "", 8_000.0), ("C7", "rows_after", A, "", 21_000.0)),
    *(("C7", "rows_after", INC, A, -1.0), ("C7", "largest_queue", INC, "", 150.0)),
    *(("C8", "nrs_A", INC, "", 664.0), ("C8", "nrs_B", INC, "", 1783.0)),
    *(("C8", "nrs_C", INC, "", 1196.0), ("C8", "nrs_D", INC, "", 1276.0)),
    *(("C8", "nrs_E", INC, "", 1543.0), ("C8", "nrs_inner", INC, "", 112.0)),
    ("C8", "mean_delay_s", INC, "", 0.544),
    *(("C8", f"nrs_{broker}", INC, "", 0.0) for broker in "ABCDE"),
    *(("C8", "nrs_inner", INC, "", 59.2), ("C8", "mean_delay_s", INC, "", 0.333)),
    ("C9", "steady_delay_s", INC, "", 0.24),
    *(("C10", "probe_delay_s", A, "", 4400.0), ("C10", "probe_delay_s", A, "", 2000.0)),
    *(("C10", "probe_delay_s", L, A, -0.5), ("C10", "probe_delay_s", P, A, -0.5)),
    *(("C10", "probe_delay_s", INC, "", 0.4), ("C10", "probe_delay_s", A, "", 0.02)),
    *(("C10", "probe_delay_s", INC, "", 0.02), ("C10", "congested_s", A, "", 10_800.0)),
    ("C10", "congested_s", A, "", 32_400.0),
    *(("C11", "probe_delay_s", A, "", 2000.0), ("C11", "probe_delay_s", INC, "", 0.05)),
    *(("C11", "probe_delay_s", INC, A, -0.97), ("C11", "rows_core", A, "", 7300.0)),
    *(("C11", "rows_core", INC, "", 1200.0), ("C11", "rows_core", INC, A, -0.82)),
    *(("C12", "rows", INC, A, 1.0), ("C12", "rows_deviation", INC, A, 1.0)),
    ("C12", "largest_queue", INC, A, 1.0),
]
"""Id, measure, of, against, the paper's figure."""


def of(id: str) -> list[Claim]:
    return [claim for claim in PAPER.claims if claim.id == f"covering/{id}"]


def test_the_papers_figures_are_claims() -> None:
    claims = [
        (c.id, c.measure, c.of, c.against, c.paper) for c in PAPER.claims if c.paper is not None
    ]
    assert claims == [(f"covering/{id}", *rest) for id, *rest in FIGURES]


def test_every_row_has_claims_and_curves_or_is_a_table_of_the_paper() -> None:
    rows = {f"covering/C{number}" for number in range(1, 13)}
    assert {claim.id for claim in PAPER.claims} == rows
    drawn = {id for plot in PAPER.plots for id in plot.ids}
    assert drawn == rows - {"covering/C1", "covering/C4"}


def test_every_claim_says_something_of_its_own() -> None:
    said = [(claim.id, claim.metric) for claim in PAPER.claims]
    assert len(set(said)) == len(said)
    computed = [(c.id, c.kind, c.campaign, c.measure, c.of, c.where) for c in PAPER.claims]
    twice = {one for one in computed if computed.count(one) > 1}
    # Two figures of the paper for one of ours.
    assert twice == {("covering/C10", "level", "slow_engine", "probe_delay_s", "active", "most")}


def test_what_is_compared_says_so_in_its_title() -> None:
    for claim in PAPER.claims:
        if claim.kind in ("effect", "gap", "wins"):
            assert claim.of in claim.metric and claim.against in claim.metric, claim.metric
        else:
            assert claim.of in claim.metric or claim.id == "covering/C8", claim.metric


@pytest.mark.parametrize("id", ["C2", "C6", "C10"])
def test_where_the_paper_has_two_figures_a_note_says_so(id: str) -> None:
    notes = " ".join(claim.note for claim in of(id))
    assert "the paper gives over 1 000 s" in notes or "the paper also gives 2 000 s" in notes


def test_how_long_congestion_lasts_is_bounded_by_how_long_it_is_watched() -> None:
    lasting = [claim for claim in PAPER.claims if claim.measure == "congested_s"]
    assert lasting and all(claim.explained for claim in lasting)
    assert all("watched for 7" in claim.note for claim in lasting)
    assert [claim for claim in PAPER.claims if claim.explained] == lasting

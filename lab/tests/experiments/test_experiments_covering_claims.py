"""The covering paper's claims, and what their notes must say."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.campaign import Claim
from reefcast_lab.experiments.covering.claims import PAPER


def of(id: str) -> list[Claim]:
    return [claim for claim in PAPER.claims if claim.id == f"covering/{id}"]


def test_every_row_has_claims_and_curves_or_is_a_table_of_the_paper() -> None:
    rows = {f"covering/C{number}" for number in range(1, 13)}
    assert {claim.id for claim in PAPER.claims} == rows
    drawn = {id for plot in PAPER.plots for id in plot.ids}
    assert drawn == rows - {"covering/C1", "covering/C4"}


def test_every_claim_says_something_of_its_own() -> None:
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
    assert "the paper gives over 1 000 s" in notes or "the paper gives 4 400 s" in notes


def test_how_long_congestion_lasts_is_bounded_by_how_long_it_is_watched() -> None:
    lasting = [claim for claim in PAPER.claims if claim.measure == "congested_s"]
    assert lasting and all(claim.explained for claim in lasting)
    assert all("watched for 7" in claim.note for claim in lasting)


def test_a_figure_that_a_parameter_was_taken_from_is_explained() -> None:
    taken = [claim for claim in PAPER.claims if claim.note.startswith("taken from the paper")]
    assert {claim.id for claim in taken} == {"covering/C1", "covering/C7", "covering/C8"}
    assert all(claim.explained for claim in taken)
    overlay = [claim for claim in of("C4") if "taken from the paper: the overlay" in claim.note]
    assert [claim.paper for claim in overlay] == [700, 20_000]
    assert all(claim.explained for claim in overlay)


def test_a_figure_that_others_of_the_paper_exclude_is_explained() -> None:
    excluded = [claim for claim in PAPER.claims if "exclude" in claim.note]
    assert len(excluded) >= 6 and all(claim.explained for claim in excluded)


def test_counts_come_from_placements_and_not_from_a_few_simulated_seeds() -> None:
    counted = [c for c in PAPER.claims if c.measure.startswith("nrs_") or c.measure == "rows_after"]
    assert counted and {c.campaign for c in counted} == {"placements", "placements_threshold"}

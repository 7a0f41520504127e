"""Which of OctopiA's claims need an explanation, and which figures may be bounds."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.octopia.claims import PAPER
from reefcast_lab.experiments.octopia.parameters import FILE


@pytest.mark.parametrize("id", ["O5", "O6", "O8"])
def test_what_follows_from_an_assumption_or_must_differ_is_never_reproduced(id: str) -> None:
    mine = [claim for claim in PAPER.claims if claim.id == f"octopia/{id}"]
    assert mine and all(claim.explained and claim.note for claim in mine)


@pytest.mark.parametrize("id", ["O4", "O7", "O10"])
def test_what_the_preset_was_chosen_by_says_so(id: str) -> None:
    mine = [claim for claim in PAPER.claims if claim.id == f"octopia/{id}"]
    assert all("was chosen looking at" in claim.note for claim in mine)
    sizes = [claim for claim in mine if claim.kind == "effect"]
    assert sizes and all(claim.explained for claim in sizes)
    assert f"{id}" in FILE.read_text(encoding="utf-8").split("[overlay]")[0]


@pytest.mark.parametrize("id", ["O1", "O9", "O11"])
def test_what_depends_on_the_paper_s_implementation_is_counted_and_measured(id: str) -> None:
    """The paper's figures stand beside the counts; what our engine takes is a row of its own."""
    mine = [claim for claim in PAPER.claims if claim.id == f"octopia/{id}"]
    counted = [claim for claim in mine if "by count" in claim.metric]
    measured = [claim for claim in mine if "measured" in claim.metric]
    assert len(counted) >= len(measured) > 0
    assert sum(claim.paper is not None for claim in counted) == len(measured)
    assert all(claim.note for claim in counted)
    assert all(claim.paper is None and claim.note for claim in measured)


def test_times_until_stable_may_be_bounds() -> None:
    for claim in PAPER.claims:
        assert claim.settled == ("stable" if claim.measure == "stable_s" else "")

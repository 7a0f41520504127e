"""The claims beside the spec's table, figure by figure; and what has to be explained."""

from __future__ import annotations

import pytest

from reefcast_lab.experiments.octopia.claims import PAPER
from reefcast_lab.experiments.octopia.parameters import FILE

OCTOPIA, PADRES = "spr", "tid-s"
"""Without congestion one routing of each system stands for it."""

TABLE = [
    ("O1", "effect", "tid-s", "spr", 2.66),
    ("O1", "flat", "spr", "", 0.0),
    ("O1", "flat", "tid-s", "", 0.0),
    ("O2", "effect", "spr", "tid-s", -0.93),
    ("O3", "effect", "tid-s", "spr", 88.5),
    ("O4", "effect", "tid-s", "spr", -0.33),
    ("O5", "effect", "spr", "tid-s", 0.325),
    ("O6", "effect", "spr", "tid-s", -0.34),
    ("O7", "effect", "spr", "tid-s", -0.25),
    ("O8", "effect", "idr", "spr", 0.008),
    ("O8", "effect", "tid-d", "tid-s", 0.006),
    ("O9", "effect", "spr", "tid-s", 0.11),
    ("O9", "gap", "spr", "tid-s", -1.0),
    ("O10", "effect", "spr", "tid-s", -0.045),
    ("O10", "gap", "spr", "tid-s", 1.0),
    ("O11", "effect", "tid-d", "idr", 12.3),
    ("O11", "effect", "tid-d", "tid-s", 6.0),
    ("O11", "effect", "idr", "spr", 0.07),
    ("O12", "difference", "idr", "spr", -35.0),
    ("O12", "effect", "idr", "spr", 0.0004),
    ("O12", "effect", "idr", "spr", -0.32),
    ("O12", "difference", "spr", "tid-s", -200.0),
    ("O12", "difference", "idr", "tid-d", -200.0),
    ("O12", "difference", "tid-s", "tid-d", -15.0),
    ("O13", "effect", "spr", "tid-s", -0.54),
    ("O13", "effect", "idr", "tid-d", -0.54),
    ("O13", "level", "idr", "", 0.51),
    ("O13", "level", "spr", "", 0.48),
    ("O13", "effect", "tid-d", "tid-s", 0.18),
    ("O13", "wins", "tid-s", "tid-d", 0.65),
    ("O13", "wins", "tid-d", "tid-s", 0.25),
]
"""reproduction.md: id, kind, of, against, the paper's figure. A gap that closes rises from below 0
(O10), and falls from above (O9)."""


def test_the_claims_are_those_of_the_spec() -> None:
    claims = [(c.id, c.kind, c.of, c.against, c.paper) for c in PAPER.claims]
    assert claims == [(f"octopia/{id}", *rest) for id, *rest in TABLE]


@pytest.mark.parametrize("id", ["O5", "O6", "O8"])
def test_what_follows_from_an_assumption_or_must_differ_is_never_reproduced(id: str) -> None:
    mine = [claim for claim in PAPER.claims if claim.id == f"octopia/{id}"]
    assert mine and all(claim.explained and claim.note for claim in mine)


def test_explained_is_what_has_a_note() -> None:
    assert all(claim.note for claim in PAPER.claims if claim.explained)


@pytest.mark.parametrize("id", ["O4", "O7", "O10"])
def test_what_the_preset_was_chosen_by_says_so(id: str) -> None:
    notes = {claim.note for claim in PAPER.claims if claim.id == f"octopia/{id}"}
    assert len(notes) == 1 and "was chosen looking at" in notes.pop()
    assert f"{id}" in FILE.read_text(encoding="utf-8").split("[overlay]")[0]


def test_times_until_stable_may_be_bounds() -> None:
    for claim in PAPER.claims:
        assert claim.settled == ("stable" if claim.measure == "stable_s" else "")

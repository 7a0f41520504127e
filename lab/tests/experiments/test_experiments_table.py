"""When a figure counts as reproduced, and how a page says so."""

from __future__ import annotations

import dataclasses

import pytest

from reefcast_lab.experiments.campaign import Claim
from reefcast_lab.experiments.table import Finding, ours_text, paper_text, ratio_text, state_text

THIN = "\N{NARROW NO-BREAK SPACE}"


def row(kind, paper, ours, *, interval=None, explained=False):
    claim = Claim("toy/T1", "delay", kind, "sizes", "delay", "a", "b", paper, "why", explained)
    return Finding(claim, ours, interval, 3)


@pytest.mark.parametrize(
    ("kind", "paper", "ours", "reproduced"),
    [
        ("effect", -0.33, -0.22, True),
        ("effect", -0.33, -0.44, True),
        ("effect", -0.33, -0.21, False),
        ("effect", -0.33, -0.45, False),
        ("effect", -0.33, 0.33, False),
        ("effect", 0.045, 0.3, True),  # under 5 %: the sign
        ("effect", 0.045, -0.001, False),
        ("effect", 0.05, 0.3, False),
        ("level", 217.0, 217.0, True),
        ("level", 0.02, 0.5, False),  # no sign of an effect
        ("level", 0.0, 0.0, True),
        ("level", 0.0, 0.1, False),
        ("difference", -35.0, -40.0, True),
        ("difference", -35.0, 35.0, False),
        ("gap", -1.0, -0.0001, True),
        ("gap", -1.0, 0.2, False),
        ("flat", 0.0, -0.3, True),
        ("flat", 0.0, 0.4, False),
        ("wins", 0.65, 0.6, True),
        ("wins", 0.65, 0.2, False),
        ("effect", -0.33, None, False),
        ("effect", None, 0.5, None),
    ],
)
def test_reproduced(kind, paper, ours, reproduced):
    assert row(kind, paper, ours).reproduced is reproduced


def test_explained_is_never_reproduced():
    explained = row("effect", -0.33, -0.33, explained=True)
    assert (explained.reproduced, state_text(explained)) == (False, "explained")


def test_the_fields_of_a_row():
    assert row("effect", 0.5, 0.25, interval=0.1).as_dict() == {
        "id": "toy/T1",
        "metric": "delay",
        "paper": 0.5,
        "ours": 0.25,
        "ratio": 0.5,
        "reproduced": False,
        "note": "why",
        "interval": 0.1,
        "explained": False,
    }


@pytest.mark.parametrize(
    ("kind", "paper", "ours", "interval", "told"),
    [
        ("effect", -0.33, 0.284, 0.0123, ("-33 %", "+28.4 % ± 1.23", "-0.86", "no")),
        ("effect", 12.3, 11.0, None, (f"+1{THIN}230 %", f"+1{THIN}100 %", "0.89", "reproduced")),
        (
            "effect",
            87.5,
            71.333,
            0.5,
            ("87.5 times more", "71.3 times more ± 0.5", "0.82", "reproduced"),
        ),
        ("level", 217.0, 216.5, 1.0, ("217", "216 ± 1", "1.00", "reproduced")),
        ("gap", -1.0, -0.05, 0.01, ("falling", "-5 points ± 1", "", "reproduced")),
        ("flat", 0.0, 0.02, None, ("flat", "+2 %", "", "reproduced")),
        ("wins", 0.65, 0.6, 0.05, ("65 %", "60 % ± 5", "0.92", "reproduced")),
        ("level", None, 3.0, None, ("", "3", "", "")),
        ("level", 3.0, None, None, ("3", "not measured", "", "no")),
    ],
)
def test_in_words(kind, paper, ours, interval, told):
    it = row(kind, paper, ours, interval=interval)
    assert (paper_text(it), ours_text(it), ratio_text(it), state_text(it)) == told


@pytest.mark.parametrize(
    ("unsettled", "told", "words"),
    [
        ((), "-35 ± 2", "why"),
        (("a",), "≥ -35 ± 2", "a lower bound: some runs of a were not stable before their end"),
        (("b",), "≤ -35 ± 2", "an upper bound: some runs of b were not stable before their end"),
        (
            ("a", "b"),
            "-35 ± 2",
            "computed from lower bounds on both sides: some runs of a and b were not stable before "
            "their end",
        ),
    ],
)
def test_what_did_not_end_is_a_bound(unsettled, told, words):
    claim = dataclasses.replace(row("difference", -35.0, None).claim, settled="stable")
    it = Finding(claim, -35.0, 2.0, 3, unsettled)
    assert ours_text(it) == told
    assert it.note == it.as_dict()["note"] == (f"why; {words}" if unsettled else words)

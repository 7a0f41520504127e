"""Each rule of the delivery promises is broken on purpose, and the runs find it out."""

from __future__ import annotations

import logging

import pytest
from torture_mutants import MUTANTS, SURVIVORS, Mutant

from reefcast_lab.torture.live import LiveTorture
from reefcast_lab.torture.run import torture

MOST = 2000
"""Within how many runs a mutant must be found."""
QUICK = [each for each in MUTANTS if each.quick]


def _found(mutant: Mutant, seeds: range, patch: pytest.MonkeyPatch) -> int | None:
    """Return the first of these seeds whose run finds the mutant."""
    mutant.breaks(patch)
    logging.disable(logging.CRITICAL)
    try:
        for seed in seeds:
            live = LiveTorture(seed, mutant.routing).run if mutant.live else None
            problems = live() if live else torture(seed, mutant.routing)[1]
            if any(problem.startswith(mutant.promise) for problem in problems):
                return seed
    finally:
        logging.disable(logging.NOTSET)
    return None


@pytest.mark.parametrize("mutant", QUICK, ids=[each.breaks.__name__ for each in QUICK])
def test_a_broken_rule_is_found_out(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(mutant, range(mutant.first, MOST), monkeypatch) is not None


@pytest.mark.soak
@pytest.mark.parametrize("mutant", MUTANTS, ids=[each.breaks.__name__ for each in MUTANTS])
def test_every_broken_rule_is_found_out(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(mutant, range(MOST), monkeypatch) is not None


def test_rules_without_a_mutant_are_known() -> None:
    """Rule 14, that of advisory events, is the only one that no mutant breaks."""
    rules = {each.rule for each in MUTANTS} | {each.rule for each in SURVIVORS}
    assert {str(number) for number in range(1, 15)} - rules == {"14"}

"""Each rule of the delivery promises that is broken on purpose is found out."""

from __future__ import annotations

import logging

import pytest
from simulation_torture_mutants import MUTANTS, SURVIVORS, Mutant

from reefcast.simulation.torture.run import torture

MOST = 2000
"""Runs in which a mutant must be found."""
QUICK = [each for each in MUTANTS if each.quick]


def _found(mutant: Mutant, seeds: range, patch: pytest.MonkeyPatch) -> int | None:
    """Return the first of these seeds whose run finds the mutant."""
    mutant.breaks(patch)
    logging.disable(logging.CRITICAL)
    try:
        for seed in seeds:
            _, problems = torture(seed, mutant.routing)
            if any(problem.startswith(mutant.promise) for problem in problems):
                return seed
    finally:
        logging.disable(logging.NOTSET)
    return None


@pytest.mark.parametrize("mutant", QUICK, ids=[each.breaks.__name__ for each in QUICK])
def test_a_broken_rule_is_found_out(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(mutant, range(MOST), monkeypatch) is not None


@pytest.mark.soak
@pytest.mark.parametrize("mutant", MUTANTS, ids=[each.breaks.__name__ for each in MUTANTS])
def test_every_broken_rule_is_found_out(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _found(mutant, range(MOST), monkeypatch) is not None


def test_rules_without_a_mutant_are_known() -> None:
    """The rules that no mutant of these breaks are those of parts that are not tortured here: the
    publisher's library (8), attaching from anywhere (12), advisory events (14)."""
    rules = {each.rule for each in MUTANTS} | {each.rule for each in SURVIVORS}
    assert {str(number) for number in range(1, 15)} - rules == {"8", "12", "14"}

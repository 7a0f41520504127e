"""Which faults are played, and the page about the outcomes."""

from __future__ import annotations

from torture.faults import FAULTS, NOTICED
from torture.ledger import Lost, Outcome
from torture.matrix import page, plans
from torture.network import SETUPS
from torture.run import Verdict


def verdict(setup: str, fault: str, outcome: Outcome, **facts: float) -> Verdict:
    named = {name.replace("_", " "): value for name, value in facts.items()}
    return Verdict(setup, fault, 1, outcome, named)


def test_every_fault_is_played_on_every_setup_and_drawn_from_the_seed() -> None:
    some = plans(list(SETUPS), 1, scale=1.0, rate=300.0, mixed=2)
    assert [plan.setup for plan in some] == list(SETUPS)
    assert all(set(FAULTS) < set(plan.faults) for plan in some)
    parts = {part for plan in some for fault in plan.faults for part in fault.split("+")}
    assert parts == set(FAULTS)
    assert some == plans(list(SETUPS), 1, scale=1.0, rate=300.0, mixed=2)
    assert some != plans(list(SETUPS), 2, scale=1.0, rate=300.0, mixed=2)


def test_the_page_sums_by_fault_and_marks_what_went_wrong() -> None:
    lost = [Lost(("p", n), float(n), "s", "b") for n in range(3)]
    verdicts = [
        verdict("acyclic", "kill", Outcome(owed=1000, excused=lost, longest_s=1.25)),
        verdict("gossip", "kill", Outcome(owed=500, lost=lost[:1], longest_s=2.0)),
        verdict("acyclic", "freeze", Outcome(owed=10, doubled=2, longest_s=5.0), **{NOTICED: 4.2}),
    ]
    made = page(verdicts, "Words.", "`make soak`")
    assert "Words." in made and "of one such run: `make soak`. All neighbours" in made
    assert "after 4.2 to 4.2 s" in made
    kill = f"| `kill`: {FAULTS['kill'].says} | 1 500 | 4 | 3 | 0 | 0 | 0 | 2.0 | 0.0 |"
    assert kill in made
    assert "| | acyclic | gossip |" in made
    assert "| `kill` | 3 / 1.2 | **1 / 2.0** |" in made
    assert "| `freeze` | **0 / 5.0** |  |" in made

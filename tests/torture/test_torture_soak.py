"""Every fault on every routing, and combinations of faults, at full length: over an hour."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from torture.matrix import plans, play, write_page
from torture.network import SETUPS
from torture.run import Verdict, said

SEED = 1


@pytest.mark.soak
def test_every_fault_on_every_routing(record_property: Callable[[str, object], None]) -> None:
    """The page with the table of outcomes is written to `out/faults.md`, whatever they are."""
    wanted = plans(list(SETUPS), SEED, scale=1.0, rate=300.0, mixed=1)
    verdicts: list[Verdict] = []
    for plan in wanted:
        verdicts += play(plan)
        write_page(verdicts, Path("out/faults.md"), f"`make soak`, seed {SEED}")
    wrong = [said(each) for each in verdicts if not each.fine]
    record_property("page", "out/faults.md")
    assert not wrong, "\n".join(wrong)

"""Live networks under faults, short: routings of every kind, with some of the faults.

`make soak` plays all faults on all routings, at their full lengths.
"""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from reefcast.server import child
from torture.network import SETUPS
from torture.run import Plan, Verdict, run, said

LIMIT_S = 900.0
"""The limit of a run: many times what one takes on a busy machine."""
START_S = 300.0
"""How long a broker may take to start, beside six others that start."""
FAULTS = {
    "flooding": ("disk",),
    "acyclic": ("stop",),
    "acyclic-lazy": ("reset", "partition", "descriptors", "freeze"),
    "acyclic-active": ("half-close",),
    "acyclic-packing": ("kill",),
    "acyclic-incremental": ("churn",),
    "spr": ("cut",),
    "idr": ("slow", "kill+replace"),
    "tid-s": ("kill",),
    "tid-d": ("stop",),
    "mesh": ("partition-reset",),
    "spr-mesh": ("delay",),
    "idr-mesh": ("kill",),
    "gossip": ("partition", "kill"),
}
LATER = {
    *("acyclic", "acyclic-active", "acyclic-packing", "acyclic-incremental"),
    *("spr", "tid-s", "tid-d", "spr-mesh", "idr-mesh"),
}
"""Setups for `make soak` only; each has a similar one among the others."""
PLANS = [
    pytest.param(
        Plan(setup, faults, seed), id=setup, marks=[pytest.mark.soak] if setup in LATER else []
    )
    for seed, (setup, faults) in enumerate(FAULTS.items())
]


def played(plan: Plan) -> list[Verdict]:
    async def bounded() -> list[Verdict]:
        async with asyncio.timeout(LIMIT_S):
            return await run(plan)

    return uvloop.run(bounded())


def test_no_routing_is_left_out() -> None:
    assert list(FAULTS) == list(SETUPS)


@pytest.mark.parametrize("plan", PLANS)
def test_what_came_is_what_was_owed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "START_S", START_S)
    verdicts = played(plan.shortened())
    wrong = [said(each) for each in verdicts if not each.fine]
    assert not wrong, "\n".join(wrong)
    assert len(verdicts) == len(plan.faults)
    assert all(each.outcome.owed > 100 for each in verdicts)

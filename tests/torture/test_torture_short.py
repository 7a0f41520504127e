"""Live networks under faults, short: each class of faults, on each kind of overlay.

`make soak` plays all of them on all routings, for as long as they take in life.
"""

from __future__ import annotations

import asyncio

import pytest
import uvloop

from reefcast.server import child
from torture.run import Plan, Verdict, run, said

LIMIT_S = 900.0
"""No run waits for ever; many times what one takes on a machine that has much else to do."""
START_S = 300.0
"""For a broker, beside six others that start."""
PLANS = [
    Plan(
        "acyclic-lazy",
        ("reset", "cut", "half-close", "partition", "descriptors", "kill", "freeze"),
        seed=1,
    ),
    Plan("acyclic-packing", ("churn", "stop", "kill+replace"), seed=2),
    Plan("idr", ("reset+replace", "slow", "kill", "stop"), seed=3),
    Plan("gossip", ("partition", "cut", "kill"), seed=4),
]


def played(plan: Plan) -> list[Verdict]:
    async def bounded() -> list[Verdict]:
        async with asyncio.timeout(LIMIT_S):
            return await run(plan)

    return uvloop.run(bounded())


@pytest.mark.parametrize("plan", PLANS, ids=lambda plan: plan.setup)
def test_what_came_is_what_was_owed(plan: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child, "START_S", START_S)
    verdicts = played(plan.shortened())
    wrong = [said(each) for each in verdicts if not each.fine]
    assert not wrong, "\n".join(wrong)
    assert len(verdicts) == len(plan.faults)
    assert all(each.outcome.owed > 100 for each in verdicts)

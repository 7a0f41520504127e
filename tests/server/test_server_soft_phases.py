"""The phases of a soft link: a walk through everything that can happen."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import InternalError
from reefcast.server.soft_phases import NEXT, Phase, Step, after

STEPS = st.lists(st.sampled_from(sorted(Step, key=lambda step: step.name)), max_size=12)


@given(st.sampled_from((Phase.ASKED, Phase.UP)), STEPS)
def test_a_link_has_ended_when_it_was_lost_or_both_have_said_done(
    phase: Phase, steps: list[Step]
) -> None:
    taken: list[Step] = []
    for step in steps:
        if (phase, step) not in NEXT:
            with pytest.raises(InternalError, match=rf"is {phase.name} cannot {step.name}"):
                after(phase, step)
            continue
        phase = after(phase, step)
        taken.append(step)
    both = Step.SAY in taken and Step.HEAR in taken
    assert (phase is Phase.ENDED) == (Step.LOSE in taken or both)
    assert taken.count(Step.SAY) <= 1
    assert taken.count(Step.HEAR) <= 1


@pytest.mark.parametrize("phase", [Phase.UP, Phase.CLOSING, Phase.SAID, Phase.HEARD])
def test_who_is_up_can_always_be_closed_in_order(phase: Phase) -> None:
    reached, todo = set[Phase](), [phase]
    while todo:
        found = todo.pop()
        if found not in reached:
            reached.add(found)
            orderly = (then for (at, by), then in NEXT.items() if at is found and by != Step.LOSE)
            todo += orderly
    assert Phase.ENDED in reached

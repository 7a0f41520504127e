"""Frames that are numbered, kept and acknowledged, against lists that forget nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.errors import ProtocolError
from reefcast.protocol.numbered import Unacknowledged

STEPS = st.lists(
    st.one_of(
        st.sampled_from(("add", "add all")), st.integers(-1, 12), st.tuples(st.integers(0, 5))
    )
)


@given(STEPS)
def test_what_is_kept_is_what_was_not_acknowledged(steps: list[str | int | tuple[int]]) -> None:
    kept: Unacknowledged[int] = Unacknowledged()
    sent: list[int] = []
    first = acknowledged = 0
    for step in steps:
        if step == "add":
            kept.add(len(sent))
            sent.append(len(sent))
        elif step == "add all":
            kept.add_all(range(len(sent), len(sent) + 3))
            sent.extend(range(len(sent), len(sent) + 3))
        elif isinstance(step, tuple):
            assert kept.begin(step[0]) == sent[acknowledged - first :]
            sent, first, acknowledged = [], step[0], step[0]
        elif not 0 <= int(step) <= first + len(sent):
            with pytest.raises(ProtocolError, match=f"only {first + len(sent)} were sent"):
                kept.acknowledge(int(step))
        else:
            number = max(acknowledged, int(step))
            assert kept.acknowledge(int(step)) == sent[acknowledged - first : number - first]
            acknowledged = number
        assert list(kept) == sent[acknowledged - first :]
        assert (len(kept), kept.acknowledged) == (len(list(kept)), acknowledged)
        assert kept.last == first + len(sent)


@given(st.lists(st.one_of(st.integers(1, 4), st.just("all"), st.floats(0, 1)), max_size=30))
def test_items_of_several_frames(steps: list[int | str | float]) -> None:
    """An item is complete when all of its frames are acknowledged; each frame counts."""
    kept: Unacknowledged[tuple[int, ...]] = Unacknowledged()
    sent: list[tuple[int, ...]] = []
    last = acknowledged = 0
    for step in steps:
        if isinstance(step, float):
            acknowledged = max(acknowledged, int(step * last))
            done = kept.acknowledge(int(step * last))
            assert done == [item for item in sent if item[-1] <= acknowledged]
            sent = sent[len(done) :]
        elif isinstance(step, int):
            item = tuple(range(last + 1, last + 1 + step))
            kept.add(item, step)
            sent.append(item)
            last += step
        else:
            kept.add_all([(last + 1,), (last + 2,)])
            sent += [(last + 1,), (last + 2,)]
            last += 2
        assert (list(kept), len(kept), kept.last) == (sent, last - acknowledged, last)
        frames = [number for item in kept for number in item]
        assert frames[kept.partly :] == list(range(acknowledged + 1, last + 1))
    assert kept.begin(7) == sent
    assert (len(kept), kept.partly, kept.last) == (0, 0, 7)

"""The counter of the hot path counts as the library's does."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.routing.counts import Counts


@given(st.lists(st.sampled_from("abc")), st.lists(st.sampled_from("abc")))
def test_it_is_a_counter(first: list[str], second: list[str]) -> None:
    counts, twin = Counts[str](first), Counter(first)
    for key in second:
        counts[key] += 1
        twin[key] += 1
    assert counts == twin
    assert counts + Counter("ab") == twin + Counter("ab")
    assert counts["never"] == 0
    assert "never" not in counts


def test_what_was_never_counted_cannot_be_taken_out() -> None:
    counts = Counts("a")
    del counts["a"]
    with pytest.raises(KeyError):
        del counts["a"]

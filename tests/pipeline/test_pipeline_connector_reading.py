"""The events that a task is to read, among those that storages answer with."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.pipeline.connector.ids import hashes_of
from reefcast.pipeline.connector.reading import Missing

BODIES = [
    wire.encode_publication(Publication("p", number, number // 3, {"n": number}, ("t",)))
    for number in range(1, 31)
]
HASHES = hashes_of(BODIES)
numbers = st.lists(st.integers(0, len(BODIES) - 1), max_size=40)


@given(st.sets(st.integers(0, len(BODIES) - 1)), st.lists(numbers, max_size=4))
def test_each_expected_event_is_found_once(expected: set[int], portions: list[list[int]]) -> None:
    """Events come in any order, several times, and among others; against plain sets."""
    missing = Missing(HASHES[sorted(expected)])
    left = set(expected)
    for portion in portions:
        found = [n for i, n in enumerate(portion) if n in left and n not in portion[:i]]
        assert missing.among([BODIES[n] for n in portion]) == [BODIES[n] for n in found]
        left -= set(found)
        assert missing.count == len(left)


def test_nothing_is_expected() -> None:
    missing = Missing(np.empty(0, np.uint64))
    assert missing.among(BODIES) == [] and missing.count == 0

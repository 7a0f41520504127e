"""The events that a task is to read, among those that storages answer with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from reefcast.model import wire
from reefcast.model.publication import Publication
from reefcast.pipeline.connector import reading
from reefcast.pipeline.connector.ids import hashes_of
from reefcast.pipeline.connector.options import Broker, Selection
from reefcast.pipeline.connector.reading import Missing, Slice, slice_portions

BODIES = [
    wire.encode_publication(Publication("p", number, number // 3, {"n": number}, ("t",)))
    for number in range(1, 31)
]
HASHES = hashes_of(BODIES)
numbers = st.lists(st.integers(0, len(BODIES) - 1), max_size=40)


@example({0, 1, 2, 9}, [[9, 2, 1, 1], [1, 0, 7]])
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


class Storages:
    """Storages that have so many more of `BODIES` each time they are asked; `read`: how many
    portions, of ten, were taken."""

    def __init__(self, first: int, more: int) -> None:
        self.had, self.more, self.read = first, more, 0

    def portions(self, since_us: int, until_us: int) -> Iterator[list[bytes]]:
        had = self.had
        self.had += self.more
        for start in range(0, had, 10):
            self.read += 1
            yield BODIES[start : min(start + 10, had)]


@pytest.mark.parametrize(
    ("first", "more", "expected", "portions"),
    [(30, 0, range(5), 1), (30, 0, range(25), 3), (10, 10, range(25), 6)],
    ids=["in the first", "in all", "of which some come later"],
)
def test_a_task_asks_until_it_has_all_that_is_expected_and_no_longer(
    monkeypatch: pytest.MonkeyPatch, first: int, more: int, expected: range, portions: int
) -> None:
    storages = Storages(first, more)
    monkeypatch.setattr(reading, "past", lambda *_: nullcontext(storages))
    monkeypatch.setattr(reading, "PAUSE_S", 0)
    part = Slice([(0, 100)], HASHES[[*expected]])
    selection = Selection(Broker("reefcast://127.0.0.1:1", {}), "TRUE", 1)
    found = [body for some in slice_portions(selection, part, fail=True) for body in some]
    assert found == [BODIES[n] for n in expected]
    assert storages.read == portions

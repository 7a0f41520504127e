"""Keys and handles, against a dict and a list."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.matching import keys
from reefcast.matching.keys import Keys

KEYS: tuple[Any, ...] = (*range(-5, 12), 2**63, 2.5, True, "a", ("a", 1), ("b", 2), None)


@pytest.fixture(scope="module", autouse=True)
def _small() -> Iterator[None]:
    """Make tables so small that they grow and split all the time."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (("FIRST_ROOM", 2), ("STEP", 3), ("FEW", 4), ("PARTS", 3)):
            patch.setattr(keys, name, value)
        yield


@given(st.lists(st.one_of(st.sampled_from(KEYS), st.integers(-3, 30)), max_size=60), st.booleans())
def test_each_key_has_a_handle_of_its_own(changes: list[Any], only_ints: bool) -> None:
    """In this test, a key that comes again is removed."""
    known, twin = Keys[Any](), dict[Any, int]()
    for key in changes:
        if only_ints and type(key) is not int:
            continue
        if key in twin:
            assert known.remove(key) == twin.pop(key)
        else:
            handle = known.new_handle(key)
            assert handle not in twin.values()
            known.enter(key, handle)
            twin[key] = handle
        assert {each: known.handle_of(each) for each in KEYS} == {
            each: twin.get(each) for each in KEYS
        }
        assert dict(known.items()) == twin and len(known) == len(twin)
        for each, handle in twin.items():
            assert known.array[handle] == each
    assert max(twin.values(), default=0) < len(known.array) <= 2 * len(changes) + 5
    if all(type(key) is int and abs(key) < 2**63 for key in changes):
        assert known.array.dtype == np.int64


def test_memory_grows_with_the_keys() -> None:
    known = Keys[int]()
    before = known.memory_bytes()
    for key in range(2000):
        known.enter(key, known.new_handle(key))
    assert 40 * 2000 < known.memory_bytes() - before < 400 * 2000

"""Suspicion of a ghost: a permitted share of false positives never condemns it, a larger one does,
soon."""

from __future__ import annotations

import random
from collections.abc import Iterable
from itertools import repeat
from math import exp

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reefcast.routing.covering.suspicion import LIMIT, Suspicion


def certain_after(limit: float, seen: Iterable[bool]) -> int | None:
    """Return after how many of these publications the suspicion is certain; None if it never is."""
    test, suspicion = Suspicion(limit), 0.0
    for count, one in enumerate(seen, 1):
        suspicion = test.after(suspicion, one)
        if test.is_certain(suspicion):
            return count
    return None


def drawn(share: float, seed: int, count: int) -> Iterable[bool]:
    rng = random.Random(seed)
    return (rng.random() < share for _ in range(count))


@pytest.mark.long
@pytest.mark.parametrize(
    ("limit", "share"), [(0.1, 0.1), (0.1, 0.074), (0.5, 0.5), (0.9, 0.9), (0.9, 0.866)]
)
def test_what_is_allowed_is_never_condemned(limit: float, share: float) -> None:
    """0.074 and 0.866 are the shares of two ghosts in the first hour of the covering paper's
    evaluation. A test of every hundred publications, with limits of 0.1 and 0.9, condemned them."""
    assert certain_after(limit, drawn(share, 1, 200_000)) is None


@pytest.mark.parametrize(
    ("limit", "share", "soon"),
    [(0.1, 0.2, 1500), (0.1, 0.14, 8000), (0.5, 0.65, 1500), (0.5, 0.6, 3000), (0.9, 0.98, 1500)],
)
def test_what_is_not_is_condemned_soon(limit: float, share: float, soon: int) -> None:
    for seed in range(5):
        assert certain_after(limit, drawn(share, seed, soon)) is not None


def test_how_many_false_positives_alone_are_enough() -> None:
    found = [certain_after(limit, repeat(True, 1000)) for limit in (0.0, 0.1, 0.5, 0.9, 1.0)]
    assert found == [3, 46, 120, 384, None]


def test_a_long_good_time_before_does_not_outweigh_a_bad_one() -> None:
    test, suspicion = Suspicion(0.1), 0.0
    for one in drawn(0.02, 1, 50_000):
        suspicion = test.after(suspicion, one)
    for _ in range(46):
        suspicion = test.after(suspicion, True)
    assert test.is_certain(suspicion)


@given(st.floats(0.001, 0.999))
def test_at_the_limit_the_likelihood_ratio_has_the_mean_1(limit: float) -> None:
    """This mean bounds the mistakes: one in 1e9 publications."""
    test = Suspicion(limit)
    up = exp(test.after(10.0, True) - 10)
    down = exp(test.after(10.0, False) - 10)
    assert limit * up + (1 - limit) * down == pytest.approx(1)
    assert up > 1 > down
    assert exp(LIMIT) == pytest.approx(1e9)

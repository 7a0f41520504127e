"""Pauses between attempts."""

from __future__ import annotations

import random

from reefcast.timing import Backoff


def test_pauses_double_up_to_the_longest_and_are_spread() -> None:
    backoff = Backoff(1.0, 5.0, random.Random(1))
    pauses = [backoff.pause_s() for _ in range(6)]
    for pause, full in zip(pauses, [1, 2, 4, 5, 5, 5], strict=True):
        assert full / 2 <= pause <= full
    assert pauses[-1] != pauses[-2]
    backoff.reset()
    assert backoff.pause_s() <= 1

"""Strategies that property tests share."""

from __future__ import annotations

from hypothesis import strategies as st

RANDOMS = st.randoms(use_true_random=False)
"""Generators whose numbers hypothesis chooses one by one, so that it can shrink a failing case.

Each number costs tens of microseconds, and a case ends after some thousand of them: tests that play
whole simulations draw a seed instead, and are replayed from it.
"""

"""Fixture for benchmarks, which collect Python's garbage before each measurement."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="module")
def little_to_collect() -> None:
    """Let the collector ignore what earlier tests left: with a million such objects, a benchmark of
    a quarter of a second took a minute. They stay frozen, because unfreezing would give back what
    was frozen for all tests, too."""
    gc.collect()
    gc.freeze()

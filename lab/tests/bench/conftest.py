"""Fixture for benchmarks, which collect Python's garbage before each measurement."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def little_to_collect() -> Iterator[None]:
    """Let the collector ignore what earlier tests left: with a million such objects, a benchmark of
    a quarter of a second took a minute."""
    gc.freeze()
    yield
    gc.unfreeze()

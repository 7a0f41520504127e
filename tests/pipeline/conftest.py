"""What all tests of the pipeline share."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

TOO_BUSY = 4.0
"""The load average per core from which a Python process may take ten seconds to start."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Iterator[None]:
    """Skip a test in which Spark gave up waiting for a Python process that it had started, on a
    busy machine: it waits for ten seconds, which no setting changes."""
    try:
        return (yield)
    except Exception as error:
        if "Python worker failed to connect back" not in str(error):
            raise
        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        if load < TOO_BUSY:
            raise
        pytest.skip(f"Spark gave up starting a Python process: {load:.1f} run per core")

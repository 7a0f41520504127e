"""Work, counted: the same on every machine, whatever else it does."""

from __future__ import annotations

import sys
from collections.abc import Callable


def calls_of(work: Callable[[], object]) -> int:
    """How many functions this calls."""
    count = 0

    def called(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(called)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count

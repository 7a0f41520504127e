"""A histogram as Prometheus counts one: how many values are at most so large."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import accumulate

MICRO = tuple(base * 10**-exponent for exponent in (6, 5, 4, 3, 2) for base in (1.0, 2.5, 5.0))
"""Bounds in seconds for what takes microseconds."""
MILLI = tuple(base * 10**-exponent for exponent in (4, 3, 2, 1, 0) for base in (1.0, 2.5, 5.0))
"""Bounds in seconds for what crosses networks and disks."""


class Histogram:
    """Counts values by their size. `bounds`: the upper bounds, ascending, in the unit of the
    values; `total`: the sum of all values."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = tuple(float(f"{bound:.12g}") for bound in bounds)
        self._counts = [0] * (len(self.bounds) + 1)
        self.total = 0.0

    def observe(self, value: float, times: int = 1) -> None:
        """Count a value."""
        self._counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self._counts)

    def buckets(self) -> Iterator[tuple[str, int]]:
        """Yield each bound, as text, with the number of values that are at most so large."""
        texts = (*(f"{bound!r}" for bound in self.bounds), "+Inf")
        return zip(texts, accumulate(self._counts), strict=True)

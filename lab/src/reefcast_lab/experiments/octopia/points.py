"""What a burst looks like from outside: points, and when they are back where they were."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from reefcast_lab.experiments.columns import Delivered

Column = NDArray[np.float64]


def points(delivered: Delivered, size: int) -> tuple[Column, Column]:
    """Return (when, largest delay) of each `size` consecutive deliveries, in seconds. A row of n
    subscriptions is n deliveries; one that lies across a border belongs to both points. The time is
    that of the point's last delivery; a rest that fills no point is left out."""
    ends = np.cumsum(delivered.width)
    number = int(ends[-1]) // size if len(ends) else 0
    if not number:
        return np.empty(0), np.empty(0)
    borders = size * np.arange(1, number + 1)
    last = np.searchsorted(ends, borders)
    first = np.concatenate(([0], np.searchsorted(ends, borders[:-1], side="right")))
    slices = np.column_stack((first, last + 1)).ravel()
    # Every second one is between a slice and the next. One delay more, for the end of the last.
    largest = np.maximum.reduceat(np.append(delivered.delay_s, 0.0), slices)[::2]
    return delivered.at_s[last], largest


def stable_after_s(
    at_s: Column,
    delay_s: Column,
    burst_s: float,
    *,
    until_s: float,
    tolerance: float,
    window: int,
) -> float:
    """Return seconds from the start of the burst until the points stay near the level before it.

    The level is the median of the points before `burst_s`; near is within `tolerance` times it.
    From `until_s` on, when publishers come to their end, points below the level are near too.
    Points are smoothed by a running median of `window` of them, since the largest of a few delays
    is noisy by itself. inf if the last point is not near."""
    before = at_s < burst_s
    level = float(np.median(delay_s[before]))
    beyond = running_median(delay_s[~before], window) - level
    ending = at_s[~before] >= until_s
    off = np.flatnonzero(np.where(ending, beyond, np.abs(beyond)) > tolerance * level)
    if not len(off):
        return 0.0
    if off[-1] == len(beyond) - 1:
        return math.inf
    return float(at_s[~before][off[-1] + 1] - burst_s)


def running_median(values: Column, window: int) -> Column:
    """Return the median of each value and its neighbours on both sides, `window` (odd) in all; at
    the ends the value at the end stands for missing ones."""
    if window <= 1 or not len(values):
        return values
    padded = np.pad(values, window // 2, mode="edge")
    return np.asarray(np.median(np.lib.stride_tricks.sliding_window_view(padded, window), axis=1))


def curve(
    at_s: Column, delay_s: Column, burst_s: float, step_s: float
) -> list[tuple[float, float]]:
    """Return (seconds since the start of the burst, largest delay) for each `step_s` that has a
    point."""
    steps = np.floor((at_s - burst_s) / step_s).astype(np.int64)
    largest: dict[int, float] = {}
    for step, delay in zip(steps.tolist(), delay_s.tolist(), strict=True):
        largest[step] = max(delay, largest.get(step, 0.0))
    return [(step * step_s, delay) for step, delay in sorted(largest.items())]

"""A sequential test of whether a share is too large, which may go on for ever.

`Suspicion` sums up how much better what was seen is explained by a share that is clearly too large
than by the largest allowed one; it is never less than none, so that a long good time before does
not outweigh a bad one that begins. (Page's CUSUM test, 1954.)

Theory of operation
-------------------
The likelihood ratio of the two shares has the mean 1 when the share is the largest allowed, and
less when it is smaller. So from any one publication on it exceeds `DOUBT` with a probability of at
most 1 / `DOUBT` (Ville), and among n publications there are n to begin with: within these a share
that is allowed is condemned with a probability of at most n / `DOUBT`. At 100 publications a second
n is 1e9 after 116 days.

What is clearly too large is 6 standard errors of a share that was counted over `SAMPLE`
publications; a share is found too large in the end if it exceeds the limit by about half of that.
How soon, in publications: at a limit of 0.1 46 if all are false positives, about 500 if one in five
is, about 2000 if the share is 0.14.
"""

from __future__ import annotations

from math import log, sqrt

DOUBT = 1e9
SAMPLE = 1000
SMALLEST = 1e-9
"""The least limit, so that likelihoods are finite."""


class Suspicion:
    """The suspicion that a share exceeds `limit`. The caller keeps its value, 0.0 at first."""

    def __init__(self, limit: float) -> None:
        limit = min(max(limit, SMALLEST), 1 - SMALLEST)
        excess = 6 * sqrt(limit * (1 - limit) / SAMPLE)
        too_large = min(limit + excess, (1 + limit) / 2)
        self._up = log(too_large / limit)
        self._down = log((1 - too_large) / (1 - limit))

    def after(self, suspicion: float, counts: bool) -> float:
        """Return the suspicion after one more publication, which counts towards the share or does
        not."""
        return max(0.0, suspicion + (self._up if counts else self._down))

    @staticmethod
    def is_certain(suspicion: float) -> bool:
        return suspicion > LIMIT


LIMIT = log(DOUBT)

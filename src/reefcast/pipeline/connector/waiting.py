"""Waiting until there is enough for a batch: `minOffsetsPerTrigger` and `maxTriggerDelay`."""

from __future__ import annotations

import time
from collections.abc import Callable

from reefcast.pipeline.connector.options import Least


class Waiting:
    """How long a query has waited for events that are worth a batch. The first batch after a start
    does not wait, as in the Kafka source."""

    def __init__(self, least: Least | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._least = least
        self._clock = clock
        self._since_s: float | None = None

    def goes_on(self, count: Callable[[int], int]) -> bool:
        """Return whether the next batch is still to wait. `count`: returns how many events there
        are, and counts no further than to the number that it is given."""
        if self._least is None or self._since_s is None:
            return False
        if self._clock() - self._since_s >= self._least.delay_s:
            return False
        return count(self._least.rows) < self._least.rows

    def end(self) -> None:
        """Note that a batch begins."""
        self._since_s = self._clock()

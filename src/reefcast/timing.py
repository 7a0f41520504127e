"""What needs a clock or chance, and is needed in several places outside the core."""

from __future__ import annotations

import random
import time


def now_us() -> int:
    """Microseconds UTC."""
    return time.time_ns() // 1000


class Backoff:
    """Pauses between attempts that failed: each is twice as long as the one before, from `first_s`
    to `max_s` seconds, and is drawn by `rng` between half and all of its length, so that those who
    lost the same broker do not return at the same instant."""

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = self._next_s = first_s
        self._max_s, self._rng = max_s, rng

    def reset(self) -> None:
        """An attempt succeeded: the next pause is a short one."""
        self._next_s = self._first_s

    def pause_s(self) -> float:
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._max_s)
        return pause_s * self._rng.uniform(0.5, 1.0)

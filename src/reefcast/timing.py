"""The clock and randomness, for code outside the core that needs them in several places."""

from __future__ import annotations

import random
import secrets
import time
from contextvars import ContextVar


class Machine:
    """The machine of a program: its time and randomness."""

    def now_us(self) -> int:
        """Return the time of day in microseconds UTC."""
        return time.time_ns() // 1000

    def stopwatch_s(self) -> float:
        """Return seconds of a clock that measures how long work takes."""
        return time.monotonic()

    def token(self, size: int) -> str:
        """Return `size` random bytes in hexadecimal digits, which nobody else has drawn."""
        return secrets.token_hex(size)

    def generator(self) -> random.Random:
        """Return a generator that nobody has seeded."""
        return random.Random()


MACHINE: ContextVar[Machine] = ContextVar("machine", default=Machine())  # noqa: B039 (no state)
"""The machine of the running code. It distinguishes simulated machines (`simulation.wire`)."""


def now_us() -> int:
    """Return the time in microseconds UTC."""
    return MACHINE.get().now_us()


class Backoff:
    """Pauses between attempts that failed: each is twice as long as the one before, from `first_s`
    to `max_s` seconds, and is drawn by `rng` between half and all of its length, so that those who
    lost the same broker do not return at the same instant."""

    def __init__(self, first_s: float, max_s: float, rng: random.Random) -> None:
        self._first_s = self._next_s = first_s
        self._max_s, self._rng = max_s, rng

    def reset(self) -> None:
        """Start again with a short pause: an attempt succeeded."""
        self._next_s = self._first_s

    def pause_s(self) -> float:
        pause_s = self._next_s
        self._next_s = min(2 * pause_s, self._max_s)
        return pause_s * self._rng.uniform(0.5, 1.0)

"""Limits for log lines that anybody may cause by the thousand.

The first `FEW` lines of each kind are written in a period; the others are counted, and one line at
the end of the period gives their number. All lines also count in the broker's counters under their
kind, which `status` shows. Texts that others sent, such as ids of clients and reasons, make no new
lines, and do nothing to a terminal."""

from __future__ import annotations

import logging
from collections import Counter

FEW = 10
PERIOD_S = 10.0


class Floods:
    """Limits the lines of one broker; `counters` are the broker's, and `tick` is called
    periodically."""

    def __init__(self, counters: Counter[str]) -> None:
        self._counters = counters
        self._lines: dict[str, tuple[logging.Logger, int, int]] = {}
        self._until_s = 0.0

    def log(
        self,
        logger: logging.Logger,
        level: int,
        kind: str,
        message: str,
        *args: object,
        traceback: bool | Exception = False,
    ) -> None:
        """Write a line to `logger`, or only count it. `traceback`: add that of the exception being
        handled."""
        self._counters[kind] += 1
        _, _, lines = self._lines.get(kind, (logger, level, 0))
        self._lines[kind] = (logger, level, lines + 1)
        if lines < FEW:
            logger.log(level, message, *map(_harmless, args), exc_info=traceback)

    def tick(self, now: float) -> None:
        """Start a new period, if the last one is over at `now` (seconds)."""
        if now >= self._until_s:
            self._until_s = now + PERIOD_S
            self.sum_up()

    def sum_up(self) -> None:
        """Write how many lines were skipped, and write the next ones again."""
        for kind, (logger, level, lines) in self._lines.items():
            if lines > FEW:
                logger.log(level, "%d more of these were not written: %s", lines - FEW, kind)
        self._lines.clear()


def _harmless(value: object) -> object:
    """Return what a log line says for a value: a text without what no printer prints."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in value)

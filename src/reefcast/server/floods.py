"""Limits for log lines that anybody may cause by the thousand.

The first `FEW` lines of each kind are written in a period; the others are counted, and one line at
the end of the period gives their number. All lines also count in the broker's counters under their
kind, which `status` shows. Texts that others sent, such as ids of clients and reasons, make no new
lines, and do nothing to a terminal."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping

from reefcast.logs import FEW, PERIOD_S, printable


class Floods:
    """Limits the lines of one broker or storage (`kind`); `counters` are its own, and `tick` is
    called periodically."""

    def __init__(self, counters: Counter[str], name: str = "", kind: str = "broker") -> None:
        self._counters = counters
        self._whose = {kind: name}
        self._lines: dict[str, tuple[logging.Logger, int, int]] = {}
        self._until_s = 0.0

    def log(
        self,
        logger: logging.Logger,
        level: int,
        kind: str,
        message: str,
        *args: object,
        about: Mapping[str, object] | None = None,
        traceback: bool | Exception = False,
    ) -> None:
        """Write a line to `logger`, or only count it. `about`: its fields, besides broker and kind;
        `traceback`: add that of the exception being handled."""
        self._counters[kind] += 1
        _, _, lines = self._lines.get(kind, (logger, level, 0))
        self._lines[kind] = (logger, level, lines + 1)
        if lines < FEW:
            fields = {**self._whose, **(about or {}), "kind": kind}
            words = map(_harmless, args)
            logger.log(level, message, *words, exc_info=traceback, extra={"about": fields})

    def tick(self, now: float) -> None:
        """Start a new period, if the last one is over at `now` (seconds)."""
        if now >= self._until_s:
            self._until_s = now + PERIOD_S
            self.sum_up()

    def sum_up(self) -> None:
        """Write how many lines were skipped, and write the next ones again."""
        for kind, (logger, level, lines) in self._lines.items():
            if lines > FEW:
                fields = {**self._whose, "kind": kind, "count": lines - FEW}
                words = "%d more of these were not written: %s"
                logger.log(level, words, lines - FEW, kind, extra={"about": fields})
        self._lines.clear()


def _harmless(value: object) -> object:
    """Return a value as log lines may have it: of a text, nothing that cannot be printed."""
    return printable(value) if isinstance(value, str) else value

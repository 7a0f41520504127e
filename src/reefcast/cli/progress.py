"""A progress bar on a terminal."""

from __future__ import annotations

import sys
import time

import click

PAUSE_S = 0.1
"""People read no faster."""


class Progress:
    """Shows `doing` and a count in one line of standard error, which is written anew as the count
    grows; nothing where that is no terminal. `total` None: nobody knows how many there will be."""

    def __init__(self, doing: str, total: int | None) -> None:
        self._doing = doing
        self._of = "" if total is None else f" of {total:,}"
        self._next_s = 0.0 if sys.stderr.isatty() else float("inf")

    def update(self, count: int) -> None:
        """Show the count, unless another one has just been shown."""
        now_s = time.monotonic()
        if now_s >= self._next_s:
            self._next_s = now_s + PAUSE_S
            self._write(f"\r{self._doing} {count:,}{self._of}")

    def clear(self) -> None:
        """Remove the line, if there is one."""
        if 0 < self._next_s < float("inf"):
            self._write("\r\x1b[K")

    @staticmethod
    def _write(text: str) -> None:
        # click takes control characters away from what it does not know for a terminal.
        click.echo(text, nl=False, err=True, color=True)

"""Replies that wait until what they report is synced."""

from __future__ import annotations

from collections import deque


class Replies:
    """Each reply with the batch of changes behind which it may go."""

    def __init__(self) -> None:
        self._now: list[object] = []
        self._waiting: deque[tuple[int, list[object]]] = deque()

    def add(self, reply: object) -> None:
        """Hold a reply until all that has changed so far is synced; None is none."""
        if reply is not None:
            self._now.append(reply)

    def close_batch(self, batch: int) -> None:
        """Note that what has been added waits for this batch, the last one with changes."""
        if self._now:
            self._waiting.append((batch, self._now))
            self._now = []

    def take(self, synced: int) -> list[object]:
        """Return, once, those whose batch is synced."""
        found: list[object] = []
        while self._waiting and self._waiting[0][0] <= synced:
            found += self._waiting.popleft()[1]
        return found

"""Links between tortured brokers."""

from __future__ import annotations

import random
from collections import deque
from typing import Any

import msgspec

from reefcast.model.messages import Publish

Directed = tuple[str, str]
"""One direction of a link: from the first broker to the second one."""


class Queues:
    """Queues of links as a broker sees them: any length, so that routings with another way take
    it."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def queue_len(self, link: str) -> int:
        """Return a length that has nothing to do with the link."""
        return self._rng.choice((0, 0, 1000))


class Link:
    """One direction between two brokers: what its sender keeps. `had`: frames that the receiver has
    taken over, of which the sender has not heard yet."""

    def __init__(self) -> None:
        self.frames: deque[Any] = deque()
        self.had: list[Any] = []

    def kept(self) -> tuple[Publish, ...]:
        """Return the publications that the sender has not had acknowledged."""
        return tuple(
            msgspec.structs.replace(each, again=True)
            for each in (*self.had, *self.frames)
            if isinstance(each, Publish)
        )

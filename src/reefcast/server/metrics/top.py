"""Which subscriptions get the most deliveries, estimated from samples.

A few deliveries of each read that `sampling` looks at are counted for their subscriptions, each for
as many as it stands for. Counts fade (half of what was counted is gone after about half a minute),
and at most `MOST` subscriptions are kept: the others had few deliveries. So this costs the same
however many subscriptions there are."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from typing import TypeVar

from reefcast.model import wire
from reefcast.model.messages import LinkName
from reefcast.server.passage import Output

MOST, LOOKED_AT = 2000, 8
"""Subscriptions that are kept, and deliveries that are looked at in one read."""
FADE_S, FADE = 10.0, 0.8
T = TypeVar("T")
Of = tuple[LinkName, int]
"""A subscription: its client, or the link of a durable session, and its number there."""


class TopSubscriptions:
    """The subscriptions of one broker by their part of the deliveries, as far as it is known."""

    def __init__(self) -> None:
        self.total = 0.0
        self._counts: dict[Of, float] = {}
        self._turn = 0
        self._faded_s = 0.0

    def see_outputs(self, outputs: Sequence[Output]) -> None:
        """Count what the compiled path hands out."""
        some, stands_for = self._some(outputs)
        for name, is_client, batch in some:
            if is_client:
                numbers = wire.decode_numbers(wire.numbers_of(batch.data))
                self._add(name, numbers, stands_for * batch.count)

    def see_local(self, local: Mapping[LinkName, Sequence[int]], stands_for: float) -> None:
        """Count the deliveries of one publication, which stands for so many."""
        some, each = self._some(list(local.items()))
        for name, numbers in some:
            self._add(name, numbers, stands_for * each)

    def _some(self, many: Sequence[T]) -> tuple[Sequence[T], int]:
        """Return some of these, others at each call, and for how many each stands."""
        step = 1 + len(many) // LOOKED_AT
        self._turn += 1
        return many[self._turn % step :: step], step

    def _add(self, name: LinkName, numbers: Sequence[int], weight: float) -> None:
        self.total += weight
        for number in numbers:
            self._counts[name, number] = self._counts.get((name, number), 0.0) + weight
        if len(self._counts) > MOST:
            kept = heapq.nlargest(MOST // 2, self._counts.items(), key=lambda each: each[1])
            self._counts = dict(kept)

    def tick(self, now: float) -> None:
        """Let counts fade; `now`: seconds."""
        if now - self._faded_s < FADE_S:
            return
        self._faded_s = now
        self.total *= FADE
        self._counts = {of: count * FADE for of, count in self._counts.items() if count > 0.01}

    def shares(self) -> list[tuple[Of, float]]:
        """Return subscriptions with their shares of all deliveries (0 to 1), largest first. One
        delivery may count for several subscriptions of a client."""
        total = self.total or 1.0
        counts = sorted(self._counts.items(), key=lambda each: -each[1])
        return [(of, count / total) for of, count in counts]

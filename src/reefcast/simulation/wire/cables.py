"""The cable between two machines: how long bytes take, and in what pieces they come."""

from __future__ import annotations

import random
from collections.abc import Sequence

from reefcast.simulation.faults import Delay, Partition
from reefcast.simulation.links import LinkSpec
from reefcast.simulation.wire.faults import Pieces

SHORTEST_S = 1e-6
"""Nothing arrives at the instant at which it is sent."""
LOSSLESS = LinkSpec(1e-3)


class Cable:
    """The connections between two machines share its bandwidth, in each direction for itself.
    `harmed`: when something happened that may have cost them a connection."""

    def __init__(
        self,
        spec: LinkSpec = LOSSLESS,
        spells: Sequence[Partition | Delay | Pieces] = (),
        rng: random.Random | None = None,
    ) -> None:
        self.harmed: list[float] = []
        self._spec = spec
        self._partitions = sorted(
            (spell.from_s, spell.to_s) for spell in spells if isinstance(spell, Partition)
        )
        self._delays = [spell for spell in spells if isinstance(spell, Delay)]
        self._pieces = [spell for spell in spells if isinstance(spell, Pieces)]
        self._rng = rng or random.Random(0)
        self._free: dict[str, float] = {}

    def arrival_s(self, sender: str, size: int, now: float) -> float:
        """Return when the last of `size` bytes arrives."""
        leaves_s = max(now, self._free.get(sender, 0.0)) + size / self._spec.bytes_per_s
        for from_s, to_s in self._partitions:
            if from_s <= leaves_s < to_s:
                self.harmed.append(from_s)
                leaves_s = to_s
        self._free[sender] = leaves_s
        late_s = sum(spell.extra_s for spell in self._delays if spell.from_s <= now < spell.to_s)
        if self._spec.jitter_s:
            late_s += self._rng.expovariate(1 / self._spec.jitter_s)
        return max(leaves_s + self._spec.latency_s + late_s, now + SHORTEST_S)

    def piece(self, count: int, now: float) -> int:
        """Return how many of the `count` bytes that are here come in the next read."""
        for spell in self._pieces:
            if spell.from_s <= now < spell.to_s:
                count = self._rng.randint(1, min(count, spell.most))
        return count

    def harmed_since(self, since_s: float) -> float:
        """Return when it was harmed first at that time or later; inf if it was not."""
        return min((at for at in self.harmed if at >= since_s), default=float("inf"))

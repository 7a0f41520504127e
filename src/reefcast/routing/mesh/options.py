"""The parameters of a mesh: the keys of `[routing]` in the network file."""

from __future__ import annotations

from typing import Annotated

import msgspec

from reefcast.errors import ConfigurationError
from reefcast.routing.covering.strategies import CoveringOptions
from reefcast.routing.mesh.gains import Limits
from reefcast.routing.mesh.strategies import SH_THRESHOLD, StrategyName

Share = Annotated[float, msgspec.Meta(gt=0, le=1)]


class MeshOptions(CoveringOptions, frozen=True):
    """Options of meshes.

    - `covering`: which of the subscriptions that a neighbour wants are sent to it: all ("none"),
      or only those that no other one with the same anchor covers ("lazy" or "active").
    - `strategy`: how publications travel: "S0" along the primary tree only, "S1" with few copies
      from this broker, "S2" with few copies in all, "SH" as S1 while the uplink is loaded, else as
      S2.
    - `delta`: within how many primary hops a broker knows the others and may have soft links to
      them; the same at all brokers.
    - `fanout`: how many primary and soft links a broker may have.
    - `maxlinks`: the same, including candidates, which are tried before they are opened.
    - `round_s`: seconds between two reviews of the soft links.
    - `capacity_per_s`: how many publications a second the broker's uplink can carry (0: enough).
    - `load_threshold`: the share of that above which a broker counts as loaded.
    - `coordinator`: the broker that grants moves of primary links, one at a time; without one,
      links cannot be moved; with one, publications that are to be confirmed go to all brokers.
    """

    strategy: StrategyName = "S2"
    delta: Annotated[int, msgspec.Meta(ge=1, le=16)] = 4
    fanout: Annotated[int, msgspec.Meta(ge=1)] = 35
    maxlinks: Annotated[int, msgspec.Meta(ge=1)] = 50
    round_s: Annotated[float, msgspec.Meta(gt=0)] = 20.0
    capacity_per_s: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    load_threshold: Share = SH_THRESHOLD
    coordinator: str = ""

    def __post_init__(self) -> None:
        if self.covering not in ("none", "lazy", "active"):
            raise ConfigurationError(
                f'covering = "{self.covering}" sends what takes the place of a subscription in one '
                "message, whatever the anchors; in a mesh choose none, lazy or active"
            )
        self.limits()

    def limits(self) -> Limits:
        """Return the limits. Raises `ConfigurationError` for a fanout beyond maxlinks."""
        return Limits(
            fanout=self.fanout, maxlinks=self.maxlinks, load_threshold=self.load_threshold
        )

"""The covering strategies by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Literal

from reefcast.routing.covering.ghosts import Incremental
from reefcast.routing.covering.outgoing import Active, Every, Lazy, Outgoing, Packing
from reefcast.routing.router import RoutingOptions

Strategy = Literal["none", "lazy", "active", "packing", "incremental"]


class CoveringOptions(RoutingOptions, frozen=True):
    """Options of the routings with covering. `covering`: which of the subscriptions that a
    neighbour wants are sent to it."""

    covering: Strategy = "none"


def outgoing(strategy: Strategy, theta: float, counters: Counter[str]) -> Callable[[], Outgoing]:
    """Return a factory of the `Outgoing` of this strategy; only *incremental* uses `theta`, and
    `counters`, which count what becomes of its ghosts."""
    made: dict[Strategy, Callable[[], Outgoing]] = {
        "none": Every,
        "lazy": Lazy,
        "active": Active,
        "packing": Packing,
        "incremental": partial(Incremental, theta, counters),
    }
    return made[strategy]

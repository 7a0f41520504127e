"""The covering strategies by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal

from reefcast.routing.covering.ghosts import Incremental
from reefcast.routing.covering.outgoing import Active, Every, Lazy, Outgoing, Packing

Strategy = Literal["none", "lazy", "active", "packing", "incremental"]


def outgoing(strategy: Strategy, theta: float) -> Callable[[], Outgoing]:
    """What makes the `Outgoing` of this strategy; `theta` matters to *incremental* only."""
    made: dict[Strategy, Callable[[], Outgoing]] = {
        "none": Every,
        "lazy": Lazy,
        "active": Active,
        "packing": Packing,
        "incremental": partial(Incremental, theta),
    }
    return made[strategy]

"""What clients will do, and when: claims that come and go, and publications.

Times are seconds from the start of the script. One seed gives one script, whatever the strategy:
runs of two strategies are pairs.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from reefcast.model.publication import Value
from reefcast.simulation.simulation import Simulation


@dataclass(frozen=True, slots=True)
class Claim:
    """A subscription, or (`advertises`) an advertisement, from `from_s` to `until_s`."""

    client: str
    broker: str
    filter: str
    from_s: float
    until_s: float = math.inf
    advertises: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A publication."""

    client: str
    broker: str
    attributes: dict[str, Value]
    at_s: float


@dataclass(frozen=True, slots=True)
class Script:
    claims: list[Claim] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)

    def load(self, simulation: Simulation, from_s: float) -> list[int]:
        """Put the script into a simulation whose time is not past `from_s`; return the handles of
        the claims, in their order."""
        with nothing_is_garbage():
            return self._load(simulation, from_s)

    def _load(self, simulation: Simulation, from_s: float) -> list[int]:
        handles = []
        for claim in self.claims:
            ask = simulation.advertise if claim.advertises else simulation.subscribe
            handle = ask(claim.client, claim.broker, claim.filter, from_s + claim.from_s)
            handles.append(handle)
            if claim.until_s < math.inf:
                simulation.withdraw(handle, from_s + claim.until_s)
        for event in self.events:
            simulation.publish(event.client, event.broker, event.attributes, from_s + event.at_s)
        return handles


@contextmanager
def nothing_is_garbage() -> Iterator[None]:
    """Keep Python's garbage collector away while objects are made that stay: with tens of thousands
    of them it would examine the whole network again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def quoted(text: str) -> str:
    """Return a text as a string of the filter language."""
    return "'" + text.replace("'", "''") + "'"

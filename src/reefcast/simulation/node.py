"""A simulated broker: its core, its CPU, what waits for it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from reefcast.model.messages import Effect, Input, LinkName, Publish
from reefcast.routing.broker import Broker
from reefcast.routing.tables import IndexFactory
from reefcast.simulation.clients import SimClient
from reefcast.simulation.links import Link
from reefcast.simulation.recording import BrokerTrace


class Service(NamedTuple):
    """An input of `size` bytes that was served; its effects leave the CPU at `at`. `sessions`:
    those of the links when the service started, where they may be others by now."""

    at: float
    item: Input
    size: int
    effects: Sequence[Effect]
    sessions: dict[LinkName, int] | None = None


class Comparisons(Protocol):
    """Counts how often a broker compares two filters that looks for covering."""

    def watch(self, new_index: IndexFactory) -> IndexFactory:
        """Make indexes whose rows are counted, too."""
        ...

    def drain(self, *, packed: bool) -> float:
        """Return the comparisons for the input that was handled last; `packed`: with others."""
        ...


class Node:
    """A broker and its CPU. The core is replaced when the broker restarts.

    `links`: outgoing, by neighbour; `neighbours`: those of the overlay, without soft links;
    `linked`: neighbours whose link this core believes up; `kept`: publications that these have not
    acknowledged, and that wait until they are back; `queue`: inputs that wait for the CPU as
    `(arrival, link, item, size)`; `urgent`: interventions that wait for the service under way,
    `(at, link, item)`; `timers`: key -> due; `background`: those that nobody waits for. `plain`: no
    fault touches its links. The CPU is busy until `busy_until`, with `leaving`. `comparisons`: what
    counts them, if they have a price.
    """

    def __init__(self, name: str, index: int) -> None:
        self.name = name
        self.index = index
        self.core: Broker
        self.up = False
        self.plain = False
        self.now = 0.0
        self.busy_until = 0.0
        self.limit = 0.0
        self.links: dict[LinkName, Link] = {}
        self.neighbours: tuple[LinkName, ...] = ()
        self.background: set[str] = set()
        self.linked: set[LinkName] = set()
        self.kept: dict[LinkName, list[Publish]] = {}
        self.clients: list[SimClient] = []
        self.queue: deque[tuple[float, LinkName, Any, int]] = deque()  # inputs, and `signs`
        self.urgent: deque[tuple[float, LinkName, Input]] = deque()
        self.timers: dict[str, float] = {}
        self.leaving: Service | None = None
        self.trace: BrokerTrace | None = None
        self.prt_rows = 0
        self.comparisons: Comparisons | None = None

    def queue_len(self, link: LinkName) -> int:
        """Return the length of an output queue, as the core sees it
        (`routing.links.LinkQueues`)."""
        out = self.links.get(link)
        return out.queue_len(self.now) if out else 0

    def judge(self) -> None:
        """Set `plain`: whether no fault touches any of the links."""
        self.plain = all(link.steady for link in self.links.values())

    def first_timer(self) -> tuple[float, str]:
        """Return when the next timer is due, and its key; inf if none is set."""
        return min(((due, key) for key, due in self.timers.items()), default=(math.inf, ""))

"""What a routing is: the interface between the broker and its routing protocol.

The broker (`broker.Broker`) keeps what all routings share: links, clients and their
advertisements, settlement, resynchronisation, delivery. A router keeps the tables of its paper and
answers two questions: what must be sent when a table changes, and where does a publication go.
A router never asks for the time, never draws from a generator that it was not given, and changes no
table while it routes a publication.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from reefcast.errors import ProtocolError
from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, Header, LinkName, PeerMessage, Publish, Send
from reefcast.overlay.scot import Neighbours
from reefcast.routing.links import Links
from reefcast.routing.tables import IndexFactory, SubscriptionTable


class Decision(NamedTuple):
    """Where one publication goes from here.

    `local`: client -> ascending numbers of its subscriptions that match. `hops`: neighbours that
    get a copy, each with its header. `matched`: rows that matched, None where the publication was
    not matched at all. `duplicate`: a copy was here before, so this one ends here. What the choice
    of ways took: `checked` links whose load was looked up, `searched` rows looked through.
    """

    local: dict[LinkName, list[int]]
    hops: list[tuple[LinkName, Header]]
    matched: int | None
    duplicate: bool = False
    checked: int = 0
    searched: int = 0


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a router is given: its broker's name, a factory of indexes, a generator of its own, its
    links, counters for what happens, and, on a SCOT, who its primary and secondary neighbours are
    (None on an overlay without clusters)."""

    name: str
    new_index: IndexFactory
    rng: random.Random
    links: Links
    counters: Counter[str]
    scot: Neighbours | None = None


class Router(ABC):
    """A routing protocol at one broker; `brokers` are the neighbours whose links are up, sorted.

    The control methods return what must be sent. `link` is where the call came from: a neighbour,
    or (`local`) a client of this broker.
    """

    name: ClassVar[str]
    keeps_order: ClassVar[bool]
    """Whether the publications of one publisher reach each subscriber in their order."""
    relearns: ClassVar[bool]
    """Whether its tables hold what neighbours told, so that a restart means learning it again."""

    def __init__(self, where: Surroundings) -> None:
        self.broker_name = where.name
        self.rng = where.rng
        self.links = where.links
        self.counters = where.counters
        self.brokers: list[LinkName] = []
        self.relearning = False
        """Kept by the broker: whether neighbours still have to tell what they know."""
        self.prt = SubscriptionTable(where.new_index)

    @abstractmethod
    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        """A publisher announced what it will publish."""

    @abstractmethod
    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        """The inverse of `advertise`; an id that is not here is ignored."""

    @abstractmethod
    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        """A subscriber said what it wants."""

    @abstractmethod
    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        """The inverse of `subscribe`; an id that is not here is ignored."""

    @abstractmethod
    def route(self, publications: Sequence[Publish], link: LinkName) -> Iterable[Decision]:
        """Where each of these goes; they came over `link`, in this order."""

    @abstractmethod
    def link_up(self, link: LinkName) -> list[Send]:
        """A neighbour without memory of us: all that it must know, and doubt what it told."""

    @abstractmethod
    def link_down(self, link: LinkName) -> list[Send]:
        """A neighbour or client is gone: take back what came from it."""

    @abstractmethod
    def synced(self, link: LinkName) -> list[Send]:
        """The neighbour has said all again that still holds: sweep the rest."""

    def peer(self, message: PeerMessage, link: LinkName) -> list[Send]:
        """A message that only this routing's brokers send; raises `ProtocolError`, changing
        nothing, for one of another routing, and `FilterSyntaxError` for a filter that is none."""
        raise ProtocolError(
            f"neighbour {link!r} sent {type(message).__name__}, which routing {self.name!r} does "
            "not know; give both brokers the same network file"
        )

    def needs(self, subscription: Filter, told: Iterable[EntityId]) -> list[EntityId]:
        """Which of these advertisements, whose brokers are being told of another subscription, this
        one needs, too: it settles when they have been."""
        return []

    def passes_on(self, source: LinkName, target: LinkName) -> bool:
        """Whether `target` is told what `source` tells: then it is told `Synced` later."""
        return source != target

    def relearned(self) -> list[Send]:
        """Relearning is over; what had to wait for that."""
        return []

    @abstractmethod
    def tables(self) -> dict[str, int]:
        """Rows per table, under the papers' names."""

    def inspect(self) -> dict[str, list[dict[str, Any]]]:
        """Rows of small tables that an operator may want to see, as plain data."""
        return {}

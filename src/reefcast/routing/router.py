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
from collections.abc import Iterable, Sequence
from typing import ClassVar, NamedTuple

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, Header, LinkName, Publish, Send
from reefcast.routing.links import Links
from reefcast.routing.tables import IndexFactory, SubscriptionTable


class Decision(NamedTuple):
    """Where one publication goes from here.

    `local`: client -> ascending numbers of its subscriptions that match. `hops`: neighbours that
    get a copy, each with its header. `matched`: rows that matched. `duplicate`: a copy was here
    before, so this one ends here.
    """

    local: dict[LinkName, list[int]]
    hops: list[tuple[LinkName, Header]]
    matched: int
    duplicate: bool = False


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

    def __init__(
        self, name: str, new_index: IndexFactory, rng: random.Random, links: Links
    ) -> None:
        self.broker_name = name
        self.rng = rng
        self.links = links
        self.brokers: list[LinkName] = []
        self.prt = SubscriptionTable(new_index)

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

    @abstractmethod
    def tables(self) -> dict[str, int]:
        """Rows per table, under the papers' names."""

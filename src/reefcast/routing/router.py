"""What a routing is: the interface between the broker and its routing protocol.

The broker (`broker.Broker`) keeps what all routings share: links, clients and their
advertisements, settlement, resynchronisation, delivery. A router keeps the tables of its paper and
answers two questions: what must be sent when a table changes, and where does a publication go.
A router never asks for the time, never draws from a generator that it was not given, and changes no
table while it routes a publication.

All that others must know of a routing stands in its class, as attributes: a new one is a module and
a line in `registry`. `docs/write-a-routing.md` builds one.
"""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import msgspec

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Advertise,
    CloseLink,
    ControlMessage,
    EntityId,
    Header,
    LinkName,
    OpenLink,
    PeerMessage,
    Publish,
    Regrade,
    Send,
    Subscribe,
    TableChange,
    Unadvertise,
)
from reefcast.model.publication import Publication
from reefcast.overlay.scot import Neighbours
from reefcast.routing.covering.statistics import Statistics
from reefcast.routing.links import Links
from reefcast.routing.tables import IndexFactory, Row, SubscriptionTable, TableView

COUNTED = "counted"
"""The key of `Router.legend` for what is counted."""


@dataclass(frozen=True, slots=True)
class Await:
    """Do these, and when all is done that they cause (`settlement`), do what `then` returns.
    With a `key`, the input that this follows from is not settled before that; and while it is under
    way, another one with the same key does nothing but let its own input wait for it, too."""

    sends: Sequence[Action]
    then: Callable[[], Sequence[Action]]
    key: object = None


@dataclass(frozen=True, slots=True)
class Route:
    """Route these publications as if they had come by `link`, now."""

    publications: Sequence[Publish]
    link: LinkName


Action = Send | OpenLink | CloseLink | Regrade | Await | Route
"""What a router wants done."""


class Decision(msgspec.Struct, frozen=True, gc=False):
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


class SoftLink(Enum):
    """The state of a soft link. OPENING: asked for. OPENED, ACCEPTED: up, by this broker's wish or
    by the other's. CLOSING: publications may still come over it, and none goes."""

    OPENING = "opening"
    OPENED = "opened"
    ACCEPTED = "accepted"
    CLOSING = "closing"

    @property
    def up(self) -> bool:
        return self in (SoftLink.OPENED, SoftLink.ACCEPTED)


class Shape(Enum):
    """Overlays on which a routing works."""

    ANY = "any connected overlay"
    NONE = "brokers without links, that find each other"
    TREE = "a tree"
    SCOT = "a SCOT"


class RoutingOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The parameters of a routing: the keys of the network file's `[routing]`. A routing that has
    some declares a subclass, with defaults, and names it in `Router.options`."""

    def check_brokers(
        self, names: Collection[LinkName], is_broker: Callable[[LinkName], bool]
    ) -> None:
        """Raises `ConfigurationError` for what does not suit a network of these brokers. There may
        be others that are in no file: `is_broker`."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a router is given: its broker's name, a factory of indexes, a generator of its own, its
    links, counters for what happens, on a SCOT who its primary and secondary neighbours are (None
    on an overlay without clusters), its options, of the class that it names in `options`, and
    statistics of what the broker's clients get, for it to keep."""

    name: str
    new_index: IndexFactory
    rng: random.Random
    links: Links
    counters: Counter[str]
    scot: Neighbours | None
    options: Any
    statistics: Statistics


class Router(ABC):
    """A routing protocol at one broker; `brokers` are the neighbours whose links are up, sorted.

    The control methods return what must be sent. `link` is where the call came from: a neighbour,
    or (`local`) a client of this broker. As they stand here, a subscription stays at its host
    broker and neighbours are told nothing: a routing that needs more overrides them.
    """

    name: ClassVar[str]
    overlay: ClassVar[Shape] = Shape.ANY
    keeps_order: ClassVar[bool] = False
    """Whether the publications of one publisher reach each subscriber in their order."""
    relearns: ClassVar[bool] = False
    """Whether its tables hold what neighbours told, so that a restart means learning it again."""
    best_effort: ClassVar[bool] = False
    """Whether a publication may miss a settled subscriber (never reach one twice, or wrongly)."""
    needs_topics: ClassVar[bool] = False
    """Whether it can carry only publications that have topics."""
    restless: ClassVar[bool] = False
    """Whether its rounds send messages for ever, so that a large network is never quiet."""
    messages: ClassVar[tuple[type[PeerMessage], ...]] = ()
    """What only brokers of this routing say to each other."""
    header: ClassVar[type[Header]] = Header
    """What its copies carry from hop to hop."""
    options: ClassVar[type[RoutingOptions]] = RoutingOptions
    counted: ClassVar[Mapping[str, str]] = {}
    """What it counts that an operator wants to see: counter -> its name in a few words."""
    legend: ClassVar[Mapping[str, str]] = {}
    """What an operator must know to read a table (by its name) or, under `COUNTED`, the counts."""

    def __init__(self, where: Surroundings) -> None:
        self.rng = where.rng
        self.links = where.links
        self.counters = where.counters
        self.brokers: list[LinkName] = []
        self.relearning = False
        """Kept by the broker: whether neighbours still have to tell what they know."""
        self.mending = False
        """Kept by the router: whether what it asked for when that was over is still to come."""
        self.unfinished = False
        """Kept by the router: whether `afterwards` has something to do."""
        self.waiting: list[Publish] = []
        """Kept by the router: publications that wait in it for another way."""
        self.absent: Sequence[LinkName] = ()
        """Kept by the broker: neighbours that had not told all when it stopped relearning, until
        they have. What is wanted behind them is not known: they get all that might be."""
        self.prt = SubscriptionTable(where.new_index)
        self.soft_links: dict[LinkName, SoftLink] = {}
        """Links besides those of the overlay, which only publications cross: kept by the router."""
        self.round_s = 0.0
        """How often `round` is due, in seconds; 0.0: never."""

    @classmethod
    def keeps_statistics(cls, options: Any) -> bool:
        """Whether with these options it uses `Surroundings.statistics`."""
        return False

    # --- publications -----------------------------------------------------------------------------

    def match(self, publications: Sequence[Publish], link: LinkName) -> Sequence[Any]:
        """What `route` needs to know of each of these, all of them matched at once; as it stands
        here, where the rows of the PRT lead, and to `unheard`. Changes nothing: if it fails, it is
        asked again, for each by itself."""
        found = self.prt.ways([publish.publication for publish in publications])
        return [ways.and_to(self.unheard()) for ways in found] if self.absent else found

    def unheard(self) -> Sequence[LinkName]:
        """Those of `absent` that get whatever comes here."""
        return self.absent

    @abstractmethod
    def route(
        self, publications: Sequence[Publish], found: Sequence[Any], link: LinkName
    ) -> Iterable[Decision]:
        """Where each of these goes; they came over `link`, in this order. `found`: see `match`.

        Does what there is to do for a publication when its decision is asked for, not before: what
        fails there costs that one, and `route` is called again for those behind it."""

    # --- clients, and what neighbours tell of theirs ----------------------------------------------

    def change(
        self, message: TableChange, filter: Filter | None, link: LinkName, *, local: bool
    ) -> Sequence[Action]:
        """What the methods below do for this message; `filter`: its own, parsed."""
        if isinstance(message, Advertise) and filter is not None:
            return self.advertise(message.id, filter, link, local)
        if isinstance(message, Subscribe) and filter is not None:
            return self.subscribe(message.id, filter, link, local)
        if isinstance(message, Unadvertise):
            return self.unadvertise(message.id, link)
        return self.unsubscribe(message.id, link)

    def objection(self, filter: Filter) -> str | None:
        """Why it cannot serve a subscriber who wants this: a sentence that says what to do."""
        return None

    def advertise(
        self, id: EntityId, filter: Filter, link: LinkName, local: bool
    ) -> Sequence[Action]:
        """A publisher announced what it will publish."""
        return []

    def unadvertise(self, id: EntityId, link: LinkName) -> Sequence[Action]:
        """The inverse of `advertise`; an id that is not here is ignored."""
        return []

    def subscribe(
        self, id: EntityId, filter: Filter, link: LinkName, local: bool
    ) -> Sequence[Action]:
        """A subscriber said what it wants."""
        self.prt.add(Row(id, filter, link, local))
        return []

    def unsubscribe(self, id: EntityId, link: LinkName) -> Sequence[Action]:
        """The inverse of `subscribe`; an id that is not here is ignored."""
        self.prt.remove(id, link)
        return []

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        """One of `messages`. Raises `ProtocolError`, changing nothing, for what must not come by
        this link, and `FilterSyntaxError` for a filter that is none."""
        raise ProtocolError(
            f"neighbour {link!r} sent {type(message).__name__}, which routing {self.name!r} does "
            "not know; give both brokers the same network file"
        )

    def needs(self, subscription: Filter, told: Iterable[EntityId]) -> list[EntityId]:
        """Which of these advertisements, whose brokers are being told of another subscription, this
        one needs, too: it settles when they have been."""
        return []

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        """Subscriptions that these neighbours were sent, and that stand there for `id`: it settles
        when they have."""
        return []

    def advertised(self, publication: Publication, link: LinkName) -> bool:
        """Whether `link` knows of an advertisement that this lies in, as far as that is needed for
        it to find its way there."""
        return True

    def is_astray(self, publish: Publish, link: LinkName) -> bool:
        """Whether this copy, which waited for the neighbour `link`, finds no way there any more."""
        return False

    def reroute(self, strays: Sequence[Publish]) -> Sequence[Action]:
        """Find another way for such copies."""
        return []

    def known_as(self, id: EntityId, link: LinkName) -> EntityId:
        """The id by which neighbours are told of what came with `id` by `link`."""
        return id

    def came_by(self, id: EntityId) -> LinkName | None:
        """Of the neighbours that told of this advertisement the one that its publications come
        from; None if no more than one tells."""
        return None

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> Sequence[Action]:
        """A neighbour without memory of us: all that it must know, and doubt what it told."""
        return []

    def link_down(self, link: LinkName) -> Sequence[Action]:
        """A neighbour or client is gone: take back what came from it."""
        return [act for row in self.prt.from_hop(link) for act in self.unsubscribe(row.id, link)]

    def synced(self, link: LinkName) -> list[Send]:
        """The neighbour has said all again that still holds: sweep the rest."""
        return []

    def passes_on(self, source: LinkName, target: LinkName) -> bool:
        """Whether `target` is told what `source` tells: then it is told `Synced` later."""
        return source != target

    def relearned(self) -> Sequence[Action]:
        """Relearning is over; what had to wait for that."""
        return []

    def all_heard(self) -> Sequence[Action]:
        """Nobody is absent any more: all have told all, or were given up."""
        return []

    def to_others(self, link: LinkName, message: ControlMessage) -> list[Send]:
        """`message` to all neighbours but the one that it came by."""
        return [Send(other, message) for other in self.brokers if other != link]

    # --- soft links -------------------------------------------------------------------------------

    def round(self) -> list[Action]:
        """Another `round_s` have passed."""
        return []

    def soft_up(self, link: LinkName) -> list[Action]:
        """A soft link came up, of this broker's wish (`OpenLink`) or the other's."""
        return [CloseLink(link)]

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        """A soft link is gone, or could not be had; `lost`: see `LinkDown`."""
        return []

    def awaits_link(self, link: LinkName) -> bool:
        """Whether this soft link is about to come up, and what is sent over it waits until then."""
        return False

    def alongside(self, link: LinkName) -> Sequence[LinkName]:
        """The soft links that lead to brokers behind this neighbour."""
        return ()

    def move(self, old: LinkName, new: LinkName) -> Sequence[Action]:
        """The operator's wish to have a link to `new` in place of the one to `old`. Raises
        `ConfigurationError` if the routing cannot do that."""
        raise ConfigurationError(
            f"routing {self.name!r} does not move links while it runs; change the network file"
        )

    # --- what can be seen -------------------------------------------------------------------------

    def afterwards(self) -> Sequence[Action]:
        """What routing publications gave cause for; asked if it set `unfinished`, after each batch:
        `route` itself changes no table."""
        return []

    def tables(self) -> Mapping[str, TableView[Any]]:
        """Its tables under the papers' names."""
        return {"PRT": self.prt}

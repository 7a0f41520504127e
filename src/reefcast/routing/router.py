"""The interface between the broker and its routing protocol.

The broker (`broker.Broker`) keeps what all routings share: links, clients and their advertisements,
settlement, resynchronisation, delivery. A router keeps the tables of its paper and answers two
questions: what must be sent when a table changes, and where does a publication go. A router never
asks for the time, never draws from a generator that it was not given, and changes no table while it
routes a publication.

The class of a routing declares, as attributes, everything that others must know of it: a new one is
a module and a line in `registry`. What only some routings can do is in `capabilities`: a routing
derives from those that it has. `docs/how-to/write-a-routing.md` builds one."""

from __future__ import annotations

import random
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import msgspec

from reefcast.errors import ProtocolError
from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Advertise,
    CloseLink,
    Demote,
    EntityId,
    Header,
    LinkName,
    OpenLink,
    PeerMessage,
    Promote,
    Publish,
    Send,
    Subscribe,
    TableChange,
    Unadvertise,
)
from reefcast.overlay.scot import Neighbours
from reefcast.routing.covering.statistics import Statistics
from reefcast.routing.links import Links
from reefcast.routing.tables import IndexFactory, Row, SubscriptionTable, TableView

SUBSCRIPTIONS = "PRT"
"""The table of subscriptions, as papers and disks call it."""
COUNTED = "counted"
"""The key of `Router.legend` for what is counted."""


@dataclass(frozen=True, slots=True)
class Await:
    """Do these actions, and when everything that they cause is done (`settlement`), those that
    `then` returns. With a `key`, the input that causes this does not settle before that; and while
    it is under way, another one with the same key only makes its own input wait for it, too."""

    sends: Sequence[Action]
    then: Callable[[], Sequence[Action]]
    key: object = None


@dataclass(frozen=True, slots=True)
class Route:
    """Route these publications as if they had come by `link`, now."""

    publications: Sequence[Publish]
    link: LinkName


@dataclass(frozen=True, slots=True)
class Part:
    """This neighbour leaves the overlay: what it is owed is flooded anew to the others (a routing
    that moves links)."""

    link: LinkName


@dataclass(frozen=True, slots=True)
class OnceKept:
    """When all that was written so far is on disk, do what `then` returns; at once without one."""

    then: Callable[[], Sequence[Action]]


Action = Send | OpenLink | CloseLink | Promote | Demote | Await | Route | Part | OnceKept
"""What a router wants done."""


class Decision(msgspec.Struct, frozen=True, gc=False):
    """The decision about one publication: where it goes from here.

    `local`: client -> ascending numbers of its subscriptions that match. `hops`: neighbours that
    get a copy, each with its header. `matched`: rows that matched, None where the publication was
    not matched at all. `duplicate`: a copy was here before, so this one ends here. What the choice
    of next hops took: `checked` links whose load was looked up, `searched` rows looked through.

    Of one that is to be confirmed: `anew`: its copies are of an attempt that begins here; `waits`:
    the router keeps it, and has it routed later (`Route`).
    """

    local: dict[LinkName, list[int]]
    hops: list[tuple[LinkName, Header]]
    matched: int | None
    duplicate: bool = False
    checked: int = 0
    searched: int = 0
    anew: bool = False
    waits: bool = False


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
        """Raise `ConfigurationError` for options that do not suit a network of these brokers. There
        may be others that are in no file: `is_broker`."""

    @property
    def keeps_statistics(self) -> bool:
        """Whether the routing uses `Surroundings.statistics` with these options."""
        return False


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Everything that a router is given: its broker's name, a factory of indexes, a generator of
    its own, its links, counters, on a SCOT its primary and secondary neighbours (None on an overlay
    without clusters), its options, of the class that it names in `options`, and the statistics of
    deliveries to the broker's clients, for it to keep."""

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
    or (`local`) a client of this broker. By default a subscription stays at its host broker, and
    neighbours are told nothing: a routing that needs more overrides these methods."""

    name: ClassVar[str]
    overlay: ClassVar[Shape] = Shape.ANY
    keeps_order: ClassVar[bool] = False
    """Whether the publications of one publisher reach each subscriber in their order."""
    best_effort: ClassVar[bool] = False
    """Whether a publication may miss a settled subscriber (never reach one twice, or wrongly)."""
    unconfirmed: str = ""
    """Why it does not say when a publication is everywhere where it must be (`confirming`), and
    what to do: a sentence for who asks for that; empty if it does say so."""
    one_way: bool = False
    """Whether a copy goes from a broker the same way whichever it comes by, so that what comes
    again need not go where it has been sent."""
    floods: bool = False
    """Whether a broker passes on the first copy of each attempt to all neighbours, at least of what
    is to be confirmed, so that the copies of an attempt form a tree; what is sent again needs an
    attempt of its own then."""
    needs_topics: ClassVar[bool] = False
    """Whether it can carry only publications with topics."""
    restless: ClassVar[bool] = False
    """Whether its rounds send messages for ever, so that a large network is never quiet."""
    messages: ClassVar[tuple[type[PeerMessage], ...]] = ()
    """Messages that only brokers of this routing exchange."""
    header: ClassVar[type[Header]] = Header
    """The header that copies carry from hop to hop."""
    options: ClassVar[type[RoutingOptions]] = RoutingOptions
    counted: ClassVar[Mapping[str, str]] = {}
    """The counters that an operator wants to see: counter -> its name in a few words."""
    legend: ClassVar[Mapping[str, str]] = {}
    """What an operator must know to read a table (by its name) or, under `COUNTED`, the counts."""

    def __init__(self, where: Surroundings) -> None:
        self.rng = where.rng
        self.links = where.links
        self.counters = where.counters
        self.brokers: list[LinkName] = []
        self.absent: Sequence[LinkName] = ()
        """Kept by the broker: neighbours that had not told everything when it stopped relearning,
        until they have. The subscriptions behind them are not known: they get everything that might
        be wanted."""
        self.prt = SubscriptionTable(where.new_index)

    # --- publications -----------------------------------------------------------------------------

    def match(self, publications: Sequence[Publish], link: LinkName) -> Sequence[Any]:
        """Find what `route` must know of each of these, all of them matched at once: by default,
        the next hops of the matching rows of the PRT, and `unheard`. Change nothing: after a
        failure it is called again, for each by itself."""
        found = self.prt.next_hops([publish.publication for publish in publications])
        return [next_hops.and_to(self.unheard()) for next_hops in found] if self.absent else found

    def unheard(self) -> Sequence[LinkName]:
        """Return those of `absent` that get everything published here."""
        return self.absent

    @abstractmethod
    def route(
        self, publications: Sequence[Publish], found: Sequence[Any], link: LinkName
    ) -> Iterable[Decision]:
        """Decide where each of these goes; they came over `link`, in this order. `found`: see
        `match`.

        Do what a publication needs when its decision is asked for, not before: a failure there
        costs only that publication, and `route` is called again for those behind it."""

    # --- clients, and what neighbours tell of theirs ----------------------------------------------

    def change(
        self, message: TableChange, filter: Filter | None, link: LinkName, *, local: bool
    ) -> Sequence[Action]:
        """Handle a change of the tables by the methods below; `filter`: the parsed filter of the
        message."""
        if isinstance(message, Advertise) and filter is not None:
            return self.advertise(message.id, filter, link, local)
        if isinstance(message, Subscribe) and filter is not None:
            return self.subscribe(message.id, filter, link, local)
        if isinstance(message, Unadvertise):
            return self.unadvertise(message.id, link)
        return self.unsubscribe(message.id, link)

    def advertise(
        self, id: EntityId, filter: Filter, link: LinkName, local: bool
    ) -> Sequence[Action]:
        """Add an advertisement."""
        return []

    def unadvertise(self, id: EntityId, link: LinkName) -> Sequence[Action]:
        """Remove an advertisement; an id that is not here is ignored."""
        return []

    def subscribe(
        self, id: EntityId, filter: Filter, link: LinkName, local: bool
    ) -> Sequence[Action]:
        """Add a subscription."""
        self.prt.add(Row(id, filter, link, local))
        return []

    def unsubscribe(self, id: EntityId, link: LinkName) -> Sequence[Action]:
        """Remove a subscription; an id that is not here is ignored."""
        self.prt.remove(id, link)
        return []

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        """Handle one of `messages`. Raises `ProtocolError`, changing nothing, for a message that
        must not come by this link, and `FilterSyntaxError` for a malformed filter."""
        raise ProtocolError(
            f"neighbour {link!r} sent {type(message).__name__}, which routing {self.name!r} does "
            "not know; give both brokers the same network file"
        )

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> Sequence[Action]:
        """Tell a neighbour without memory of this broker everything that it must know, and doubt
        what it told before."""
        return []

    def link_down(self, link: LinkName) -> Sequence[Action]:
        """Withdraw what came from a neighbour or client that is gone."""
        return [act for row in self.prt.from_hop(link) for act in self.unsubscribe(row.id, link)]

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> Mapping[str, TableView[Any]]:
        """Return its tables under the papers' names."""
        return {SUBSCRIPTIONS: self.prt}

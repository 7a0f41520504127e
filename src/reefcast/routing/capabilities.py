"""Capabilities of some routings: classes from which such a routing derives besides `Router`.

Each class says which part of the broker calls it, and when. The methods here are the answers for a
routing without the capability: the broker calls `capability(router, ...)`, and need not know which
routings there are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import Any, TypeVar

from reefcast.errors import ConfigurationError
from reefcast.model.filters import Filter
from reefcast.model.keeping import Change
from reefcast.model.messages import CloseLink, EntityId, Header, LinkName, Publish, Send
from reefcast.model.publication import Publication
from reefcast.routing.courses import Course
from reefcast.routing.router import Action, Router
from reefcast.routing.tables import Row, Table

C = TypeVar("C")


def capability(router: Router, kind: type[C]) -> C:
    """Return the router itself if it has this capability, otherwise an object that answers for
    it."""
    return router if isinstance(router, kind) else kind()


class Refuses:
    """A routing that cannot serve every subscriber. The broker asks before it adds a subscription
    of a client."""

    def objection(self, filter: Filter) -> str | None:
        """Return why the broker cannot serve a subscriber to this: a sentence that says what to
        do."""
        return None


class ActsLater:
    """A routing that may change its tables, or send something, after publications were routed:
    `route` itself changes no table. The broker calls it after a batch of publications if it set
    `unfinished`."""

    unfinished: bool = False
    """Kept by the router: whether `afterwards` has something to do."""

    def afterwards(self) -> Sequence[Action]:
        """Do what the last publications made necessary."""
        return []


class SetsCourses:
    """A routing that can say beforehand what becomes of publications (`courses`), so that compiled
    calls repeat it (`plain`). A course holds until the broker's next input that is no publication,
    what is done `afterwards` (`ActsLater`), or `limits` that say that none does. A client has none
    before its first publication, which may advertise; that changes no course of others."""

    sets_courses: bool = False
    """Kept by the router: whether it ever does, with its options."""

    def course(self, header: Header, link: LinkName) -> Course | None:
        """Return the course of what comes by `link`, of a client or a neighbour; None if that
        is to be decided for each publication."""
        return None

    def chosen(self, hops: Sequence[LinkName], link: LinkName) -> Sequence[LinkName]:
        """Return which neighbours get a copy of what came by `link`, where rows lead to `hops`."""
        return hops

    def limits(self) -> Mapping[LinkName, int] | None:
        """Return how many copies may still go to a neighbour, now, before courses with one more to
        it do not hold; None if no course does."""
        return NO_LIMITS

    def repeated(self, hops: Sequence[LinkName], link: LinkName, times: int) -> None:
        """Count that what was `chosen` was sent so many times."""

    def went(self, copies: Mapping[LinkName, int]) -> None:
        """Count copies that went to neighbours by courses, of publications that came together."""


NO_LIMITS: Mapping[LinkName, int] = MappingProxyType({})


class Relearns:
    """A routing whose tables hold what neighbours told, so that a broker that restarts learns them
    again. `neighbour_links` reports how far that is, and `relearning` asks who waits for whom."""

    relearning: bool = False
    """Kept by the broker: whether neighbours still have to tell what they know."""
    repairing: bool = False
    """Kept by the router: whether answers to its questions after relearning are still to come."""

    def passes_on(self, source: LinkName, target: LinkName) -> bool:
        """Return whether neighbour `target` is told what neighbour `source` tells: then `target` is
        told `Synced` only when `source` has said it."""
        return False

    def synced(self, link: LinkName) -> list[Send]:
        """Remove what a neighbour told before and has not told again: it has said `Synced`, so
        everything that still holds has been told."""
        return []

    def relearned(self) -> Sequence[Action]:
        """Do what had to wait until relearning was over."""
        return []

    def all_synced(self) -> Sequence[Action]:
        """Do what had to wait until nobody was absent any more (`Router.absent`): all neighbours
        have told everything, or were given up."""
        return []


class KeepsRows:
    """A routing whose tables a broker writes to its disk, as far as publications for durable
    sessions find their way by them; `on_disk` asks for them when the broker starts. What such rows
    make necessary is done when neighbours come up, as for those that were told."""

    def row_tables(self) -> Mapping[str, Table[Any]]:
        """Return the tables that have what neighbours told, by their names."""
        return {}

    def durable_tables(self) -> Mapping[str, Table[Any]]:
        """Return those of them that are written to the disk."""
        return self.row_tables()

    def restore(self, table: str, id: EntityId, filter: Filter, link: LinkName) -> None:
        """Enter a row that a neighbour told before the broker started; none is up."""
        self.durable_tables()[table].add(Row(id, filter, link, False))

    def deputy(self, advertisement: EntityId, link: LinkName) -> Filter | None:
        """Return the filter of the subscription in a neighbour's name by which everything of an
        advertisement goes there while the neighbour is away (`away`); None if it does anyway."""
        return None


class SettlesTogether:
    """A routing in which an input settles only when what neighbours are told of another one has
    been answered. `consequences` and `settlement` ask when an advertisement or a subscription
    comes, and when a neighbour has lost its memory."""

    def needs(self, subscription: Filter, told: Iterable[EntityId]) -> list[EntityId]:
        """Return those of the advertisements in `told`, whose brokers are being told of another
        subscription, that this one needs too: it settles when they have been told."""
        return []

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        """Return the subscriptions that neighbours were sent in place of `id`, with these
        neighbours: `id` settles when they have."""
        return []

    def known_as(self, id: EntityId, link: LinkName) -> EntityId:
        """Return the id by which neighbours know what came with `id` by `link`."""
        return id

    def came_by(self, id: EntityId) -> LinkName | None:
        """Return the neighbour from which publications under this advertisement come; None if at
        most one neighbour knows it."""
        return None


class HandsOver:
    """A routing whose publications reach a neighbour only while the neighbour has an advertisement.
    `neighbour_links` asks about publications that waited for a neighbour: when it comes up, and
    when it is about to get them."""

    waiting: Sequence[Publish] = ()
    """Kept by the router: publications that wait in it until they can be routed."""

    def advertised(self, publication: Publication, link: LinkName) -> bool:
        """Return whether neighbour `link` knows an advertisement that covers this publication, as
        far as the publication needs that to reach it."""
        return True

    def is_astray(self, publish: Publish, link: LinkName) -> bool:
        """Return whether this copy, which waited for neighbour `link`, can no longer reach it."""
        return False

    def reroute(self, strays: Sequence[Publish]) -> Sequence[Action]:
        """Route such copies over other neighbours."""
        return []


class SoftLink(Enum):
    """The state of a soft link. OPENING: requested. OPENED, ACCEPTED: up, by this broker's wish or
    the other's. CLOSING: publications may still arrive over it, and none are sent."""

    OPENING = "opening"
    OPENED = "opened"
    ACCEPTED = "accepted"
    CLOSING = "closing"

    @property
    def up(self) -> bool:
        return self in (SoftLink.OPENED, SoftLink.ACCEPTED)


class OpensLinks:
    """A routing that opens and closes links besides those of the overlay: soft links, which carry
    publications and the messages of this routing. It returns `OpenLink` and `CloseLink`. The broker
    reports what becomes of these links, and starts its rounds when the first link comes up;
    `unopened` asks it about each message."""

    soft_links: Mapping[LinkName, SoftLink] = MappingProxyType({})
    """Kept by the router."""
    round_s: float = 0.0
    """How often `round` is due, in seconds; 0.0: never."""

    def round(self) -> list[Action]:
        """Review the links: another `round_s` have passed."""
        return []

    def soft_up(self, link: LinkName) -> list[Action]:
        """Accept a soft link that came up, by this broker's wish (`OpenLink`) or the other's; or
        close it."""
        return [CloseLink(link)]

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        """Forget a soft link that is gone, or could not be opened; `lost`: see `LinkDown`."""
        return []

    def awaits_link(self, link: LinkName) -> bool:
        """Return whether this soft link is about to come up; messages to it wait until then."""
        return False

    def alongside(self, link: LinkName) -> Sequence[LinkName]:
        """Return the soft links that lead to brokers behind this neighbour."""
        return ()


class MovesLinks(ABC):
    """A routing that can give a broker another neighbour in the overlay while it runs. The broker
    passes the operator's wish to it, and refuses the wish for other routings."""

    leaving: bool = False
    """Kept by the broker: whether it is about to stop, and takes part in no further move."""

    is_broker: Callable[[LinkName], bool] = staticmethod(lambda name: True)
    """Whether the network has a broker of this name; the shell says what its network file has."""

    floods_anew: bool = False
    """Whether publications that are to be confirmed are flooded, and what is sent again is, too."""

    def keep_moves(
        self,
        write: Callable[[Change], None],
        rows: Mapping[str, Mapping[bytes, bytes]],
        unheard: Callable[[], Iterable[LinkName]],
    ) -> None:
        """Go on with what is on disk of moves (table -> key -> row), and write what changes; called
        before the first link is up. `unheard`: returns the neighbours that have not told yet what
        they know, up or not."""
        return

    def taken_out(self, brokers: Sequence[LinkName]) -> Sequence[Action]:
        """Forget what is known of moves of links of brokers that an operator took out of the
        network."""
        return []

    def ends_for_good(self) -> None:
        """Forget the moved links of this broker, which an operator took out of the network."""
        return

    @property
    def moved_to(self) -> LinkName:
        """The broker to which this one has moved a link last; "": it has moved none."""
        return ""

    def may_have_link(self, other: LinkName) -> bool:
        """Return whether a link to this broker, of which nothing is known here, may be one that was
        moved."""
        return False

    def begins(self) -> Sequence[tuple[LinkName, Header]]:
        """Return the neighbours to which such a publication goes that begins here, with its
        headers."""
        return ()

    def released(self) -> Sequence[Action]:
        """Go on, now that a neighbour gets what has waited for it."""
        return []

    @abstractmethod
    def move(self, old: LinkName, new: LinkName) -> Sequence[Action]:
        """Begin to replace the link to `old` by one to `new`. Raises `ConfigurationError` if that
        is not allowed."""


def moves_links(router: Router) -> MovesLinks:
    """Return the router, which moves links. Raises `ConfigurationError` if it does not."""
    if isinstance(router, MovesLinks):
        return router
    raise ConfigurationError(
        f"routing {router.name!r} does not move links while it runs; change the network file"
    )

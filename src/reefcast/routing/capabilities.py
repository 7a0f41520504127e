"""What only some routings can do, each a class that such a routing derives from besides `Router`.

Each class says which part of the broker asks it, and when. As it stands here, it answers for a
routing that does not have the capability: a part of the broker asks `capability(router, ...)`, and
need not know which routings there are.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from types import MappingProxyType
from typing import TypeVar

from reefcast.errors import ConfigurationError
from reefcast.model.filters import Filter
from reefcast.model.messages import CloseLink, EntityId, LinkName, Publish, Send
from reefcast.model.publication import Publication
from reefcast.routing.router import Action, Router

C = TypeVar("C")


def capability(router: Router, kind: type[C]) -> C:
    """Return the router itself if it has this capability, or else what answers for it."""
    return router if isinstance(router, kind) else kind()


class Refuses:
    """A routing that cannot serve every subscriber. The broker asks before it takes up a
    subscription of a client."""

    def objection(self, filter: Filter) -> str | None:
        """Say why it cannot serve who wants this: a sentence that says what to do."""
        return None


class ActsLater:
    """A routing for which routing publications gives cause to change its tables, or to send
    something. The broker asks after each batch of publications, if it set `unfinished`: `route`
    itself changes no table."""

    unfinished: bool = False
    """Kept by the router: whether `afterwards` has something to do."""

    def afterwards(self) -> Sequence[Action]:
        """Do what the last publications gave cause for."""
        return []


class FollowsRows:
    """A routing whose publications go where the matching rows of its PRT lead, but not back, with a
    header that says nothing but how many hops there were. `plain` asks at each read."""

    follows_rows: bool = False
    """Kept by the router: whether that is all that there is to decide."""


class Relearns:
    """A routing whose tables hold what neighbours told, so that a restart means learning it again.
    `neighbour_links` tells it how far that is, and `relearning` asks who waits for whom."""

    relearning: bool = False
    """Kept by the broker: whether neighbours still have to tell what they know."""
    repairing: bool = False
    """Kept by the router: whether what it asked for when that was over is still to come."""

    def passes_on(self, source: LinkName, target: LinkName) -> bool:
        """Say whether neighbour `target` is told what neighbour `source` tells: then `target` is
        told `Synced` only when `source` has said it."""
        return False

    def synced(self, link: LinkName) -> list[Send]:
        """Sweep what a neighbour told and has not told again: it has said `Synced`, all that still
        holds."""
        return []

    def relearned(self) -> Sequence[Action]:
        """Do what had to wait until relearning was over."""
        return []

    def all_synced(self) -> Sequence[Action]:
        """Do what had to wait until nobody was absent any more (`Router.absent`): all have told
        all, or were given up."""
        return []


class SettlesTogether:
    """A routing where something settles only when what neighbours are told of something else has
    been answered. `consequences` and `settlement` ask when an advertisement or a subscription
    comes, and when a neighbour has lost its memory."""

    def needs(self, subscription: Filter, told: Iterable[EntityId]) -> list[EntityId]:
        """Choose those of these advertisements, whose brokers are being told of another
        subscription, that this one needs, too: it settles when they have been told."""
        return []

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        """Name the subscriptions that neighbours were sent and that stand there for `id`, with
        these neighbours: it settles when they have."""
        return []

    def known_as(self, id: EntityId, link: LinkName) -> EntityId:
        """Return the id by which neighbours are told of what came with `id` by `link`."""
        return id

    def came_by(self, id: EntityId) -> LinkName | None:
        """Choose of the neighbours that told of this advertisement the one that its publications
        come from; None if no more than one tells."""
        return None


class HandsOver:
    """A routing whose publications find their way to a neighbour only as long as it is told of
    something. `neighbour_links` asks about those that waited for a neighbour: when it comes up, and
    when it is about to get them."""

    waiting: Sequence[Publish] = ()
    """Kept by the router: publications that wait in it for another way."""

    def advertised(self, publication: Publication, link: LinkName) -> bool:
        """Say whether neighbour `link` knows of an advertisement that this lies in, as far as that
        is needed for it to find its way there."""
        return True

    def is_astray(self, publish: Publish, link: LinkName) -> bool:
        """Say whether this copy, which waited for neighbour `link`, finds no way there any more."""
        return False

    def reroute(self, strays: Sequence[Publish]) -> Sequence[Action]:
        """Find another way for such copies."""
        return []


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


class OpensLinks:
    """A routing that opens and closes links besides those of the overlay: soft links, which only
    publications cross, and what its brokers say to each other. It answers with `OpenLink` and
    `CloseLink`. The broker tells it what becomes of these links, and starts its rounds when the
    first link comes up; `unopened` asks it about each message."""

    soft_links: Mapping[LinkName, SoftLink] = MappingProxyType({})
    """Kept by the router."""
    round_s: float = 0.0
    """How often `round` is due, in seconds; 0.0: never."""

    def round(self) -> list[Action]:
        """Look at the links again: another `round_s` have passed."""
        return []

    def soft_up(self, link: LinkName) -> list[Action]:
        """Take up a soft link that came up, of this broker's wish (`OpenLink`) or the other's; or
        close it."""
        return [CloseLink(link)]

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        """Forget a soft link that is gone, or could not be had; `lost`: see `LinkDown`."""
        return []

    def awaits_link(self, link: LinkName) -> bool:
        """Say whether this soft link is about to come up, and what is sent over it waits until
        then."""
        return False

    def alongside(self, link: LinkName) -> Sequence[LinkName]:
        """Name the soft links that lead to brokers behind this neighbour."""
        return ()


class MovesLinks(ABC):
    """A routing that can give a broker another neighbour in the overlay while it runs. The broker
    hands on the operator's wish, and refuses it for a routing that cannot."""

    leaving: bool = False
    """Kept by the broker: whether it is about to stop, and takes part in no further move."""

    @abstractmethod
    def move(self, old: LinkName, new: LinkName) -> Sequence[Action]:
        """Set out to replace the link to `old` by one to `new`. Raises `ConfigurationError` if that
        is not allowed."""


def moves_links(router: Router) -> MovesLinks:
    """Return the router, which moves links. Raises `ConfigurationError` if it does not."""
    if isinstance(router, MovesLinks):
        return router
    raise ConfigurationError(
        f"routing {router.name!r} does not move links while it runs; change the network file"
    )

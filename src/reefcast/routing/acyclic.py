"""Acyclic routing: advertisement-based routing on an overlay that is a tree.

Rules
-----
- Advertisements and subscriptions spread as in `tree_router`. Publications follow the subscriptions
  back.
- With covering *incremental*, publications carry what the statistics need (`CoverHeader`), and the
  statistics decide how far an unsubscription goes.

Source: `Siena` and `PADRES`; the covering paper, sections II and V."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Annotated, Any, ClassVar

import msgspec

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    MOST_HOPS,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Publish,
    Send,
)
from reefcast.model.publication import Publication
from reefcast.routing.capabilities import ActsLater, SetsCourses
from reefcast.routing.courses import Course
from reefcast.routing.covering.ghosts import GhostTable
from reefcast.routing.covering.strategies import CoveringOptions, outgoing
from reefcast.routing.router import (
    COUNTED,
    Action,
    Decision,
    Surroundings,
)
from reefcast.routing.tables import NextHops, Row, TableView
from reefcast.routing.tree import Prune, Replace, SubscriptionTree, understood
from reefcast.routing.tree_router import TreeRouter

Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_HOPS)]


class CoverHeader(Header, frozen=True, gc=False):
    """The header for the statistics of *incremental*: at how many brokers (`count`) another
    subscription matched, too, how many hops ago (`distance`) the last of these was, and the
    advertisement within which the publication lies."""

    count: Count = 0
    distance: Count = 0
    advertisement: EntityId | None = None


class AcyclicOptions(CoveringOptions, frozen=True):
    """Options of advertisement-based routing.

    - `covering`: which of the subscriptions that a neighbour wants are sent to it: all ("none"),
      or only those that no other one covers, by one of four strategies ("lazy", "active",
      "packing", "incremental").
    - `theta`: with "incremental", the share of a subscription's publications that must be wanted
      by others too where an unsubscription stops (0 to 1).
    """

    theta: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.9

    @property
    def keeps_statistics(self) -> bool:
        return self.covering == "incremental"


class Acyclic(TreeRouter, ActsLater, SetsCourses):
    """Advertisement-based routing; see the module's docstring for the rules."""

    name = "acyclic"
    keeps_order = True
    one_way = True
    messages = (Replace,)
    header = CoverHeader
    options = AcyclicOptions
    counted: ClassVar[Mapping[str, str]] = {
        **TreeRouter.counted,
        "ghosts_preserved": "preserved",
        "ghosts_collected": "collected",
        "false_positive": "false positives",
    }
    legend: ClassVar[Mapping[str, str]] = {
        "ghosts": (
            "Subscriptions that have gone, and that the neighbour still holds for this broker "
            "because they stand for others that it holds, too. False positives: of the last "
            "publications that matched the ghost, those that nobody here or beyond wanted."
        ),
        COUNTED: (
            "Covering, for each neighbour. Quenched: subscriptions not sent to it, for another one "
            "covers them. Replaced: withdrawn for a broader one that came. NRS: sent in the place "
            "of one that went. Preserved: ghosts that came. Collected: those that went. False "
            "positives: publications that came from a neighbour, and nobody here or beyond wanted."
        ),
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.counts = where.options.keeps_statistics
        self.sets_courses = not self.counts
        self.theta = where.options.theta
        self.statistics = where.statistics

    def new_tree(self, where: Surroundings) -> SubscriptionTree:
        options = where.options
        new_outgoing = outgoing(options.covering, options.theta, self.counters)
        return SubscriptionTree(
            self.prt,
            self.brokers,
            self.srt.wanted_by,
            lambda link: new_outgoing(),
            self.counters,
            self._came_by,
        )

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if local and self.counts:
            self.statistics.claim(id, filter.text)
        return super().subscribe(id, filter, link, local)

    def prunes(self, *rows: Row | None) -> Mapping[EntityId, Prune]:
        """Return how far the unsubscriptions of this broker's clients must go: the pruning distance
        of each advertisement under which the subscription got anything."""
        prunes: dict[EntityId, Prune] = {}
        for row in rows:
            if row is not None and row.local and self.counts:
                prunes[row.id] = tuple(self._pruning_distances(row.id))
                self.statistics.purge(row.id)
        return prunes

    def _pruning_distances(self, id: EntityId) -> Iterator[tuple[EntityId, int]]:
        for advertisement in self.srt:
            hops = self.statistics.pruning_distance(id, advertisement.id, self.theta)
            if hops:
                yield advertisement.id, hops

    def _came_by(self, advertisement: EntityId) -> LinkName | None:
        row = self.srt.get(advertisement)
        return None if row is None else row.last_hop

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if not isinstance(message, Replace):
            return super().peer(message, link)
        return self.tree.replace(understood(message), link)

    # --- publications -----------------------------------------------------------------------------

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        useless: list[tuple[Publication, bool]] = []
        try:
            for publish, (local, hops, matched) in zip_longest(publications, found):
                onward = self._onward(publish, link, matched)
                if local and type(onward) is CoverHeader:
                    self._record(publish.publication, local, onward)
                copies = [(hop, onward) for hop in hops if hop != link]
                useless.append((publish.publication, not local and not copies))
                yield Decision(local, copies, matched)
        finally:  # those before one that something fails on count, too
            if self.counts and link in self.tree.outgoing:
                self.unfinished |= self.tree.outgoing[link].observe(useless)

    def course(self, header: Header, link: LinkName) -> Course | None:
        return Course(Header(header.hops + 1)) if type(header) is Header else None

    def _onward(self, publish: Publish, link: LinkName, matched: int) -> Header:
        """Return the header of the copies from here on."""
        header = publish.header
        hops = header.hops + 1
        if type(header) is CoverHeader:
            if matched > 1:
                return CoverHeader(hops, min(header.count + 1, MOST_HOPS), 0, header.advertisement)
            return CoverHeader(
                hops, header.count, min(header.distance + 1, MOST_HOPS), header.advertisement
            )
        if self.counts and link not in self.brokers:
            return CoverHeader(hops, 0, 0, self._published_under(publish.publication, link))
        return Header(hops)

    def _published_under(self, publication: Publication, client: LinkName) -> EntityId | None:
        """Return the first advertisement of this client within which it lies."""
        for row in self.srt.from_hop(client):
            if row.filter.matches(publication):
                return row.id
        return None

    def _record(
        self, publication: Publication, local: Mapping[LinkName, list[int]], header: CoverHeader
    ) -> None:
        if not self.counts or header.advertisement is None:
            return
        for client, numbers in local.items():
            for number in numbers:
                self.statistics.record(
                    publication.id,
                    header.advertisement,
                    (client, number),
                    header.distance,
                    header.count,
                    self.links.now,
                )

    def afterwards(self) -> list[Send]:
        self.unfinished = False
        return self.tree.collect_overdue()

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        tables = super().tables()
        if self.counts:
            tables["ghosts"] = GhostTable(self.tree.outgoing)
        return tables

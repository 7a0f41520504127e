"""Advertisement-based routing on an overlay that is a tree: what `acyclic` and `mesh` share.

Rules
-----
- Advertisements are flooded; each broker stores them in its SRT with the link by which they came.
- Subscriptions go towards them: over every link from which an intersecting advertisement came,
  along the subscription tree (`tree`).
- A new advertisement from U makes the broker look through its PRT again and send U what it now
  needs; an advertisement withdrawn by U makes it withdraw from U what no other advertisement from U
  wants. U never drops rows by itself.

Source: `Siena` and `PADRES`; section 2 of the covering paper. Cost: a subscription asks each
distinct advertisement text of each link once (`intersects`)."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Advertise,
    EntityId,
    LinkName,
    Send,
    Unadvertise,
)
from reefcast.model.publication import Publication
from reefcast.routing.capabilities import HandsOver, KeepsRows, Relearns, SettlesTogether
from reefcast.routing.router import SUBSCRIPTIONS, Router, Shape, Surroundings
from reefcast.routing.tables import AdvertisementTable, Row, Table, TableView
from reefcast.routing.tree import NO_PRUNES, Prune, SubscriptionTree


class TreeRouter(Router, Relearns, SettlesTogether, HandsOver, KeepsRows):
    """Advertisement-based routing on a tree; see the module's docstring for the rules."""

    overlay = Shape.TREE
    counted: ClassVar[Mapping[str, str]] = {
        "quenched": "quenched",
        "replaced": "replaced",
        "nrs": "NRS",
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.srt = AdvertisementTable()
        self.tree = self.new_tree(where)

    @abstractmethod
    def new_tree(self, where: Surroundings) -> SubscriptionTree:
        """Return an empty tree over `brokers`, with the options of these surroundings."""

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        before = self.srt.by(id, link)
        if before is not None and before.filter == filter:
            self.srt.confirm(id, link)
            return []
        told = self._told(id, link)
        if before is not None:
            self.srt.remove(id, link)
        known = self.srt.has_text(link, filter.text)
        self.srt.add(Row(id, filter, link, local))
        sends = self._tell_of_change(id, told)
        if not local and not known:
            sends += self.tree.catch_up(link)
        if before is not None and not self.srt.has_text(link, before.filter.text):
            sends += self.tree.withdraw_unwanted(link)
        return sends

    def _told(self, id: EntityId, link: LinkName) -> dict[LinkName, Filter | None]:
        """Return what neighbours besides `link` are told of this advertisement; None: nothing."""
        rows = [(other, self.srt.told(id, other)) for other in self.brokers if other != link]
        return {other: None if row is None else row.filter for other, row in rows}

    def _tell_of_change(self, id: EntityId, told: Mapping[LinkName, Filter | None]) -> list[Send]:
        """Tell neighbours of a change; `told`: what they knew before it came or went by a link."""
        sends = []
        for other, before in told.items():
            row = self.srt.told(id, other)
            if row is not None and row.filter != before:
                sends.append(Send(other, Advertise(id, row.filter.text)))
            elif row is None and before is not None:
                sends.append(Send(other, Unadvertise(id)))
        return sends

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        told = self._told(id, link)
        row = self.srt.remove(id, link)
        if row is None:
            return []
        sends = self._tell_of_change(id, told)
        if not self.srt.has_text(link, row.filter.text):
            sends += self.tree.withdraw_unwanted(link)
        return sends

    def advertised(self, publication: Publication, link: LinkName) -> bool:
        return any(row.last_hop != link and row.filter.matches(publication) for row in self.srt)

    def _unadvertise_all(self, link: LinkName, ids: list[EntityId]) -> list[Send]:
        return [send for id in ids for send in TreeRouter.unadvertise(self, id, link)]

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return self.tree.subscribe(Row(id, filter, link, local))

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        return self.tree.unsubscribe([id], link, self.prunes(self.prt.by(id, link)))

    def prunes(self, *rows: Row | None) -> Mapping[EntityId, Prune]:
        """Return how far the unsubscriptions of these rows go, for those that need not go all the
        way."""
        return NO_PRUNES

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        return self.tree.stand_ins(id)

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        self.srt.doubt(link)
        sends = [
            Send(link, Advertise(id, row.filter.text))
            for id in self.srt.ids()
            if (row := self.srt.told(id, link)) is not None
        ]
        return sends + self.tree.link_up(link)

    def passes_on(self, source: LinkName, target: LinkName) -> bool:
        return source != target

    def synced(self, link: LinkName) -> list[Send]:
        stale = self.srt.unconfirmed(link)
        return self.tree.synced(link) + self._unadvertise_all(link, stale)

    def link_down(self, link: LinkName) -> list[Send]:
        gone = [row.id for row in self.srt.from_hop(link)]
        prunes = self.prunes(*self.prt.from_hop(link))
        return self.tree.link_down(link, prunes) + self._unadvertise_all(link, gone)

    # --- disk -------------------------------------------------------------------------------------

    def row_tables(self) -> Mapping[str, Table[Any]]:
        return {"SRT": self.srt, SUBSCRIPTIONS: self.prt}

    def deputy(self, advertisement: EntityId, link: LinkName) -> Filter | None:
        row = self.srt.told(advertisement, link)
        return None if row is None else row.filter

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        return {"SRT": self.srt, SUBSCRIPTIONS: self.prt}

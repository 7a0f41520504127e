"""Acyclic routing: advertisement-based routing on an overlay that is a tree.

Rules
-----
- Advertisements are flooded; each broker stores them in its SRT with the link they came by.
- Subscriptions go towards them: over every link from which an intersecting one came, by the
  subscription tree (`tree`). Publications follow the subscriptions back.
- A new advertisement from U makes the broker look through its PRT again and send U what it now
  needs; an advertisement withdrawn by U makes it withdraw from U what no other advertisement from
  U wants. U never drops rows by itself.

Source: `Siena` and `PADRES`; section 2 of the covering paper. Cost: a subscription asks each
distinct advertisement text of each link once (`intersects`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    FIRST_HOP,
    Advertise,
    EntityId,
    Header,
    LinkName,
    Publish,
    Send,
    Unadvertise,
)
from reefcast.routing.router import Decision, Router, Shape, Surroundings
from reefcast.routing.tables import AdvertisementTable, Row, Table
from reefcast.routing.tree import SubscriptionTree


class Acyclic(Router):
    """See the module's docstring for the rules."""

    name = "acyclic"
    overlay = Shape.TREE
    keeps_order = True
    relearns = True

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.srt = AdvertisementTable()
        self.tree = SubscriptionTree(self.prt, self.brokers, self.srt.wanted_by)

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if id in self.srt:
            self.srt.confirm(id, link)
            return []
        known = self.srt.has_text(link, filter.text)
        self.srt.add(Row(id, filter, link, local))
        sends = self._to_others(link, Advertise(id, filter.text))
        if not local and not known:
            sends += self.tree.catch_up(link)
        return sends

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        row = self.srt.remove(id, link)
        if row is None:
            return []
        sends = self._to_others(link, Unadvertise(id))
        if not self.srt.has_text(link, row.filter.text):
            sends += self.tree.withdraw_unwanted(link)
        return sends

    def _to_others(self, link: LinkName, message: Advertise | Unadvertise) -> list[Send]:
        return [Send(other, message) for other in self.brokers if other != link]

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return self.tree.subscribe(id, filter, link, local)

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        return self.tree.unsubscribe(id, link)

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        self.srt.doubt(link)
        sends = [
            Send(link, Advertise(row.id, row.filter.text))
            for row in self.srt
            if row.last_hop != link
        ]
        return sends + self.tree.link_up(link)

    def synced(self, link: LinkName) -> list[Send]:
        stale = self.srt.unconfirmed(link)
        return self.tree.synced(link) + self._unadvertise_all(link, stale)

    def link_down(self, link: LinkName) -> list[Send]:
        gone = [row.id for row in self.srt.from_hop(link)]
        return self.tree.link_down(link) + self._unadvertise_all(link, gone)

    def _unadvertise_all(self, link: LinkName, ids: list[EntityId]) -> list[Send]:
        return [send for id in ids for send in self.unadvertise(id, link)]

    # --- publications -----------------------------------------------------------------------------

    def route(self, publications: Sequence[Publish], link: LinkName) -> Iterator[Decision]:
        found = self.prt.ways([publish.publication for publish in publications])
        for publish, (local, hops, matched) in zip(publications, found, strict=True):
            onward = Header(publish.header.hops + 1) if hops else FIRST_HOP
            yield Decision(local, [(hop, onward) for hop in hops if hop != link], matched)

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, Table[Any]]:
        return {"SRT": self.srt, "PRT": self.prt}

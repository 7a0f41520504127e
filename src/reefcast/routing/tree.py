"""The tree router: advertisement-based routing over an acyclic set of neighbours.

Rules
-----
- Advertisements are flooded; each broker stores them in its SRT with the link they came by.
- A subscription is stored in the PRT and forwarded over every link from which an intersecting
  advertisement came, never back over its own link.
- A publication follows the subscriptions back: one copy per last hop that matches, never back.
- A new advertisement from U makes the broker look through its PRT again and send U what it now
  needs; an advertisement withdrawn by U makes it withdraw from U what no other advertisement from
  U wants. U never drops rows by itself.
- `sent[U]` holds the subscriptions sent to U and not withdrawn: it mirrors U's rows from here.

Theory of operation
-------------------
The neighbours form a tree, so that a message that never goes back over the link it came by reaches
every broker once, without ids to remember. Per-publisher order follows from links that are FIFO.

It is a component: `acyclic` is this and nothing else; clusters and meshes will run it over the part
of their neighbours that forms a tree.

Source: the setting of `Siena` and `PADRES`; section 2 of the covering paper. Cost: a subscription
asks each distinct advertisement text of each link once (`intersects`).
"""

from __future__ import annotations

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Advertise,
    EntityId,
    LinkName,
    Send,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.tables import AdvertisementTable, Row, SubscriptionTable


class TreeRouter:
    """SRT, PRT and `sent` of one broker over the tree links `neighbours` (kept by the owner)."""

    def __init__(self, prt: SubscriptionTable, neighbours: list[LinkName]) -> None:
        self.srt = AdvertisementTable()
        self.prt = prt
        self.neighbours = neighbours
        self.sent: dict[LinkName, dict[EntityId, None]] = {}

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if id in self.srt:
            self.srt.confirm(id, link)
            return []
        known = self.srt.has_text(link, filter.text)
        self.srt.add(Row(id, filter, link, local))
        sends = self._to_others(link, Advertise(id, filter.text))
        if not local and not known:
            sends += self._catch_up(link)
        return sends

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        row = self.srt.remove(id, link)
        if row is None:
            return []
        sends = self._to_others(link, Unadvertise(id))
        if not self.srt.has_text(link, row.filter.text):
            sends += self._withdraw_unwanted(link)
        return sends

    def _to_others(self, link: LinkName, message: Advertise | Unadvertise) -> list[Send]:
        return [Send(other, message) for other in self.neighbours if other != link]

    def _catch_up(self, link: LinkName) -> list[Send]:
        """Send over `link` the subscriptions that its advertisements want and it does not have."""
        sent = self.sent.setdefault(link, {})
        return [
            self._forward(row, link)
            for row in self.prt
            if row.last_hop != link and row.id not in sent and self.srt.wanted_by(link, row.filter)
        ]

    def _withdraw_unwanted(self, link: LinkName) -> list[Send]:
        """Withdraw over `link` what no advertisement from there wants any more."""
        sent = self.sent.get(link, {})
        unwanted = [id for id in sent if not self._wanted(id, link)]
        for id in unwanted:
            del sent[id]
        return [Send(link, Unsubscribe(id)) for id in unwanted]

    def _wanted(self, id: EntityId, link: LinkName) -> bool:
        row = self.prt.get(id)
        return row is not None and self.srt.wanted_by(link, row.filter)

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if id in self.prt:
            self.prt.confirm(id, link)
            return []
        row = Row(id, filter, link, local)
        self.prt.add(row)
        return [
            self._forward(row, other)
            for other in self.neighbours
            if other != link and self.srt.wanted_by(other, filter)
        ]

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        if self.prt.remove(id, link) is None:
            return []
        told = [other for other in self.neighbours if id in self.sent.get(other, ())]
        for other in told:
            del self.sent[other][id]
        return [Send(other, Unsubscribe(id)) for other in told]

    def _forward(self, row: Row, link: LinkName) -> Send:
        self.sent.setdefault(link, {})[row.id] = None
        return Send(link, Subscribe(row.id, row.filter.text))

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        """Tell a neighbour without memory all that it must know; doubt what it told before."""
        self.srt.doubt(link)
        self.prt.doubt(link)
        self.sent[link] = {}
        sends = [
            Send(link, Advertise(row.id, row.filter.text))
            for row in self.srt
            if row.last_hop != link
        ]
        return sends + self._catch_up(link)

    def synced(self, link: LinkName) -> list[Send]:
        return self._take_back(link, self.prt.unconfirmed(link), self.srt.unconfirmed(link))

    def link_down(self, link: LinkName) -> list[Send]:
        self.sent.pop(link, None)
        subscriptions = [row.id for row in self.prt.from_hop(link)]
        return self._take_back(link, subscriptions, [row.id for row in self.srt.from_hop(link)])

    def _take_back(
        self, link: LinkName, subscriptions: list[EntityId], advertisements: list[EntityId]
    ) -> list[Send]:
        sends: list[Send] = []
        for id in subscriptions:
            sends += self.unsubscribe(id, link)
        for id in advertisements:
            sends += self.unadvertise(id, link)
        return sends

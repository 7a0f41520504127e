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

It is a component: `acyclic` is this and nothing else; meshes will run it over the part of their
neighbours that forms a tree. Inside a cluster of a SCOT advertisements are unknown and every
neighbour wants every subscription: there `SubscriptionTree` runs without the SRT (see `scot`).

Source: the setting of `Siena` and `PADRES`; section 2 of the covering paper. Cost: a subscription
asks each distinct advertisement text of each link once (`intersects`).
"""

from __future__ import annotations

from collections.abc import Callable

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

WantedBy = Callable[[LinkName, Filter], bool]
"""Whether a subscription is to be sent over a link."""


class SubscriptionTree:
    """PRT and `sent` of one broker over the tree links `neighbours` (kept by the owner).

    `wanted_by` decides where subscriptions go; it may give another answer after the owner's tables
    changed, if `catch_up` or `withdraw_unwanted` is called then.
    """

    def __init__(
        self, prt: SubscriptionTable, neighbours: list[LinkName], wanted_by: WantedBy
    ) -> None:
        self.prt = prt
        self.neighbours = neighbours
        self.sent: dict[LinkName, dict[EntityId, None]] = {}
        self._wanted_by = wanted_by

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if id in self.prt:
            self.prt.confirm(id, link)
            return []
        row = Row(id, filter, link, local)
        self.prt.add(row)
        return [
            self._forward(row, other)
            for other in self.neighbours
            if other != link and self._wanted_by(other, filter)
        ]

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        if self.prt.remove(id, link) is None:
            return []
        told = [other for other in self.neighbours if id in self.sent.get(other, ())]
        for other in told:
            del self.sent[other][id]
        return [Send(other, Unsubscribe(id)) for other in told]

    def catch_up(self, link: LinkName) -> list[Send]:
        """Send over `link` the subscriptions that are wanted there now and were not sent yet."""
        sent = self.sent.setdefault(link, {})
        return [
            self._forward(row, link)
            for row in self.prt
            if row.last_hop != link and row.id not in sent and self._wanted_by(link, row.filter)
        ]

    def withdraw_unwanted(self, link: LinkName) -> list[Send]:
        """Withdraw over `link` what is not wanted there any more."""
        sent = self.sent.get(link, {})
        unwanted = [id for id in sent if not self._wanted(id, link)]
        for id in unwanted:
            del sent[id]
        return [Send(link, Unsubscribe(id)) for id in unwanted]

    def _wanted(self, id: EntityId, link: LinkName) -> bool:
        row = self.prt.get(id)
        return row is not None and self._wanted_by(link, row.filter)

    def _forward(self, row: Row, link: LinkName) -> Send:
        self.sent.setdefault(link, {})[row.id] = None
        return Send(link, Subscribe(row.id, row.filter.text))

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        """Tell a neighbour without memory all that it must know; doubt what it told before."""
        self.prt.doubt(link)
        self.sent[link] = {}
        return self.catch_up(link)

    def synced(self, link: LinkName) -> list[Send]:
        return self._take_back(link, self.prt.unconfirmed(link))

    def link_down(self, link: LinkName) -> list[Send]:
        self.sent.pop(link, None)
        return self._take_back(link, [row.id for row in self.prt.from_hop(link)])

    def _take_back(self, link: LinkName, subscriptions: list[EntityId]) -> list[Send]:
        return [send for id in subscriptions for send in self.unsubscribe(id, link)]


class TreeRouter(SubscriptionTree):
    """A `SubscriptionTree` that sends subscriptions towards intersecting advertisements, and the
    SRT that knows these."""

    def __init__(self, prt: SubscriptionTable, neighbours: list[LinkName]) -> None:
        self.srt = AdvertisementTable()
        super().__init__(prt, neighbours, self.srt.wanted_by)

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if id in self.srt:
            self.srt.confirm(id, link)
            return []
        known = self.srt.has_text(link, filter.text)
        self.srt.add(Row(id, filter, link, local))
        sends = self._to_others(link, Advertise(id, filter.text))
        if not local and not known:
            sends += self.catch_up(link)
        return sends

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        row = self.srt.remove(id, link)
        if row is None:
            return []
        sends = self._to_others(link, Unadvertise(id))
        if not self.srt.has_text(link, row.filter.text):
            sends += self.withdraw_unwanted(link)
        return sends

    def _to_others(self, link: LinkName, message: Advertise | Unadvertise) -> list[Send]:
        return [Send(other, message) for other in self.neighbours if other != link]

    def link_up(self, link: LinkName) -> list[Send]:
        self.srt.doubt(link)
        sends = [
            Send(link, Advertise(row.id, row.filter.text))
            for row in self.srt
            if row.last_hop != link
        ]
        return sends + super().link_up(link)

    def synced(self, link: LinkName) -> list[Send]:
        stale = self.srt.unconfirmed(link)
        return super().synced(link) + self._unadvertise_all(link, stale)

    def link_down(self, link: LinkName) -> list[Send]:
        gone = [row.id for row in self.srt.from_hop(link)]
        return super().link_down(link) + self._unadvertise_all(link, gone)

    def _unadvertise_all(self, link: LinkName, ids: list[EntityId]) -> list[Send]:
        return [send for id in ids for send in self.unadvertise(id, link)]

"""The subscription tree: how subscriptions spread over an acyclic set of neighbours.

Rules
-----
- A subscription is stored in the PRT and forwarded over every link that wants it, never back over
  its own link. The owner says which links want it: `acyclic` those from which an intersecting
  advertisement came, `scot` all aLinks.
- A publication follows the subscriptions back: one copy per last hop that matches, never back.
- `sent[U]` holds the subscriptions sent to U and not withdrawn: it mirrors U's rows from here.

Theory of operation
-------------------
The neighbours form a tree, so that a message that never goes back over the link it came by reaches
every broker once, without ids to remember. Per-publisher order follows from links that are FIFO.

Source: the setting of `Siena` and `PADRES`; section 2 of the covering paper.
"""

from __future__ import annotations

from collections.abc import Callable

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, LinkName, Send, Subscribe, Unsubscribe
from reefcast.routing.tables import Row, SubscriptionTable

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

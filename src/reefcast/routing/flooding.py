"""Flooding: the reference whose deliveries every other routing must equal.

Rules
-----
- A subscription stays at its host broker; advertisements need no broker but the publisher's own.
- A publication goes to every neighbour but the one it came from; a broker drops a copy of what it
  has seen (overlays may have cycles), as far as it remembers (see `recent`).
- With FIFO links the first copies of one publisher's publications keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, Header, LinkName, Publish, Send
from reefcast.model.publication import PublicationId
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import Decision, Router, Surroundings
from reefcast.routing.tables import Row


class Flooding(Router):
    """See the module's docstring for the rules."""

    name = "flooding"
    keeps_order = True
    relearns = False

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self._recent = RecentIds[PublicationId]()

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return []

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        return []

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        self.prt.add(Row(id, filter, link, local))
        return []

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        self.prt.remove(id, link)
        return []

    def route(self, publications: Sequence[Publish], link: LinkName) -> Iterator[Decision]:
        found = self.prt.ways([publish.publication for publish in publications])
        for publish, (local, _, matched) in zip(publications, found, strict=True):
            if not self._recent.is_new(publish.publication.id):
                yield Decision({}, [], matched, duplicate=True)
                continue
            onward = Header(publish.header.hops + 1)
            yield Decision(local, [(b, onward) for b in self.brokers if b != link], matched)

    def link_up(self, link: LinkName) -> list[Send]:
        return []

    def link_down(self, link: LinkName) -> list[Send]:
        for row in self.prt.from_hop(link):
            self.prt.remove(row.id, link)
        return []

    def synced(self, link: LinkName) -> list[Send]:
        return []

    def tables(self) -> dict[str, int]:
        return {"PRT": len(self.prt)}

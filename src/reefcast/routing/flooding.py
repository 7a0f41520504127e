"""Flooding: the reference whose deliveries every other routing must equal.

Rules
-----
- A subscription stays at its host broker; advertisements need no broker but the publisher's own.
- A publication goes to every neighbour but the one it came from; a broker drops a copy of what it
  has seen (overlays may have cycles), remembering at least the last `REMEMBERED` publications.
- With FIFO links the first copies of one publisher's publications keep their order.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

from reefcast.model.filters import Filter
from reefcast.model.messages import EntityId, Header, LinkName, Publish, Send
from reefcast.model.publication import PublicationId
from reefcast.routing.links import Links
from reefcast.routing.router import Decision, Router
from reefcast.routing.tables import IndexFactory, Row

REMEMBERED = 100_000


class RecentIds:
    """The ids seen lately, in two generations, so that forgetting costs nothing per id."""

    def __init__(self, remembered: int = REMEMBERED) -> None:
        self._remembered = remembered
        self._young: set[PublicationId] = set()
        self._old: set[PublicationId] = set()

    def is_new(self, id: PublicationId) -> bool:
        if id in self._young or id in self._old:
            return False
        if len(self._young) >= self._remembered:
            self._old, self._young = self._young, set()
        self._young.add(id)
        return True


class Flooding(Router):
    """See the module's docstring for the rules."""

    name = "flooding"
    keeps_order = True
    relearns = False

    def __init__(
        self, name: str, new_index: IndexFactory, rng: random.Random, links: Links
    ) -> None:
        super().__init__(name, new_index, rng, links)
        self._recent = RecentIds()

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

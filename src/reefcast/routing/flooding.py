"""Flooding: the reference whose deliveries every other routing must equal.

Rules
-----
- A subscription stays at its host broker; advertisements need no broker but the publisher's own.
- A publication goes to every neighbour except the one from which it came; a broker drops copies of
  publications that it has seen (overlays may have cycles), as far as it remembers them (see
  `recent`).
- It confirms nothing: where paths form cycles, each copy that a restarted broker gets again would
  be flooded again, and the number of copies could grow with each restart.
- With FIFO links the first copies of one publisher's publications keep their order."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from reefcast.model.messages import Header, LinkName, Publish
from reefcast.model.publication import PublicationId
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import Decision, Router, Surroundings
from reefcast.routing.tables import NextHops


class Flooding(Router):
    """Flooding; see the module's docstring for the rules."""

    name = "flooding"
    keeps_order = True
    confirms = False

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self._recent = RecentIds[PublicationId]()

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        others = self.brokers
        if self.absent:
            others = sorted({*others, *self.absent})
        for publish, (local, _, matched) in zip_longest(publications, found):
            if not self._recent.is_new(publish.publication.id):
                yield Decision({}, [], matched, duplicate=True)
                continue
            onward = Header(publish.header.hops + 1)
            yield Decision(local, [(b, onward) for b in others if b != link], matched)

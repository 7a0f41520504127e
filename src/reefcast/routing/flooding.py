"""Flooding: the reference whose deliveries every other routing must equal.

Rules
-----
- A subscription stays at its host broker; advertisements need no broker but the publisher's own.
- A publication goes to every neighbour except the one from which it came; a broker drops copies of
  publications that it has seen (overlays may have cycles), as far as it remembers them (see
  `recent`).
- Of a publication that is to be confirmed, each *attempt* is flooded by itself, and its first
  copies form a tree: a broker answers a further copy at once, and the first one when all neighbours
  have answered. A copy that is sent again because a neighbour restarted begins an attempt of its
  own, one for all attempts that wait for this neighbour (`confirming`): so brokers that restart add
  attempts, and do not multiply them.
- With FIFO links the first copies of one publisher's publications keep their order. When a broker
  on a cycle loses its memory they may not: what one neighbour owes it, another has answered, and
  sends only what came later."""

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
    floods = True

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self._recent = RecentIds[PublicationId | tuple[PublicationId, int]]()

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        others = self.brokers
        if self.absent:
            others = sorted({*others, *self.absent})
        for publish, (local, _, matched) in zip_longest(publications, found):
            id, attempt = publish.publication.id, publish.confirm
            if not self._recent.is_new((id, attempt) if attempt else id):
                yield Decision({}, [], matched, duplicate=True)
                continue
            onward = Header(publish.header.hops + 1)
            yield Decision(local, [(b, onward) for b in others if b != link], matched)

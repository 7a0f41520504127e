"""Acyclic routing: the tree router over all neighbours. The overlay must be a tree."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from reefcast.model.filters import Filter
from reefcast.model.messages import FIRST_HOP, EntityId, Header, LinkName, Publish, Send
from reefcast.routing.router import Decision, Router, Surroundings
from reefcast.routing.tree import TreeRouter


class Acyclic(Router):
    """See `tree` for the rules."""

    name = "acyclic"
    keeps_order = True
    relearns = True

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.tree = TreeRouter(self.prt, self.brokers)

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return self.tree.advertise(id, filter, link, local)

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        return self.tree.unadvertise(id, link)

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        return self.tree.subscribe(id, filter, link, local)

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        return self.tree.unsubscribe(id, link)

    def route(self, publications: Sequence[Publish], link: LinkName) -> Iterator[Decision]:
        found = self.prt.ways([publish.publication for publish in publications])
        for publish, (local, hops, matched) in zip(publications, found, strict=True):
            onward = Header(publish.header.hops + 1) if hops else FIRST_HOP
            yield Decision(local, [(hop, onward) for hop in hops if hop != link], matched)

    def link_up(self, link: LinkName) -> list[Send]:
        return self.tree.link_up(link)

    def link_down(self, link: LinkName) -> list[Send]:
        return self.tree.link_down(link)

    def synced(self, link: LinkName) -> list[Send]:
        return self.tree.synced(link)

    def tables(self) -> dict[str, int]:
        return {"SRT": len(self.tree.srt), "PRT": len(self.prt)}

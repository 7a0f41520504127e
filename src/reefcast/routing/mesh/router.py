"""Routing `mesh`: opportunistic multipath forwarding over soft links, on a primary tree.

Rules
-----
- Advertisements and subscriptions spread over primary links as in `tree_router`; a subscription
  carries its anchor along (`anchors`), and one stands for another only if both have the same.
- A publication goes from broker to broker by whatever links there are: each sends copies by its
  strategy (`strategies`) to those of its direct neighbours, primary or soft, that lead to all the
  anchors of matching subscriptions, except those in the branch that it came from.
- Links open and close by what they are worth (`overlay`).

Publications of one publisher may overtake each other with S1, S2 and SH.

Source: `papers/multipath-mesh.txt`. Cost: path computation under a microsecond for most
publications, see `strategies`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any, ClassVar

from reefcast.model.messages import Header, LinkName, PeerMessage, Publish, Send
from reefcast.routing.courses import Course, Rows
from reefcast.routing.mesh.meshed import MESSAGES, Meshed
from reefcast.routing.mesh.messages import MeshHeader, Tunnel, stamp_of
from reefcast.routing.mesh.view import SoftLinkTable
from reefcast.routing.router import Decision, Surroundings
from reefcast.routing.tables import NextHops, Row, TableView
from reefcast.routing.tree import SubscriptionTree
from reefcast.routing.tree_router import TreeRouter


class Mesh(Meshed, TreeRouter):
    """See the module's docstring for the rules."""

    name = "mesh"
    one_way = True
    messages: ClassVar[tuple[type[PeerMessage], ...]] = MESSAGES
    header = MeshHeader

    def new_tree(self, where: Surroundings) -> SubscriptionTree:
        return self.begin(where, self.brokers, self.srt.wanted_by)

    def in_tunnel(self, header: Header, tunnel: Tunnel) -> Header:
        return MeshHeader(header.hops + 1, tunnel, stamp_of(header))

    def primary(self, link: LinkName) -> bool:
        return link in self.brokers

    def take_in(self, row: Row) -> list[Send]:
        return self.tree.subscribe(row)

    def decide(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        for publish, (local, anchors, matched) in zip_longest(publications, found):
            hops = self.sends(anchors, link)
            if hops:
                onward = Header(publish.header.hops + 1)
                yield Decision(local, [(hop, onward) for hop in hops], matched)
            else:
                yield Decision(local, [], matched)

    def course(self, header: Header, link: LinkName) -> Course | None:
        if type(header) is not Header:
            return None
        return Course(Header(header.hops + 1), rows=Rows.CHOSEN)

    def become(self, new: Mesh) -> None:
        """Replace these tables by those of another one (see `move`)."""
        for row in list(self.prt):
            self.prt.remove(row.id, row.last_hop)
        self.brokers, self.srt, self.prt, self.tree = new.brokers, new.srt, new.prt, new.tree
        new.mesh.candidates, new.mesh.reports = self.mesh.candidates, self.mesh.reports
        self.mesh = new.mesh

    def tables(self) -> dict[str, TableView[Any]]:
        return {**super().tables(), SoftLinkTable.name: SoftLinkTable(self.mesh)}

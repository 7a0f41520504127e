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

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from reefcast.errors import ProtocolError
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import (
    ControlMessage,
    EntityId,
    LinkName,
    PeerMessage,
    Publish,
    Send,
)
from reefcast.routing.covering.outgoing import Outgoing
from reefcast.routing.covering.strategies import outgoing
from reefcast.routing.mesh.covering import PerAnchor
from reefcast.routing.mesh.messages import Anchored, Loads, MeshHeader, Tunnel, Vicinity
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.overlay import MeshOverlay, plain
from reefcast.routing.mesh.view import SoftLinkTable
from reefcast.routing.router import COUNTED, Action, Decision, Surroundings
from reefcast.routing.tables import Row, TableView, Ways
from reefcast.routing.tree import SubscriptionTree
from reefcast.routing.tree_router import TreeRouter


class Mesh(TreeRouter):
    """See the module's docstring for the rules."""

    name = "mesh"
    messages = (Anchored, Vicinity, Loads)
    header = MeshHeader
    options = MeshOptions
    counted: ClassVar[Mapping[str, str]] = {
        "quenched": "quenched",
        "replaced": "replaced",
        "tunnelled": "tunnelled",
    }
    legend: ClassVar[Mapping[str, str]] = {
        "soft links": (
            "Direct links besides the primary ones, and candidates for them. Hops: along primary "
            "links. Sent: publications in the last period, of a candidate those that it would have "
            "carried. Gain: what it is worth."
        ),
        COUNTED: (
            "Quenched: subscriptions not sent to a neighbour, for another one covers them. "
            "Replaced: withdrawn for a broader one. Tunnelled: publications that a soft link lost "
            "when it failed, sent along primary links."
        ),
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.mesh = MeshOverlay(where.name, where.options, self.soft_links, where.links, where.rng)
        self.round_s = where.options.round_s

    def new_tree(self, where: Surroundings) -> SubscriptionTree:
        new_group = outgoing(where.options.covering, 1.0, self.counters)

        def new_outgoing(link: LinkName) -> Outgoing:
            return PerAnchor(new_group, lambda id: self._anchor(id, link))

        return SubscriptionTree(
            self.prt,
            self.brokers,
            self.srt.wanted_by,
            new_outgoing,
            self.counters,
            say=self._say,
        )

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if not local:
            raise ProtocolError(
                f"neighbour {link!r} sent a subscription without an anchor; "
                "give both brokers the same network file"
            )
        return super().subscribe(id, filter, link, local)

    def _anchor(self, id: EntityId, link: LinkName) -> LinkName:
        row = self.prt.get(id)
        assert row is not None, "what is wanted is in the PRT"
        return self.mesh.anchor_for(row, link)

    def _say(self, link: LinkName, row: Row) -> ControlMessage:
        anchor = self.mesh.anchor_for(row, link)
        return Anchored(id=row.id, filter=row.filter.text, anchor=anchor)

    def peer(self, message: PeerMessage, link: LinkName) -> list[Send]:
        if link not in self.brokers:
            raise ProtocolError(
                f"{link!r} sent {type(message).__name__} over a soft link, which only publications "
                "cross"
            )
        if isinstance(message, Anchored):
            filter = parse_filter(message.filter)
            self.mesh.named(message.anchor, link)
            return self.tree.subscribe(Row(message.id, filter, link, False, message.anchor))
        if isinstance(message, Vicinity | Loads):
            return self.mesh.hear(message, link)
        return super().peer(message, link)

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        return self.mesh.link_up(link) + super().link_up(link)

    def link_down(self, link: LinkName) -> list[Send]:
        """Who is behind it is forgotten last: until then rows have anchors there."""
        sends = super().link_down(link)
        return sends + self.mesh.link_down(link) if link in self.mesh.mom else sends

    def round(self) -> list[Action]:
        return self.mesh.round()

    def soft_up(self, link: LinkName) -> list[Action]:
        return self.mesh.soft_up(link)

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> list[Send]:
        self.counters["tunnelled"] += len(lost)
        return self.mesh.soft_down(link, lost)

    # --- publications -----------------------------------------------------------------------------

    def route(self, publications: Sequence[Publish], link: LinkName) -> Iterator[Decision]:
        found = self.prt.ways([publish.publication for publish in publications])
        soft = link in self.soft_links
        for publish, ways in zip(publications, found, strict=True):
            header = publish.header
            if type(header) is MeshHeader and header.tunnel is not None:
                yield self._tunnelled(publish, ways, header.tunnel)
                continue
            if soft:
                self.mesh.came(publish, link)
            yield self._choose(publish, ways, link)

    def _choose(self, publish: Publish, ways: Ways, link: LinkName) -> Decision:
        local, anchors, matched = ways
        hops = self.mesh.sends(anchors, link) if anchors else ()
        if not hops:
            return Decision(local, [], matched)
        onward = plain(publish.header)
        return Decision(local, [(hop, onward) for hop in hops], matched)

    def _tunnelled(self, publish: Publish, ways: Ways, tunnel: Tunnel) -> Decision:
        """On its way it is not matched; where it ends it came from the other end of the link that
        failed, if it had not come before."""
        target, mom = tunnel.target, self.mesh.mom
        if target in mom:
            onward = MeshHeader(publish.header.hops + 1, tunnel)
            return Decision({}, [(mom.branch(target), onward)], None)
        source = self.mesh.tunnelled(publish, tunnel)
        if source is None:
            return Decision({}, [], None, duplicate=True)
        return self._choose(publish, ways, source)

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        return {**super().tables(), "soft links": SoftLinkTable(self.mesh)}

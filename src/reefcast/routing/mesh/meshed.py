"""The shared part of routings on a mesh: on a tree (`router`), and in clusters (`cluster`).

A routing that derives from `Meshed` has a subscription tree over its primary links whose rows have
their anchors as next hops, and sends copies as its `mesh` decides.

A publication that is to be confirmed goes by primary links only. Unless they may be moved (see
`move`: then it is flooded), these stay: it has one way from each broker, and what a next hop has
not answered waits for it in custody. Soft links come and go: what was under way on one that broke
would have to begin again as another attempt (`delivery.md`, rule 7).

Rows on disk have no anchors: after a start their last hops take the place, until the neighbours
have told them again. That is never wrong. An anchor that is nearer than it could be lies on the way
to all that is behind it, so that no copy goes past it to these. For the same reason a neighbour
itself takes the place of an anchor that is not behind it by what is known here: while links move,
what neighbours tell may not fit together (see `vicinity`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import ClassVar

from reefcast.errors import ProtocolError
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import (
    CloseLink,
    ControlMessage,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Publish,
    Send,
    Subscribe,
    TableChange,
)
from reefcast.routing.capabilities import KeepsRows, OpensLinks, Relearns, SetsCourses, SoftLink
from reefcast.routing.covering.outgoing import Outgoing
from reefcast.routing.covering.strategies import outgoing
from reefcast.routing.mesh.covering import PerAnchor
from reefcast.routing.mesh.messages import Anchored, Loads, Tunnel, Vicinity, tunnel_of
from reefcast.routing.mesh.options import MeshOptions
from reefcast.routing.mesh.overlay import MeshOverlay
from reefcast.routing.mesh.view import SoftLinkTable
from reefcast.routing.router import (
    COUNTED,
    SUBSCRIPTIONS,
    Action,
    Decision,
    Router,
    RoutingOptions,
    Surroundings,
)
from reefcast.routing.tables import NextHops, Row
from reefcast.routing.tree import SubscriptionTree, WantedBy

MESSAGES = (Anchored, Vicinity, Loads)
DUPLICATE = Decision({}, [], None, duplicate=True)


class Meshed(Router, Relearns, OpensLinks, KeepsRows, SetsCourses):
    """See the module's docstring. `mesh` and `soft_links` are made by `begin`, and `restored`:
    neighbours with rows from the disk that have not come up yet, so that they are not in the
    MOM."""

    options: ClassVar[type[RoutingOptions]] = MeshOptions
    counted: ClassVar[Mapping[str, str]] = {
        "quenched": "quenched",
        "replaced": "replaced",
        "tunnelled": "tunnelled",
    }
    legend: ClassVar[Mapping[str, str]] = {
        SoftLinkTable.name: (
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
    sets_courses = True
    mesh: MeshOverlay
    soft_links: dict[LinkName, SoftLink]
    restored: set[LinkName]

    def begin(
        self, where: Surroundings, primary: list[LinkName], wanted_by: WantedBy
    ) -> SubscriptionTree:
        """Create the mesh, and return its subscription tree; `primary`: the primary links that are
        up, kept by the router."""
        self.soft_links, self.restored = {}, set()
        self.mesh = MeshOverlay(
            where.name, where.options, self.soft_links, where.links, where.rng, self.in_tunnel
        )
        self.round_s = where.options.round_s
        new_group = outgoing(where.options.covering, 1.0, self.counters)

        def new_outgoing(link: LinkName) -> Outgoing:
            return PerAnchor(new_group, lambda id: self._anchor(id, link))

        return SubscriptionTree(
            self.prt, primary, wanted_by, new_outgoing, self.counters, say=self._say
        )

    # --- for the routing to say -------------------------------------------------------------------

    @abstractmethod
    def in_tunnel(self, header: Header, tunnel: Tunnel) -> Header:
        """Return the header of a copy that goes through a tunnel, from the one that it had."""

    @abstractmethod
    def primary(self, link: LinkName) -> bool:
        """Return whether the link is a primary link of the mesh."""

    @abstractmethod
    def take_in(self, row: Row) -> list[Send]:
        """Handle a subscription that came by a primary link."""

    @abstractmethod
    def decide(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterable[Decision]:
        """Decide as `route` does, for publications none of which is in a tunnel; `link`: the one
        that they came by, or could have come by (after a tunnel)."""

    # --- subscriptions ----------------------------------------------------------------------------

    def change(
        self, message: TableChange, filter: Filter | None, link: LinkName, *, local: bool
    ) -> Sequence[Action]:
        if isinstance(message, Subscribe) and not local:
            raise ProtocolError(
                f"neighbour {link!r} sent a subscription without an anchor; "
                "give both brokers the same network file"
            )
        return super().change(message, filter, link, local=local)

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        """Add a subscription of a client, or one in the name of a neighbour (`away`), whose anchor
        is the neighbour itself."""
        return self.take_in(Row(id, filter, link, local))

    def _anchor(self, id: EntityId, link: LinkName) -> LinkName:
        row = self.prt.told(id, link)
        assert row is not None, "what is wanted is in the PRT"
        return self.mesh.anchor_for(row, link)

    def _say(self, link: LinkName, row: Row) -> ControlMessage:
        anchor = self.mesh.anchor_for(row, link)
        return Anchored(id=row.id, filter=row.filter.text, anchor=anchor)

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if isinstance(message, MESSAGES):
            return self.handle(message, link)
        return super().peer(message, link)

    def handle(self, message: Anchored | Vicinity | Loads, link: LinkName) -> list[Send]:
        """Handle one of `MESSAGES`; raises what `peer` raises."""
        if not self.primary(link):
            raise ProtocolError(
                f"{link!r} sent {type(message).__name__} over a link that is no primary one of the "
                "mesh"
            )
        if not isinstance(message, Anchored):
            return self.mesh.handle(message, link)
        filter = parse_filter(message.filter)
        anchor = self.mesh.nearest(message.anchor, link)
        return self.take_in(Row(message.id, filter, link, False, anchor))

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        self.restored.discard(link)
        sends: list[Send] = super().link_up(link)  # type: ignore[assignment]  # trees and SCOTs
        return self.mesh.link_up(link) + sends if self.primary(link) else sends

    def link_down(self, link: LinkName) -> list[Send]:
        """Forget rows, then the brokers behind the link: until then rows have anchors there."""
        sends: list[Send] = super().link_down(link)  # type: ignore[assignment]  # trees and SCOTs
        return sends + self.mesh.link_down(link) if link in self.mesh.mom else sends

    def synced(self, link: LinkName) -> list[Send]:
        """Sweep rows first, as `link_down` does."""
        sends = super().synced(link)
        return sends + self.mesh.synced(link) if self.primary(link) else sends

    def round(self) -> list[Action]:
        return [] if self.relearning else self.mesh.round()

    def soft_up(self, link: LinkName) -> list[Action]:
        """Accept or close a soft link that came up. While this broker relearns, publications for it
        and those behind it wait at its primary neighbours: those that came over a soft link would
        find no next hop. A neighbour that is absent comes back by its primary link, or not at all.
        """
        if self.relearning or link in self.absent:
            return [CloseLink(link)]
        return self.mesh.soft_up(link)

    def soft_down(self, link: LinkName, lost: Sequence[Publish]) -> Sequence[Action]:
        self.soft_links.pop(link, None)
        self.mesh.relink()
        return self.tunnel(link, lost)

    def tunnel(self, link: LinkName, lost: Sequence[Publish]) -> list[Send]:
        """Send what a soft link lost along primary links."""
        self.counters["tunnelled"] += len(lost)
        return self.mesh.tunnel(link, lost)

    def alongside(self, link: LinkName) -> Sequence[LinkName]:
        return self.mesh.alongside(link)

    # --- disk -------------------------------------------------------------------------------------

    def restore(self, table: str, id: EntityId, filter: Filter, link: LinkName) -> None:
        super().restore(table, id, filter, link)
        if table == SUBSCRIPTIONS:
            self.restored.add(link)

    # --- publications -----------------------------------------------------------------------------

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterable[Decision]:
        if _any_special(publications):
            return self._one_by_one(publications, found, link)
        decisions = self.decide(publications, found, link)
        if link not in self.soft_links:
            return decisions
        return self._not_again(publications, decisions, link)

    def sends(self, anchors: Sequence[LinkName], link: LinkName) -> Sequence[LinkName]:
        """Choose the next hops of a copy that came by `link`. `anchors`: see `match`; `unheard`
        neighbours are among them, so that no soft link goes past one that is up."""
        if not (self.absent or self.restored):
            return self.mesh.sends(anchors, link) if anchors else ()
        mom, wanted = self.mesh.mom, {*self.unheard(), *self.restored.intersection(anchors)}
        away = sorted(each for each in wanted if each not in mom)
        known = [anchor for anchor in anchors if anchor not in away]
        return (*self.mesh.sends(known, link), *away)

    def chosen(self, hops: Sequence[LinkName], link: LinkName) -> Sequence[LinkName]:
        return self.mesh.chosen(hops, link)

    def limits(self) -> Mapping[LinkName, int] | None:
        return super().limits() if self.mesh.is_steady else None

    def repeated(self, hops: Sequence[LinkName], link: LinkName, times: int) -> None:
        self.mesh.repeated(hops, link, times)

    def went(self, copies: Mapping[LinkName, int]) -> None:
        mom = self.mesh.mom
        self.mesh.went(sum(count for hop, count in copies.items() if hop in mom))

    def _not_again(
        self, publications: Sequence[Publish], decisions: Iterable[Decision], link: LinkName
    ) -> Iterator[Decision]:
        """Yield decisions without repetitions: what comes over a soft link may have come out of a
        tunnel, or will."""
        is_new = self.mesh.is_new
        for publish, decision in zip_longest(publications, decisions):  # there is one for each
            yield decision if is_new(publish, link) else DUPLICATE

    def _one_by_one(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterator[Decision]:
        for publish, next_hops in zip(publications, found, strict=True):
            tunnel = tunnel_of(publish.header)
            if tunnel is not None:
                yield from self._tunnelled(publish, next_hops, tunnel, link)
            elif publish.confirm:
                yield from self.confirmed(publish, next_hops, link)
            else:
                yield from Meshed.route(self, (publish,), (next_hops,), link)

    def confirmed(
        self, publish: Publish, next_hops: NextHops, link: LinkName
    ) -> Iterable[Decision]:
        """Decide about a publication that is to be confirmed."""
        return self.decide((publish,), (self._primary_hops(next_hops),), link)

    def _primary_hops(self, found: NextHops) -> NextHops:
        """Return next hops with the first primary hop in the place of each anchor: a copy for such
        a neighbour goes there itself, whatever the strategy and the soft links. A neighbour that is
        away is not in the MOM; it stays as it is."""
        mom = self.mesh.mom
        hops = {mom.branch(anchor) if anchor in mom else anchor for anchor in found.hops}
        return found._replace(hops=sorted(hops))

    def _tunnelled(
        self, publish: Publish, next_hops: NextHops, tunnel: Tunnel, link: LinkName
    ) -> Iterable[Decision]:
        """Route a publication in a tunnel. On its way nobody gets it. Where it ends it goes on, if
        it had not come before: the branch of its sender is the one that it came out of."""
        target, mesh = tunnel.target, self.mesh
        if target != mesh.me:
            onward = self.in_tunnel(publish.header, tunnel)
            hops = [(mesh.mom.branch(target), onward)] if target in mesh.mom else []
            return (Decision({}, hops, None),)
        if not mesh.is_new(publish, tunnel.source):
            return (DUPLICATE,)
        return self.decide((publish,), (next_hops,), link)


def _any_special(publications: Sequence[Publish]) -> bool:
    """Return whether any publication is in a tunnel, or is to be confirmed; written out, because it
    is asked of every publication."""
    for publish in publications:
        header = publish.header
        if publish.confirm or (type(header) is not Header and tunnel_of(header) is not None):
            return True
    return False

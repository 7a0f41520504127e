"""OctopiA: routing on a structured cyclic overlay (SCOT); static (SPR), and what `idr` shares.

Rules
-----
- *Advertise*: the publisher's host broker stores the advertisement in its CLT with all bits at 1
  and sends it over its iLinks; a secondary broker stores it and passes it on to nobody. If its
  cluster holds no subscription that intersects, it answers `CIV_UNSET`.
- *Subscribe*: flooded over the aLinks of the host cluster, by the tree router. Each broker that
  stores it looks at the advertisements from its iLinks whose bit for this cluster is 0: the bits of
  those that it intersects become 1, and their hosts are told by `CIV_SET`, one for each iLink.
- *Unsubscribe*: taken out of the PRTs of the host cluster. A broker where this was the last that
  intersected an advertisement clears the bit and says `CIV_UNSET`.
- *Unadvertise*: taken out of the CLTs of the region. No subscription moves.
- *SPR*: at the host broker one copy per PRT last hop that matches, and one per iLink whose bit is 1
  in an advertisement that the publication matches. Elsewhere PRT last hops only.
- *IDR*: as SPR, but around overloaded iLinks: see `idr`.
- A broker that starts relearns PRT and CLT from its neighbours. While it does, and as long as one
  in its cluster is absent, it leaves all bits at 1: a copy too many does no harm, one too few
  would.

Theory of operation
-------------------
An advertisement is known at one broker of each cluster and a subscription at every broker of one
cluster, so that each pair of the two meets at exactly one broker, the one in the publisher's region
and the subscriber's cluster. It alone says by the bit whether copies are to come. Inside a cluster
the overlay is a tree: a copy that entered it once reaches every interested broker once. A bit is
cleared by the broker that sends a copy into its cluster, and a bit travels on one copy only, so
that each cluster is entered at most once. Which clusters a copy has still to reach is said by the
copy, not by any table: that is why congestion changes none.

Departures from the paper, all of them in the spec with their reasons: bits start at 1 and are
cleared by an answer (the paper starts at 0, and settled subscribers miss publications sent right
after an advertisement); CIV messages list the ids of advertisements (the paper sends the
subscription along: a set and a clear that cross leave bits stuck).

Source: `OctopiA`, sections 5 to 9. Costs: an advertisement takes m - 1 messages, a subscription
|T| - 1, and compares with the advertisements of the broker's region; a publication nothing beyond
the match.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar

from reefcast.errors import ConfigurationError, ProtocolError
from reefcast.model.covering import intersects
from reefcast.model.filters import Filter
from reefcast.model.messages import (
    FIRST_HOP,
    Advertise,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Publish,
    Send,
    Unadvertise,
)
from reefcast.routing.capabilities import KeepsRows, Relearns, SetsCourses, SettlesTogether
from reefcast.routing.clt import (
    CivSet,
    CivUnset,
    ClusterLinkRow,
    ClusterLinkTable,
    ScotHeader,
    civ_of,
)
from reefcast.routing.courses import Course
from reefcast.routing.covering.strategies import CoveringOptions, outgoing
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import (
    SUBSCRIPTIONS,
    Action,
    Decision,
    Router,
    RoutingOptions,
    Shape,
    Surroundings,
)
from reefcast.routing.tables import NextHops, Row, Table, TableView
from reefcast.routing.tree import Replace, Replacement, SubscriptionTree, understood

WITHDRAWN = 10_000
"""The least number of advertisements withdrawn by neighbours that are remembered: an answer to one
of them is under way no longer than this many others take to come."""


def everywhere(link: LinkName, filter: Filter) -> bool:
    """Return True: inside a cluster each subscription goes to every broker."""
    return True


class ScotOptions(CoveringOptions, frozen=True):
    """Options of OctopiA's routings.

    - `covering`: which subscriptions of a cluster are sent to each of its brokers: all ("none"),
    or only those that no other one covers ("lazy", "active" or "packing").
    """

    def __post_init__(self) -> None:
        if self.covering == "incremental":
            raise ConfigurationError(
                'covering = "incremental" prunes by the statistics of advertisements, but inside a '
                "cluster of a SCOT no broker knows these; choose none, lazy, active or packing"
            )


class ScotRouter(Router, Relearns, SettlesTogether, KeepsRows, SetsCourses):
    """The shared part of SPR and IDR: everything but the choice of links. `cluster`: this broker's;
    `a_links`, `i_links`: those that are up, the latter by cluster."""

    overlay = Shape.SCOT
    messages: ClassVar[tuple[type[PeerMessage], ...]] = (CivSet, CivUnset, Replace)
    options: ClassVar[type[RoutingOptions]] = ScotOptions
    header = ScotHeader
    sets_courses = True
    needs_all: ClassVar[bool] = False
    """Whether there is something to decide where a target cluster has no link that is up."""
    legend: ClassVar[Mapping[str, str]] = {
        "CLT": (
            "CIV: a bit for each cluster, cluster 0 at the right. In advertisement context (at the "
            "publisher's host): the clusters where copies must go; its own bit is always 1. In "
            "subscription context (at a secondary broker): the publisher's cluster, and its own "
            "if that holds a subscription that intersects."
        )
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        if where.scot is None:
            raise ConfigurationError(
                f"routing {self.name!r} needs a SCOT: give the broker its neighbours in it"
            )
        self.cluster = where.scot.cluster
        self.a_links: list[LinkName] = []
        self.i_links: dict[int, LinkName] = {}
        self.tree = self.new_tree(where)
        self.clt = ClusterLinkTable(where.scot.clusters)
        self._withdrawn = RecentIds[tuple[EntityId, LinkName]](WITHDRAWN)
        self._cluster_of = where.scot.secondary
        self._all = (1 << where.scot.clusters) - 1
        self._own = 1 << self.cluster

    def new_tree(self, where: Surroundings) -> SubscriptionTree:
        """Return the tree of the subscriptions of the cluster, over its aLinks."""
        new_outgoing = outgoing(where.options.covering, 1.0, self.counters)
        return SubscriptionTree(
            self.prt, self.a_links, everywhere, lambda link: new_outgoing(), self.counters
        )

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if local:
            self.clt.add(ClusterLinkRow(id, filter, link, True, self._all))
            return [
                Send(other, Advertise(id, filter.text)) for other in self._secondary_neighbours()
            ]
        sender = self._sender_bit(link, "Advertise")
        row = self.clt.by(id, link)
        anew = False
        if row is None or row.filter != filter:
            anew = self.clt.remove(id, link) is not None or (id, link) in self._withdrawn
            row = ClusterLinkRow(id, filter, link, False, sender)
            self.clt.add(row)
        self.clt.confirm(id, link)
        self._find_witness(row)
        if self.relearning or self.unheard():
            row.civ |= self._own
        if not row.civ & self._own:
            return [Send(link, CivUnset(advertisements=(id,)))]
        # What was said of it before, under the same id, may still be on its way.
        return [Send(link, CivSet(advertisements=(id,)))] if anew else []

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        row = self.clt.remove(id, link)
        if row is None or not row.local:
            self._withdrawn.is_new((id, link))
            return []
        return [Send(other, Unadvertise(id)) for other in self._secondary_neighbours()]

    def _secondary_neighbours(self) -> list[LinkName]:
        return [self.i_links[cluster] for cluster in sorted(self.i_links)]

    def _sender_bit(self, link: LinkName, what: str) -> int:
        """Return the bit of the cluster at the other end of an iLink."""
        if link not in self._cluster_of:
            raise self._wrong_link(link, what, "an aLink", "iLinks")
        return 1 << self._cluster_of[link]

    @staticmethod
    def _wrong_link(link: LinkName, what: str, came: str, travels: str) -> ProtocolError:
        return ProtocolError(
            f"neighbour {link!r} sent {what} over {came}; that travels over {travels} only: "
            "give both brokers the same network file"
        )

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if link in self._cluster_of:
            raise self._wrong_link(link, "Subscribe", "an iLink", "aLinks")
        return self.take_in(Row(id, filter, link, local))

    def take_in(self, row: Row) -> list[Send]:
        """Handle a subscription of this cluster that came."""
        known = self.prt.by(row.id, row.last_hop)
        sends = self.tree.subscribe(row)
        if known is not None and known.filter == row.filter:
            return sends
        sends += self._set_bits(row.id, row.filter)
        return sends if known is None else sends + self._clear_bits([row.id])

    def needs(self, subscription: Filter, told: Iterable[EntityId]) -> list[EntityId]:
        rows = [row for row in map(self.clt.get, told) if row is not None]
        return [row.id for row in rows if intersects(row.filter, subscription)]

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        return self._unsubscribe_all([id], link)

    def _unsubscribe_all(self, ids: Sequence[EntityId], link: LinkName) -> list[Send]:
        """Remove all of them first, and only then the bits: a witness is not looked for among those
        that go, too."""
        return self.tree.unsubscribe(ids, link) + self._clear_bits(ids)

    def _replace(self, message: Replacement, link: LinkName) -> list[Send]:
        if link in self._cluster_of:
            raise self._wrong_link(link, "Replace", "an iLink", "aLinks")
        sends = self.tree.replace(message, link)
        for id, filter in message.subscriptions:
            sends += self._set_bits(id, filter)
        return sends + self._clear_bits([message.id])

    def stand_ins(self, id: EntityId) -> list[tuple[LinkName, EntityId]]:
        return self.tree.stand_ins(id)

    def _set_bits(self, id: EntityId, filter: Filter) -> list[Send]:
        """Set bits for a subscription that came; return a CIV_SET for each iLink with bits that
        were 0."""
        set_now: dict[LinkName, list[EntityId]] = {}
        for row in self.clt:
            if row.local or row.witness is not None or not intersects(row.filter, filter):
                continue
            self.clt.set_witness(row, id)
            if not row.civ & self._own:
                row.civ |= self._own
                set_now.setdefault(row.last_hop, []).append(row.id)
        return [
            Send(link, CivSet(advertisements=tuple(ids))) for link, ids in sorted(set_now.items())
        ]

    def _clear_bits(self, ids: Sequence[EntityId]) -> list[Send]:
        """Clear bits for subscriptions that went; return a CIV_UNSET for each iLink with bits that
        are 0 now."""
        rows = [row for id in ids for row in self.clt.witnessed_by(id)]
        for row in rows:
            self._find_witness(row)
        return self._unset(rows)

    def _unset(self, rows: Sequence[ClusterLinkRow]) -> list[Send]:
        """Clear the bits of the rows that have no witness; but not before all was relearned."""
        cleared: dict[LinkName, list[EntityId]] = {}
        for row in rows:
            if row.witness is None and (self.relearning or self.unheard()):
                row.civ |= self._own
            elif row.witness is None:
                row.civ &= ~self._own
                cleared.setdefault(row.last_hop, []).append(row.id)
        return [
            Send(link, CivUnset(advertisements=tuple(ids))) for link, ids in sorted(cleared.items())
        ]

    def _find_witness(self, row: ClusterLinkRow) -> None:
        """Set the row's witness and its bit for this cluster from the PRT."""
        found = (s.id for s in self.prt if intersects(row.filter, s.filter))
        self.clt.set_witness(row, next(found, None))
        if row.witness is None:
            row.civ &= ~self._own
        else:
            row.civ |= self._own

    # --- the CIV ----------------------------------------------------------------------------------

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if isinstance(message, Replace):
            return self._replace(understood(message), link)
        if not isinstance(message, CivSet | CivUnset):
            return super().peer(message, link)
        bit = self._sender_bit(link, type(message).__name__)
        for id in message.advertisements:
            for row in self.clt.all_of(id):
                if row.local:
                    row.civ = row.civ | bit if isinstance(message, CivSet) else row.civ & ~bit
        return []

    def _targets(self, publish: Publish, client: LinkName) -> int:
        """Return the target secondary clusters of a publication of a client of this broker: the
        bits of all its advertisements that the publication matches."""
        rows = self.clt.hosted_by(client)
        only = len(rows) == 1  # the broker has checked that it matches one of them
        bits = self._own
        for row in rows:
            if row.civ & ~bits and (only or row.filter.matches(publish.publication)):
                bits |= row.civ
        return bits & ~self._own

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        cluster = self._cluster_of.get(link)
        if cluster is None:
            if link not in self.a_links:
                self.a_links.append(link)
                self.a_links.sort()
            return self.tree.link_up(link)
        self.i_links[cluster] = link
        self.clt.doubt(link)
        hosted = [row for row in self.clt if row.local]
        for row in hosted:
            row.civ |= 1 << cluster
        return [Send(link, Advertise(row.id, row.filter.text)) for row in hosted]

    def synced(self, link: LinkName) -> list[Send]:
        for id in self.clt.unconfirmed(link):
            self.clt.remove(id, link)
        return self._unsubscribe_all(self.prt.unconfirmed(link), link)

    def link_down(self, link: LinkName) -> list[Send]:
        """Handle that a neighbour, or a client, is gone."""
        if link in self.a_links:
            self.a_links.remove(link)
        if link in self._cluster_of:
            del self.i_links[self._cluster_of[link]]
        self.tree.outgoing.pop(link, None)
        sends = self._unsubscribe_all([row.id for row in self.prt.from_hop(link)], link)
        for row in self.clt.from_hop(link):
            sends += self.unadvertise(row.id, link)
        return sends

    def unheard(self) -> list[LinkName]:
        """Return only the absent neighbours of this cluster: which others a publication enters is
        said by its bits."""
        return [link for link in self.absent if link not in self._cluster_of]

    def i_links_up(self) -> dict[int, LinkName]:
        """Return the links to other clusters, by these; also those whose link has yet to come
        up."""
        if not self.absent:
            return self.i_links
        away = {self._cluster_of[link]: link for link in self.absent if link in self._cluster_of}
        return away | self.i_links

    def passes_on(self, source: LinkName, target: LinkName) -> bool:
        """Return whether subscriptions are passed on from one link to another: only from aLink to
        aLink."""
        secondary = self._cluster_of
        return source != target and source not in secondary and target not in secondary

    def relearned(self) -> list[Send]:
        return self.all_synced()

    def all_synced(self) -> list[Send]:
        return self._unset([row for row in self.clt if not row.local and row.witness is None])

    # --- disk -------------------------------------------------------------------------------------

    def row_tables(self) -> Mapping[str, Table[Any]]:
        return {SUBSCRIPTIONS: self.prt, "CLT": self.clt}  # in the order in which they are restored

    def restore(self, table: str, id: EntityId, filter: Filter, link: LinkName) -> None:
        if table == SUBSCRIPTIONS:
            super().restore(table, id, filter, link)
        elif link in self._cluster_of:
            row = ClusterLinkRow(id, filter, link, False, 1 << self._cluster_of[link])
            self.clt.add(row)
            self._find_witness(row)
            row.civ |= self._own  # until all is relearned

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, TableView[Any]]:
        return {"CLT": self.clt, SUBSCRIPTIONS: self.prt}

    # --- publications -----------------------------------------------------------------------------

    def route(
        self, publications: Sequence[Publish], found: Sequence[NextHops], link: LinkName
    ) -> Iterable[Decision]:
        neighbour = self.is_neighbour(link)
        for publish, next_hops in zip_longest(publications, found):
            bits = civ_of(publish.header) if neighbour else self._targets(publish, link)
            yield self.choose(publish, next_hops, link, bits)

    def course(self, header: Header, link: LinkName) -> Course | None:
        """Return the course of publications. None for those of a client whose advertisements have
        different target clusters: those that a publication matches count."""
        targets = {civ_of(header)}
        if not self.is_neighbour(link):
            targets = {row.civ & ~self._own for row in self.clt.hosted_by(link)} or {0}
        if len(targets) > 1:
            return None
        bits, onward = targets.pop(), Header(header.hops + 1)
        i_links = {cluster: link for cluster, link in self.i_links.items() if bits >> cluster & 1}
        if self.needs_all and len(i_links) < bits.bit_count():
            return None
        return Course(onward, [(i_link, onward) for i_link in i_links.values()])

    def is_neighbour(self, link: LinkName) -> bool:
        """Return whether publications come by this link from another broker."""
        return link in self.a_links or link in self._cluster_of

    def choose(self, publish: Publish, next_hops: NextHops, link: LinkName, bits: int) -> Decision:
        """Return the next hops of a publication that came by `link`. `next_hops`: where the
        matching rows of the PRT lead; `bits`: the clusters that it has still to be sent to from
        here."""
        local, hops, matched = next_hops
        onward = Header(publish.header.hops + 1) if hops or bits else FIRST_HOP
        copies = [(hop, onward) for hop in self.inside(hops, link)]
        if not bits:
            return Decision(local, copies, matched)
        return self._between_clusters(Decision(local, copies, matched), link, onward, bits)

    def inside(self, next_hops: list[LinkName], link: LinkName) -> Iterable[LinkName]:
        """Return where copies go inside the cluster of a publication that came by `link`."""
        return [hop for hop in next_hops if hop != link]

    @abstractmethod
    def _between_clusters(
        self, inside: Decision, link: LinkName, onward: Header, bits: int
    ) -> Decision:
        """Return the decision `inside` the cluster with copies over iLinks added."""


class Spr(ScotRouter):
    """Static publication routing (section 9.1, Algorithm 3)."""

    name = "spr"
    keeps_order = True
    one_way = True

    def _between_clusters(
        self, inside: Decision, link: LinkName, onward: Header, bits: int
    ) -> Decision:
        for cluster, i_link in self.i_links_up().items():
            if bits >> cluster & 1:
                inside.hops.append((i_link, onward))
        return inside

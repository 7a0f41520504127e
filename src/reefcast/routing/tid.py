"""PADRES: routing on any connected overlay by tree identifiers (TIDs), static and dynamic.

The rival that OctopiA is measured against.

Rules
-----
- *Advertise*: flooded. A broker keeps the first copy with its last hop (SRT) and drops the others;
  the last hops form a tree, whose TID is the id of the advertisement.
- *Unadvertise*: flooded. A broker drops the tree, with all that is bound to it, when its last hop
  in the tree says so, and remembers the TID: a copy of the advertisement may still be under way.
- *Subscribe*: `Bind` goes up each tree whose advertisement intersects, trees with the same last hop
  in one message. Each broker on the way stores the link it came by for each tree. An advertisement
  that comes draws the subscriptions of the broker's own clients in the same way.
- *Unsubscribe*: `Unbind` takes the same ways.
- *Publish*: the host broker writes into the header the TID of the first advertisement of the
  publisher that matches.
- *TID-S*: copies go to the last hops of the matching subscriptions that are bound to the TID. A
  broker none of whose clients has a subscription bound to it (forward-only) does not match: copies
  go to the last hops of all that are bound.
- *TID-D*: as TID-S, but where a next link is overloaded (`links.LinkStatusTable`) the copy takes
  another tree, if all subscriptions that it serves are bound to that one too, with one last hop
  whose link is not overloaded; of several the least loaded link. A copy switches only once.
- A broker hands a publication to its clients once, and sends it over a link once for each tree.

Theory of operation
-------------------
`Bind` goes from the subscriber's broker towards the publisher's, so that whoever knows of a binding
knows that all brokers between itself and the subscriber know it too: a copy that is put on any
tree which a subscription is bound to will reach it. `Unadvertise` is obeyed only when it comes down
the tree, behind all publications that were sent down before: otherwise it overtook them on a
shorter way.

A copy on the tree that it began on crosses each link once. One that switched can meet another one
that switched to the same tree elsewhere, and its tree can lead to brokers that another branch
serves: what was served is remembered (`recent`), by publication, TID, next hop and version of the
bindings. Without the last, a copy that passed before a subscription was bound here (the tree is
new) would keep back the copy that is for this very subscription.

Order is kept along a tree. Two advertisements of one publisher can have different trees, so that
what is published under one may overtake what is published under the other, with TID-S too.

Departures from the spec: the version of the bindings in what is remembered, see above; copies that
did not switch are not remembered, they cannot meet. A forward-only broker that matches because a
link is overloaded sends no copy where nothing matches.

Limits: trees cannot be mended. Beyond a lost link they are gone until the publishers withdraw their
advertisements and advertise again; and a broker that restarts does not relearn.

Source: PADRES, as section 2 of `OctopiA` describes it. Costs: an advertisement takes one message
for each link of its tree and two for each other link; a subscription at least one for each link of
its ways to the publishers; a publication a match where clients may want it, and elsewhere nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, ClassVar, NamedTuple

from msgspec.structs import replace

from reefcast.errors import ProtocolError
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import (
    Advertise,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Publish,
    Send,
    Unadvertise,
)
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import COUNTED, Action, Decision, Router, Surroundings
from reefcast.routing.tables import Row, Table, meeting, ways_of
from reefcast.routing.tid_tables import (
    VARIOUS,
    Bind,
    Bindings,
    TidHeader,
    Tree,
    TreeTable,
    Unbind,
)

SentCopy = tuple[PublicationId, EntityId, LinkName, int]
"""Publication, TID, next hop, and the tree's `version` when it was sent."""


class Matching(NamedTuple):
    """What a publication on some tree matches at a broker. `local`: client -> ascending numbers of
    its subscriptions. `served`: neighbour, by name -> subscriptions that are bound to the tree and
    came from there. `rows`: how many matched."""

    local: dict[LinkName, list[int]]
    served: dict[LinkName, list[Row]]
    rows: int


Found = tuple[Tree | None, Matching | None]
"""The tree of a publication, and what it matches, unless this broker is forward-only."""


class TidRouter(Router):
    """What TID-S and TID-D share: everything but the choice of links."""

    messages = (Bind, Unbind)
    header = TidHeader
    legend: ClassVar[Mapping[str, str]] = {
        "SRT": (
            "An advertisement's id is the TID of its tree. Bound subscriptions: those that copies "
            "on this tree are for, by the neighbour that they came from; clients: of this broker."
        ),
        "PRT": "No last hop: it can be another one for each tree; the SRT counts them by tree.",
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.srt = TreeTable()
        self.bindings = Bindings(self.prt)
        self._withdrawn = RecentIds[EntityId]()

    # --- advertisements ---------------------------------------------------------------------------

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if id in self.srt or id in self._withdrawn:
            return []
        tree = Tree(id, filter, link, local)
        self.srt.add(tree)
        sends = self.to_others(link, Advertise(id, filter.text))
        for row in meeting(filter, [row for row in self.prt if row.local]):
            sends += self._bind(row, [tree], row.last_hop)
        return sends

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        tree = self.srt.remove(id, link)
        if tree is None:
            return []
        self._withdrawn.is_new(id)
        for row, hop in list(tree.bound.items()):
            self.bindings.unbind(row, [tree], hop)
        return self.to_others(link, Unadvertise(id))

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if not local:
            raise ProtocolError(
                f"neighbour {link!r} sent Subscribe, but with routing {self.name!r} brokers send "
                "Bind to each other; give both brokers the same network file"
            )
        if id in self.prt:
            return []
        row = Row(id, filter, link, True)
        self.prt.add(row)
        return self._bind(row, meeting(filter, self.srt), link)

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        row = self.prt.remove(id, link)
        if row is None:
            return []
        return self._unbind(row, self.bindings.trees(row), link)

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if not isinstance(message, Bind | Unbind):
            return super().peer(message, link)
        row = self.prt.get(message.id)
        if row is not None and row.local:
            return []  # an id of one of this broker's own clients
        trees = [tree for tree in map(self.srt.get, message.trees) if tree is not None]
        if isinstance(message, Unbind):
            return [] if row is None else self._unbind(row, trees, link)
        filter = parse_filter(message.filter)
        if not trees:
            return []
        if row is None:
            row = Row(message.id, filter, VARIOUS, False)
            self.prt.add(row)
        return self._bind(row, trees, link)

    def _bind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Send]:
        new = self.bindings.bind(row, trees, link)
        return [
            Send(hop, Bind(id=row.id, filter=row.filter.text, trees=tids))
            for hop, tids in _upwards(new)
        ]

    def _unbind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Send]:
        gone = self.bindings.unbind(row, trees, link)
        return [Send(hop, Unbind(id=row.id, trees=tids)) for hop, tids in _upwards(gone)]

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Send]:
        """It is told every tree; what it told before it lost its memory is void."""
        return self.link_down(link) + [
            Send(link, Advertise(tree.id, tree.filter.text)) for tree in self.srt
        ]

    def link_down(self, link: LinkName) -> list[Send]:
        """A neighbour, or a client, is gone, with the trees that came from it and what it bound."""
        sends: list[Send] = []
        for subscription in self.prt.from_hop(link):
            sends += self.unsubscribe(subscription.id, link)
        for advertisement in self.srt.from_hop(link):
            sends += self.unadvertise(advertisement.id, link)
        bound: dict[Row, list[Tree]] = {}
        for tree in self.srt:
            if link not in tree.hops:
                continue
            for row, hop in tree.bound.items():
                if hop == link:
                    bound.setdefault(row, []).append(tree)
        for row, trees in bound.items():
            sends += self._unbind(row, trees, link)
        return sends

    def synced(self, link: LinkName) -> list[Send]:
        return []

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, Table[Any]]:
        return {"SRT": self.srt, "PRT": self.prt}

    # --- publications -----------------------------------------------------------------------------

    def match(self, publications: Sequence[Publish], link: LinkName) -> list[Found]:
        if link in self.brokers:
            trees = [self._tree(publish.header) for publish in publications]
        else:
            trees = [self._first_tree(publish.publication, link) for publish in publications]
        asked = [
            (publish.publication, tree)
            for publish, tree in zip(publications, trees, strict=True)
            if tree is not None and tree.clients
        ]
        if not asked:
            return [(tree, None) for tree in trees]
        found = iter(self._match(asked))
        return [(tree, None if tree is None or not tree.clients else next(found)) for tree in trees]

    def route(
        self, publications: Sequence[Publish], found: Sequence[Found], link: LinkName
    ) -> Iterator[Decision]:
        for publish, (tree, matching) in zip_longest(publications, found):
            if tree is None:
                yield Decision({}, [], None)
            else:
                yield self._choose(publish, tree, link, matching)

    def _match(self, asked: Sequence[tuple[Publication, Tree]]) -> list[Matching]:
        """What each publication matches here, on its tree."""
        keys = [(tree, tree.version) for _, tree in asked]
        return self.prt.digests([publication for publication, _ in asked], keys, _divide)

    def _tree(self, header: Header) -> Tree | None:
        """The tree that a copy follows; None for one that names none that is known here."""
        tid = header.tid if type(header) is TidHeader else None
        return None if tid is None else self.srt.get(tid)

    def _first_tree(self, publication: Publication, client: LinkName) -> Tree | None:
        """The first advertisement of this publisher that it matches; they were stored in the order
        of their numbers."""
        trees = self.srt.from_hop(client)
        if len(trees) == 1:  # the broker has checked that it matches one of them
            return trees[0]
        matching = (t for t in trees if t.filter.matches(publication))
        return next(matching, None)

    @abstractmethod
    def _choose(
        self, publish: Publish, tree: Tree, link: LinkName, found: Matching | None
    ) -> Decision:
        """The next hops of a publication on `tree` that came by `link`; `found` is None at a
        forward-only broker."""

    def _along(
        self, publish: Publish, tree: Tree, link: LinkName, found: Matching | None
    ) -> Decision:
        """The decision of TID-S."""
        header = publish.header
        onward: Header = TidHeader(header.hops + 1, tree.id, _switched(header))
        if found is None:
            return Decision({}, [(hop, onward) for hop in tree.hops if hop != link], None)
        copies = [(hop, onward) for hop in found.served if hop != link]
        return Decision(found.local, copies, found.rows)


def _divide(rows: list[Row], key: tuple[Tree, int]) -> Matching:
    """These rows match; the second part of the key is the version of the tree."""
    bound = key[0].bound
    served: dict[LinkName, list[Row]] = {}
    for row in rows:
        hop = bound.get(row)
        if hop is not None and not row.local:
            served.setdefault(hop, []).append(row)
    in_order = {hop: served[hop] for hop in sorted(served)}
    return Matching(ways_of(rows).local, in_order, len(rows))


def _switched(header: Header) -> bool:
    """Whether a copy follows another tree than it started on."""
    return type(header) is TidHeader and header.switched


def _upwards(trees: Iterable[Tree]) -> list[tuple[LinkName, tuple[EntityId, ...]]]:
    """The TIDs of these trees by last hop, in the order of their names; not those that end here."""
    by_hop: dict[LinkName, list[EntityId]] = {}
    for tree in trees:
        if not tree.local:
            by_hop.setdefault(tree.last_hop, []).append(tree.id)
    return [(hop, tuple(by_hop[hop])) for hop in sorted(by_hop)]


class TidS(TidRouter):
    """Static routing. Publications of one publisher that go down different trees may overtake each
    other: its order is kept only as long as it has one advertisement."""

    name = "tid-s"

    def _choose(
        self, publish: Publish, tree: Tree, link: LinkName, found: Matching | None
    ) -> Decision:
        return self._along(publish, tree, link, found)


class TidD(TidRouter):
    """Dynamic routing.

    It counts what it does. `tid_switched`: overloaded links that a copy avoided by another tree;
    `tid_not_switched`: those it took because no other tree would do. What its memory kept back:
    `tid_suppressed` copies to brokers, `tid_suppressed_deliveries` to clients.
    """

    name = "tid-d"
    counted: ClassVar[Mapping[str, str]] = {
        "tid_switched": "switched",
        "tid_not_switched": "not switched",
        "tid_suppressed": "kept back",
        "tid_suppressed_deliveries": "kept from clients",
    }
    legend: ClassVar[Mapping[str, str]] = {
        **TidRouter.legend,
        COUNTED: (
            "Switched: overloaded links that a copy avoided by another tree. Not switched: those "
            "it took because no other tree would do. Kept back: copies to brokers that had been "
            "sent before on the same tree. Kept from clients: deliveries that had been made."
        ),
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self._sent = RecentIds[SentCopy]()
        self._delivered = RecentIds[PublicationId]()

    def _choose(
        self, publish: Publish, tree: Tree, link: LinkName, found: Matching | None
    ) -> Decision:
        decision = self._along(publish, tree, link, found)
        id = publish.publication.id
        if _switched(publish.header):
            decision = self._without_sent(id, decision)
        else:
            overloaded = self.links.lst.overloaded
            crowded = [hop for hop, _ in decision.hops if overloaded(hop)]
            if crowded:
                if found is None:
                    (found,) = self._match([(publish.publication, tree)])
                decision = self._around(decision, tree, link, found, crowded)
                decision = self._without_sent(id, decision)
            else:
                decision = replace(decision, checked=len(decision.hops))
        if decision.local and not self._delivered.is_new(id):
            self.counters["tid_suppressed_deliveries"] += len(decision.local)
            return replace(decision, local={}, duplicate=not decision.hops)
        return decision

    def _around(
        self, along: Decision, tree: Tree, link: LinkName, found: Matching, crowded: list[LinkName]
    ) -> Decision:
        """`along`, without the links in `crowded` where there is another way."""
        copies: dict[tuple[LinkName, EntityId], Header] = {}
        checked, searched = len(along.hops), 0
        for hop, onward in along.hops:
            rows = found.served.get(hop)
            if rows is None:
                continue
            other = None
            if hop in crowded:
                others = self._other_trees(rows, tree, link)
                checked += len({to for to, _ in others})
                searched += len(rows)
                other = self._least_loaded(others)
                self.counters["tid_switched" if other else "tid_not_switched"] += 1
            to, tid = other or (hop, tree.id)
            copies[to, tid] = TidHeader(onward.hops, tid, other is not None)
        hops = [(to, header) for (to, _), header in copies.items()]
        return Decision(along.local, hops, found.rows, checked=checked, searched=searched)

    def _other_trees(
        self, rows: list[Row], tree: Tree, link: LinkName
    ) -> list[tuple[LinkName, EntityId]]:
        """The trees that all these subscriptions are bound to, with one last hop: (it, TID)."""
        first, *rest = rows
        found = [(other.bound[first], other) for other in self.bindings.trees(first)]
        return [
            (hop, other.id)
            for hop, other in found
            if other is not tree
            and hop != link
            and all(other.bound.get(row) == hop for row in rest)
        ]

    def _least_loaded(
        self, others: list[tuple[LinkName, EntityId]]
    ) -> tuple[LinkName, EntityId] | None:
        """Of the links that are not overloaded that with the shortest queue."""
        overloaded, queue_len = self.links.lst.overloaded, self.links.queue_len
        free = [(queue_len(hop), hop, tid) for hop, tid in others if not overloaded(hop)]
        return min(free)[1:] if free else None

    def _without_sent(self, id: PublicationId, decision: Decision) -> Decision:
        """Without the copies that went before; only copies that switched can meet again."""
        hops = [copy for copy in decision.hops if not _switched(copy[1]) or self._is_new(id, *copy)]
        suppressed = len(decision.hops) - len(hops)
        if not suppressed:
            return decision
        self.counters["tid_suppressed"] += suppressed
        return replace(decision, hops=hops, duplicate=not (hops or decision.local))

    def _is_new(self, id: PublicationId, hop: LinkName, header: Header) -> bool:
        tree = self._tree(header)
        return tree is not None and self._sent.is_new((id, tree.id, hop, tree.version))

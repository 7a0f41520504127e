"""PADRES: routing on any connected overlay by tree identifiers (TIDs), static and dynamic.

The rival that OctopiA is measured against.

Rules
-----
- Advertisements are flooded and make trees; subscriptions are bound to those that they intersect
  (`tid_trees`).
- *Publish*: the host broker writes into the header the TID of the first advertisement of the
  publisher that matches.
- *TID-S*: copies go to the last hops of the matching subscriptions that are bound to the TID. A
  broker none of whose clients has a subscription bound to it (forward-only) does not match: copies
  go to the last hops of all that are bound.
- *TID-D*: as TID-S, but where a next link is overloaded (`links.LinkStatusTable`) the copy takes
  another tree, if all subscriptions that it serves are bound to that one too, with one last hop
  whose link is not overloaded; of several the least loaded link. A copy switches only once.
- *Confirmed*: a publication that is to be confirmed follows no tree. It is flooded, as with routing
  `flooding`, each attempt by itself.
- A broker hands a publication to its clients once, and sends it over a link once for each tree. It
  takes copies on a tree only from its last hop in the tree.

Theory of operation
-------------------
A copy on the tree that it began on crosses each link once. One that switched can meet another one
that switched to the same tree elsewhere, and its tree can lead to brokers that another branch
serves: what was served is remembered (`recent`), by publication, TID, next hop and version of the
bindings. Without the last, a copy that passed before a subscription was bound here (the tree is
new) would keep back the copy that is for this very subscription.

Order is kept along a tree. Two advertisements of one publisher can have different trees, so that
what is published under one may overtake what is published under the other, with TID-S too; and so
may what is published after another tree took the place of a torn one. What is astray (`tid_trees`)
comes late, and marked as *again*.

What is confirmed is flooded because a copy cannot wait for a tree. A tree goes when it is torn, and
another one takes its place: the copies that wait for a neighbour would have to begin anew at the
publisher's broker. Nor does any broker have trees on its disk: one that restarts would not know
what is bound behind neighbours that are away. A flood needs neither, as each home knows its own
sessions.

Departures from the spec: the version of the bindings in what is remembered, see above; copies that
did not switch are not remembered, they cannot meet. A forward-only broker that matches because a
link is overloaded sends no copy where nothing matches.

Source: PADRES, as section 2 of `OctopiA` describes it. Costs: an advertisement takes one message
for each link of its tree and two for each other link; a subscription at least one for each link of
its next hops towards the publishers; a publication a match where clients may want it, and elsewhere
nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import zip_longest
from typing import ClassVar, NamedTuple

from msgspec.structs import replace

from reefcast.model.filters import TRUE
from reefcast.model.messages import EntityId, Header, LinkName, Publish
from reefcast.model.publication import Publication, PublicationId
from reefcast.routing.capabilities import ActsLater, HandsOver, SetsCourses
from reefcast.routing.courses import Course, Rows
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import COUNTED, Action, Await, Decision, Route, Surroundings
from reefcast.routing.tables import Row, next_hops_of
from reefcast.routing.tid_tables import TidHeader, Tree
from reefcast.routing.tid_trees import TreeRouting

SentCopy = tuple[PublicationId, EntityId, LinkName, int]
"""Publication, TID, next hop, and the tree's `version` when it was sent."""


class Matching(NamedTuple):
    """The matches of a publication on some tree at a broker. `local`: client -> ascending numbers
    of its subscriptions. `served`: neighbour, by name -> subscriptions that are bound to the tree
    and came from there. `rows`: how many matched."""

    local: dict[LinkName, list[int]]
    served: dict[LinkName, list[Row]]
    rows: int


Found = tuple[Tree | None, Matching | None]
"""The tree of a publication, and what it matches, unless this broker is forward-only. What is to be
confirmed has no tree."""
UNKNOWN = Decision({}, [], None)
DUPLICATE = Decision({}, [], None, duplicate=True)


class TidRouter(TreeRouting, HandsOver, ActsLater):
    """The shared part of TID-S and TID-D: everything but the choice of links."""

    header = TidHeader
    floods = True
    legend: ClassVar[Mapping[str, str]] = {
        "SRT": (
            "TID: the client that advertised, its broker and the number of the advertisement, "
            "unless another tree has taken the place of its first. Bound subscriptions: those "
            "that copies on this tree are for, by the neighbour that they came from; clients: of "
            "this broker."
        ),
        "PRT": "No last hop: it can be another one for each tree; the SRT counts them by tree.",
    }

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.waiting: list[Publish] = []
        self._flooded = RecentIds[tuple[PublicationId, int]]()
        self._lending = False
        self._lent = 0

    # --- publications -----------------------------------------------------------------------------

    def match(self, publications: Sequence[Publish], link: LinkName) -> list[Found]:
        for publish in publications:
            if publish.confirm:
                return self._match_apart(publications, link)
        if link in self.brokers:
            trees = [self._came_down(publish.header, link) for publish in publications]
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

    def _match_apart(self, publications: Sequence[Publish], link: LinkName) -> list[Found]:
        """Return the matches of publications; those that are to be confirmed have no tree, and
        match what clients of this broker want."""
        flooded = [publish.publication for publish in publications if publish.confirm]
        here: Iterator[Found] = (
            (None, Matching(next_hops.local, {}, next_hops.matched))
            for next_hops in self.prt.next_hops(flooded)
        )
        others = iter(self.match([each for each in publications if not each.confirm], link))
        return [next(here if publish.confirm else others) for publish in publications]

    def route(
        self, publications: Sequence[Publish], found: Sequence[Found], link: LinkName
    ) -> Iterator[Decision]:
        for publish, (tree, matching) in zip_longest(publications, found):
            if tree is None:
                yield UNKNOWN if matching is None else self._flood(publish, matching, link)
            else:
                if tree.id in self._torn:
                    self._look_beyond(publish, tree)
                yield self._choose(publish, tree, link, matching)

    def _flood(self, publish: Publish, matching: Matching, link: LinkName) -> Decision:
        """Return the decision about a publication that is to be confirmed."""
        if not self._flooded.is_new((publish.publication.id, publish.confirm)):
            return DUPLICATE
        onward = Header(publish.header.hops + 1)
        hops = [(hop, onward) for hop in sorted({*self.brokers, *self.absent}) if hop != link]
        return Decision(matching.local, hops, matching.rows)

    def _match(self, asked: Sequence[tuple[Publication, Tree]]) -> list[Matching]:
        """Return what each publication matches here, on its tree."""
        keys = [(tree, tree.version) for _, tree in asked]
        return self.prt.digests([publication for publication, _ in asked], keys, _divide)

    def _tree(self, header: Header) -> Tree | None:
        """Return the tree that a copy follows; None for one that names none that is known here."""
        tid = header.tid if type(header) is TidHeader else None
        return None if tid is None else self.srt.get(tid)

    def _came_down(self, header: Header, link: LinkName) -> Tree | None:
        """Return the tree that a copy from a neighbour follows. None if it did not come down the
        tree: it is for what was bound by the former life of this broker, which has the tree from
        somebody else now and gets its copies from there."""
        tree = self._tree(header)
        return tree if tree is not None and tree.last_hop == link else None

    def _first_tree(self, publication: Publication, client: LinkName) -> Tree | None:
        """Return the newest tree of the first advertisement of this publisher that the publication
        matches; they were stored in the order of their numbers."""
        grown = self.grown.get(client, {}).values()
        if len(grown) == 1:  # the broker has checked that it matches one of them
            return next(iter(grown)).trees[-1]
        matching = (each.trees[-1] for each in grown if each.filter.matches(publication))
        return next(matching, None)

    # --- copies that go astray --------------------------------------------------------------------

    def is_astray(self, publish: Publish, link: LinkName) -> bool:
        if publish.confirm:
            return False
        tree = self._tree(publish.header)
        return tree is None or any(
            link in links.get(tree.id, ()) for links in (self._torn, self._elsewhere)
        )

    def _look_beyond(self, publish: Publish, tree: Tree) -> None:
        """Look beyond a torn tree, of which the publisher's broker does not know yet. A neighbour
        that said so and has nothing bound to it any more gets no copy; one that has not answered
        drops it."""
        torn = self._torn[tree.id]
        if any(link not in tree.hops or link in tree.untold for link in torn):
            self.waiting.append(replace(publish, header=Header(), again=True))
            self.unfinished = True

    def afterwards(self) -> list[Await]:
        self.unfinished = False
        return self._lend()

    def reroute(self, strays: Sequence[Publish]) -> list[Await]:
        self.waiting += [replace(publish, header=Header()) for publish in strays]
        return self._lend()

    def _lend(self) -> list[Await]:
        """Begin a tree of this broker's own for the publications that went astray, unless one is
        growing."""
        if self._lending or not self.waiting:
            return []
        self._lent += 1
        self._lending = True
        id = (f"@{self._name}", self._lent)
        return [Await(self.advertise(id, TRUE, id[0], local=True), partial(self._hand_out, id))]

    def _hand_out(self, id: EntityId) -> list[Action]:
        """Route what waited for a tree that has grown."""
        strays, self.waiting = self.waiting, []
        return [Route(strays, id[0]), Await((), partial(self._take_back, id))]

    def _take_back(self, id: EntityId) -> list[Action]:
        """Withdraw this broker's own advertisement: all that went astray has gone down its tree.
        Begin another tree if more has gone astray meanwhile."""
        self._lending = False
        return [*self.unadvertise(id, id[0]), *self._lend()]

    # --- the choice of links ----------------------------------------------------------------------

    @abstractmethod
    def _choose(
        self, publish: Publish, tree: Tree, link: LinkName, found: Matching | None
    ) -> Decision:
        """Return the next hops of a publication on `tree` that came by `link`; `found` is None at a
        forward-only broker."""

    def _along(
        self, publish: Publish, tree: Tree, link: LinkName, found: Matching | None
    ) -> Decision:
        """Return the decision of TID-S."""
        header = publish.header
        onward: Header = TidHeader(header.hops + 1, tree.id, _switched(header))
        bound: Collection[LinkName] = tree.hops if found is None else found.served
        if tree.untold or self.absent:
            bound = sorted({*bound, *self._unknown(tree)})
        copies = [(hop, onward) for hop in bound if hop != link]
        if found is None:
            return Decision({}, copies, None)
        return Decision(found.local, copies, found.rows)

    def _unknown(self, tree: Tree) -> set[LinkName]:
        """Return the neighbours of which nobody knows what is bound to the tree behind them."""
        return tree.untold.union(self.absent)


def _divide(rows: list[Row], key: tuple[Tree, int]) -> Matching:
    """Return matching rows by where they lead; the second part of the key is the version of the
    tree."""
    bound = key[0].bound
    served: dict[LinkName, list[Row]] = {}
    for row in rows:
        hop = bound.get(row)
        if hop is not None and not row.local:
            served.setdefault(hop, []).append(row)
    in_order = {hop: served[hop] for hop in sorted(served)}
    return Matching(next_hops_of(rows).local, in_order, len(rows))


def _switched(header: Header) -> bool:
    """Return whether a copy follows another tree than it started on."""
    return type(header) is TidHeader and header.switched


class TidS(TidRouter, SetsCourses):
    """Static routing. Publications of one publisher that go down different trees may overtake each
    other: its order is kept only as long as it has one advertisement."""

    name = "tid-s"
    sets_courses = True

    def course(self, header: Header, link: LinkName) -> Course | None:
        """Return the course of publications. None for those of a client with several
        advertisements, of which the first counts that a publication matches; and where copies may
        have to be looked after, because a tree is torn."""
        if link in self.brokers:
            tree = self._came_down(header, link)
        else:
            grown = list(self.grown.get(link, {}).values())
            if len(grown) != 1:
                return None
            tree = grown[0].trees[-1]
        if tree is None:
            return Course(header, rows=Rows.UNMATCHED)
        if tree.id in self._torn:
            return None
        onward: Header = TidHeader(header.hops + 1, tree.id, _switched(header))
        bound = tree.untold if tree.clients else tree.untold.union(tree.hops)
        always = [(hop, onward) for hop in sorted(bound) if hop != link]
        if tree.clients:
            return Course(onward, always, Rows.BOUND, tree)
        return Course(onward, always, Rows.UNMATCHED)

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
        """Return `along`, without the links in `crowded` where there is another way."""
        copies: dict[tuple[LinkName, EntityId], Header] = {}
        checked, searched = len(along.hops), 0
        unknown = self._unknown(tree)
        for hop, onward in along.hops:
            rows = found.served.get(hop)
            if rows is None and hop not in unknown:
                continue
            other = None
            if hop in crowded and rows is not None and hop not in unknown:
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
        """Return the trees that all these subscriptions are bound to, with one last hop: (it,
        TID)."""
        first, *rest = rows
        found = [(other.bound[first], other) for other in self.bindings.trees(first)]
        return [
            (hop, other.id)
            for hop, other in found
            if other is not tree
            and hop != link
            and hop not in self._unknown(other)
            and all(other.bound.get(row) == hop for row in rest)
        ]

    def _least_loaded(
        self, others: list[tuple[LinkName, EntityId]]
    ) -> tuple[LinkName, EntityId] | None:
        """Return of the links that are not overloaded that with the shortest queue."""
        overloaded, queue_len = self.links.lst.overloaded, self.links.queue_len
        free = [(queue_len(hop), hop, tid) for hop, tid in others if not overloaded(hop)]
        return min(free)[1:] if free else None

    def _without_sent(self, id: PublicationId, decision: Decision) -> Decision:
        """Return the decision without the copies that went before; only copies that switched can
        meet again."""
        hops = [copy for copy in decision.hops if not _switched(copy[1]) or self._is_new(id, *copy)]
        suppressed = len(decision.hops) - len(hops)
        if not suppressed:
            return decision
        self.counters["tid_suppressed"] += suppressed
        return replace(decision, hops=hops, duplicate=not (hops or decision.local))

    def _is_new(self, id: PublicationId, hop: LinkName, header: Header) -> bool:
        tree = self._tree(header)
        return tree is not None and self._sent.is_new((id, tree.id, hop, tree.version))

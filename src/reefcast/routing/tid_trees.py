"""The advertisement trees of TID routing: how they grow, what is bound to them, how they are
repaired.

Rules
-----
- *Advertise*: flooded, with the brokers that it came through. A broker keeps the first copy with
  its last hop (SRT) and the way that this one came, and drops the others; the last hops form a
  tree, whose TID is the id that the publisher's broker gave it: that of the advertisement, or a
  fresh one.
- *Unadvertise*: flooded. A broker drops the tree, with all that is bound to it, when its last hop
  in the tree says so, and remembers the TID: a copy of the advertisement may still be under way.
- *Subscribe*: `Bind` goes up each tree whose advertisement intersects, trees with the same last hop
  in one message. Each broker on the way stores the link it came by for each tree. An advertisement
  that comes draws the subscriptions of the broker's own clients in the same way. What comes again
  by the same link goes up again: a broker on the way has restarted, and the first time may still
  be under way.
- *Unsubscribe*: `Unbind` takes the same ways.
- *Relearn*: a neighbour whose link comes up is told all trees with their ways, and what is bound to
  those that came from there. A broker that relearns waits until all neighbours have told, and takes
  each tree from where it had it: the ways that lead through it say from where. What it does not
  bind again is unbound when it has answered.
- *Torn*: a broker that cannot take a tree of which it is told, or whose link to its last hop is
  lost, says so. Who had it from there loses it in the same way; everybody else passes the word up
  the tree. The publisher's broker then grows another one, with a TID of its own, and uses it; when
  all is bound to it, the old one is withdrawn.
- *Untold*: as long as a neighbour that was told of a tree has not answered, for it or a broker
  behind it is away, it gets all that is published on the tree: nobody knows what is bound there.
- *Lend*: a copy that has waited for a neighbour which restarted is *astray* if its tree has been
  withdrawn meanwhile, or the neighbour does not have it from here any more. So is one that comes
  down a tree which is torn behind this broker, before the publisher's broker has heard. The broker
  then grows a tree of its own for all subscriptions, publishes on it what is astray, and withdraws
  it. Whoever has had it already drops it by its id.

Theory of operation
-------------------
`Bind` goes from the subscriber's broker towards the publisher's, so that whoever knows of a binding
knows that all brokers between itself and the subscriber know it too: a copy that is put on any
tree which a subscription is bound to will reach it. `Unadvertise` is obeyed only when it comes down
the tree, behind all publications that were sent down before: otherwise it overtook them on a
shorter way.

A tree never changes: who holds it has it from the last hop of the first day, by the way of the
first day, or loses it. So nobody is ever his own ancestor, whoever forgot what: the way to a broker
that holds the tree is one longer than the way to its last hop. And of two neighbours of which only
one holds a tree the other has been told of it, and has taken it or said `Torn`.

A broker that has lost a tree never takes it again. Only one that restarted does, and only by the
same way; where nobody is left who knows of that, and nobody is absent, by any way that does not
lead through itself: if some broker behind it has it by another way, this one finds that out as soon
as it is told.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from reefcast.errors import ProtocolError
from reefcast.model.filters import Filter, parse_filter
from reefcast.model.messages import (
    Advertise,
    ControlMessage,
    EntityId,
    LinkName,
    PeerMessage,
    Send,
    TableChange,
    Unadvertise,
)
from reefcast.routing.capabilities import Relearns, SettlesTogether
from reefcast.routing.recent import RecentIds
from reefcast.routing.router import Action, Await, Router, Surroundings
from reefcast.routing.tables import Row, Table, meeting
from reefcast.routing.tid_tables import (
    VARIOUS,
    Bind,
    Bindings,
    Grown,
    Path,
    Tales,
    Torn,
    Tree,
    TreeTable,
    Unbind,
)

Pair = tuple[EntityId, EntityId]
"""A tree and a subscription."""


class TreeRouting(Router, Relearns, SettlesTogether):
    """See the module's docstring. `grown`: the advertisements of the broker's own clients, by
    client, in their order."""

    messages = (Bind, Unbind, Torn)

    def __init__(self, where: Surroundings) -> None:
        super().__init__(where)
        self.srt = TreeTable()
        self.bindings = Bindings(self.prt)
        self.grown: dict[LinkName, dict[EntityId, Grown]] = {}
        self._name = where.name
        self._gone = RecentIds[EntityId]()
        self._torn: dict[EntityId | None, set[LinkName]] = {}
        self._elsewhere: dict[EntityId, set[LinkName]] = {}
        self._tales = Tales()
        self._doubted: dict[LinkName, set[Pair]] = {}
        self._links_up = 0

    # --- advertisements ---------------------------------------------------------------------------

    def change(
        self, message: TableChange, filter: Filter | None, link: LinkName, *, local: bool
    ) -> Sequence[Action]:
        if isinstance(message, Advertise) and filter is not None and not local:
            return self._told(message, filter, link)
        return super().change(message, filter, link, local=local)

    def advertise(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Action]:
        grown = self.grown.setdefault(link, {})[id] = Grown(id, filter, link)
        return self._plant(grown)

    def _plant(self, grown: Grown) -> list[Action]:
        """Advertise another tree for an advertisement of a client."""
        tid, number = self._of_here(grown.id), 1
        while tid in self.srt or tid in self._gone:
            number += 1
            tid = (f"{grown.id[0]}@{self._name}#{grown.id[1]}", number)
        tree = Tree(tid, grown.filter, grown.client, True, (self._name,))
        grown.trees.append(tree)
        return self._grow(tree)

    def _grow(self, tree: Tree) -> list[Action]:
        """Let a tree that has come here grow on."""
        self.srt.add(tree)
        tree.untold.update(other for other in self.brokers if other != tree.last_hop)
        sends: list[Action] = []
        for send in self._to_others(tree.last_hop, tree.advertise()):
            answered = partial(self._has_answered, tree, send.link)
            sends.append(Await([send], answered, (Tree, tree.id, send.link)))
        for row in meeting(tree.filter, [row for row in self.prt if row.local]):
            sends += self._bind(row, [tree], row.last_hop)
        return sends

    def _has_answered(self, tree: Tree, link: LinkName) -> list[Action]:
        """Handle that the neighbour has accepted the tree, or has refused it: what is bound behind
        it is known here now."""
        tree.untold.discard(link)
        return []

    def known_as(self, id: EntityId, link: LinkName) -> EntityId:
        return id if link in self.brokers else self._of_here(id)

    def came_by(self, id: EntityId) -> LinkName | None:
        tree = self.srt.get(id)
        return None if tree is None else tree.last_hop

    def _told(self, message: Advertise, filter: Filter, link: LinkName) -> Sequence[Action]:
        """Handle that a neighbour told of a tree."""
        id, way = message.id, message.via
        if not way or way[-1] != link:
            raise ProtocolError(
                f"neighbour {link!r} sent the advertisement {id} by the way {way}, which does not "
                "end there; give both brokers the same network file"
            )
        tree = self.srt.get(id)
        if tree is not None:
            if tree.last_hop == link and tree.path != (*way, self._name):
                return self._tear(tree, self.brokers)
            if link in tree.hops and way[-2:-1] != (self._name,):
                self._elsewhere.setdefault(id, set()).add(link)
            return []
        if self.relearning:
            self._tales.note(id, filter, link, way)
            return []
        if self._name in way:
            return self._is_gone(id, way, link)
        if id in self._gone:
            return [Send(link, Torn(tree=id))]
        return self._grow(Tree(id, filter, link, False, (*way, self._name)))

    def _is_gone(self, id: EntityId, way: Path, link: LinkName) -> list[Send]:
        """Answer a neighbour that has a tree by way of this broker, which does not have it."""
        if way[-2] != self._name:
            return []  # the broker between them will tell it
        return [Send(link, Unadvertise(id) if way[0] == self._name else Torn(tree=id))]

    def unadvertise(self, id: EntityId, link: LinkName) -> list[Send]:
        grown = self.grown.get(link, {}).pop(id, None)
        if grown is not None:
            if not self.grown[link]:
                del self.grown[link]
            trees, grown.trees = grown.trees, []
            return [send for tree in trees for send in self._withdraw(tree)]
        self._tales.forget(id, link)
        tree = self.srt.get(id)
        if tree is None or tree.local or tree.last_hop != link:
            return []
        return self._withdraw(tree)

    def _withdraw(self, tree: Tree) -> list[Send]:
        self._drop(tree)
        return self._to_others(tree.last_hop, Unadvertise(tree.id))

    def _to_others(self, link: LinkName, message: ControlMessage) -> list[Send]:
        """Send `message` to all neighbours except `link`, from which it came."""
        return [Send(other, message) for other in self.brokers if other != link]

    def _drop(self, tree: Tree) -> None:
        """Drop a tree, and what was bound to it."""
        self.srt.remove(tree.id, tree.last_hop)
        self._gone.is_new(tree.id)
        self._torn.pop(tree.id, None)
        self._elsewhere.pop(tree.id, None)
        for row, hop in list(tree.bound.items()):
            self.bindings.unbind(row, [tree], hop)

    # --- trees that are torn ----------------------------------------------------------------------

    def _tear(self, tree: Tree, told: Iterable[LinkName]) -> list[Send]:
        """Abandon a tree that does not lead to the publisher any more."""
        self._drop(tree)
        return [Send(link, Torn(tree=tree.id)) for link in told]

    def _is_torn(self, id: EntityId, link: LinkName) -> Sequence[Action]:
        tree = self.srt.get(id)
        if tree is None:
            self._tales.spoil(id)
            return []
        if tree.last_hop == link:
            return self._tear(tree, [other for other in self.brokers if other != link])
        self._torn.setdefault(id, set()).add(link)
        if tree.local:
            return self._renew(tree)
        return [Await([Send(tree.last_hop, Torn(tree=id))], list, (Torn, id))]

    def _renew(self, tree: Tree) -> list[Await]:
        """Begin another tree for this one, unless one is growing already."""
        (grown,) = (g for g in self.grown[tree.last_hop].values() if tree in g.trees)
        sends = self._plant(grown) if tree is grown.trees[-1] else []
        newest = grown.trees[-1]
        return [Await(sends, partial(self._turn_to, newest, grown), (Grown, newest.id))]

    def _turn_to(self, tree: Tree, grown: Grown) -> list[Send]:
        """Turn to a tree to which everything is bound: the former ones are withdrawn."""
        if tree not in grown.trees:
            return []
        at = grown.trees.index(tree)
        old, grown.trees = grown.trees[:at], grown.trees[at:]
        return [send for one in old for send in self._withdraw(one)]

    # --- subscriptions ----------------------------------------------------------------------------

    def subscribe(self, id: EntityId, filter: Filter, link: LinkName, local: bool) -> list[Send]:
        if not local:
            raise ProtocolError(
                f"neighbour {link!r} sent Subscribe, but with routing {self.name!r} brokers send "
                "Bind to each other; give both brokers the same network file"
            )
        sends = self.unsubscribe(id, link)
        row = Row(self._of_here(id), filter, link, True)
        self.prt.add(row)
        return sends + self._bind(row, meeting(filter, self.srt), link)

    def _of_here(self, id: EntityId) -> EntityId:
        """Return the id by which other brokers know a subscription or an advertisement of a client
        here: another session of the client, at another broker, may use the same for something else.
        """
        return (f"{id[0]}@{self._name}", id[1])

    def unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        return self._unsubscribe(self._of_here(id), link)

    def _unsubscribe(self, id: EntityId, link: LinkName) -> list[Send]:
        row = self.prt.remove(id, link)
        if row is None:
            return []
        return self._unbind(row, self.bindings.trees(row), link)

    def peer(self, message: PeerMessage, link: LinkName) -> Sequence[Action]:
        if isinstance(message, Torn):
            return self._is_torn(message.tree, link)
        if not isinstance(message, Bind | Unbind):
            return super().peer(message, link)
        if isinstance(message, Bind):
            return self._is_bound(message.id, parse_filter(message.filter), message.trees, link)
        self._tales.unbind(message.id, message.trees, link)
        row = self.prt.get(message.id)
        return [] if row is None else self._unbind(row, self._known(message.trees), link)

    def _known(self, trees: Iterable[EntityId]) -> list[Tree]:
        return [tree for tree in map(self.srt.get, trees) if tree is not None]

    def _is_bound(
        self, id: EntityId, filter: Filter, tids: Sequence[EntityId], link: LinkName
    ) -> list[Send]:
        """Handle that a neighbour bound a subscription to these trees."""
        row, trees = self.prt.get(id), self._known(tids)
        if row is not None and row.local:
            return []  # an id of one of this broker's own clients
        if self.relearning:
            self._tales.bind(id, filter, [tid for tid in tids if tid not in self.srt], link)
        if not trees:
            return []
        sends: list[Send] = []
        if row is not None and row.filter.text != filter.text:
            # Its host lost its memory, and the client wants something else by now.
            sends = self._unbind_all(row)
            row = None
        if row is None:
            row = Row(id, filter, VARIOUS, False)
            self.prt.add(row)
        doubted = self._doubted.get(link)
        if doubted:
            doubted.difference_update([(tid, id) for tid in tids])
        self.bindings.bind(row, trees, link)
        return sends + _upwards(row, [tree for tree in trees if tree.bound[row] == link])

    def _unbind_all(self, row: Row) -> list[Send]:
        """Unbind a row that goes, whoever bound it."""
        by_link: dict[LinkName, list[Tree]] = {}
        for tree in self.bindings.trees(row):
            by_link.setdefault(tree.bound[row], []).append(tree)
        return [send for link, trees in by_link.items() for send in self._unbind(row, trees, link)]

    def _bind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Send]:
        return _upwards(row, self.bindings.bind(row, trees, link))

    def _unbind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Send]:
        gone = self.bindings.unbind(row, trees, link)
        return [Send(hop, Unbind(id=row.id, trees=tids)) for hop, tids in _by_hop(gone)]

    # --- links ------------------------------------------------------------------------------------

    def link_up(self, link: LinkName) -> list[Action]:
        """Tell the neighbour every tree, and what is bound to those that came from there. What it
        bound itself is in doubt until it has answered."""
        self._tales.forget_all(link)
        for links in self._elsewhere.values():
            links.discard(link)
        sends = [Send(link, tree.advertise()) for tree in self.srt]
        from_there = self.srt.from_hop(link)
        told = [tree for tree in self.srt if tree.last_hop != link]
        for tree in told:
            tree.untold.add(link)
        for row in dict.fromkeys(row for tree in from_there for row in tree.bound):
            sends += _upwards(row, [tree for tree in from_there if row in tree.bound])
        sends += [Send(link, Torn(tree=tree.id)) for tree in from_there if tree.id in self._torn]
        doubted = {(tree.id, row.id) for row, trees in self._bound_by(link) for tree in trees}
        self._doubted[link] = doubted
        self._links_up += 1
        return [Await(sends, partial(self._sweep, link, doubted, told), (link, self._links_up))]

    def _sweep(self, link: LinkName, doubted: set[Pair], told: Iterable[Tree]) -> list[Send]:
        """Sweep what a neighbour that has answered has not bound again."""
        if self._doubted.get(link) is not doubted:
            return []  # it has lost its memory once more
        del self._doubted[link]
        for tree in told:
            tree.untold.discard(link)
        by_row: dict[EntityId, list[EntityId]] = {}
        for tid, id in sorted(doubted):
            by_row.setdefault(id, []).append(tid)
        sends: list[Send] = []
        for id, tids in by_row.items():
            row = self.prt.get(id)
            if row is not None:
                sends += self._unbind(row, self._known(tids), link)
        return sends

    def _bound_by(self, link: LinkName) -> list[tuple[Row, list[Tree]]]:
        """Return what this neighbour has bound, and to which trees."""
        bound: dict[Row, list[Tree]] = {}
        for tree in self.srt:
            if link not in tree.hops:
                continue
            for row, hop in tree.bound.items():
                if hop == link:
                    bound.setdefault(row, []).append(tree)
        return list(bound.items())

    def link_down(self, link: LinkName) -> list[Send]:
        """Handle that a neighbour, or a client, is gone, with the trees that came from it and what
        it bound."""
        self._tales.forget_all(link)
        self._doubted.pop(link, None)
        sends: list[Send] = []
        for subscription in self.prt.from_hop(link):
            sends += self._unsubscribe(subscription.id, link)
        for id in list(self.grown.get(link, ())):
            sends += self.unadvertise(id, link)
        for tree in self.srt.from_hop(link):
            sends += self._tear(tree, [other for other in self.brokers if other != link])
        for row, trees in self._bound_by(link):
            sends += self._unbind(row, trees, link)
        for tree in self.srt:
            tree.untold.discard(link)
        return sends

    # --- after a start ----------------------------------------------------------------------------

    # Nobody waits for anybody (`passes_on`): on a ring all would wait for each other.

    def relearned(self) -> list[Action]:
        """Restore each tree as it was, or report that it is torn: all neighbours have told what
        they know."""
        tales, self._tales = self._tales, Tales()
        sends = [send for id in tales.told for send in self._decide(id, tales)]
        self.repairing = bool(sends)
        return [Await(sends, self._repaired)]

    def _repaired(self) -> list[Send]:
        self.repairing = False
        return []

    def _decide(self, id: EntityId, tales: Tales) -> list[Action]:
        filter, ways = tales.told[id]
        mine = (self._name,)
        heads = {way[: way.index(self._name)] for way in ways.values() if self._name in way}
        if () in heads:  # of a client of this broker's former life
            self._gone.is_new(id)
            return [Send(link, Unadvertise(id)) for link in ways]
        open = {link: way for link, way in ways.items() if self._name not in way}
        if heads:
            open = {link: way for link, way in open.items() if {way} == heads}
        # Where nobody says by which way it was had here, an absent one may know of another than
        # these; nobody further up would look for this broker there.
        if not open or id in tales.spoiled or (self.absent and not heads):
            self._gone.is_new(id)
            return [Send(link, Torn(tree=id)) for link in ways]
        link = min(open, key=lambda link: (len(open[link]), link))
        tree = Tree(id, filter, link, False, open[link] + mine)
        sends = self._grow(tree)
        for (bound, source), wanted in tales.bound.get(id, {}).items():
            sends += self._is_bound(bound, wanted, [id], source)
        return sends

    # --- what can be seen -------------------------------------------------------------------------

    def tables(self) -> dict[str, Table[Tree] | Table[Row]]:
        return {"SRT": self.srt, "PRT": self.prt}


def _upwards(row: Row, trees: Iterable[Tree]) -> list[Send]:
    """Return the sends that tell of a subscription that is bound to these trees."""
    return [
        Send(hop, Bind(id=row.id, filter=row.filter.text, trees=tids))
        for hop, tids in _by_hop(trees)
    ]


def _by_hop(trees: Iterable[Tree]) -> list[tuple[LinkName, tuple[EntityId, ...]]]:
    """Return the TIDs of these trees by last hop, in the order of their names; not those that end
    here."""
    by_hop: dict[LinkName, list[EntityId]] = {}
    for tree in trees:
        if not tree.local:
            by_hop.setdefault(tree.last_hop, []).append(tree.id)
    return [(hop, tuple(by_hop[hop])) for hop in sorted(by_hop)]

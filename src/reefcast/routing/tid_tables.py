"""SRT and PRT of TID routing: advertisement trees, and which subscriptions are bound to them.

A tree is a row of the SRT; its id, the TID, is that of the advertisement. It knows what is bound to
it at this broker, and by which link each subscription came. The PRT holds each subscription once,
whatever the number of its trees: they may come by several links, so the last hop of a row from
elsewhere is `VARIOUS` and those that count are in the trees.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import ClassVar

from reefcast.model.filters import Filter
from reefcast.model.messages import (
    Advertise,
    Control,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Subscribe,
    Unadvertise,
    Unsubscribe,
)
from reefcast.routing.tables import Cell, Row, SubscriptionTable, Table, written

VARIOUS: LinkName = ""
Path = tuple[LinkName, ...]
"""Brokers, each a neighbour of the one before it."""


class Bind(PeerMessage, frozen=True, kw_only=True, tag="bind"):
    """A subscription on its way to the publishers, bound to the advertisement trees `trees` (by
    their TIDs). `filter`: text of the filter language."""

    costs_like: ClassVar[type[Control]] = Subscribe
    id: EntityId
    filter: str
    trees: tuple[EntityId, ...]

    @property
    def says(self) -> tuple[EntityId, ...]:
        return (self.id,)


class Unbind(PeerMessage, frozen=True, kw_only=True, tag="unbind"):
    """The subscription no longer wants publications of these trees."""

    costs_like: ClassVar[type[Control]] = Unsubscribe
    id: EntityId
    trees: tuple[EntityId, ...]


class Torn(PeerMessage, frozen=True, kw_only=True, tag="torn"):
    """The sender, or a broker behind it, has lost this tree. A broker that has it from the sender
    has lost it, too; any other tells the publisher's broker."""

    costs_like: ClassVar[type[Control]] = Unadvertise
    tree: EntityId


class TidHeader(Header, frozen=True, gc=False):
    """`tid`: the advertisement tree that a copy follows; `switched`: it is not the tree on which it
    started."""

    tid: EntityId | None = None
    switched: bool = False


class Tree(Row):
    """An advertisement and its tree, as far as it is known here.

    `path`: the brokers from the publisher's to this one. `bound`: subscription -> the link that it
    came by. `clients`: how many of these are of clients of this broker; where there are none, the
    broker is *forward-only* for this tree. `hops`: the neighbours that some came by, by name.
    `version`: how often that changed. `untold`: neighbours that have been told of the tree, and
    have not answered yet: what is wanted behind them is not known. `moved`: see
    `courses.Binds`.
    """

    __slots__ = ("_by_hop", "bound", "clients", "hops", "moved", "path", "untold", "version")

    def __init__(
        self, id: EntityId, filter: Filter, last_hop: LinkName, local: bool, path: Path
    ) -> None:
        super().__init__(id, filter, last_hop, local)
        self.path = path
        self.bound: dict[Row, LinkName] = {}
        self.clients = 0
        self.hops: list[LinkName] = []
        self.version = 0
        self.untold: set[LinkName] = set()
        self.moved: list[Row] | None = None
        self._by_hop: Counter[LinkName] = Counter()

    def bind(self, row: Row, link: LinkName) -> None:
        self.bound[row] = link
        self._changes(row)
        if row.local:
            self.clients += 1
            return
        self._by_hop[link] += 1
        if self._by_hop[link] == 1:
            self.hops = sorted(self._by_hop)

    def _changes(self, row: Row) -> None:
        self.version += 1
        if self.moved is not None:
            self.moved.append(row)

    def unbind(self, row: Row) -> None:
        link = self.bound.pop(row)
        self._changes(row)
        if row.local:
            self.clients -= 1
            return
        self._by_hop[link] -= 1
        if not self._by_hop[link]:
            del self._by_hop[link]
            self.hops = sorted(self._by_hop)

    def advertise(self) -> Advertise:
        """Return the message that tells a neighbour of the tree."""
        return Advertise(self.id, self.filter.text, via=self.path)

    def bound_from(self) -> str:
        """Return in words how many subscriptions came from where."""
        counts = [f"{hop} {self._by_hop[hop]}" for hop in self.hops]
        return ", ".join([f"clients {self.clients}", *counts] if self.clients else counts)


class Grown:
    """An advertisement of a client of this broker, and its trees: the newest is in use, the older
    ones are withdrawn when everything is bound to it."""

    __slots__ = ("client", "filter", "id", "trees")

    def __init__(self, id: EntityId, filter: Filter, client: LinkName) -> None:
        self.id = id
        self.filter = filter
        self.client = client
        self.trees: list[Tree] = []


class Tales:
    """What a relearning broker has been told about trees that it does not hold.

    `told`: tree -> its filter, and the paths by which neighbours have it, by neighbour. `bound`:
    tree -> (subscription, neighbour that bound it) -> its filter. `spoiled`: trees that are torn
    further on."""

    def __init__(self) -> None:
        self.told: dict[EntityId, tuple[Filter, dict[LinkName, Path]]] = {}
        self.bound: dict[EntityId, dict[tuple[EntityId, LinkName], Filter]] = {}
        self.spoiled: set[EntityId] = set()

    def note(self, tree: EntityId, filter: Filter, link: LinkName, way: Path) -> None:
        self.told.setdefault(tree, (filter, {}))[1][link] = way

    def bind(self, id: EntityId, filter: Filter, trees: Iterable[EntityId], link: LinkName) -> None:
        for tree in trees:
            self.bound.setdefault(tree, {})[id, link] = filter

    def unbind(self, id: EntityId, trees: Iterable[EntityId], link: LinkName) -> None:
        for tree in trees:
            self.bound.get(tree, {}).pop((id, link), None)

    def spoil(self, tree: EntityId) -> None:
        if tree in self.told:
            self.spoiled.add(tree)

    def forget(self, tree: EntityId, link: LinkName) -> None:
        """Forget that the neighbour told of a tree, which it no longer holds."""
        if tree in self.told:
            self.told[tree][1].pop(link, None)

    def forget_all(self, link: LinkName) -> None:
        """Forget everything that a neighbour told: it has lost its memory, or is gone."""
        for tree in self.told:
            self.forget(tree, link)
        for bound in self.bound.values():
            for key in [key for key in bound if key[1] == link]:
                del bound[key]


class TreeTable(Table[Tree]):
    """The SRT of one broker."""

    columns = ("TID", "filter", "last hop", "bound subscriptions")
    shown: ClassVar[bool] = True

    def describe(self, row: Tree) -> tuple[Cell, ...]:
        return (written(row.id), row.filter.text, row.last_hop, row.bound_from())


class Bindings:
    """The trees to which each subscription of the PRT is bound; a row that came from elsewhere is
    in the PRT as long as there is one."""

    def __init__(self, prt: SubscriptionTable) -> None:
        self._prt = prt
        self._trees: dict[Row, dict[EntityId, Tree]] = {}

    def trees(self, row: Row) -> list[Tree]:
        return list(self._trees.get(row, {}).values())

    def bind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Tree]:
        """Bind a row to trees; return those that it was not bound to before."""
        mine = self._trees.setdefault(row, {})
        new = [tree for tree in trees if tree.id not in mine]
        for tree in new:
            mine[tree.id] = tree
            tree.bind(row, link)
        return new

    def unbind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Tree]:
        """Unbind a row from trees; return those to which only `link` bound it."""
        gone = [tree for tree in trees if tree.bound.get(row) == link]
        mine = self._trees.get(row, {})
        for tree in gone:
            del mine[tree.id]
            tree.unbind(row)
        if not mine:
            self._trees.pop(row, None)
            if not row.local:
                self._prt.remove(row.id, VARIOUS)
        return gone

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
    Control,
    EntityId,
    Header,
    LinkName,
    PeerMessage,
    Subscribe,
    Unsubscribe,
)
from reefcast.routing.tables import Cell, Row, SubscriptionTable, Table, written

VARIOUS: LinkName = ""


class Bind(PeerMessage, frozen=True, kw_only=True, tag="bind"):
    """A subscription on its way to the publishers, bound to the advertisement trees `trees` (a
    tree's id, its TID, is that of its advertisement). `filter`: text of the filter language."""

    costs_like: ClassVar[type[Control]] = Subscribe
    id: EntityId
    filter: str
    trees: tuple[EntityId, ...]


class Unbind(PeerMessage, frozen=True, kw_only=True, tag="unbind"):
    """The subscription no longer wants what comes down these trees."""

    costs_like: ClassVar[type[Control]] = Unsubscribe
    id: EntityId
    trees: tuple[EntityId, ...]


class TidHeader(Header, frozen=True, gc=False):
    """`tid`: the advertisement tree that a copy follows; `switched`: it is not the one that it
    started on."""

    tid: EntityId | None = None
    switched: bool = False


class Tree(Row):
    """An advertisement and its tree, as far as it is known here.

    `bound`: subscription -> the link that it came by. `clients`: how many of these are of clients
    of this broker; where there are none, the broker is *forward-only* for this tree. `hops`: the
    neighbours that some came by, by name. `version`: how often that changed.
    """

    __slots__ = ("_by_hop", "bound", "clients", "hops", "version")

    def __init__(self, id: EntityId, filter: Filter, last_hop: LinkName, local: bool) -> None:
        super().__init__(id, filter, last_hop, local)
        self.bound: dict[Row, LinkName] = {}
        self.clients = 0
        self.hops: list[LinkName] = []
        self.version = 0
        self._by_hop: Counter[LinkName] = Counter()

    def bind(self, row: Row, link: LinkName) -> None:
        self.bound[row] = link
        self.version += 1
        if row.local:
            self.clients += 1
            return
        self._by_hop[link] += 1
        if self._by_hop[link] == 1:
            self.hops = sorted(self._by_hop)

    def unbind(self, row: Row) -> None:
        link = self.bound.pop(row)
        self.version += 1
        if row.local:
            self.clients -= 1
            return
        self._by_hop[link] -= 1
        if not self._by_hop[link]:
            del self._by_hop[link]
            self.hops = sorted(self._by_hop)

    def bound_from(self) -> str:
        """How many subscriptions came from where, in words."""
        counts = [f"{hop} {self._by_hop[hop]}" for hop in self.hops]
        return ", ".join([f"clients {self.clients}", *counts] if self.clients else counts)


class TreeTable(Table[Tree]):
    """The SRT of one broker."""

    columns = ("TID", "filter", "last hop", "bound subscriptions")
    shown: ClassVar[bool] = True

    def describe(self, row: Tree) -> tuple[Cell, ...]:
        return (written(row.id), row.filter.text, row.last_hop, row.bound_from())


class Bindings:
    """Which trees each subscription of the PRT is bound to; a row that came from elsewhere is in
    the PRT as long as there is one."""

    def __init__(self, prt: SubscriptionTable) -> None:
        self._prt = prt
        self._trees: dict[Row, dict[EntityId, Tree]] = {}

    def trees(self, row: Row) -> list[Tree]:
        return list(self._trees.get(row, {}).values())

    def bind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Tree]:
        """Returns those that it was not bound to before."""
        mine = self._trees.setdefault(row, {})
        new = [tree for tree in trees if tree.id not in mine]
        for tree in new:
            mine[tree.id] = tree
            tree.bind(row, link)
        return new

    def unbind(self, row: Row, trees: Iterable[Tree], link: LinkName) -> list[Tree]:
        """Returns those that it was bound to by `link`, and is no more."""
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

"""The covering paper's two subscription relation graphs: what other systems keep the roots with.

Both are for comparison: the benchmark, and what a message of the covering paper costs, ask what
they cost. Brokers use `new_roots`.

Edges go from filters to filters that they cover, and all start at a virtual node, whose children
are the roots. `TraditionalGraph` (SIENA, PADRES; section IV-A) has every edge with no filter in
between, so a new filter must find all its parents and all its children. `SimplifiedGraph` (section
IV-B, Algorithm 1) stops below the first parent found, and each filter has that parent only: cheaper
to add to, but when a filter goes, its children must look for another parent. In both, filters that
cover each other are one node, which stands under the eldest key.

A graph finds relatives by traversing, or asks an index for them; the graph is the same afterwards.

Like the paper, both take covering for transitive: what does not cover a filter has nothing below
that does. True covering is transitive, and so is `covers` where there are no patterns. Where there
are some that is not proven, though random filters show no exception. With one, a graph would miss
an edge: it might have a root more than `ScanRoots`, and other edges with an index than without. No
event would be lost, since each filter still is below a root that truly covers it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from enum import Enum
from typing import Generic, NamedTuple, TypeVar

from reefcast.errors import LocalError
from reefcast.matching.cover.interface import CoverIndex, RootChange
from reefcast.model.covering import covers
from reefcast.model.filters import TRUE, Filter

K = TypeVar("K", bound=Hashable)

TOP = 0
"""Number of the virtual node."""


class Relation(Enum):
    """The relation of a new filter to a stored one."""

    SUBSET = "subset"
    SUPERSET = "superset"
    EQUAL = "equal"
    NONE = "none"


class Node(Generic[K]):
    """Filters that cover each other. `keys` has the age of each, eldest first; `filter` is that of
    the first that came. Parents and children are in the order in which they were linked, and
    `place` says when this node was last linked to a parent."""

    __slots__ = ("children", "filter", "keys", "number", "parents", "place")

    def __init__(self, number: int, filter: Filter, keys: dict[K, int]) -> None:
        self.number = number
        self.filter = filter
        self.keys = keys
        self.place = 0
        self.parents: dict[int, Node[K]] = {}
        self.children: dict[int, Node[K]] = {}

    @property
    def eldest(self) -> K:
        return next(iter(self.keys))

    @property
    def age(self) -> int:
        return next(iter(self.keys.values()))


class RelationGraph(ABC, Generic[K]):
    """The shared part of both graphs; see `cover.Roots`.

    `comparisons`: how often two filters have been compared since the graph was made (or since
    somebody set it to zero), which an index spares. `index`: an empty one, of the graph's own;
    whoever takes it away makes the graph traverse from then on.
    """

    def __init__(self, index: CoverIndex[int] | None = None) -> None:
        self.comparisons = 0
        self.index = index
        self._top: Node[K] = Node(TOP, TRUE, {})
        self._nodes: dict[int, Node[K]] = {}  # all but the virtual one
        self._of: dict[K, Node[K]] = {}
        self._last_age = self._last_place = TOP
        self._entered: dict[int, Node[K]] = {}  # roots, during a change
        self._left: dict[int, Node[K]] = {}

    def __len__(self) -> int:
        return len(self._of)

    def __contains__(self, key: object) -> bool:
        return key in self._of

    def keys(self) -> list[K]:
        return _eldest(self._top.children.values())

    def is_root(self, key: K) -> bool:
        node = self._of.get(key)
        return node is not None and TOP in node.parents and node.eldest == key

    def has_below(self, key: K) -> bool:
        return bool(self.below(key))

    def below(self, key: K) -> list[K]:
        """Return the keys with equal filters, if this is their eldest, and its children."""
        node = self._of[key]
        first, *equals = node.keys
        return [*equals, *_eldest(node.children.values())] if first == key else []

    def root_of(self, key: K) -> K:
        node = self._of[key]
        if not node.filter.conjunctions:
            return key
        while TOP not in node.parents:
            node = next(iter(node.parents.values()))
        return node.eldest

    def edges(self) -> set[tuple[K, K]]:
        """Return (parent, child), by their eldest keys; without those of the virtual node."""
        nodes = self._nodes.values()
        return {(node.eldest, child.eldest) for node in nodes for child in node.children.values()}

    # --- changes ---------------------------------------------------------------------------------

    def add(self, key: K, filter: Filter) -> RootChange[K]:
        if key in self._of:
            raise LocalError(f"key {key!r} is in the index already; remove it first")
        self._last_age += 1
        node = Node(self._last_age, filter, {key: self._last_age})
        self._of[key] = node
        self._add(node)
        return self._change()

    def remove(self, key: K) -> RootChange[K]:
        node = self._of.pop(key, None)
        if node is None:
            raise LocalError(f"key {key!r} is not in the index")
        was_root = TOP in node.parents and node.eldest == key
        del node.keys[key]
        if node.keys:
            return RootChange([node.eldest], [key]) if was_root else RootChange([], [])
        self._forget(node)
        self._drop(node)
        self._left.clear()  # the key that was removed is all that can leave
        return RootChange(self._change().entered, [key] if was_root else [])

    @abstractmethod
    def _add(self, node: Node[K]) -> None:
        """Link a new node, or give its key to a node with an equal filter."""

    @abstractmethod
    def _drop(self, node: Node[K]) -> None:
        """Unlink a node without keys, and rearrange its children."""

    def _change(self) -> RootChange[K]:
        if not (self._entered or self._left):
            return RootChange([], [])
        change = RootChange(_eldest(self._entered.values()), _eldest(self._left.values()))
        self._entered.clear()
        self._left.clear()
        return change

    # --- nodes -----------------------------------------------------------------------------------

    def _remember(self, node: Node[K]) -> None:
        self._nodes[node.number] = node
        if self.index is not None:
            self.index.add(node.number, node.filter)

    def _forget(self, node: Node[K]) -> None:
        del self._nodes[node.number]
        if self.index is not None:
            self.index.remove(node.number)

    def _combine(self, node: Node[K], into: Node[K]) -> None:
        """Combine two nodes whose filters cover each other."""
        together = {**into.keys, **node.keys}
        into.keys = dict(sorted(together.items(), key=lambda one: one[1]))
        for key in node.keys:
            self._of[key] = into

    def _link(self, parent: Node[K], child: Node[K]) -> None:
        parent.children[child.number] = child
        child.parents[parent.number] = parent
        self._last_place += 1
        child.place = self._last_place
        if parent is self._top and self._left.pop(child.number, None) is None:
            self._entered[child.number] = child

    def _unlink(self, parent: Node[K], child: Node[K]) -> None:
        del parent.children[child.number], child.parents[parent.number]
        if parent is self._top and self._entered.pop(child.number, None) is None:
            self._left[child.number] = child

    def _compare(self, filter: Filter, stored: Node[K]) -> Relation:
        """Compare two filters (the paper's getRelation)."""
        self.comparisons += 1
        if covers(stored.filter, filter):
            return Relation.EQUAL if covers(filter, stored.filter) else Relation.SUBSET
        return Relation.SUPERSET if covers(filter, stored.filter) else Relation.NONE


class TraditionalGraph(RelationGraph[K]):
    """All coverings with no filter in between: adding looks for all parents, then for children
    below them; removing compares nothing, for the graph knows all that covers a child."""

    def _add(self, node: Node[K]) -> None:
        if self.index is None:
            above, below = self._traverse(node.filter)
        else:
            above = set(self.index.covering(node.filter))
            below = set(self.index.covered(node.filter))
        if equal := above & below:
            self._combine(node, self._nodes[min(equal)])
            return
        self._remember(node)
        children = self._highest(below)
        for parent in self._lowest(above) or [self._top]:
            for child in children:
                if child.number in parent.children:
                    self._unlink(parent, child)
            self._link(parent, node)
        for child in children:
            self._link(node, child)

    def _drop(self, node: Node[K]) -> None:
        parents, children = list(node.parents.values()), list(node.children.values())
        for parent in parents:
            self._unlink(parent, node)
        for child in children:
            self._unlink(node, child)
            if parents == [self._top] and child.parents:
                continue  # the virtual node is above everything
            above = _reach(child.parents.values(), "parents")
            for parent in parents:
                if parent.number not in above:
                    self._link(parent, child)

    def _lowest(self, above: set[int]) -> list[Node[K]]:
        """Return the nodes without a child among them."""
        nodes = map(self._nodes.__getitem__, above)
        return [node for node in nodes if node.children.keys().isdisjoint(above)]

    def _highest(self, below: set[int]) -> list[Node[K]]:
        """Return the nodes without a parent among them."""
        nodes = map(self._nodes.__getitem__, below)
        return [node for node in nodes if node.parents.keys().isdisjoint(below)]

    # --- without an index ------------------------------------------------------------------------

    def _traverse(self, filter: Filter) -> tuple[set[int], set[int]]:
        """Return the numbers of the nodes that cover the filter, and of those that it covers. As
        soon as an equal one is found, return that one in both."""
        above: set[int] = set()
        below: set[int] = set()
        seen: set[int] = set()
        open_nodes = [self._top]
        while open_nodes:
            for child in open_nodes.pop().children.values():
                if child.number in seen or child.number in below:
                    continue
                seen.add(child.number)
                relation = self._compare(filter, child)
                if relation is Relation.EQUAL:
                    return {child.number}, {child.number}
                if relation is Relation.SUBSET:
                    above.add(child.number)
                    open_nodes.append(child)
                elif relation is Relation.SUPERSET:
                    below |= _reach([child], "children")
        self._traverse_down(filter, self._lowest(above) or [self._top], seen, below)
        return above, below

    def _traverse_down(
        self, filter: Filter, parents: list[Node[K]], seen: set[int], below: set[int]
    ) -> None:
        """Compare the descendants of the parents that have not been `seen`, but none below what the
        filter covers; add to `below`."""
        open_nodes = list(parents)
        entered = {parent.number for parent in parents}
        while open_nodes:
            for child in open_nodes.pop().children.values():
                number = child.number
                if number in entered or number in below:
                    continue
                entered.add(number)
                if number not in seen and self._compare(filter, child) is Relation.SUPERSET:
                    below |= _reach([child], "children")
                else:
                    open_nodes.append(child)


class Place(NamedTuple, Generic[K]):
    """The place of a filter by Algorithm 1: in the node that is `equal`, or below `parent` and
    above those of its children that it covers, in their order."""

    parent: Node[K]
    equal: Node[K] | None
    covered: list[Node[K]]


class LeftBehind(NamedTuple, Generic[K]):
    """What a key leaves behind when it goes: the `children` that look for another parent among the
    nodes `beside`, on this `level` (0: the roots'). No children if its node has other keys."""

    children: list[K]
    beside: int
    level: int


class SimplifiedGraph(RelationGraph[K]):
    """Algorithm 1. Its edges make trees: a filter is below the first parent found, and a child that
    moves below a new filter leaves the old parent. Equal filters that went different ways down are
    different nodes, until a removal makes them meet."""

    def levels(self, key: K) -> list[int]:
        """Return how many nodes a new filter met at each level on its way down to where this key
        stands, itself not counted, if it was the last that was added: on the last level all of
        them, including those that moved below it; above, the first that covered it ended the
        search."""
        node = self._of[key]
        (parent,) = node.parents.values()
        found = [len(parent.children) - 1 + len(node.children)]
        while parent is not self._top:
            (parent,) = parent.parents.values()
            found.append(len(parent.children))
        return found[::-1]

    def left_behind(self, key: K) -> LeftBehind[K]:
        """Return what this key leaves behind if it goes now."""
        node = self._of[key]
        (parent,) = node.parents.values()
        level, above = 0, parent
        while above is not self._top:
            (above,) = above.parents.values()
            level += 1
        stays = len(node.keys) > 1
        children = [] if stays else [child.eldest for child in node.children.values()]
        return LeftBehind(children, len(parent.children) - 1, level)

    def _add(self, node: Node[K]) -> None:
        self._insert(node, self._top)

    def _drop(self, node: Node[K]) -> None:
        """Remove a node. No child covers another one, nor a sibling of the node: only siblings may
        cover children."""
        (parent,) = node.parents.values()
        self._unlink(parent, node)
        siblings = list(parent.children.values())
        for child in list(node.children.values()):
            self._unlink(node, child)
            sibling = self._first_above(child, parent, siblings)
            if sibling is None:
                self._link(parent, child)
            else:
                self._insert(child, sibling)

    def _insert(self, node: Node[K], parent: Node[K]) -> None:
        """Insert the node, which may have children, below the parent. Where it meets others with
        children, these are inserted in turn."""
        open_nodes = [(node, parent)]
        while open_nodes:
            node, parent = open_nodes.pop()
            place = self._find(node.filter, parent)
            if place.equal is not None:
                self._combine(node, place.equal)
                open_nodes += [(child, place.equal) for child in self._disband(node)]
                continue
            if node.number not in self._nodes:
                self._remember(node)
            has_children = bool(node.children)
            self._link(place.parent, node)
            for child in place.covered:
                self._unlink(place.parent, child)
                if has_children:
                    open_nodes.append((child, node))
                else:
                    self._link(node, child)

    def _disband(self, node: Node[K]) -> list[Node[K]]:
        """Return the children of a node that has become part of another one, and unlink them. Only
        a node that was in the graph before has any."""
        if node.number in self._nodes:
            self._forget(node)
        children = list(node.children.values())
        for child in children:
            self._unlink(node, child)
        return children

    def _find(self, filter: Filter, parent: Node[K]) -> Place[K]:
        if self.index is not None:
            return self._ask(self.index, filter, parent)
        while True:
            covered = []
            for child in parent.children.values():
                relation = self._compare(filter, child)
                if relation is Relation.EQUAL:
                    return Place(parent, child, [])
                if relation is Relation.SUBSET:
                    parent = child
                    break
                if relation is Relation.SUPERSET:
                    covered.append(child)
            else:
                return Place(parent, None, covered)

    def _ask(self, index: CoverIndex[int], filter: Filter, parent: Node[K]) -> Place[K]:
        """Find the place of a filter with the index, on the path that `_find` takes: always to the
        first of the children that cover the filter."""
        ways: dict[int, Node[K]] = {}  # by parent
        for number in index.covering(filter):
            child = self._nodes[number]
            for above in child.parents:
                if above not in ways or child.place < ways[above].place:
                    ways[above] = child
        below = index.covered(filter)
        equals = set(below)
        while (way := ways.get(parent.number)) is not None:
            if way.number in equals:
                return Place(parent, way, [])
            parent = way
        covered = [self._nodes[number] for number in below if number in parent.children]
        return Place(parent, None, sorted(covered, key=_place))

    def _first_above(
        self, child: Node[K], parent: Node[K], siblings: list[Node[K]]
    ) -> Node[K] | None:
        """Return the first of `siblings` that covers a child of a removed node."""
        if self.index is None:
            for sibling in siblings:
                if self._compare(child.filter, sibling) is Relation.SUBSET:
                    return sibling
            return None
        numbers = self.index.covering(child.filter)
        above = [parent.children[number] for number in numbers if number in parent.children]
        return min(above, key=_place, default=None)


def _eldest(nodes: Iterable[Node[K]]) -> list[K]:
    """Return the eldest keys of these nodes, by age."""
    return [node.eldest for node in sorted(nodes, key=_age)]


def _age(node: Node[K]) -> int:
    return node.age


def _place(node: Node[K]) -> int:
    return node.place


def _reach(start: Iterable[Node[K]], direction: str) -> set[int]:
    """Return the numbers of these nodes and of all that follow, by `parents` or by `children`."""
    open_nodes = list(start)
    seen = {node.number for node in open_nodes}
    while open_nodes:
        for node in getattr(open_nodes.pop(), direction).values():
            if node.number not in seen:
                seen.add(node.number)
                open_nodes.append(node)
    return seen

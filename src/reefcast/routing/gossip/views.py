"""The choice of a node's neighbours: those of least weight among the nodes that it learns of.

A view is a tuple of node ids, ascending by weight.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Sequence
from itertools import chain, pairwise

from reefcast.routing.gossip.streams import NodeId, weight

View = tuple[NodeId, ...]


class Numbers(dict[NodeId, int]):
    """Assigns numbers to nodes, in the order of their first mention. The nodes of one process share
    it."""

    def __missing__(self, node: NodeId) -> int:
        number = self[node] = len(self)
        return number


class Weights:
    """The weights that node `me` gives others (see `streams.weight`), cached: 8 bytes for each node
    of `numbers`, side by side, because a simulation has millions of them and a dictionary would
    wait for memory at every step."""

    def __init__(self, me: NodeId, seed: int, numbers: Numbers | None = None) -> None:
        self.me = me
        self._seed = seed
        self._numbers = Numbers() if numbers is None else numbers
        self._table = array("Q")

    def key(self, other: NodeId) -> tuple[int, NodeId]:
        """Return a key to sort by; no two nodes have the same."""
        number = self._numbers[other]
        if number >= len(self._table):
            self._grow()
        found = self._table[number]
        if not found:  # not known yet, except for one in 2**64
            found = self._table[number] = weight(self._seed, self.me, other)
        return found, other

    def _grow(self) -> None:
        self._table.frombytes(bytes(8 * (len(self._numbers) - len(self._table))))

    def view(self, nodes: Iterable[NodeId]) -> View:
        return tuple(sorted(nodes, key=self.key))

    def better(self, nodes: Collection[NodeId], worst: NodeId) -> list[NodeId]:
        """Return those of `nodes` with less weight than `worst`."""
        limit = self.key(worst)
        numbers = list(map(self._numbers.__getitem__, nodes))
        if len(self._table) < len(self._numbers):
            self._grow()
        known, most = map(self._table.__getitem__, numbers), limit[0]
        maybe = [node for node, weight in zip(nodes, known, strict=True) if weight <= most]
        return [node for node in maybe if self.key(node) < limit]


def best_view(
    view: View,
    size: int,
    path: Sequence[NodeId],
    views: Sequence[View],
    weights: Weights,
    refused: Collection[NodeId],
    *,
    greedy: bool = False,
) -> View:
    """Return the view after a walk: `path` are the nodes that it met, `views` theirs; none is
    `refused`.

    A node that nobody else in this answer has in its view is kept, unless `greedy`: others might
    have nobody who points to them, and for good (the witness rule). So is one to which the walk
    went from here: who has that in its view may be behind it. Whom this node reached before it
    then reaches afterwards too: along the walk to the witness. Cost: the weights of the nodes in
    the answer, some `ttl * size`; only those that are better than one of the view are sorted.
    """
    me = weights.me
    others = views
    if me in path:
        others = [theirs for node, theirs in zip(path, views, strict=True) if node != me]
    given_up = set(view)
    if not greedy:
        given_up.intersection_update(chain.from_iterable(others))
        if given_up:
            given_up.difference_update(x for last, x in pairwise((me, *path)) if last == me)
        if not given_up and len(view) == size:
            return view
    kept = [node for node in view if node not in given_up]
    own = [node for node in view if node in given_up and node not in refused]
    room = max(size - len(kept), 0)
    found: Collection[NodeId] = set(path).union(*others).difference(view, refused, (me,))
    if 0 < room <= len(own):
        found = weights.better(found, own[room - 1])
        if not found and len(kept) + len(own) == len(view) == size:
            return view
    best = sorted((*own, *found), key=weights.key)[:room]
    return weights.view((*kept, *best))

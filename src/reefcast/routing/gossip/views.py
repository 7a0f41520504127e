"""Which neighbours a node keeps: those of least weight among the ones that it hears of.

A view is a tuple of node ids, ascending by weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from reefcast.routing.gossip.streams import NodeId, weight

View = tuple[NodeId, ...]


class Weights:
    """What node `me` has against others (see `streams.weight`), remembered."""

    def __init__(self, me: NodeId, seed: int) -> None:
        self.me = me
        self._seed = seed
        self._known: dict[NodeId, tuple[int, NodeId]] = {}

    def key(self, other: NodeId) -> tuple[int, NodeId]:
        """To sort by; no two nodes have the same."""
        found = self._known.get(other)
        if found is None:
            found = self._known[other] = (weight(self._seed, self.me, other), other)
        return found

    def view(self, nodes: Iterable[NodeId]) -> View:
        return tuple(sorted(nodes, key=self.key))


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
    """The view after a walk: `path` are the nodes that it met, `views` theirs; none is `refused`.

    A node that nobody else in this answer has in its view is kept, unless `greedy`: others might
    have nobody who points to them, and for good (the witness rule). Cost: a sort of the nodes in
    the answer, some `ttl * size`.
    """
    me = weights.me
    others = [theirs for node, theirs in zip(path, views, strict=True) if node != me]
    named = set().union(*others)
    found = named.union(path, view)
    found.discard(me)
    found.difference_update(refused)
    kept = set() if greedy else {node for node in view if node not in named}
    found -= kept
    best = sorted(found, key=weights.key)[: max(size - len(kept), 0)]
    return weights.view((*kept, *best))

"""Which neighbours a node keeps: those of least weight among the ones that it hears of.

A view is a tuple of node ids, ascending by weight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from reefcast.routing.gossip.streams import NodeId, weight

View = tuple[NodeId, ...]


class _Known(dict[NodeId, int]):
    """Weights by node; what is missing is computed, so that looking up needs no code of Python."""

    def __init__(self, me: NodeId, seed: int) -> None:
        super().__init__()
        self._me, self._seed = me, seed

    def __missing__(self, other: NodeId) -> int:
        found = self[other] = weight(self._seed, self._me, other)
        return found


class Weights:
    """What node `me` has against others (see `streams.weight`), remembered."""

    def __init__(self, me: NodeId, seed: int) -> None:
        self.me = me
        self.of = _Known(me, seed)

    def key(self, other: NodeId) -> tuple[int, NodeId]:
        """To sort by; no two nodes have the same."""
        return self.of[other], other

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
    have nobody who points to them, and for good (the witness rule). Cost: the weights of the nodes
    in the answer, some `ttl * size`; only those that are better than one of the view are sorted.
    """
    me, of = weights.me, weights.of
    others = [theirs for node, theirs in zip(path, views, strict=True) if node != me]
    named = set().union(*others)
    kept = [] if greedy else [node for node in view if node not in named]
    own = view if not kept else [node for node in view if node in named]
    own = [node for node in own if node not in refused] if refused else own
    room = max(size - len(kept), 0)
    found = named.union(path)
    found.difference_update(view, (me,), refused)
    if len(own) >= room:
        limit = of[own[room - 1]] if room else -1
        found = {node for node in found if of[node] <= limit}
        if not found and len(own) == room and not refused:
            return view
    best = sorted((*own, *found), key=weights.key)[:room]
    return weights.view((*kept, *best))

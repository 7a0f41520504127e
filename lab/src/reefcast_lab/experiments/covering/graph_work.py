"""The comparisons of two filters that a broker would make that looks for covering without an index.

The covering paper's brokers keep their PRT in a subscription relation graph and traverse it for
every subscription that comes; ours ask an index. For its times (`CostModel.comparison_s`) the
graph of Algorithm 1 stands beside the broker here, and what its traversal would have compared is
counted from the places that filters got in it: at the level where one ended up it met every other
one, and above, the first that covers it was found half-way, as it is in the mean.

What comes packed (`Replace`) is inserted from the subscription on that goes, so that nothing is
compared above it (section IV-C).

When a subscription goes, each of its children looks for another parent among those that stood
beside it (section IV): it is compared with all of them, or half-way to the first that covers it,
below which it is inserted. Table II's time for an unsubscription is that of subscriptions without
children: nobody's root goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from reefcast.matching.cover import new_cover_index
from reefcast.model.filters import Filter
from reefcast.model.publication import Publication
from reefcast.routing.tables import IndexFactory, K, NextHopIndex, NextHops, Row, RowIndex, T
from reefcast_lab.bench.cover.relation_graphs import LeftBehind, SimplifiedGraph


class GraphWork:
    """The graph of one broker's PRT. `taken`: all comparisons. `removes_free`: what another
    subscription leaves behind costs nothing."""

    removes_free = False

    def __init__(self) -> None:
        self._graph: SimplifiedGraph[Row] = SimplifiedGraph(new_cover_index())
        self._beside = self._above = 0.0  # at the level where filters ended up, and above it
        self._moved = 0.0  # for what another subscription left behind
        self.taken = 0.0

    def watch(self, new_index: IndexFactory) -> IndexFactory:
        """Return a factory of indexes whose rows are also in the graph."""

        def made() -> NextHopIndex:
            index = new_index()
            return _Watched(index if isinstance(index, NextHopIndex) else RowIndex(index), self)

        return made

    def add(self, row: Row, filter: Filter) -> None:
        self._graph.add(row, filter)
        *above, beside = self._graph.levels(row)
        self._beside += beside
        self._above += sum((met + 1) / 2 for met in above)

    def remove(self, row: Row) -> None:
        left = self._graph.left_behind(row)
        self._graph.remove(row)
        if not self.removes_free:
            self._moved += sum(self._looked_at(left, child) for child in left.children)

    def _looked_at(self, left: LeftBehind[Row], child: Row) -> float:
        """Return with how many filters a child of the one that went was compared, up to where it
        stands now."""
        _, *below = self._graph.levels(child)[left.level :]
        if not below:
            return left.beside
        *above, beside = below
        return beside + sum((met + 1) / 2 for met in (left.beside, *above))

    def drain(self, *, packed: bool) -> float:
        """Return the comparisons for the last input, and reset their count."""
        found = self._moved + (self._beside if packed else self._beside + self._above)
        self._beside = self._above = self._moved = 0.0
        self.taken += found
        return found


class _Watched(NextHopIndex):
    """An index that tells the graph which subscriptions come and go."""

    def __init__(self, index: NextHopIndex, work: GraphWork) -> None:
        self._index = index
        self._work = work

    def add(self, key: Row, filter: Filter) -> None:
        self._index.add(key, filter)
        self._work.add(key, filter)

    def remove(self, key: Row) -> None:
        self._index.remove(key)
        self._work.remove(key)

    def next_hops(self, publications: Sequence[Publication]) -> list[NextHops]:
        return self._index.next_hops(publications)

    def digests(
        self,
        publications: Sequence[Publication],
        keys: Sequence[K],
        digest: Callable[[list[Row], K], T],
    ) -> list[T]:
        return self._index.digests(publications, keys, digest)
